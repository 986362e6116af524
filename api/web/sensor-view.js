/**
 * A sensor: its newest values, one metric of it over a range of time, and the measurements
 * themselves. Metric, range and page are in the address; a range that ends now goes with the time.
 */

import { isLine } from './any-chart.js'
import { element, fromTemplate, part, setText } from './dom.js'
import { isUnexpected, printAge, printMetric, printMoment, printValue } from './format.js'
import { kindOf, MetricChart } from './metric-chart.js'
import { MetricEdit } from './metric-edit.js'
import { isChosen, openingRange, rangeQuery, refreshMs } from './range.js'
import { RangeControls } from './range-controls.js'
import { attempt, repeat } from './repeat.js'
import { sensorPath } from './rest.js'
import { isUnderWay, printKept } from './retention.js'
import { routeHash } from './route.js'
import { SensorDelete } from './sensor-delete.js'
import { SensorEdit } from './sensor-edit.js'
import { listenToExports, showExports, showRows } from './sensor-rows.js'

const LATEST_MS = 2_000
const CONNECTION_MS = 5_000

/** What the state of a device's connection is, before the time since when it is so. */
const CONNECTIONS = new Map([
  ['online', 'Connected since'],
  ['offline', 'Disconnected since'],
  ['lost', 'Connection lost since'],
  ['unknown', 'Connection state unknown since'],
])

/** @typedef {import('./format.js').Known & { metric: string, t: number, v: unknown }} Latest */

export class SensorView {
  element = fromTemplate('sensor')
  #context
  #name
  /** @type {import('./sensor-edit.js').About | undefined} */
  #about
  /** @type {Latest[]} */
  #latest = []
  #query = new URLSearchParams()
  #chart
  #controls
  /** Counts what was asked for, so that a late answer to something else is dropped. */
  #asked = 0
  /** The range that was asked for last has been shown. */
  #isShown = false

