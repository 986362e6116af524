import { describe, expect, test } from '@jest/globals'
import { barsOf, historyFrom, runsOf, totalsOf } from '../../web/states.js'

const RANGE = { fromMs: 1_000, toMs: 11_000 }
const NOW_MS = 9_000

describe('states', () => {
  test('last until another is measured, the last one until now', () => {
    const rows = [
      { t: 3_000, v: 'on' },
      { t: 4_000, v: 'on' },
      { t: 5_000, v: false },
    ]
    expect(runsOf({ rows, before: { t: 7, v: 'off' }, isCut: false }, RANGE, NOW_MS)).toEqual([
      { state: 'off', fromMs: 1_000, toMs: 3_000 },
      { state: 'on', fromMs: 3_000, toMs: 5_000 },
      { state: 'false', fromMs: 5_000, toMs: 9_000 },
    ])
  })

  test('are not known before the first one', () => {
    const rows = [{ t: 3_000, v: 'on' }]
    expect(runsOf({ rows, before: undefined, isCut: false }, RANGE, NOW_MS)).toEqual([
      { state: 'on', fromMs: 3_000, toMs: 9_000 },
    ])
    expect(runsOf({ rows: [], before: undefined, isCut: false }, RANGE, NOW_MS)).toEqual([])
  })

  test('that began before the range are drawn from its begin', () => {
    const rows = [10, 500, 3_000].map((t, n) => ({ t, v: `s${n}` }))
    expect(runsOf(historyFrom(rows, RANGE.fromMs), RANGE, NOW_MS)).toEqual([
      { state: 's1', fromMs: 1_000, toMs: 3_000 },
      { state: 's2', fromMs: 3_000, toMs: 9_000 },
    ])
    const late = runsOf(historyFrom(rows.slice(2), RANGE.fromMs), RANGE, NOW_MS)
    expect(late).toEqual([{ state: 's2', fromMs: 3_000, toMs: 9_000 }])
  })

  test('fill a time that is over, and go on where a clock is ahead', () => {
    const before = { t: 0, v: 'on' }
    const over = runsOf({ rows: [], before, isCut: false }, RANGE, 50_000)
    expect(over).toEqual([{ state: 'on', fromMs: 1_000, toMs: 11_000 }])
    const rows = [{ t: 10_000, v: 'on' }]
    const ahead = runsOf({ rows, before: undefined, isCut: false }, RANGE, NOW_MS)
    expect(ahead).toEqual([{ state: 'on', fromMs: 10_000, toMs: 10_000 }])
  })

  test('that are too short to be seen are one bar of several', () => {
    const runs = Array.from({ length: 100 }, (_, at) => ({
      state: at % 2 === 0 ? 'a' : 'b',
      fromMs: 1_000 + at * 50,
      toMs: 1_050 + at * 50,
    }))
    const all = [...runs, { state: 'c', fromMs: 6_000, toMs: 11_000 }]
    const bars = barsOf(all, RANGE, 200)
    expect(bars).toHaveLength(2)
    expect(bars[0]).toMatchObject({ state: undefined, count: 100, x: 0 })
    expect(bars[0].width).toBeCloseTo(100)
    expect(bars[1]).toMatchObject({ state: 'c', count: 1, x: 100, width: 100 })
  })

  test('are each told with its share, by name as people count', () => {
    const runs = [
      { state: 'mode 10', fromMs: 0, toMs: 100 },
      { state: 'mode 9', fromMs: 100, toMs: 200 },
      { state: 'mode 10', fromMs: 200, toMs: 400 },
    ]
    expect(totalsOf(runs)).toEqual([
      { state: 'mode 9', ms: 100, share: 0.25 },
      { state: 'mode 10', ms: 300, share: 0.75 },
    ])
  })
})
