/**
 * A chart of series, as it is made and saved: several are lines, and one is drawn as its values
 * are, which may be states or places.
 */

import { element, part, setText } from './dom.js'
import { kindOf, MetricChart } from './metric-chart.js'
import { sensorPath } from './rest.js'
import { SeriesChart, seriesText } from './series-chart.js'
import { SeriesLegend } from './series-legend.js'

/** @typedef {import('./series-legend.js').Series} Series */
/** @typedef {import('./format.js').Known & { metric: string, t: number, v: unknown }} Latest */

/**
 * The newest value of a series; undefined if the sensor has no such metric.
 *
 * @param {import('./page.js').Context} context
 * @param {Series} series
 * @returns {Promise<Latest | undefined>}
 */
export async function readLatest({ rest, signal }, { sensor, metric }) {
  const { items } = await rest.get(`${sensorPath(sensor)}/latest`, signal)
  return items.find((/** @type {Latest} */ one) => one.metric === metric)
}

/** Whether values such as this one are drawn as lines, several in one chart. @param {unknown} v */
export function isLine(v) {
  return kindOf(v) === 'numbers' || typeof v === 'boolean'
}

export class AnyChart {
  #context
  #root
  #onZoom
  #legend
  /** The newest value of each series that was drawn alone. @type {Map<string, Latest>} */
  #latest = new Map()
  /** What draws now, and what ends it. */
  /** @type {{ alone: boolean, end: AbortController } | undefined} */
  #now
  /** @type {any} */
  #chart

  /**
   * @param {import('./page.js').Context} context
   * @param {HTMLElement} root  With the parts series, refused, chart, readout, legend, marks and
   *   chart-note.
   * @param {(range: { fromMs: number, toMs: number }) => void} onZoom
   * @param {(series: Series) => void} [onRemove]  Takes a series out of the chart.
   */
  constructor(context, root, onZoom, onRemove) {
    this.#context = context
    this.#root = root
    this.#onZoom = onZoom
    this.#legend = new SeriesLegend(part(root, 'series'), onRemove)
    context.signal.addEventListener('abort', () => this.#now?.end.abort())
  }

  /**
   * @param {readonly Series[]} series
   * @param {import('./range.js').Range} range
   * @param {() => boolean} isWanted  Asked once the answers are there.
   */
  async show(series, range, isWanted) {
    const known = series.length === 1 ? await this.#known(series[0]) : undefined
    if (!isWanted()) return
    const kind = known ? kindOf(known.v) : 'numbers'
    if (!known || kind === 'numbers') return this.#chartOf(false).show(series, range, isWanted)
    const [{ sensor, metric }] = series
    const chart = this.#chartOf(true)
    this.#legend.show([{ sensor, metric, known, color: undefined }])
    await chart.show({ sensor, metric, known, range, cursor: null }, kind, isWanted)
  }

  /** @param {Series} series */
  async #known(series) {
    const name = seriesText(series)
    const known = this.#latest.get(name) ?? (await readLatest(this.#context, series))
    if (known) this.#latest.set(name, known)
    return known
  }

  /** @param {boolean} alone */
  #chartOf(alone) {
    if (this.#now?.alone === alone) return this.#chart
    this.#now?.end.abort()
    const end = new AbortController()
    this.#now = { alone, end }
    const root = this.#root
    part(root, 'chart').replaceWith(
      element('div', { class: 'chart numbers', 'data-part': 'chart' }),
    )
    for (const name of ['readout', 'refused', 'chart-note']) setText(part(root, name), '')
    for (const name of ['legend', 'marks']) {
      part(root, name).hidden = true
      // The next chart shows its own, be they the same.
      delete part(root, name).dataset.shown
    }
    const signal = AbortSignal.any([this.#context.signal, end.signal])
    const context = { ...this.#context, signal }
    this.#chart = alone
      ? new MetricChart(context, root, this.#onZoom)
      : new SeriesChart(context, root, this.#onZoom, this.#legend)
    return this.#chart
  }
}
