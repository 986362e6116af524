import { describe, expect, test } from '@jest/globals'
import { axesOf, nearest, printRefusal, summary, tellLines } from '../../web/lines.js'

/** @param {string} sensor  @param {string | undefined} symbol  @param {number[]} averages */
const lineOf = (sensor, symbol, averages = [1, 2, 3]) => ({
  sensor,
  metric: 'm',
  known: { symbol },
  stepMs: 1_000,
  resolution: 'raw',
  items: averages.map((avg, at) => ({ t: at * 1_000, avg, min: avg - 1, max: avg + 1 })),
  index: 0,
})

describe('several series in one chart', () => {
  test('have an axis for each of two units, and lines of a third are refused with a reason', () => {
    const lines = [
      lineOf('a', '°C'),
      lineOf('b', undefined),
      lineOf('c', '°C'),
      lineOf('d', 'hPa'),
      lineOf('e', ''),
    ]
    const { units, drawn, refused, axisOf } = axesOf(lines)
    expect(units).toEqual(['°C', ''])
    expect(drawn.map(({ sensor }) => sensor)).toEqual(['a', 'b', 'c', 'e'])
    expect(drawn.map(axisOf)).toEqual([0, 1, 0, 1])
    expect(printRefusal(units, refused)).toBe(
      'Not drawn: d, m (hPa). A chart has at most two units, and this one has °C and no unit ' +
        'already: remove one of these, or make another chart.',
    )
    expect(printRefusal(units, [])).toBe('')
  })

  test('are read at a time by what each has near it', () => {
    const lines = [lineOf('a', '°C'), { ...lineOf('b', 'V', [7]), metric: 'u' }]
    expect(tellLines(lines, 2_000, 10_000)).toMatch(/: a, m 3 °C \(2 to 4 °C\)$/)
    expect(tellLines(lines, 400, 10_000)).toMatch(
      /: a, m 1 °C \(0 to 2 °C\); b, u 7 V \(6 to 8 V\)$/,
    )
    expect(tellLines([lines[0]], 2_000, 10_000)).toMatch(/: 3 °C \(2 to 4 °C\)$/)
    expect(tellLines(lines, 60_000, 10_000)).toBe('')
  })

  test('a window is found before and after a time, but not from afar', () => {
    const line = lineOf('a', '°C')
    expect(nearest(line, 1_400, 1_000)?.avg).toBe(2)
    expect(nearest(line, 1_600, 1_000)?.avg).toBe(3)
    expect(nearest(line, -900, 1_000)?.avg).toBe(1)
    expect(nearest(line, 3_500, 1_000)).toBeUndefined()
    expect(nearest({ ...line, items: [] }, 0, 1_000)).toBeUndefined()
  })

  test('are summed up by their lowest and highest', () => {
    expect(summary(lineOf('a', '°C', [5, 2, 9]))).toBe('From 1 °C to 10 °C.')
    expect(summary(lineOf('a', '°C', []))).toBe('It is empty.')
  })
})
