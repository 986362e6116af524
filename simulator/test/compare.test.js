// Each kind of difference is found, counted once, and nothing else is called one.
import { describe, expect, test } from '@jest/globals'
import { compareTimed, compareTimeless } from '../src/compare.js'
import { hash } from '../src/signals.js'

const T = Date.UTC(2026, 0, 5)

/** @param {number} timeMs  @param {unknown} value  @param {string} [metric] */
const published = (timeMs, value, metric = 'a') => ({ metric, timeMs, value, isAcknowledged: true })
/** @param {number} timeMs  @param {unknown} value  @param {string} [metric] */
const pending = (timeMs, value, metric = 'a') => ({ metric, timeMs, value, isAcknowledged: false })
/** @param {number} timeMs  @param {unknown} value  @param {string} [metric] */
const row = (timeMs, value, metric = 'a') => ({ metric, timeMs, value })

/** Only the numbers. @param {import('../src/compare.js').Difference} difference */
const numbers = ({ missing, extra, changed }) => ({ missing, extra, changed })
const NONE = { missing: 0, extra: 0, changed: 0 }

describe('values with a time', () => {
  const place = { lat: 47.6, lon: -122.3 }
  const all = [
    published(T, 1),
    published(T, 'on', 'b'),
    published(T + 1, true),
    published(T + 1, place, 'b'),
    published(T + 2, 2.5),
  ]
  const stored = all.map(({ timeMs, value, metric }) => row(timeMs, value, metric))

  /** @param {ReturnType<typeof row>[]} rows @param {ReturnType<typeof published>[]} [expected] */
  async function differencesOf(rows, expected = all) {
    const differences = await compareTimed(expected, rows)
    return { a: differences.of('a'), b: differences.of('b'), explain: differences.explain }
  }

  test('that are stored as they were published do not differ', async () => {
    const { a, b, explain } = await differencesOf(stored)
    expect([numbers(a), numbers(b), explain]).toEqual([NONE, NONE, false])
  })

  test.each(stored.map((_, index) => [index]))(
    'of which row %i is gone: one is missing',
    async (index) => {
      const { a, b } = await differencesOf(stored.toSpliced(index, 1))
      const [hit, other] = stored[index].metric === 'a' ? [a, b] : [b, a]
      expect([numbers(hit), numbers(other)]).toEqual([{ ...NONE, missing: 1 }, NONE])
      expect(hit.examples[0]).toMatch(/^2026-01-05T00:00:00.00.Z: .* is missing$/)
    },
  )

  test.each(stored.map((_, index) => [index]))(
    'of which row %i is another: it is changed',
    async (index) => {
      const { a, b } = await differencesOf(stored.with(index, { ...stored[index], value: 7 }))
      const [hit, other] = stored[index].metric === 'a' ? [a, b] : [b, a]
      expect([numbers(hit), numbers(other)]).toEqual([{ ...NONE, changed: 1 }, NONE])
      expect(hit.examples[0]).toContain(': 7 instead of ')
    },
  )

  test.each([
    ['before the first', row(T - 5, 1), 0],
    ['between two', row(T + 1, 1), 3],
    ['twice, with the same value', row(T, 1), 1],
    ['after the last', row(T + 9, 1), 5],
  ])('and one more %s: it is extra', async (_, more, at) => {
    const { a, b } = await differencesOf(stored.toSpliced(at, 0, more))
    expect([numbers(a), numbers(b)]).toEqual([{ ...NONE, extra: 1 }, NONE])
  })

  test('a metric that was never published is extra', async () => {
    const differences = await compareTimed(all, [row(T, 1, 'c'), ...stored])
    expect(numbers(differences.of('c'))).toEqual({ ...NONE, extra: 1 })
  })

  test('that are not there at all are all missing', async () => {
    const { a, b } = await differencesOf([])
    expect([a.missing, b.missing]).toEqual([3, 2])
  })

  test('that were not acknowledged may be stored or not', async () => {
    const expected = [published(T, 1), pending(T + 1, 2), pending(T + 2, 3)]
    const { a, explain } = await differencesOf([row(T, 1), row(T + 2, 3)], expected)
    expect(numbers(a)).toEqual(NONE)
    expect(a.unacknowledged).toBe(1)
    expect(explain).toBe(true)
  })

  test('that were not acknowledged may not be stored as something else', async () => {
    const { a } = await differencesOf([row(T, 9)], [pending(T, 1)])
    expect(numbers(a)).toEqual({ ...NONE, extra: 1 })
  })

  test('are compared exactly: any number of changes is counted', async () => {
    for (let seed = 0; seed < 50; seed++) {
      const long = Array.from({ length: 200 }, (_, i) => published(T + i, hash(seed, i)))
      const truth = { ...NONE }
      const rows = long.flatMap(({ timeMs, value }, i) => {
        const draw = Math.floor(hash(seed + 1000, i) * 20)
        if (draw === 0) {
          truth.missing++
          return []
        }
        if (draw === 1) {
          truth.changed++
          return [row(timeMs, -1)]
        }
        if (draw === 2) {
          truth.extra++
          return [row(timeMs, value), row(timeMs, -1)]
        }
        return [row(timeMs, value)]
      })
      const { a } = await differencesOf(rows, long)
      expect({ seed, ...numbers(a) }).toEqual({ seed, ...truth })
    }
  })
})

