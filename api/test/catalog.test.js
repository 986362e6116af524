import { describe, expect, test } from '@jest/globals'
import { Catalog, naturalKey } from '../src/catalog.js'

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

  test('that is slow to read is answered from while it is read anew, but not for long', async () => {
    const { catalog, time } = build({ readMs: 1_000 })
    const list = () => catalog.list({}, undefined, 9)
    await list()
    time.nowMs += 11_000
    const before = time.nowMs
    expect((await list()).total).toBe(5)
    expect([time.reads, time.nowMs > before]).toEqual([2, true])
    await new Promise(setImmediate)
    time.nowMs += 100_000
    await list()
    expect(time.reads).toBe(3)
    await list()
    expect(time.reads).toBe(3)
    catalog.expire()
    await list()
    expect(time.reads).toBe(4)
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
