/**
 * The fleet: sensors by name, page by page, each with its newest values and how old they are.
 *
 * A page is two requests, whatever the number of sensors, and they are all that is repeated. Rows
 * are kept and only what is another text is set, so that nothing jumps and focus stays.
 */

import { element, fromTemplate, keepRoles, link, part, setText } from './dom.js'
import { printAge, printMany, printValue } from './format.js'
import { attempt, repeat } from './repeat.js'
import { routeHash, sensorKey } from './route.js'
import { fillForm, listenToForm, sensorQuery } from './sensor-filter.js'
import { SensorNew } from './sensor-new.js'

/** Sensors of a page. */
const PAGE = 100

const REFRESH_MS = 3_000

/** A sensor that was not heard of for so long is stale, if nothing else is chosen. */
const STALE_S = 600

/** A list that was read so long ago says so. */
const OLD_MS = 10_000

/** Values of one sensor that its row shows; of more, how many there are. */
const VALUES_MAX = 6

/** Types and tags that are proposed while one is typed. */
const PROPOSALS_MAX = 200

/** What the list of sensors is asked for, by the order that is chosen. */
const ORDERS = new Map(
  /** @type {[string, Record<string, string>][]} */ ([
    ['type', { sort: 'type' }],
    ['newest', { sort: 'heard', order: 'desc' }],
    ['quiet', { sort: 'heard' }],
  ]),
)

/** @typedef {{ id: string, name: string, type: string | null, unit: string | null,
 *   tags: Record<string, string> }} Sensor */
/** @typedef {import('./format.js').Known} Known */
/** @typedef {Known & { id: string, metric: string, t: number, v: unknown }} Latest */

export class FleetView {
  element = fromTemplate('fleet')
  /** @type {Map<string, SensorRow>} */
  #rows = new Map()
  #query = new URLSearchParams()
  #context
  /** Counts what was asked for, so that a late answer to something else is dropped. */
  #asked = 0
  #isRunning = false
  #types = new Proposals(part(this.element, 'types'))
  #tags = new Proposals(part(this.element, 'tags'))

  /** @param {import('./page.js').Context} context */
  constructor(context) {
    this.#context = context
    listenToForm(
      part(this.element, 'filters'),
      (values) => context.replace(routeHash('fleet', values)),
      context.signal,
    )
    const register = new SensorNew(context, this.element, ({ name, id }) => {
      location.hash = routeHash('sensors', {}, sensorKey(name, id))
    })
    part(this.element, 'register').addEventListener('click', () => register.open())
  }

  /** @param {URLSearchParams} query */
  show(query) {
    this.#query = query
    fillForm(part(this.element, 'filters'), query)
    const { signal } = this.#context
    const refresh = () => this.#refresh()
    const fail = (/** @type {import('./rest.js').RestError} */ error) => this.#fail(error)
    if (this.#isRunning) void attempt(refresh, signal, fail)
    else void repeat(refresh, () => REFRESH_MS, signal, fail)
    this.#isRunning = true
  }

  /** @param {import('./rest.js').RestError} error */
  #fail(error) {
    this.#context.report(error)
    setText(part(this.element, 'note'), error.message)
  }

  async #refresh() {
    const asked = ++this.#asked
    const { rest, signal } = this.#context
    const cursor = this.#query.get('cursor')
    const query = sensorQuery(this.#query, {
      limit: `${PAGE}`,
      ...ORDERS.get(this.#query.get('sort') ?? ''),
      ...(this.#query.has('only') && { silent_s: `${this.#staleS}` }),
      ...(cursor && { cursor }),
    })
    const [sensors, latest] = await Promise.all([
      rest.get(`v1/sensors?${query}`, signal),
      rest.get(`v1/latest?${query}`, signal),
    ])
    if (asked !== this.#asked || signal.aborted) return
    /** @type {Map<string, Latest[]>} */
    const values = new Map()
    for (const item of /** @type {Latest[]} */ (latest.items)) {
      const list = values.get(item.id)
      if (list) list.push(item)
      else values.set(item.id, [item])
    }
    this.#render(sensors.items, values)
    this.#renderPages(sensors)
  }

  /** @param {Sensor[]} sensors  @param {Map<string, Latest[]>} values */
  #render(sensors, values) {
    const nowMs = Date.now()
    const staleMs = this.#staleS * 1_000
    const body = part(this.element, 'rows')
    /** @type {Map<string, SensorRow>} */
    const rows = new Map()
    for (const sensor of sensors) {
      const row = this.#rows.get(sensor.id) ?? new SensorRow(sensor)
      row.show(sensor, values.get(sensor.id) ?? [], { nowMs, staleMs })
      rows.set(sensor.id, row)
      if (sensor.type) this.#types.add(sensor.type)
      for (const [key, value] of Object.entries(sensor.tags)) this.#tags.add(`${key}:${value}`)
    }
    this.#rows = rows
    const elements = [...rows.values()].map(({ element }) => element)
    const isSame =
      body.children.length === elements.length &&
      elements.every((one, index) => one === body.children[index])
    if (isSame) return
    body.replaceChildren(...elements)
    keepRoles(this.element)
  }

