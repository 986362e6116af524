/**
 * A sensor: its newest values, one metric of it over a range of time, and the measurements
 * themselves. Metric, range and page are in the address; a range that ends now goes with the time.
 */

import { element, fromTemplate, part, setText } from './dom.js'
import {
  isUnexpected,
  printAge,
  printDuration,
  printMetric,
  printMoment,
  printValue,
} from './format.js'
import { MetricEdit } from './metric-edit.js'
import { localField, moveRange, rangeQuery, readRange, refreshMs, SPANS } from './range.js'
import { RangeChart } from './range-chart.js'
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

/** Windows of a chart; more than its pixels tell nothing. */
const POINTS = 800

/** Links that move the range: how, and by how much. */
const MOVES = [
  { text: '← Earlier', change: { by: -0.5 } },
  { text: 'Zoom in', change: { factor: 0.5 } },
  { text: 'Zoom out', change: { factor: 2 } },
  { text: 'Later →', change: { by: 0.5 } },
]

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
    const goTo = (/** @type {{ fromMs: number, toMs: number }} */ range) => {
      location.hash = this.#hash(rangeQuery({ span: undefined, ...range }))
    }
    this.#chart = new RangeChart(part(root, 'chart'), part(root, 'readout'), goTo, context.signal)
    part(root, 'custom').addEventListener('submit', (event) => {
      event.preventDefault()
      const form = new FormData(/** @type {HTMLFormElement} */ (event.target))
      const [fromMs, toMs] = ['from', 'to'].map((field) => Date.parse(String(form.get(field))))
      if (fromMs < toMs) goTo({ fromMs, toMs })
      else setText(part(root, 'chart-note'), 'From must be before to.')
    })
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
      const isWanted = this.#range().span !== undefined || !this.#isShown
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

  /** What is known of the metric that is shown. @returns {import('./format.js').Known} */
  get #known() {
    return this.#latest.find(({ metric }) => metric === this.#metric) ?? {}
  }

  /** @param {import('./rest.js').RestError} error */
  #fail(error) {
    this.#context.report(error)
    setText(part(this.element, 'note'), error.message)
  }

  #range() {
    return readRange(this.#query, Date.now())
  }

  /** The metric that is shown: the one asked for, or else the first with a number. */
  get #metric() {
    const first = this.#latest.find(({ v }) => typeof v === 'number') ?? this.#latest[0]
    return this.#query.get('metric') ?? first?.metric ?? ''
  }

  /** @param {Record<string, string | undefined>} change  The address here, but for this. */
  #hash(change) {
    const range = 'range' in change || 'from' in change ? {} : rangeQuery(this.#range())
    return routeHash('sensors', { metric: this.#metric, ...range, ...change }, this.#name)
  }

  /** @param {import('./sensor-edit.js').About} about */
  #showAbout(about) {
    this.#about = about
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
    this.#showRanges(this.#range())
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
    showExports(this.element, question)
    const hashOf = (/** @type {string | undefined} */ rows) => this.#hash({ rows })
    await Promise.all([
      this.#showSeries(question, isWanted),
      showRows(this.#context, this.element, { question, hashOf, isWanted }),
    ])
    if (isWanted()) this.#isShown = true
  }

  /** @param {import('./range.js').Range} range */
  #showRanges(range) {
    const { element: root } = this
    part(root, 'ranges').replaceChildren(
      ...[...SPANS].map(([span, { text }]) =>
        element(
          'a',
          {
            href: this.#hash({ range: span }),
            'aria-current': span === range.span ? 'true' : undefined,
          },
          text,
        ),
      ),
    )
    const form = /** @type {HTMLFormElement} */ (part(root, 'custom'))
    if (!form.contains(document.activeElement)) {
      for (const [name, timeMs] of [
        ['from', range.fromMs],
        ['to', range.toMs],
      ]) {
        const field = /** @type {HTMLInputElement} */ (form.elements.namedItem(String(name)))
        field.value = localField(Number(timeMs))
      }
    }
    part(root, 'moves').replaceChildren(
      ...MOVES.map(({ text, change }) =>
        element(
          'a',
          { class: 'button', href: this.#hash(rangeQuery(moveRange(range, change))) },
          text,
        ),
      ),
    )
  }

  /** @param {import('./sensor-rows.js').Question} question  @param {() => boolean} isWanted */
  async #showSeries({ sensor, known, metric, range: { fromMs, toMs } }, isWanted) {
    const { rest, signal } = this.#context
    const query = new URLSearchParams({
      metric,
      from: `${fromMs}`,
      to: `${toMs}`,
      points: `${POINTS}`,
      agg: 'avg,min,max',
    })
    const answer = await rest.get(`${sensorPath(sensor)}/series?${query}`, signal)
    if (!isWanted()) return
    const { items, step, resolution } = answer
    const read = resolution === 'raw' ? 'raw measurements' : `rollups of ${resolution}`
    const about =
      items.length === 0
        ? 'No numbers in this time.'
        : `${items.length} windows of ${printDuration(step)}, from ${read}.`
    setText(part(this.element, 'chart-note'), about)
    const label = `Chart of ${printMetric(metric, known)}. ${summary(items, known)} Arrow keys read it.`
    this.#chart.draw({ label, known, fromMs, toMs, stepMs: step, items })
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

/** @param {{ min: number, max: number }[]} items  @param {import('./format.js').Known} known */
function summary(items, known) {
  if (items.length === 0) return 'It is empty.'
  const lowest = Math.min(...items.map(({ min }) => min))
  const highest = Math.max(...items.map(({ max }) => max))
  return `From ${printValue(lowest, known)} to ${printValue(highest, known)}.`
}
