/** Several series in one chart, with a legend, and what of them could not be drawn. */

import { AlertReader, listMarks, marksOf } from './alert-marks.js'
import { part, setText } from './dom.js'
import { timeZone } from './format.js'
import { axesOf, printLine, printRefusal, summary } from './lines.js'
import { printWindows, readSeries } from './metric-chart.js'
import { RangeChart } from './range-chart.js'
import { lineEntry } from './series-legend.js'

/** @typedef {import('./series-legend.js').Series} Series */
/** @typedef {import('./series-legend.js').SeriesLegend} SeriesLegend */
/** @typedef {import('./lines.js').Line} Line */

/**
 * A series in an address and in a saved chart: `kitchen/temperature`.
 *
 * @param {Series} series
 */
export function seriesText({ sensor, metric }) {
  return `${sensor}/${metric}`
}

/** @param {string} text  @returns {Series[]}  None, if it says none. */
export function parseSeries(text) {
  const at = text.indexOf('/')
  return at > 0 && at < text.length - 1
    ? [{ sensor: text.slice(0, at), metric: text.slice(at + 1) }]
    : []
}

export class SeriesChart {
  #context
  #root
  #chart
  #alerts
  #legend

  /**
   * @param {import('./page.js').Context} context
   * @param {HTMLElement} root  With the parts chart, readout, refused, marks and chart-note.
   * @param {(range: { fromMs: number, toMs: number }) => void} onZoom
   * @param {SeriesLegend} legend
   */
  constructor(context, root, onZoom, legend) {
    this.#context = context
    this.#root = root
    this.#legend = legend
    const [box, readout] = [part(root, 'chart'), part(root, 'readout')]
    this.#chart = new RangeChart(box, readout, onZoom, context.signal)
    this.#alerts = new AlertReader(context)
  }

  /**
   * @param {readonly Series[]} series
   * @param {import('./range.js').Range} range
   * @param {() => boolean} isWanted  Asked once the answers are there.
   */
  async show(series, range, isWanted) {
    const names = [...new Set(series.map(({ sensor }) => sensor))]
    const asking = Promise.all(names.map((name) => this.#alerts.of(name, range)))
    const answers = await Promise.all(
      series.map((one) => readSeries(this.#context, { ...one, range })),
    )
    if (!isWanted()) return
    const lines = answers.map(({ items, step, resolution, ...known }, index) => {
      const { sensor, metric } = series[index]
      return { sensor, metric, known, stepMs: step, resolution, items, index }
    })
    const { units, drawn, refused } = axesOf(lines)
    this.#legend.show(lines.map((line) => lineEntry(line, refused.includes(line))))
    setText(part(this.#root, 'refused'), printRefusal(units, refused))
    setText(part(this.#root, 'chart-note'), noteOf(drawn, units))
    this.#draw(drawn, range)
    // The values do not wait for the alerts.
    await asking
    if (isWanted()) this.#draw(drawn, range)
  }

  /**
   * With the alerts that are known.
   *
   * @param {readonly Line[]} drawn
   * @param {import('./range.js').Range} range
   */
  #draw(drawn, range) {
    const { fromMs, toMs } = range
    const marks = drawn.flatMap(({ sensor, metric }) =>
      marksOf(this.#alerts.known(sensor, range), metric, range),
    )
    const told = drawn.map((line) => `${printLine(line)}: ${summary(line)}`).join(' ')
    const label = `Chart. ${told} Arrow keys read it.`
    this.#chart.draw({ label, fromMs, toMs, lines: [...drawn], marks })
    listMarks(part(this.#root, 'marks'), marks)
  }
}

/** @param {readonly Line[]} lines  @param {readonly string[]} units */
function noteOf(lines, units) {
  const full = lines.filter(({ items }) => items.length > 0)
  if (full.length === 0) return `No numbers in this time. Times are in ${timeZone()}.`
  const windows = [...new Set(full.map(printWindows))].join(', ')
  const [left, right] = units.map((unit) => unit || 'no unit')
  const axes = right === undefined ? '' : ` The left axis has ${left}, the right one ${right}.`
  return (
    `Lines are averages, bands go from lowest to highest: ${windows}.${axes} ` +
    `Times are in ${timeZone()}.`
  )
}
