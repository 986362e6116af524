import { describe, expect, test } from '@jest/globals'
import { Catalog, naturalKey, sortInPieces } from '../src/catalog.js'

/** Milliseconds since 1970, at which all is asked. */
const NOW_MS = 1_000_000

/** When each was heard of last, in seconds before now; null: never. */
const SENSORS = [
  { name: 'unit-2', type: 'pump', silentS: 10 },
  { name: 'unit-10', type: 'fan', silentS: 500 },
  { name: 'Unit-1', type: undefined, silentS: null },
  { name: 'unit-3', type: 'fan', silentS: 10 },
  { name: 'alpha', type: 'pump', silentS: 90 },
]

/** @param {{ readMs?: number, failing?: () => boolean }} [how] */
function build({ readMs = 0, failing = () => false } = {}) {
  const time = { nowMs: 0, reads: 0 }
  /** @type {any} */
  const store = {
    async *sensors() {
      time.reads += 1
      time.nowMs += readMs
      if (failing()) throw new Error('away')
      const own = SENSORS.map(({ name, type }) => ({ id: `id of ${name}`, name, type, tags: {} }))
      yield [...own, { id: 'x', name: 'gone', tags: {}, hidden: true }]
    },
    async *heardTimes() {
      for (const { name, silentS } of SENSORS) {
        if (silentS === null) continue
        const t = NOW_MS - silentS * 1_000
        yield [
          { id: `id of ${name}`, t },
          { id: `id of ${name}`, t: t - 7 },
        ]
      }
    },
  }
  return { catalog: new Catalog({ store, now: () => time.nowMs, clock: () => NOW_MS }), time }
}

/**
 * All names, page by page.
 *
 * @param {import('../src/catalog.js').Filter} filter
 * @param {number} limit
 */
async function names(filter, limit) {
  const { catalog } = build()
  const seen = []
  /** @type {import('../src/catalog.js').Position | undefined} */
  let after
  do {
    const page = await catalog.list(filter, after, limit)
    seen.push(...page.sensors.map(({ name }) => name))
    after = page.next
  } while (after)
  return seen
}

