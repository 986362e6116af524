import { describe, expect, jest, test } from '@jest/globals'
import { AlertReader, marksOf, printMark } from '../../web/alert-marks.js'
import { RestError } from '../../web/rest.js'
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

describe('the alerts of a sensor', () => {
  const DAY_MS = 86_400_000
  const range = { fromMs: 100.5 * DAY_MS, toMs: 101.5 * DAY_MS }
  /** A hundred days ago, and now. */
  const stored = [alert({ fired: DAY_MS }), alert({ fired: 100.6 * DAY_MS })]

  /** @param {(alerts: any[]) => any} [answer] */
  const reader = (answer = (items) => ({ items, next: null })) => {
    /** @type {string[]} */
    const asked = []
    const get = async (/** @type {string} */ path) => {
      const query = new URLSearchParams(path.split('?')[1])
      const [from, to] = [Number(query.get('from')), Number(query.get('to'))]
      asked.push(`${from / DAY_MS} to ${to / DAY_MS}`)
      return answer(stored.filter(({ fired }) => fired >= from && fired < to))
    }
    const context = /** @type {any} */ ({ rest: { get }, signal: new AbortController().signal })
    return { alerts: new AlertReader(context), asked }
  }

  test('are those of all days, however long ago they began', async () => {
    const { alerts, asked } = reader()
    const found = await alerts.of('a', range)
    expect(found?.map(({ fired }) => fired / DAY_MS).sort((a, b) => a - b)).toEqual([1, 100.6])
    expect(alerts.known('a', range)).toBe(found)
    expect(asked.sort()).toEqual(['0 to 69', '69 to 102'])
  })

  test('are asked for once in a while, those of long ago less often', async () => {
    const { alerts, asked } = reader()
    const nowMs = performance.now()
    const clock = jest.spyOn(performance, 'now')
    try {
      for (const afterMs of [0, 9_000, 11_000, 599_000, 612_000]) {
        clock.mockReturnValue(nowMs + afterMs)
        await alerts.of('a', range)
      }
    } finally {
      clock.mockRestore()
    }
    expect(asked.filter((one) => one === '69 to 102')).toHaveLength(4)
    expect(asked.filter((one) => one === '0 to 69')).toHaveLength(2)
  })

  test('are none where they cannot be had, and are asked for again', async () => {
    let isAway = true
    const { alerts } = reader((items) => {
      if (isAway) throw new RestError(503, 'database-away', 'the database is away')
      return { items, next: null }
    })
    expect(await alerts.of('a', range)).toBeUndefined()
    isAway = false
    expect(await alerts.of('a', range)).toHaveLength(2)
  })
})

test('a series is the same again in an address, its metric with slashes, too', () => {
  const series = { sensor: 'hall', metric: 'air/co2' }
  expect(parseSeries(seriesText(series))).toEqual([series])
  for (const text of ['', 'hall', '/x', 'hall/']) expect(parseSeries(text)).toEqual([])
})
