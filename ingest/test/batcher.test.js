import { jest } from '@jest/globals'
import { Batcher, CLUSTER_LIMITS, SANDGLASS_LIMITS } from '../src/write/batcher.js'
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

    /** Ten rows a millisecond for more than a second, of which none is left. */
    const comeFast = async () => {
      for (let count = 0; count < 300; count++) await come('a'.repeat(40), 4)
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

    describe('with a request on its way', () => {
      /** @type {(() => void)[]} */
      let ends = []
      const answer = async () => {
        ends.shift()?.()
        await turns()
      }

      beforeEach(async () => {
        ends = []
        batcher = new Batcher({
          writer: {
            write: (some) => {
              requests.push(...shape([some]))
              return new Promise((end) => ends.push(end))
            },
          },
          limits: SANDGLASS_LIMITS,
          now: () => nowMs,
          nap: (ms) => {
            nowMs += ms
            naps.push(ms)
          },
        })
        for (let count = 0; count < 300; count++) {
          await come('a'.repeat(40), 4)
          await answer()
        }
        naps = []
        requests = []
      })

      test('a row that waited for a free request waits so much less', async () => {
        await come('a'.repeat(40), 0.25)
        await come('b', 0)
        nowMs += 0.75
        await answer()
        expect(naps).toEqual([0.25])
      })

      test('a few rows wait for the answer, and four do not', async () => {
        await come('a', 1)
        for (const partitions of ['b', 'cd']) await come(partitions, 1)
        expect(requests).toEqual(['a'])
        await come('e', 1)
        expect(requests).toEqual(['a', 'bcde'])
        await come('fghij', 1)
        expect(requests).toHaveLength(2)
        await answer()
        expect(requests).toEqual(['a', 'bcde', 'fghij'])
      })

      test('a row goes once the answer is there, if no other ever comes', async () => {
        await come('a', 1)
        await come('b', 1)
        expect(requests).toEqual(['a'])
        await answer()
        expect(requests).toEqual(['a', 'b'])
      })

      test('where none waits, a row goes beside it', async () => {
        await come('a', 2_000)
        await come('b', 1)
        expect(requests).toEqual(['a', 'b'])
      })

      test('on a cluster a row of another partition waits for nothing', async () => {
        batcher.limits = CLUSTER_LIMITS
        await come('a', 1)
        await come('b', 1)
        await come('a', 1)
        expect(requests).toEqual(['a', 'b'])
      })
    })

    test('the thread sleeps once for a request, even where its clock stands still', async () => {
      await comeFast()
      const sleep = jest.spyOn(Atomics, 'wait')
      try {
        batcher = new Batcher({
          writer: { write: async (some) => void requests.push(...shape([some])) },
          limits: SANDGLASS_LIMITS,
          now: () => nowMs,
        })
        await comeFast()
        await come('a', 0.25)
        expect(sleep.mock.calls.map(([, , , ms]) => ms)).toEqual([1])
        expect(requests).toEqual(['a'])
      } finally {
        sleep.mockRestore()
      }
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

    test('a client that waits for its acknowledgement is hardly delayed', async () => {
      for (let count = 0; count < 20_000; count++) await come('a', 1)
      expect(naps.length).toBeGreaterThan(0)
      expect(nowMs).toBeLessThan(20_000 * 1.2)
    })

    test('where rows come slowly none waits, nor the first after a pause', async () => {
      await come('a', 10)
      await come('b', 0.25)
      await comeFast()
      await come('c', 2_000)
      await come('d', 10)
      expect(requests).toEqual(['c', 'd'])
      expect(naps).toEqual([])
    })
  })
})
