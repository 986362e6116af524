import { describe, expect, test } from '@jest/globals'
import { bucketOf, layoutAt } from '@sandglass/common/schema'
import { spans } from '@sandglass/common/spans'
import { CLOCK_AHEAD_MS, EXTENT_LAG_MS, occupied } from '../src/ranges.js'
import { seeded } from './support/fake-store.js'

const DAY_MS = 86_400_000
const ALL = { fromMs: -8e15, toMs: 8e15 }

describe('where a series can have rows', () => {
  const nowMs = 400 * DAY_MS

  test('is its extent and the last minutes, apart from each other', () => {
    expect(occupied({ firstMs: DAY_MS, lastMs: 2 * DAY_MS }, ALL, nowMs)).toEqual([
      { fromMs: DAY_MS - EXTENT_LAG_MS, toMs: 2 * DAY_MS + EXTENT_LAG_MS },
      { fromMs: nowMs - EXTENT_LAG_MS, toMs: nowMs + CLOCK_AHEAD_MS },
    ])
  })

  test('is one range where the two meet', () => {
    expect(occupied({ firstMs: DAY_MS, lastMs: nowMs - 1 }, ALL, nowMs)).toEqual([
      { fromMs: DAY_MS - EXTENT_LAG_MS, toMs: nowMs - 1 + EXTENT_LAG_MS },
    ])
  })

  test('is only what was asked for', () => {
    const extent = { firstMs: DAY_MS, lastMs: 2 * DAY_MS }
    expect(occupied(extent, { fromMs: DAY_MS, toMs: DAY_MS + 5 }, nowMs)).toEqual([
      { fromMs: DAY_MS, toMs: DAY_MS + 5 },
    ])
    expect(occupied(extent, { fromMs: 5 * DAY_MS, toMs: 6 * DAY_MS }, nowMs)).toEqual([])
  })

  test('is the last minutes of a series that is not known yet', () => {
    expect(occupied(undefined, ALL, nowMs)).toHaveLength(1)
  })
})

describe('the spans of a range', () => {
  test.each(Array.from({ length: 200 }, (_, seed) => seed))(
    'cover every millisecond once, in order, in its partition (seed %i)',
    (seed) => {
      const random = seeded(seed)
      const layouts = [{ fromMs: 0, className: '30d', bucketS: 1 + random(5) }]
      for (let fromMs = random(9_000); layouts.length < 4; fromMs += 1 + random(9_000)) {
        const className = ['7d', '30d', 'keep'][random(3)]
        layouts.push({ fromMs, className, bucketS: 1 + random(7) })
      }
      const start = random(4_000) - 2_000
      const middle = start + 1 + random(9_000)
      const later = middle + 1 + random(9_000)
      const ranges = [
        { fromMs: start, toMs: middle },
        { fromMs: later, toMs: later + 1 + random(9_000) },
      ]
      const forwards = [...spans(layouts, ranges, 'asc')]
      expect([...spans(layouts, ranges, 'desc')].reverse()).toEqual(forwards)

      let expected = start
      for (const { fromMs, toMs, bucket, className } of forwards) {
        if (expected === middle) expected = later
        expect(fromMs).toBe(expected)
        for (const timeMs of [fromMs, toMs - 1]) {
          const layout = layoutAt(layouts, timeMs)
          expect([className, bucket]).toEqual([layout.className, bucketOf(layout.bucketS, timeMs)])
        }
        expected = toMs
      }
      expect(expected).toBe(ranges[1].toMs)
    },
  )

  test('of a thousand years cost nothing until they are taken', () => {
    const layouts = [{ fromMs: 0, className: '30d', bucketS: 1 }]
    const first = spans(layouts, [{ fromMs: 0, toMs: 3e13 }], 'desc').next().value
    expect(first).toMatchObject({ fromMs: 3e13 - 1000, toMs: 3e13 })
  })
})
