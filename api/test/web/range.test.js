import { describe, expect, test } from '@jest/globals'
import {
  chartColumns,
  localField,
  moveRange,
  openingRange,
  pinchRange,
  rangeQuery,
  readRange,
  refreshMs,
  timeTicks,
} from '../../web/range.js'

const NOW_MS = 1_767_225_600_000
const HOUR_MS = 3_600_000

describe('a range', () => {
  test('ends now where it has a name, and an unknown name is an hour', () => {
    const day = readRange(new URLSearchParams('range=1d'), NOW_MS)
    expect(day).toEqual({ span: '1d', fromMs: NOW_MS - 24 * HOUR_MS, toMs: NOW_MS })
    for (const query of ['', 'range=9z', 'from=5', 'from=9&to=5', 'from=x&to=7']) {
      expect(readRange(new URLSearchParams(query), NOW_MS)).toMatchObject({ span: '1h' })
    }
  })

  test.each(['range=1w', 'from=1000&to=5000'])('%s is the same again in an address', (query) => {
    const range = readRange(new URLSearchParams(query), NOW_MS)
    expect(new URLSearchParams(rangeQuery(range)).toString()).toBe(query)
  })

  test('opens on the newest of a sensor that has been quiet, unless another is chosen', () => {
    const none = new URLSearchParams('metric=x')
    const week = NOW_MS - 168 * HOUR_MS
    expect(openingRange(none, NOW_MS, NOW_MS - HOUR_MS / 2)).toMatchObject({ span: '1h' })
    expect(openingRange(none, NOW_MS, undefined)).toMatchObject({ span: '1h' })
    const quiet = openingRange(none, NOW_MS, week)
    expect(quiet.span).toBeUndefined()
    expect(quiet.toMs - quiet.fromMs).toBe(HOUR_MS)
    expect(quiet.fromMs).toBeLessThan(week)
    expect(quiet.toMs).toBeGreaterThan(week)
    // Of a clock that is a day ahead, too.
    expect(openingRange(none, NOW_MS, NOW_MS + 24 * HOUR_MS).fromMs).toBeGreaterThan(NOW_MS)
    const chosen = new URLSearchParams('range=1d')
    expect(openingRange(chosen, NOW_MS, week)).toMatchObject({ span: '1d' })
  })

  test('is stretched and moved by two fingers, below which the time stays', () => {
    const range = { span: undefined, fromMs: 1_000_000, toMs: 2_000_000 }
    const apart = pinchRange(range, [0.4, 0.6], [0.2, 0.8])
    expect(apart).toMatchObject({ fromMs: 1_333_333, toMs: 1_666_666 })
    expect(pinchRange(range, [0.2, 0.4], [0.4, 0.6])).toMatchObject({ fromMs: 800_000 })
    expect(pinchRange(range, [0.2, 0.6], [0.3, 0.5])).toMatchObject({
      fromMs: 600_000,
      toMs: 2_600_000,
    })
    expect(pinchRange(range, [0.5, 0.5], [0.1, 0.9])).toMatchObject({ fromMs: 1_000_000 })
  })

  test('has marks at whole steps of the time of the reader, as many as there is room for', () => {
    const { stepMs, times } = timeTicks(NOW_MS + 60_000, NOW_MS + 6 * HOUR_MS, 8)
    expect(stepMs).toBe(HOUR_MS)
    expect(times).toHaveLength(6)
    for (const t of times) expect(new Date(t).getMinutes()).toBe(0)
    const days = timeTicks(NOW_MS, NOW_MS + 72 * HOUR_MS, 4)
    for (const t of days.times) expect(new Date(t).getHours()).toBe(0)
  })

  test('is moved by a share of its length, and stretched about its middle', () => {
    const range = { span: '1h', fromMs: 1_000_000, toMs: 5_000_000 }
    expect(moveRange(range, { by: -0.5 })).toMatchObject({ fromMs: -1_000_000, toMs: 3_000_000 })
    expect(moveRange(range, { factor: 0.5 })).toMatchObject({ fromMs: 2_000_000, toMs: 4_000_000 })
    expect(moveRange(range, { factor: 2 })).toMatchObject({ fromMs: -1_000_000, toMs: 7_000_000 })
  })

  test('is never shorter than a second, nor longer than any database is old', () => {
    /** @type {import('../../web/range.js').Range} */
    let range = { span: undefined, fromMs: NOW_MS - HOUR_MS, toMs: NOW_MS }
    for (let times = 0; times < 40; times += 1) range = moveRange(range, { factor: 0.5 })
    expect(range.toMs - range.fromMs).toBe(1_000)
    for (let times = 0; times < 80; times += 1) range = moveRange(range, { factor: 2 })
    expect(range.toMs - range.fromMs).toBe(20 * 365 * 24 * HOUR_MS)
  })

  test('is asked for again no more often than a chart can show', () => {
    const refresh = (/** @type {number} */ spanMs) =>
      refreshMs({ span: '1h', fromMs: NOW_MS - spanMs, toMs: NOW_MS })
    expect([300_000, HOUR_MS, 365 * 24 * HOUR_MS].map(refresh)).toEqual([2_000, 9_000, 60_000])
  })

  test('is in its fields the reader’s own time', () => {
    for (const timeMs of [NOW_MS, NOW_MS + 180 * 24 * HOUR_MS]) {
      expect(Date.parse(localField(timeMs))).toBe(timeMs)
    }
  })
})

describe('the columns of a chart', () => {
  const item = (/** @type {number} */ t) => ({ t, avg: t, min: t - 1, max: t + 1 })

  test('are seconds, averages, lowest and highest values', () => {
    expect(chartColumns([item(1_000), item(2_000)], 1_000)).toEqual([
      [1, 2],
      [1_000, 2_000],
      [999, 1_999],
      [1_001, 2_001],
    ])
    expect(chartColumns([], 1_000)).toEqual([[], [], [], []])
  })

  test('have a hole where values stopped coming, and none where they are merely rare', () => {
    const steady = [0, 60_000, 120_000, 180_000].map(item)
    expect(chartColumns(steady, 1_000)[1]).not.toContain(null)
    const stopped = [...steady, item(3_600_000), item(3_660_000)]
    const [times, averages] = chartColumns(stopped, 1_000)
    expect(times).toEqual([0, 60, 120, 180, 1_890, 3_600, 3_660])
    expect(averages.indexOf(null)).toBe(4)
  })
})
