import { Batcher, CLUSTER_LIMITS, plan, SANDGLASS_LIMITS } from '../src/write/batcher.js'
import { Row } from '../src/write/row.js'

/** Lets everything that is ready happen. */
const turns = async () => {
  for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate)
}

/** @param {string} partition  @param {number} [bytes] */
const row = (partition, bytes = 20) => new Row('q', [], partition, bytes, undefined)

/** @param {string} partitions  A letter for each row. */
const rows = (partitions) => [...partitions].map((partition) => row(partition))

/** @param {Row[][]} requests */
const shape = (requests) => requests.map((some) => some.map((one) => one.partition).join(''))

describe('plan', () => {
  test('on our engine a request holds any partitions, up to its limits', () => {
    const limits = { ...SANDGLASS_LIMITS, rowsMax: 4 }
    const { requests, taken } = plan(rows('abcabcabc'), limits, 2)
    expect(shape(requests)).toEqual(['abca', 'bcab'])
    expect(taken).toBe(8)
  })

  test('elsewhere a request holds one partition, and the order within it stays', () => {
    const { requests, taken } = plan(rows('abcabca'), CLUSTER_LIMITS, 10)
    expect(shape(requests)).toEqual(['aaa', 'bb', 'cc'])
    expect(taken).toBe(7)
  })

  test('when there are no more requests to make, nothing is taken out of turn', () => {
    const { requests, taken } = plan(rows('aabac'), CLUSTER_LIMITS, 2)
    expect(shape(requests)).toEqual(['aaa', 'b'])
    expect(taken).toBe(4)
  })

  test('a request is closed by its bytes; a row beyond them goes alone', () => {
    const limits = { ...SANDGLASS_LIMITS, bytesMax: 300 }
    const queue = [row('a'), row('a'), row('a', 5_000), row('a')]
    expect(shape(plan(queue, limits, 9).requests)).toEqual(['aa', 'a', 'a'])
  })
})

describe('batcher', () => {
  test('a request is what arrived while those before it were on their way', async () => {
    /** @type {{ rows: Row[], end: () => void }[]} */
    const requests = []
    const batcher = new Batcher({
      writer: { write: (some) => new Promise((end) => requests.push({ rows: some, end })) },
      limits: { ...SANDGLASS_LIMITS, requestsMax: 1 },
    })
    batcher.add(row('a'))
    await turns()
    for (const one of rows('bcd')) batcher.add(one)
    await turns()
    expect(shape(requests.map((request) => request.rows))).toEqual(['a'])

    requests[0].end()
    await turns()
    expect(shape(requests.map((request) => request.rows))).toEqual(['a', 'bcd'])
    expect(batcher.isIdle).toBe(false)
    requests[1].end()
    await turns()
    expect(batcher.isIdle).toBe(true)
  })

  test('rows of one turn go together at once when nothing is on its way', async () => {
    /** @type {Row[][]} */
    const requests = []
    const writer = { write: async (/** @type {Row[]} */ some) => void requests.push(some) }
    const batcher = new Batcher({ writer, limits: SANDGLASS_LIMITS })
    for (const one of rows('abc')) batcher.add(one)
    await new Promise((resolve) => setImmediate(resolve))
    expect(shape(requests)).toEqual(['abc'])
  })
})
