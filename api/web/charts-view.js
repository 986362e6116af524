/**
 * A chart of several series, of any sensors: which they are and of what time is in the address, so
 * that a chart is shared by its address.
 */

import { AnyChart, isLine, readLatest } from './any-chart.js'
import { ChartSave } from './chart-save.js'
import { element, fromTemplate, part, setText } from './dom.js'
import { LINES_MAX } from './lines.js'
import { isChosen, openingRange, rangeQuery, refreshMs } from './range.js'
import { RangeControls } from './range-controls.js'
import { attempts, repeat } from './repeat.js'
import { sensorPath } from './rest.js'
import { parseRoute, routeHash } from './route.js'
import { parseSeries, seriesText } from './series-chart.js'

/** Sensors that are proposed while a name is typed. */
const PROPOSALS = 50

/** How long after the last key sensors are looked for, in milliseconds. */
const TYPING_MS = 200

/** @typedef {import('./series-chart.js').Series} Series */

export class ChartsView {
  element = fromTemplate('charts')
  #context
  #attempt
  #query = new URLSearchParams()
  #controls
  #chart
  #asked = 0
  #isRunning = false
  /** When the newest value of any of them was measured. @type {number | undefined} */
  #newestMs
  /** Is done when all that was added is in the address. @type {Promise<void>} */
  #adding = Promise.resolve()
  #form

  /** @param {import('./page.js').Context} context */
  constructor(context) {
    this.#context = context
    const { element: root } = this
    this.#attempt = attempts(context, part(root, 'note'))
    this.#controls = new RangeControls(root, (range) => this.#hash(range))
    this.#chart = new AnyChart(
      context,
      root,
      (range) => this.#controls.goTo(range),
      (gone) => this.#go(this.#series.filter((one) => seriesText(one) !== seriesText(gone))),
    )
    this.#form = /** @type {HTMLFormElement} */ (part(root, 'adding'))
    this.#listen()
    const save = new ChartSave(
      context,
      root,
      () => ({ series: this.#series }),
      () => this.#range().span,
    )
    this.#attempt(async () => void (await save.list()))
  }

  #listen() {
    const sensor = this.#field('sensor')
    let timer = 0
    sensor.addEventListener('input', () => {
      clearTimeout(timer)
      timer = window.setTimeout(() => this.#attempt(() => this.#propose()), TYPING_MS)
    })
    sensor.addEventListener('focus', () => this.#attempt(() => this.#propose()))
    this.#form.addEventListener('submit', (event) => {
      event.preventDefault()
      this.#add()
    })
  }

  /** @param {string} name  @returns {HTMLInputElement} */
  #field(name) {
    return /** @type {HTMLInputElement} */ (this.#form.elements.namedItem(name))
  }

  /** The series that the address names. */
  get #series() {
    return seriesOf(this.#query)
  }

