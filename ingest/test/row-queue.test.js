import { CLUSTER_LIMITS, SANDGLASS_LIMITS } from '../src/write/batcher.js'
import { Row } from '../src/write/row.js'
import { RowQueue } from '../src/write/row-queue.js'

/** @typedef {import('../src/write/row-queue.js').Request} Request */

/** @param {string} partition  @param {number} [textBytes] */
const row = (partition, textBytes = 20) => new Row('q', [], partition, textBytes, undefined)

/** @param {string} partitions  A row of each.  @param {boolean} isByPartition */
const queueOf = (partitions, isByPartition) => {
  const queue = new RowQueue(isByPartition)
  for (const partition of partitions) queue.push(row(partition))
  return queue
}

/** @param {Request[]} requests */
const shape = (requests) => requests.map(({ rows }) => rows.map((one) => one.partition).join(''))

describe('rows of any partitions', () => {
  test('go together, up to the limits of a request', () => {
    const queue = queueOf('abcabcabc', false)
    expect(shape(queue.take({ ...SANDGLASS_LIMITS, rowsMax: 4 }, 2))).toEqual(['abca', 'bcab'])
    expect(queue.length).toBe(1)
    expect(queue.isReady).toBe(true)
  })

  test('a request is closed by its bytes; a row beyond them goes alone', () => {
    const queue = new RowQueue(false)
    for (const textBytes of [20, 20, 5_000, 20]) queue.push(row('a', textBytes))
    expect(shape(queue.take({ ...SANDGLASS_LIMITS, bytesMax: 300 }, 9))).toEqual(['aa', 'a', 'a'])
    expect(queue.isReady).toBe(false)
  })
})

describe('rows of one partition', () => {
  test('go together, in their order, and partitions take turns', () => {
    const queue = queueOf('abcabca', true)
    expect(shape(queue.take(CLUSTER_LIMITS, 2))).toEqual(['aaa', 'bb'])
    expect(queue.length).toBe(2)
    expect(shape(queue.take(CLUSTER_LIMITS, 2))).toEqual(['cc'])
  })

  test('wait while others of it are on their way, and are its next request', () => {
    const queue = queueOf('ab', true)
    const [a, b] = queue.take(CLUSTER_LIMITS, 10)
    for (const partition of 'abaab') queue.push(row(partition))
    expect(queue.isReady).toBe(false)
    expect(queue.take(CLUSTER_LIMITS, 10)).toEqual([])
    queue.answered(b.lane)
    expect(shape(queue.take(CLUSTER_LIMITS, 10))).toEqual(['bb'])
    queue.answered(a.lane)
    expect(shape(queue.take(CLUSTER_LIMITS, 10))).toEqual(['aaa'])
  })

  test('that are more than a request may hold go in the next ones', () => {
    const queue = queueOf('aaaaab', true)
    const limits = { ...CLUSTER_LIMITS, rowsMax: 2 }
    const sent = []
    while (queue.isReady) {
      const requests = queue.take(limits, 10)
      sent.push(...shape(requests))
      for (const { lane } of requests) queue.answered(lane)
    }
    expect(sent).toEqual(['aa', 'b', 'aa', 'a'])
  })

  test('what is useless is taken out, and the rest goes on', () => {
    const queue = queueOf('aabbc', true)
    const [first] = queue.take({ ...CLUSTER_LIMITS, rowsMax: 1 }, 1)
    expect(queue.drop((one) => one.partition !== 'b')).toHaveLength(2)
    expect(queue.length).toBe(2)
    expect(shape(queue.take(CLUSTER_LIMITS, 9))).toEqual(['bb'])
    queue.push(row('a'))
    expect(queue.isReady).toBe(false)
    queue.answered(first.lane)
    expect(shape(queue.take(CLUSTER_LIMITS, 9))).toEqual(['a'])
  })

  test('are looked at twice at most, however many wait', () => {
    let looks = 0
    const counted = (/** @type {string} */ partition) =>
      Object.defineProperty(row(partition), 'bytes', { get: () => ++looks && 100 })
    const queue = new RowQueue(true)
    const count = 20_000
    for (let n = 0; n < count; n++) queue.push(counted(`sensor-${n % 500}`))
    let taken = 0
    let requests = 0
    while (queue.isReady) {
      for (const { rows, lane } of queue.take(CLUSTER_LIMITS, 8)) {
        taken += rows.length
        requests++
        queue.answered(lane)
      }
    }
    expect(taken).toBe(count)
    expect(requests).toBe(500)
    expect(looks).toBeLessThanOrEqual(2 * count)
  })
})

test('a model: every row goes once, in the order of its partition, one request of it at a time', () => {
  const seed = Math.floor(Math.random() * 2 ** 31)
  let state = seed
  const random = (/** @type {number} */ below) => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff
    return (state >> 8) % below
  }
  const queue = new RowQueue(true)
  /** @type {Map<string, Row[]>} */
  const expected = new Map()
  /** @type {Request[]} */
  let underWay = []
  let waiting = 0
  for (let step = 0; step < 3_000; step++) {
    const what = random(4)
    if (what < 2) {
      const one = row(`p${random(6)}`, random(2_000))
      queue.push(one)
      expected.set(one.partition, [...(expected.get(one.partition) ?? []), one])
      waiting++
    } else if (what === 2) {
      const limits = { ...CLUSTER_LIMITS, rowsMax: 1 + random(4), bytesMax: 1 + random(6_000) }
      for (const request of queue.take(limits, 1 + random(3))) {
        const [{ partition }] = request.rows
        expect({
          seed,
          step,
          others: underWay.filter((u) => u.rows[0].partition === partition),
        }).toEqual({ seed, step, others: [] })
        const before = expected.get(partition)?.splice(0, request.rows.length)
        expect(request.rows.every((one, n) => one === before?.[n])).toBe(true)
        waiting -= request.rows.length
        underWay.push(request)
      }
    } else {
      const at = random(underWay.length + 1)
      for (const { lane } of underWay.slice(at, at + 1)) queue.answered(lane)
      underWay = underWay.filter((_, n) => n !== at)
    }
    expect(queue.length).toBe(waiting)
    const canSend = [...expected].some(
      ([partition, some]) =>
        some.length > 0 && !underWay.some(({ rows }) => rows[0].partition === partition),
    )
    expect({ seed, step, isReady: queue.isReady }).toEqual({ seed, step, isReady: canSend })
  }
})