describe('the list of sensors', () => {
  test.each([
    [{}, ['alpha', 'Unit-1', 'unit-2', 'unit-3', 'unit-10']],
    [{ order: 'desc' }, ['unit-10', 'unit-3', 'unit-2', 'Unit-1', 'alpha']],
    [{ sort: 'type' }, ['Unit-1', 'unit-3', 'unit-10', 'alpha', 'unit-2']],
    [{ sort: 'heard' }, ['Unit-1', 'unit-10', 'alpha', 'unit-2', 'unit-3']],
    [{ sort: 'heard', order: 'desc' }, ['unit-3', 'unit-2', 'alpha', 'unit-10', 'Unit-1']],
    [{ silentS: 60 }, ['alpha', 'Unit-1', 'unit-10']],
    [{ silentS: 90, sort: 'heard' }, ['Unit-1', 'unit-10']],
    [{ type: 'fan', sort: 'heard', order: 'desc' }, ['unit-3', 'unit-10']],
  ])('is in the order of %j, in pages of any size', async (filter, wanted) => {
    for (const limit of [1, 2, 3, 5, 9]) {
      expect(await names(/** @type {any} */ (filter), limit)).toEqual(wanted)
    }
  })

  test('tells how many fit, on each of their pages', async () => {
    const { catalog } = build()
    const first = await catalog.list({ silentS: 60 }, undefined, 2)
    const second = await catalog.list({ silentS: 60 }, first.next, 2)
    expect([first.total, second.total, second.sensors.length, second.next]).toEqual([
      ...[3, 3, 1, undefined],
    ])
  })

  test('that is slow to read is answered from while it is read anew, with its age', async () => {
    const { catalog, time } = build({ readMs: 1_000 })
    const list = () => catalog.list({}, undefined, 9)
    await list()
    time.nowMs += 11_000
    const before = time.nowMs
    expect((await list()).total).toBe(5)
    expect([time.reads, time.nowMs > before]).toEqual([2, true])
    await new Promise(setImmediate)
    time.nowMs += 100_000
    expect((await list()).asOfMs).toBe(NOW_MS)
    expect(time.reads).toBe(3)
    await list()
    expect(time.reads).toBe(3)
    catalog.expire()
    await list()
    expect(time.reads).toBe(4)
  })

  /** A store whose reads end when they are told to. @param {any[]} rows */
  function slowStore(rows) {
    const time = { nowMs: 0 }
    /** @type {(() => void)[]} */
    const waiting = []
    /** @type {any} */
    const store = {
      async *sensors() {
        const read = rows.map((row) => ({ ...row }))
        await new Promise((resolve) => waiting.push(() => resolve(undefined)))
        yield read
      },
      async *heardTimes() {},
    }
    const clocks = { now: () => time.nowMs, clock: () => NOW_MS + time.nowMs }
    const catalog = new Catalog({ store, ...clocks })
    /** Ends a read that took a second. */
    const end = () => {
      time.nowMs += 1_000
      waiting.shift()?.()
    }
    const namesOf = async () => {
      const { sensors, asOfMs } = await catalog.list({}, undefined, 9)
      return { names: sensors.map(({ name }) => name), ageMs: NOW_MS + time.nowMs - asOfMs }
    }
    return { catalog, time, end, namesOf, waiting }
  }

  const sensor = (/** @type {string} */ name, /** @type {object} */ more = {}) =>
    /** @type {any} */ ({ id: `id of ${name}`, name, tags: {}, hidden: false, ...more })

  test('that is old and slow to read is there in a moment, and says how old it is', async () => {
    const rows = [sensor('a')]
    const { time, end, namesOf, waiting } = slowStore(rows)
    const first = namesOf()
    end()
    expect((await first).names).toEqual(['a'])
    rows.push(sensor('b'))
    time.nowMs += 3_600_000
    // Nobody ends this read.
    const { names: old, ageMs } = await namesOf()
    expect([old, ageMs, waiting.length]).toEqual([['a'], 3_601_000, 1])
    end()
    await new Promise(setImmediate)
    expect(await namesOf()).toEqual({ names: ['a', 'b'], ageMs: 1_000 })
  })

  test('that has grown since it was read in a moment is not waited for, either', async () => {
    const rows = [sensor('a')]
    const { time, end, namesOf, waiting } = slowStore(rows)
    const first = namesOf()
    waiting.shift()?.()
    await first
    rows.push(sensor('b'))
    time.nowMs += 60_000
    expect(await namesOf()).toEqual({ names: ['a'], ageMs: 60_000 })
    end()
    await new Promise(setImmediate)
    expect((await namesOf()).names).toEqual(['a', 'b'])
  })

  test('that is read in a moment is waited for as soon as it is old', async () => {
    const rows = [sensor('a')]
    const { time, namesOf, waiting } = slowStore(rows)
    const first = namesOf()
    waiting.shift()?.()
    await first
    rows.push(sensor('b'))
    time.nowMs += 400
    const second = namesOf()
    waiting.shift()?.()
    expect((await second).names).toEqual(['a', 'b'])
  })

  test('is sorted in pieces as it would be at once', async () => {
    const numbers = Array.from({ length: 20_001 }, (_, index) => (index * 7_919) % 20_011)
    const order = (/** @type {number} */ a, /** @type {number} */ b) => a - b
    expect(await sortInPieces(numbers, order)).toEqual([...numbers].sort(order))
    expect(await sortInPieces([], order)).toEqual([])
  })

  test('has what this process changes at once, also while it is read', async () => {
    const rows = [sensor('unit-2'), sensor('unit-10'), sensor('x')]
    const { catalog, time, end, namesOf, waiting } = slowStore(rows)
    const first = namesOf()
    end()
    await first
    catalog.changed(sensor('unit-3'))
    catalog.changed(sensor('x', { hidden: true }))
    expect((await namesOf()).names).toEqual(['unit-2', 'unit-3', 'unit-10'])
    expect(waiting.length).toBe(0)
    // This read sees `unit-3` and none of what comes after it began.
    rows.splice(2, 1, sensor('unit-3'))
    time.nowMs += 15_000
    expect((await namesOf()).names).toHaveLength(3)
    catalog.changed(sensor('unit-4'))
    catalog.changed(sensor('unit-2', { hidden: true }))
    end()
    await new Promise(setImmediate)
    expect((await namesOf()).names).toEqual(['unit-3', 'unit-4', 'unit-10'])
  })

  test('is read anew after a failure', async () => {
    let isAway = true
    const { catalog, time } = build({ failing: () => isAway })
    await expect(catalog.list({}, undefined, 1)).rejects.toThrow('away')
    isAway = false
    expect((await catalog.list({}, undefined, 1)).total).toBe(5)
    expect(time.reads).toBe(2)
  })

  test.each([
    ['a2', 'a10'],
    ['a', 'a1'],
    ['A1', 'b1'],
    ['room 9 shelf 2', 'room 9 shelf 11'],
    ['x99999999999999999998', 'x99999999999999999999'],
    ['v1.9', 'v1.10'],
  ])('has %s before %s', (first, second) => {
    expect(naturalKey(first) < naturalKey(second)).toBe(true)
  })
})