describe('values without a time', () => {
  /** @param {unknown[]} values  @param {boolean} [isAcknowledged] */
  const sent = (values, isAcknowledged = true) =>
    values.map((value) => ({ metric: 'a', value, isAcknowledged }))
  /** @param {unknown[]} values */
  const found = (values) => values.map((value, index) => row(T + index, value))

  /**
   * @param {import('../src/compare.js').Expected[]} expected
   * @param {unknown[]} stored
   * @param {Record<string, number>} [close]  By value.
   */
  async function differenceOf(expected, stored, close = {}) {
    const closeOf = (/** @type {string} */ _, /** @type {string} */ key) => close[key] ?? 0
    return (await compareTimeless(expected, found(stored), closeOf)).of('a')
  }

  test('are the same in any order', async () => {
    expect(numbers(await differenceOf(sent([1, 2, 2, 'x']), [2, 'x', 1, 2]))).toEqual(NONE)
  })

  test('are missing or extra by their number', async () => {
    const difference = await differenceOf(sent([1, 2, 2]), [1, 1, 1, 2])
    expect(numbers(difference)).toEqual({ missing: 1, extra: 2, changed: 0 })
    expect(difference.examples).toEqual(['1: 2 more than published', '2: 1 missing'])
  })

  test('that were not acknowledged may be stored or not', async () => {
    const expected = [...sent([1]), ...sent([1, 2], false)]
    expect(await differenceOf(expected, [1, 1])).toMatchObject({ ...NONE, unacknowledged: 1 })
    expect(await differenceOf(expected, [1])).toMatchObject({ ...NONE, unacknowledged: 0 })
    expect(await differenceOf(expected, [1, 1, 1])).toMatchObject({ ...NONE, extra: 1 })
  })

  test('that were sent again may be stored again, as often as they were', async () => {
    const expected = [...sent([1]), { metric: 'a', value: 1, isAcknowledged: true, resent: 1 }]
    expect(await differenceOf(expected, [1, 1])).toMatchObject({ ...NONE, repeated: 0 })
    expect(await differenceOf(expected, [1, 1, 1])).toMatchObject({ ...NONE, repeated: 1 })
    expect(await differenceOf(expected, [1, 1, 1, 1])).toMatchObject({ ...NONE, extra: 1 })
    expect(await differenceOf(expected, [1])).toMatchObject({ ...NONE, missing: 1 })
  })

  test('may be one row if they were equal and close, as often as they were, but not none', async () => {
    const close = { 5: 2 }
    expect(await differenceOf(sent([5, 5, 5]), [5], close)).toMatchObject({ ...NONE, merged: 2 })
    expect(await differenceOf(sent([5, 5]), [], close)).toMatchObject({ missing: 2, merged: 0 })
    const one = await differenceOf(sent([5, 5, 5, 5]), [5], close)
    expect(one).toMatchObject({ missing: 1, merged: 2 })
    const other = await differenceOf(sent([5, 5, 6, 6]), [5, 5, 6], close)
    expect(other).toMatchObject({ missing: 1, merged: 0 })
  })
})
