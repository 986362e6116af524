import {
  Batcher,
  CLUSTER_LIMITS,
  companyMs,
  rateAfter,
  SANDGLASS_LIMITS,
} from '../src/write/batcher.js'
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

  describe('company', () => {
    /** Milliseconds of a clock that goes when it is told to. */
    let nowMs = 0
    /** How long the thread slept, in milliseconds, each time. @type {number[]} */
    let naps = []
    /** What comes while it sleeps, a nap each. @type {string[]} */
    let comesMeanwhile = []
    /** @type {string[]} */
    let requests = []
    /** @type {Batcher} */
    let batcher

    beforeEach(() => {
      nowMs = 0
      naps = []
      comesMeanwhile = []
      requests = []
      batcher = new Batcher({
        writer: { write: async (some) => void requests.push(...shape([some])) },
        limits: SANDGLASS_LIMITS,
        now: () => nowMs,
        nap: (ms) => {
          nowMs += ms
          naps.push(ms)
          const partitions = comesMeanwhile.shift() ?? ''
          setImmediate(() => add(partitions))
        },
      })
    })

    /** @param {string} partitions  A row of each. */
    const add = (partitions) => {
      for (const one of rows(partitions)) batcher.add(one)
    }

    /** @param {string} partitions  A row of each. @param {number} ms  That pass before. */
    const come = async (partitions, ms) => {
      nowMs += ms
      add(partitions)
      await turns()
    }

    /** Ten rows a millisecond for a tenth of a second, of which none is left. */
    const comeFast = async () => {
      for (let count = 0; count < 100; count++) await come('a'.repeat(40), 4)
      naps = []
      requests = []
    }

    test('rows that come fast wait a millisecond for each other', async () => {
      await comeFast()
      comesMeanwhile = ['bc']
      await come('a', 0.25)
      expect(naps).toEqual([1])
      expect(requests).toEqual(['abc'])
      expect(batcher.isIdle).toBe(true)
    })

    test('a row that waited for a free request waits so much less', async () => {
      /** @type {(() => void)[]} */
      const ends = []
      batcher = new Batcher({
        writer: { write: (some) => new Promise((end) => ends.push(end) && note(some)) },
        limits: { ...SANDGLASS_LIMITS, requestsMax: 1 },
        now: () => nowMs,
        nap: (ms) => naps.push(ms),
      })
      const note = (/** @type {Row[]} */ some) => void requests.push(...shape([some]))
      for (let count = 0; count < 100; count++) {
        await come('a'.repeat(40), 4)
        ends.pop()?.()
      }
      await turns()
      naps = []
      await come('a'.repeat(40), 0.25)
      await come('b', 0)
      nowMs += 0.75
      ends.pop()?.()
      await turns()
      expect(naps[0]).toBe(0.25)
    })

    test('enough of them wait for no more', async () => {
      await comeFast()
      await come('a'.repeat(32), 0.25)
      expect(naps).toEqual([])
      expect(requests).toEqual(['a'.repeat(32)])
    })

    test('on a cluster none waits: the next one is seldom of its partition', async () => {
      await comeFast()
      batcher.limits = CLUSTER_LIMITS
      await come('a', 0.25)
      expect(naps).toEqual([])
      expect(requests).toEqual(['a'])
    })

    test('after a nap in which nobody came none waits until rows come fast again', async () => {
      await comeFast()
      for (let count = 0; count < 6; count++) await come('abcdef', 0.5)
      expect(naps).toEqual([1])
      expect(requests).toEqual(Array(6).fill('abcdef'))
      await comeFast()
      await come('a', 0.25)
      expect(naps).toEqual([1])
    })

    test('after one in which somebody came it is worth waiting again', async () => {
      await comeFast()
      comesMeanwhile = ['b', 'd']
      await come('a', 0.25)
      await come('c', 0.25)
      expect(naps).toEqual([1, 1])
      expect(requests).toEqual(['ab', 'cd'])
    })

    test('where rows come slowly none waits, and soon after a fast while neither', async () => {
      await come('a', 10)
      await come('b', 0.25)
      expect(requests).toEqual(['a', 'b'])
      await comeFast()
      await come('c', 100)
      await come('d', 10)
      expect(requests).toEqual(['c', 'd'])
    })
  })
})

describe('companyMs', () => {
  test.each([
    [{ rows: 1, waitedMs: 0, rowsPerMs: 10 }, 1, 1],
    [{ rows: 5, waitedMs: 0.75, rowsPerMs: 10 }, 1, 0.25],
    [{ rows: 10, waitedMs: 1, rowsPerMs: 10 }, 1, 0],
    [{ rows: 10, waitedMs: 7, rowsPerMs: 10 }, 1, 0],
    [{ rows: 1, waitedMs: 0, rowsPerMs: 0.1 }, 1, 0],
    [{ rows: 1, waitedMs: 0, rowsPerMs: 3.9 }, 1, 0],
    [{ rows: 1, waitedMs: 0, rowsPerMs: 4 }, 1, 1],
    [{ rows: 32, waitedMs: 0, rowsPerMs: 50 }, 1, 0],
    [{ rows: 1, waitedMs: 0, rowsPerMs: 50 }, 0, 0],
  ])('%j, at most %d ms: %d ms', (queue, msMax, ms) => {
    expect(companyMs(queue, msMax)).toBe(ms)
  })
})

describe('rateAfter', () => {
  test('a long time says the rate by itself', () => {
    expect(rateAfter(50, 1, 1_000)).toBeCloseTo(0.001)
  })

  test('a short time changes it a little, and no time not at all', () => {
    expect(rateAfter(10, 0, 2)).toBe(9)
    expect(rateAfter(0, 10, 1)).toBe(0.5)
    expect(rateAfter(10, 5, 0)).toBe(10)
  })
})