  /** @param {Record<string, string>} range */
  #hash(range) {
    return routeHash('charts', { series: this.#series.map(seriesText), ...range })
  }

  /** @param {readonly Series[]} series */
  #go(series) {
    const range = isChosen(this.#query) ? rangeQuery(this.#range()) : {}
    location.hash = routeHash('charts', { series: series.map(seriesText), ...range })
  }

  #range() {
    return openingRange(this.#query, Date.now(), this.#newestMs)
  }

  /** Names of sensors, and metrics of the one that is named: whatever can be drawn. */
  async #propose() {
    const { rest, signal } = this.#context
    const name = this.#field('sensor').value.trim()
    const query = new URLSearchParams({ limit: `${PROPOSALS}`, ...(name && { q: name }) })
    const { items } = await rest.get(`v1/sensors?${query}`, signal)
    /** @type {string[]} */
    const names = items.map((/** @type {{ name: string }} */ one) => one.name)
    part(this.element, 'sensor-names').replaceChildren(...options(names))
    if (!names.includes(name)) return
    const latest = await rest.get(`${sensorPath(name)}/latest`, signal)
    const metrics = latest.items
      .filter((/** @type {{ v: unknown }} */ { v }) => this.#series.length === 0 || isLine(v))
      .map((/** @type {{ metric: string }} */ { metric }) => metric)
    part(this.element, 'metric-names').replaceChildren(...options(metrics))
  }

  /** Adds what was typed, after what was typed before it. */
  #add() {
    const say = (/** @type {string} */ text) => setText(part(this.element, 'add-error'), text)
    const [sensor, metric] = ['sensor', 'metric'].map((name) => this.#field(name).value.trim())
    const before = this.#adding
    this.#adding = new Promise((resolve) => {
      this.#attempt(async () => {
        try {
          await before
          const refusal = await this.#tryAdd({ sensor, metric })
          say(refusal)
          const field = this.#field('metric')
          if (refusal === '' && field.value.trim() === metric) field.value = ''
        } finally {
          resolve()
        }
      })
    })
  }

  /** @param {Series} wanted  @returns {Promise<string>}  Why not, or nothing. */
  async #tryAdd(wanted) {
    const { rest, signal } = this.#context
    // What was added a moment ago is in the address already.
    const series = seriesOf(parseRoute(location.hash).query)
    const { sensor, metric } = wanted
    const name = printOne(wanted)
    if (series.some((one) => seriesText(one) === seriesText(wanted))) {
      return `${name} is in the chart already.`
    }
    if (series.length >= LINES_MAX) {
      return `A chart has at most ${LINES_MAX} series: remove one first.`
    }
    const { items } = await rest.get(`${sensorPath(sensor)}/latest`, signal)
    const names = items.map((/** @type {{ metric: string }} */ one) => one.metric)
    const found = items.find((/** @type {{ metric: string }} */ one) => one.metric === metric)
    if (!found) return `${sensor} has no ${metric}, but ${names.join(', ') || 'nothing'}.`
    const [first] = series
    const only = series.length === 1 ? await readLatest(this.#context, first) : undefined
    const isFirstAlone = only !== undefined && !isLine(only.v)
    if (isFirstAlone || (first && !isLine(found.v))) {
      const alone = isFirstAlone ? printOne(first) : name
      return `${alone} is not a number: it has a chart of its own. Remove what is here first.`
    }
    if (!signal.aborted) this.#go([...series, wanted])
    return ''
  }

  /** @param {URLSearchParams} query */
  show(query) {
    const before = this.#series.map(seriesText).join()
    this.#query = query
    if (this.#series.map(seriesText).join() !== before) this.#newestMs = undefined
    const { signal, report } = this.#context
    if (this.#isRunning) this.#attempt(() => this.#load())
    else
      void repeat(
        () => this.#again(),
        () => refreshMs(this.#range()),
        signal,
        report,
      )
    this.#isRunning = true
  }

  /** What ends now goes with the time; what does not is asked for once. */
  async #again() {
    const isDone = this.#asked > 0 && this.#range().span === undefined
    if (!isDone) await this.#load()
  }

  async #load() {
    const asked = ++this.#asked
    const { signal } = this.#context
    const isWanted = () => asked === this.#asked && !signal.aborted
    const series = this.#series
    part(this.element, 'chart-section').hidden = series.length === 0
    part(this.element, 'hint').hidden = series.length > 0
    if (series.length === 0) return
    if (!isChosen(this.#query) && this.#newestMs === undefined) {
      const newestMs = await this.#newest(series)
      if (!isWanted()) return
      this.#newestMs = newestMs
    }
    const range = this.#range()
    this.#controls.show(range)
    await this.#chart.show(series, range, isWanted)
    setText(part(this.element, 'note'), '')
  }

  /** @param {readonly Series[]} series */
  async #newest(series) {
    const { rest, signal } = this.#context
    const names = [...new Set(series.map(({ sensor }) => sensor))]
    const latest = await Promise.all(
      names.map((name) => rest.get(`${sensorPath(name)}/latest`, signal)),
    )
    const times = series.flatMap(({ sensor, metric }) =>
      latest[names.indexOf(sensor)].items
        .filter((/** @type {{ metric: string }} */ one) => one.metric === metric)
        .map((/** @type {{ t: number }} */ { t }) => t),
    )
    return times.length > 0 ? Math.max(...times) : undefined
  }
}

/** @param {URLSearchParams} query */
function seriesOf(query) {
  return query.getAll('series').flatMap(parseSeries).slice(0, LINES_MAX)
}

/** @param {Series} series */
function printOne({ sensor, metric }) {
  return `${metric} of ${sensor}`
}

/** @param {readonly string[]} values */
function options(values) {
  return values.map((value) => element('option', { value }))
}