  /** @param {import('./page.js').Context} context  @param {string} name  Or id. */
  constructor(context, name) {
    this.#context = context
    this.#name = name
    const { element: root } = this
    setText(part(root, 'name'), name)
    part(root, 'live').setAttribute('href', routeHash('live', { sensor: name }))
    const edit = new SensorEdit(context, root, (about) => this.#showAbout(about))
    part(root, 'edit').addEventListener('click', () => this.#about && edit.open(this.#about))
    const removal = new SensorDelete(context, root, () => {
      location.hash = routeHash('fleet')
    })
    part(root, 'delete').addEventListener(
      'click',
      () => this.#about && removal.open(this.#about.name),
    )
    const meaning = new MetricEdit(context, root, () => this.#again())
    part(root, 'edit-metric').addEventListener('click', () => {
      const about = this.#about
      if (!about) return
      void attempt(
        () => meaning.open(about, this.#metric),
        context.signal,
        (error) => this.#fail(error),
      )
    })
    this.#controls = new RangeControls(root, (range) => this.#hash(range))
    this.#chart = new MetricChart(context, root, (range) => this.#controls.goTo(range))
    listenToExports(context, root, (error) => this.#fail(error))
    this.#watch()
  }

  #watch() {
    const { rest, signal } = this.#context
    const fail = (/** @type {import('./rest.js').RestError} */ error) => this.#fail(error)
    const latest = async () => {
      const path = sensorPath(this.#name)
      const known = this.#about && !isUnderWay(this.#about.rewrite) ? this.#about : undefined
      const [about, { items }] = await Promise.all([
        known ?? rest.get(path, signal),
        rest.get(`${path}/latest`, signal),
      ])
      if (!known) this.#showAbout(about)
      const isFirst = this.#latest.length === 0
      this.#showLatest(items)
      if (isFirst && items.length > 0) await this.#showMetric()
    }
    void repeat(latest, () => LATEST_MS, signal, fail)
    const connection = async () => {
      const { items } = await rest.get(`${sensorPath(this.#name)}/status?limit=1`, signal)
      const known = items.map((/** @type {{ state: string, t: number }} */ { state, t }) => {
        return `${CONNECTIONS.get(state) ?? state} ${printMoment(t)}`
      })
      setText(part(this.element, 'connection'), known.join(''))
    }
    void repeat(connection, () => CONNECTION_MS, signal, fail)
    const again = async () => {
      const goesOn = this.#range().span !== undefined || !isChosen(this.#query)
      const isWanted = goesOn || !this.#isShown
      if (isWanted && this.#latest.length > 0) await this.#showTime()
    }
    void repeat(again, () => refreshMs(this.#range()), signal, fail)
  }

  /** @param {URLSearchParams} query */
  show(query) {
    this.#query = query
    if (this.#latest.length === 0) return
    this.#showLatest(this.#latest)
    void attempt(
      () => this.#showMetric(),
      this.#context.signal,
      (error) => this.#fail(error),
    )
  }

  /** Shows at once what was changed. */
  #again() {
    const { rest, signal } = this.#context
    const again = async () => {
      const { items } = await rest.get(`${sensorPath(this.#name)}/latest`, signal)
      this.#showLatest(items)
      await this.#showMetric()
    }
    void attempt(again, signal, (error) => this.#fail(error))
  }

  /** What is known of the metric that is shown, and its newest value. */
  get #known() {
    /** @type {Partial<Latest>} */
    const none = {}
    return this.#latest.find(({ metric }) => metric === this.#metric) ?? none
  }

  /** @param {import('./rest.js').RestError} error */
  #fail(error) {
    this.#context.report(error)
    setText(part(this.element, 'note'), error.message)
  }

  #range() {
    return openingRange(this.#query, Date.now(), this.#known.t)
  }

  /** The metric that is shown: the one asked for, or else the first with a number. */
  get #metric() {
    const first = this.#latest.find(({ v }) => typeof v === 'number') ?? this.#latest[0]
    return this.#query.get('metric') ?? first?.metric ?? ''
  }

  /** @param {Record<string, string | undefined>} change  The address here, but for this. */
  #hash(change) {
    const isOther = 'range' in change || 'from' in change || !isChosen(this.#query)
    const range = isOther ? {} : rangeQuery(this.#range())
    return routeHash('sensors', { metric: this.#metric, ...range, ...change }, this.#name)
  }

  /** @param {import('./sensor-edit.js').About} about */
  #showAbout(about) {
    this.#about = about
    // Before it is known what the sensor is they would do nothing.
    for (const action of ['edit', 'delete', 'edit-metric']) {
      part(this.element, action).removeAttribute('disabled')
    }
    const { name, type, unit, tags } = about
    setText(part(this.element, 'name'), name)
    const words = Object.entries(tags).map(([key, value]) => `${key}:${value}`)
    const known = [type, unit && `in ${unit}`, ...words].filter(Boolean).join(' · ')
    setText(part(this.element, 'about'), known || 'No type, unit or tags are known.')
    setText(part(this.element, 'kept'), printKept(about, Date.now()))
    this.#showLatest(this.#latest)
  }

  /** @param {Latest[]} items */
  #showLatest(items) {
    this.#latest = items
    const list = part(this.element, 'metrics')
    const nowMs = Date.now()
    const tiles = items.map(({ metric, t, v, ...known }, index) => {
      const tile = /** @type {HTMLElement | undefined} */ (list.children[index])
      const isSame = tile?.dataset.metric === metric
      const made = isSame ? tile : newTile(metric)
      const isHere = metric === this.#metric
      const anchor = part(made, 'link')
      anchor.setAttribute('href', this.#hash({ metric }))
      if (isHere) anchor.setAttribute('aria-current', 'true')
      else anchor.removeAttribute('aria-current')
      setText(part(made, 'name'), known.label ?? metric)
      setText(part(made, 'value'), printValue(v, known))
      const odd = isUnexpected(v, known) ? ', outside the expected range' : ''
      setText(part(made, 'age'), printAge(nowMs - t) + odd)
      anchor.classList.toggle('odd', odd !== '')
      return made
    })
    const isSame = tiles.every((tile, index) => tile === list.children[index])
    if (!isSame || tiles.length !== list.children.length) list.replaceChildren(...tiles)
    setText(part(this.element, 'note'), items.length > 0 ? '' : 'It has not sent anything yet.')
  }

  async #showMetric() {
    this.#isShown = false
    const metric = this.#metric
    const { element: root } = this
    part(root, 'chart-section').hidden = false
    part(root, 'rows-section').hidden = false
    setText(part(root, 'metric'), printMetric(metric, this.#known))
    const compared = { series: `${this.#about?.name ?? this.#name}/${metric}` }
    const query = { ...compared, ...rangeQuery(this.#range()) }
    const isLines = isLine(this.#known.v)
    setText(part(root, 'compare'), isLines ? 'Compare or save' : 'Save')
    part(root, 'compare').setAttribute('href', routeHash('charts', query))
    await this.#showTime()
  }

  /** Asks for what was measured in the range, as it is now. */
  async #showTime() {
    const asked = ++this.#asked
    const { signal } = this.#context
    const isWanted = () => asked === this.#asked && !signal.aborted
    const range = this.#range()
    const question = {
      sensor: this.#name,
      known: this.#known,
      metric: this.#metric,
      range,
      cursor: this.#query.get('rows'),
    }
    this.#controls.show(range)
    const isQuiet = range.span === undefined && !isChosen(this.#query)
    part(this.element, 'quiet').hidden = !isQuiet
    part(this.element, 'now').setAttribute('href', this.#hash({ range: '1h' }))
    showExports(this.element, question)
    const hashOf = (/** @type {string | undefined} */ rows) => this.#hash({ rows })
    await Promise.all([
      this.#chart.show(question, kindOf(this.#known.v), isWanted),
      showRows(this.#context, this.element, { question, hashOf, isWanted }),
    ])
    if (isWanted()) this.#isShown = true
  }
}

/** @param {string} metric */
function newTile(metric) {
  return element(
    'li',
    { 'data-metric': metric },
    element(
      'a',
      { 'data-part': 'link' },
      element('span', { class: 'soft', 'data-part': 'name' }, metric),
      element('strong', { 'data-part': 'value' }),
      element('small', { class: 'soft', 'data-part': 'age' }),
    ),
  )
}
