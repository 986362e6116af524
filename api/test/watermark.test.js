import { describe, expect, test } from '@jest/globals'
import {
  compareKeys,
  decodeWatermark,
  encodeWatermark,
  ROWS_REMEMBERED_MAX,
  seriesHash,
  Told,
  WATERMARK_LENGTH_MAX,
} from '../src/watermark.js'

const T = 1_767_225_600_000

/** Numbers that look random, the same for a seed. @param {number} seed */
function random(seed) {
  let state = seed
  return (/** @type {number} */ below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

/** @param {number} t  @param {number} [seq] */
const key = (t, seq = 0) => ({ t, seq })

/** @param {import('../src/watermark.js').Key[]} keys */
function told(keys) {
  const one = new Told()
  for (const each of keys) one.add(each)
  return one
}

/** @param {Told} one */
const parts = ({ floor, marks, isBehind }) => ({ floor, marks, isBehind })

describe('what was told of a series', () => {
  test('has a row once, whatever came before it', () => {
    const one = new Told()
    expect([key(T), key(T, 1), key(T - 5), key(T)].map((row) => one.add(row))).toEqual([
      true,
      true,
      true,
      false,
    ])
  })

  test('goes up to a floor, where nobody looks any more', () => {
    const one = told([key(T + 20), key(T), key(T + 10)])
    one.advance(T + 15)
    expect(parts(one)).toMatchObject({ floor: key(T + 10), marks: [{ t: T + 20, count: 1 }] })
    const rows = [key(T + 5), key(T + 10), key(T + 11), key(T + 20)]
    expect(rows.map((row) => one.add(row))).toEqual([false, false, true, false])
  })

  test('has no more rows than may be remembered, the last ones', () => {
    const one = new Told()
    for (let index = 0; index < 10 * ROWS_REMEMBERED_MAX; index++) {
      expect(one.add(key(T + index))).toBe(true)
      expect(one.marks.length).toBeLessThanOrEqual(2 * ROWS_REMEMBERED_MAX)
    }
    expect(one.marks.length).toBeGreaterThanOrEqual(ROWS_REMEMBERED_MAX)
    expect(one.marks.at(-1)).toMatchObject(key(T + 10 * ROWS_REMEMBERED_MAX - 1))
  })
})

describe('a watermark', () => {
  test('says the same after it was text, for any keys and times', () => {
    for (let seed = 1; seed <= 200; seed++) {
      const below = random(seed)
      const sinceMs = below(2) === 0 ? T - below(1e9) : -below(1e9)
      const series = new Map()
      for (let count = below(12); count > 0; count--) {
        const one = new Told()
        if (below(2) === 0) one.floor = key(sinceMs + below(20_000), below(3))
        for (let rows = below(8); rows > 0; rows--) one.add(key(sinceMs + below(20_000), below(3)))
        if (one.floor || one.marks.length > 0) series.set(seriesHash('s', `${count}`), one)
      }
      const text = encodeWatermark({ sinceMs, series })
      expect(text).toMatch(/^p[-\w.~!*]*$/)
      const decoded = decodeWatermark('after', text)
      const plain = (/** @type {typeof series} */ all) =>
        [...all].map(([hash, one]) => [hash, parts(one)]).sort()
      expect({ seed, sinceMs: decoded.sinceMs, all: plain(decoded.series) }).toEqual({
        seed,
        sinceMs,
        all: plain(series),
      })
      expect(encodeWatermark(decoded)).toBe(text)
    }
  })

  test.each([
    [1, 2_000],
    [4, 500],
    [320, 10],
    [320, 1_000],
    [2_000, 10],
    [32_000, 1],
  ])(
    'of %i series with %i rows is short, and says of no row that it was told that was not',
    (seriesCount, rowCount) => {
      const series = new Map()
      for (let index = 0; index < seriesCount; index++) {
        const rows = Array.from({ length: rowCount }, (_, at) => key(T + at * 10 + (index % 7)))
        series.set(seriesHash('s', `${index}`), told(rows))
      }
      const text = encodeWatermark({ sinceMs: T, series })
      expect(text.length).toBeLessThanOrEqual(WATERMARK_LENGTH_MAX)
      const decoded = decodeWatermark('after', text)
      expect(decoded.sinceMs).toBe(T)
      for (const [hash, one] of decoded.series) {
        const whole = series.get(hash)
        expect(one.floor).toEqual(whole.floor && whole.floor.t >= T ? whole.floor : undefined)
        expect(one.marks.reduce((sum, { count }) => sum + count, 0)).toBe(whole.marks.length)
        expect(one.marks.at(-1)).toMatchObject({ t: whole.marks.at(-1).t, seq: 0 })
      }
      if (seriesCount <= 320) expect(decoded.series.size).toBe(seriesCount)
      else expect(decoded.series.size).toBeGreaterThan(350)
    },
  )

  test('keeps series whose clocks are behind first, and goes back where they do not fit', () => {
    for (const behindCount of [100, 3_000]) {
      const series = new Map()
      for (let index = 0; index < 500; index++) {
        series.set(seriesHash('on time', `${index}`), told([key(T + index)]))
      }
      for (let index = 0; index < behindCount; index++) {
        const one = new Told({ floor: key(1_000_000 + index), isBehind: true })
        series.set(seriesHash('behind', `${index}`), one)
      }
      const { sinceMs, series: decoded } = decodeWatermark(
        'after',
        encodeWatermark({ sinceMs: T, series }),
      )
      const left = [...series].filter(([hash, one]) => one.isBehind && !decoded.has(hash))
      if (behindCount === 100) expect({ left, sinceMs }).toEqual({ left: [], sinceMs: T })
      else expect(sinceMs).toBe(Math.min(...left.map(([, { floor }]) => floor.t)))
      for (const [hash, one] of decoded) {
        if (one.isBehind) expect(one.floor).toEqual(series.get(hash).floor)
      }
    }
  })

  test('orders rows of one millisecond by seq', () => {
    expect(compareKeys(key(T, 2), key(T, 1))).toBeGreaterThan(0)
    const series = new Map([['abcdef', told([key(T, 123_456_789_012_345), key(T), key(T, 7)])]])
    const decoded = decodeWatermark('after', encodeWatermark({ sinceMs: T, series }))
    const marks = decoded.series.get('abcdef')?.marks.map(({ seq }) => seq)
    expect(marks).toEqual([0, 7, 123_456_789_012_345])
  })

  test.each(['p', 'p~', 'pabc~abcde', 'pabc~abcdefx y', 'pabc~abcdef.', 'pABC', 'pabczzzzzzzz'])(
    '%j is none',
    (text) => {
      expect(() => decodeWatermark('after', text)).toThrow('after must be the id of an event')
    },
  )
})
