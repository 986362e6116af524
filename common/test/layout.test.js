import { describe, expect, test } from '@jest/globals'
import {
  LAYOUT_LEAD_MS,
  layoutOfClass,
  layoutOfWidth,
  layoutStart,
  layoutsKnownUntil,
  layoutTimestampUs,
  WIDTHS_S,
} from '../src/layout.js'
import { EVENT_AHEAD_MS_MAX } from '../src/measurement.js'
import { firstLayout, RETENTION_CLASSES } from '../src/schema.js'

const HOUR_MS = 3_600_000
const NOW = Date.UTC(2026, 0, 1, 12, 34)
const layout = (/** @type {number} */ fromMs, className = '30d', bucketS = 86_400) => ({
  fromMs,
  className,
  bucketS,
})

test('a layout begins later than any event that is taken now, and than what is known now', () => {
  for (let n = 0; n < 200; n++) {
    const nowMs = NOW + n * 61_001
    const fromMs = layoutStart(nowMs)
    expect(fromMs % HOUR_MS).toBe(0)
    expect(fromMs - nowMs).toBeGreaterThanOrEqual(EVENT_AHEAD_MS_MAX + LAYOUT_LEAD_MS)
    expect(fromMs - nowMs).toBeLessThan(EVENT_AHEAD_MS_MAX + LAYOUT_LEAD_MS + HOUR_MS)
    expect(fromMs).toBeGreaterThan(layoutsKnownUntil(nowMs))
    expect(layoutsKnownUntil(nowMs)).toBeGreaterThan(nowMs + EVENT_AHEAD_MS_MAX)
  }
})

test('all widths up to that of a class are whole fractions of its compaction window', () => {
  for (const { bucketS, windowUnit, windowSize } of RETENTION_CLASSES) {
    const windowS = windowSize * (windowUnit === 'DAYS' ? 86_400 : 3_600)
    const usable = WIDTHS_S.filter((widthS) => widthS <= bucketS)
    expect(usable.at(-1)).toBe(bucketS)
    for (const widthS of usable) expect(windowS % widthS).toBe(0)
  }
})

describe('another class', () => {
  const fromMs = layoutStart(NOW)

  test('holds from about a day on, with its own width', () => {
    expect(layoutOfClass([layout(0)], '400d', NOW)).toEqual(layout(fromMs, '400d', 604_800))
    expect(layoutOfClass([], '400d', NOW)).toEqual(firstLayout('400d'))
  })

  test('keeps buckets that were made narrower, as far as its window allows', () => {
    const narrow = layout(0, '400d', 86_400)
    expect(layoutOfClass([narrow], '30d', NOW)?.bucketS).toBe(86_400)
    expect(layoutOfClass([narrow], '7d', NOW)?.bucketS).toBe(21_600)
    expect(layoutOfClass([layout(0, '30d', 900)], 'keep', NOW)?.bucketS).toBe(900)
  })

  test('is no change where it is, or will be, so already', () => {
    expect(layoutOfClass([layout(0)], '30d', NOW)).toBeUndefined()
    expect(layoutOfClass([layout(0), layout(fromMs, '7d')], '7d', NOW)).toBeUndefined()
  })

  test('comes after a change that does not hold yet, never in its place', () => {
    const pending = [layout(0), layout(fromMs, '7d', 21_600)]
    expect(layoutOfClass(pending, '30d', NOW)).toEqual(layout(fromMs + HOUR_MS))
    const later = [layout(0), layout(fromMs + 5 * HOUR_MS, '7d', 21_600)]
    expect(layoutOfClass(later, '30d', NOW)).toEqual(layout(fromMs + 6 * HOUR_MS))
  })
})

describe('another width', () => {
  test('is of the same class, and never while a change is under way', () => {
    const fromMs = layoutStart(NOW)
    expect(layoutOfWidth([layout(0)], 900, NOW)).toEqual(layout(fromMs, '30d', 900))
    expect(layoutOfWidth([layout(0)], 86_400, NOW)).toBeUndefined()
    expect(layoutOfWidth([layout(0), layout(fromMs)], 900, NOW)).toBeUndefined()
    expect(layoutOfWidth([], 900, NOW)).toBeUndefined()
  })

  test('of two for one time is the narrower, whichever is written last, and never a person’s', () => {
    const fromMs = layoutStart(NOW)
    const stamps = [...WIDTHS_S].reverse().map((bucketS) => {
      return layoutTimestampUs(layout(fromMs, '30d', bucketS))
    })
    expect(stamps).toEqual([...stamps].sort((a, b) => a - b))
    expect(new Set(stamps).size).toBe(WIDTHS_S.length)
    expect(stamps.at(-1)).toBeLessThan((fromMs - EVENT_AHEAD_MS_MAX - 2 * HOUR_MS) * 1000)
  })
})
