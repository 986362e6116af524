/** One metric of one sensor over a time, drawn as its values are: numbers, states or places. */

import { AlertReader, listMarks, marksOf } from './alert-marks.js'
import { element, part, setText } from './dom.js'
import { printCount, printDuration, printMetric, timeZone } from './format.js'
import { ROWS_MAX, readHistory } from './history.js'
import { summary } from './lines.js'
import { placesOf } from './places.js'
import { RangeChart } from './range-chart.js'
import { sensorPath } from './rest.js'
import { runsOf, totalsOf } from './states.js'
import { Timeline } from './timeline.js'
import { Track, tellWay } from './track.js'

/** Windows of a chart; more than its pixels tell nothing. */
const POINTS = 800

/** States that are named to a screen reader. */
const STATES_TOLD_MAX = 6

/** @typedef {'numbers' | 'states' | 'places'} Kind */
/** @typedef {import('./sensor-rows.js').Question} Question */

/** How values such as this one are drawn. @param {unknown} v  @returns {Kind} */
export function kindOf(v) {
  if (typeof v === 'string' || typeof v === 'boolean') return 'states'
  return typeof v === 'object' && v !== null ? 'places' : 'numbers'
}

/**
 * A series as the api sums it up for a chart.
 *
 * @param {import('./page.js').Context} context
 * @param {{ sensor: string, metric: string, range: { fromMs: number, toMs: number } }} question
 */
export function readSeries({ rest, signal }, { sensor, metric, range }) {
  const query = new URLSearchParams({
    metric,
    from: `${range.fromMs}`,
    to: `${range.toMs}`,
    points: `${POINTS}`,
    agg: 'avg,min,max',
  })
  return rest.get(`${sensorPath(sensor)}/series?${query}`, signal)
}

/** What rollups are of. */
const SPANS = new Map([
  ['1m', 'a minute'],
  ['1h', 'an hour'],
  ['1d', 'a day'],
])

/**
 * What the windows of a chart are, and where they come from.
 *
 * @param {{ stepMs: number, resolution: string }} line
 */
export function printWindows({ stepMs, resolution }) {
  const read =
    resolution === 'raw' ? 'raw measurements' : `rollups of ${SPANS.get(resolution) ?? resolution}`
  return `windows of ${printDuration(stepMs)}, from ${read}`
}

export class MetricChart {
  #context
  #root
  #onZoom
  #alerts
  /** What draws now, and what ends it. @type {{ kind: Kind, end: AbortController } | undefined} */
  #now
  /** @type {any} */
  #chart

  /**
   * @param {import('./page.js').Context} context
   * @param {HTMLElement} root  With the parts chart, readout, chart-note, legend and marks.
   * @param {(range: { fromMs: number, toMs: number }) => void} onZoom
   */
  constructor(context, root, onZoom) {
    this.#context = context
    this.#root = root
    this.#onZoom = onZoom
    this.#alerts = new AlertReader(context)
    context.signal.addEventListener('abort', () => this.#now?.end.abort())
  }

  /** @param {Kind} kind */
  #chartOf(kind) {
    if (this.#now?.kind === kind) return this.#chart
    this.#now?.end.abort()
    const end = new AbortController()
    this.#now = { kind, end }
    const box = element('div', { class: `chart ${kind}`, 'data-part': 'chart' })
    part(this.#root, 'chart').replaceWith(box)
    const readout = part(this.#root, 'readout')
    readout.textContent = ''
    const legend = part(this.#root, 'legend')
    legend.hidden = true
    if (kind === 'numbers') this.#chart = new RangeChart(box, readout, this.#onZoom, end.signal)
    else if (kind === 'places') this.#chart = new Track(box, readout, end.signal)
    else this.#chart = new Timeline(box, readout, legend, this.#onZoom, end.signal)
    return this.#chart
  }

  /**
   * @param {Question} question
   * @param {Kind} kind
   * @param {() => boolean} isWanted  Asked once the answers are there.
   */
  async show(question, kind, isWanted) {
    const { sensor, metric, range } = question
    const read = kind === 'numbers' ? readSeries(this.#context, question) : this.#history(question)
    const asking = this.#alerts.of(sensor, range)
    const answer = await read
    if (!isWanted()) return
    /** @param {import('./alert-marks.js').Alert[]} alerts  @param {string} [failed] */
    const draw = (alerts, failed = '') => {
      const marks = marksOf(alerts, metric, range)
      listMarks(part(this.#root, 'marks'), marks, sensor)
      const about = this.#draw(kind, question, answer, marks)
      setText(part(this.#root, 'chart-note'), `${about}${failed} Times are in ${timeZone()}.`)
    }
    // The values do not wait for the alerts.
    const known = this.#alerts.known(sensor, range)
    draw(known)
    const alerts = await asking
    if (!isWanted() || alerts === known) return
    draw(alerts ?? known, alerts ? '' : ' Alerts could not be read.')
  }

  /** @param {Question} question */
  #history({ sensor, metric, range: { fromMs, toMs } }) {
    const { rest, signal } = this.#context
    return readHistory(rest, { sensor, metric, fromMs, toMs }, signal)
  }

  /**
   * @param {Kind} kind
   * @param {Question} question
   * @param {any} answer
   * @param {import('./alert-marks.js').Mark[]} marks
   * @returns {string}  What it is, in words.
   */
  #draw(kind, { sensor, metric, known, range }, answer, marks) {
    const { fromMs, toMs } = range
    const chart = this.#chartOf(kind)
    const title = `Chart of ${printMetric(metric, known)}.`
    const alerts = marks.length === 1 ? '1 alert' : `${marks.length} alerts`
    const fired = marks.length > 0 ? ` ${alerts}, told below.` : ''
    const label = (/** @type {string} */ what) => `${title} ${what}${fired} Arrow keys read it.`
    if (kind === 'places') {
      const places = placesOf(answer.rows)
      const way = tellWay(places)
      chart.draw({ label: label(way), places })
      return `${way}${cut(answer)}`
    }
    if (kind === 'states') {
      const runs = runsOf(answer, range, Date.now())
      const totals = totalsOf(runs).slice(0, STATES_TOLD_MAX)
      const parts = totals.map(({ state, ms }) => `${state} ${printDuration(ms)}`)
      const what = runs.length > 0 ? `${parts.join(', ')}.` : 'It is empty.'
      chart.draw({ label: label(what), fromMs, toMs, runs, marks })
      const some = runs.length === 1 ? 'One state' : `${printCount(runs.length)} states in turn`
      const told = 'each lasts until another is measured.'
      return `${runs.length > 0 ? `${some}; ${told}` : 'Nothing in this time.'}${cut(answer)}`
    }
    const { items, step: stepMs, resolution } = answer
    const line = { sensor, metric, known, stepMs, resolution, items, index: 0 }
    chart.draw({ label: label(summary(line)), fromMs, toMs, lines: [line], marks })
    if (items.length === 0) return 'No numbers in this time: choose another, or a longer one.'
    return (
      'The line is the average, the band goes from lowest to highest: ' +
      `${printCount(items.length)} ${printWindows(line)}. ` +
      `${marks.length > 0 ? 'Red is where an alert fired. ' : ''}Drag over it to zoom.`
    )
  }
}

/** @param {import('./history.js').History} history */
function cut({ isCut }) {
  const most = printCount(ROWS_MAX)
  return isCut ? ` Only the newest ${most} of this time: choose a shorter one to see all.` : ''
}