  get #staleS() {
    return Number(this.#query.get('stale')) || STALE_S
  }

  /** @param {{ items: Sensor[], next: string | null, total: number, as_of: number }} page */
  #renderPages({ items: sensors, next, total, as_of: readMs }) {
    const { cursor, ...filter } = Object.fromEntries(this.#query)
    const isFiltered = ['q', 'type', 'tag', 'only'].some((name) => filter[name])
    const isEmpty = sensors.length === 0
    part(this.element, 'table').hidden = isEmpty
    part(this.element, 'hint').hidden = !isEmpty || isFiltered || cursor !== undefined
    const some = printMany(total, 'sensor')
    const all = isFiltered ? `${some} found` : some
    const span = `${all}; these are ${sensors[0]?.name} to ${sensors.at(-1)?.name}`
    const none = isFiltered ? 'No sensor is like that.' : 'There is no sensor yet.'
    const shown = isEmpty ? none : cursor || next ? span : all
    const oldMs = Date.now() - readMs
    const old = oldMs > OLD_MS ? ` The list is as it was ${printAge(oldMs)}.` : ''
    setText(part(this.element, 'note'), old && !isEmpty ? `${shown}.${old}` : `${shown}${old}`)
    link(part(this.element, 'first'), cursor && routeHash('fleet', filter))
    link(part(this.element, 'next'), next && routeHash('fleet', { ...filter, cursor: next }))
  }
}

/** One sensor of the table. */
class SensorRow {
  #values = element('td', { class: 'values' })
  #about = element('td', { class: 'soft' })
  #age = element('span')
  #stale = element('strong', { class: 'badge', hidden: true }, 'stale')
  #shown = ''

  /** @param {Sensor} sensor */
  constructor({ id, name }) {
    const anchor = element('a', { href: routeHash('sensors', {}, sensorKey(name, id)) }, name)
    this.element = element(
      'tr',
      {},
      element('th', { scope: 'row' }, anchor),
      this.#values,
      this.#about,
      element('td', { class: 'age' }, this.#age, ' ', this.#stale),
    )
  }

  /**
   * @param {Sensor} sensor
   * @param {Latest[]} values
   * @param {{ nowMs: number, staleMs: number }} time
   */
  show({ type, tags }, values, { nowMs, staleMs }) {
    const words = Object.entries(tags).map(([key, value]) => `${key}:${value}`)
    setText(this.#about, [type, ...words].filter(Boolean).join(' · '))
    const newestMs = Math.max(...values.map(({ t }) => t))
    const isHeard = values.length > 0
    const isStale = isHeard && nowMs - newestMs > staleMs
    setText(this.#age, isHeard ? printAge(nowMs - newestMs) : 'never')
    this.#stale.hidden = !isStale
    const texts = values.slice(0, VALUES_MAX).map(({ metric, t, v, label, ...known }) => {
      // A value much older than its sensor's newest must not pass for a present one.
      const isOld = !isStale && nowMs - t > staleMs
      return [label ?? metric, printValue(v, known) + (isOld ? ` (${printAge(nowMs - t)})` : '')]
    })
    const rest = values.length - texts.length
    const shown = JSON.stringify([texts, rest])
    if (shown === this.#shown) return
    this.#shown = shown
    this.#values.replaceChildren(
      ...texts.map(([metric, text]) =>
        element('span', { class: 'value' }, element('span', { class: 'soft' }, metric), ` ${text}`),
      ),
      ...(rest > 0 ? [element('span', { class: 'soft' }, `and ${rest} more`)] : []),
    )
  }
}

/** Words that a field proposes: those that were seen, as many as are of use. */
class Proposals {
  /** @type {Set<string>} */
  #seen = new Set()
  #list

  /** @param {HTMLElement} list */
  constructor(list) {
    this.#list = list
  }

  /** @param {string} word */
  add(word) {
    if (this.#seen.has(word) || this.#seen.size >= PROPOSALS_MAX) return
    this.#seen.add(word)
    this.#list.append(element('option', { value: word }))
  }
}
