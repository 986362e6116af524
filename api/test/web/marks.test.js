import { describe, expect, test } from '@jest/globals'
import { marksOf, printMark } from '../../web/alert-marks.js'
import { parseSeries, seriesText } from '../../web/series-chart.js'

/** @returns {any} */
const alert = (/** @type {Record<string, unknown>} */ one) => ({
  rule: { name: 'too hot', severity: 'warning' },
  metric: 't',
  text: 't of a is 9, above 5',
  fired: 100,
  resolved: null,
  ...one,
})

describe('alerts on a chart', () => {
  test('are those of its metric and of its sensor as a whole that fired in its time', () => {
    const alerts = [
      alert({ fired: 300, resolved: 400 }),
      alert({ fired: 250, resolved: 260, metric: null }),
      alert({ fired: 240, resolved: 290, metric: 'other' }),
      alert({ fired: 50, resolved: 150 }),
      alert({ fired: 50, resolved: 90 }),
      alert({ fired: 500 }),
      alert({ fired: 10 }),
    ]
    const marks = marksOf(alerts, 't', { fromMs: 100, toMs: 500 })
    expect(marks.map(({ fromMs, toMs }) => [fromMs, toMs])).toEqual([
      [10, undefined],
      [50, 150],
      [250, 260],
      [300, 400],
    ])
  })

  test('are told in words', () => {
    const [open] = marksOf([alert({})], 't', { fromMs: 0, toMs: 500 })
    expect(printMark(open)).toMatch(
      /^t of a is 9, above 5 \(too hot, warning\): since .*, still firing$/,
    )
    const [over] = marksOf([alert({ resolved: 60_100 })], 't', { fromMs: 0, toMs: 500 })
    expect(printMark(over)).toMatch(/ to .*, 60 s$/)
  })
})

test('a series is the same again in an address, its metric with slashes, too', () => {
  const series = { sensor: 'hall', metric: 'air/co2' }
  expect(parseSeries(seriesText(series))).toEqual([series])
  for (const text of ['', 'hall', '/x', 'hall/']) expect(parseSeries(text)).toEqual([])
})
