/**
 * Alerts: what rules found, newest first; somebody takes care of one, or lets it be silent for a
 * while. What fires now is looked at again and again.
 */

import { element, fromTemplate, keepRoles, link, part, setText } from './dom.js'
import { printDuration, printMany, printMoment } from './format.js'
import { ReceiversList } from './receivers-list.js'
import { attempts, repeat } from './repeat.js'
import { routeHash, sensorKey } from './route.js'
import { RulesList } from './rules-list.js'
import { fillForm, listenToForm } from './sensor-filter.js'

/** Alerts of a page. */
const PAGE = 50

/** How often it is asked what fires now, in milliseconds. */
const PAUSE_MS = 5_000

const HOUR_MS = 3_600_000

/** How long an alert can be silenced from here. */
const SILENCES_MS = [HOUR_MS, 8 * HOUR_MS, 24 * HOUR_MS]

/**
 * @typedef {object} Alert
 * @property {string} id
 * @property {'firing' | 'resolved'} state
 * @property {{ name: string, severity: string }} rule
 * @property {{ id: string, name: string }} sensor
 * @property {string | null} metric
 * @property {string} text
 * @property {number} fired
 * @property {number | null} resolved
 * @property {string | null} why
 * @property {number | null} acknowledged
 * @property {string | null} by
 * @property {string | null} note
 * @property {number | null} silenced  Until when nobody is told.
 * @property {{ state: string, error: string | null }[]} told
 */

export class AlertsView {
  element = fromTemplate('alerts')
  #context
  #attempt
  #query = new URLSearchParams()
  #asked = 0
  /** What is shown, so that nothing is drawn again that is the same. */
  #shown = ''

  /** @param {import('./page.js').Context} context */
  constructor(context) {
    this.#context = context
    this.#attempt = attempts(context, part(this.element, 'note'))
    const { replace, signal, report } = context
    const rules = new RulesList(context, this.element)
    const receivers = fromTemplate('receivers')
    this.element.append(receivers)
    new ReceiversList(context, receivers, () => rules.load()).load()
    rules.load()
    listenToForm(this.#form, (values) => replace(routeHash('alerts', values)), signal)
    void repeat(
      async () => {
        if (!this.#query.has('cursor')) await this.#load()
      },
      () => PAUSE_MS,
      signal,
      report,
    )
  }

  get #form() {
    return /** @type {HTMLFormElement} */ (part(this.element, 'filters'))
  }

  /** @param {URLSearchParams} query */
  show(query) {
    this.#query = query
    fillForm(this.#form, query)
    this.#attempt(() => this.#load())
  }

  async #load() {
    const asked = ++this.#asked
    const { rest, signal } = this.#context
    const { cursor = '', state = '', sensor = '', open = '' } = Object.fromEntries(this.#query)
    const parameters = new URLSearchParams({ limit: String(PAGE) })
    if (state !== 'all') parameters.set('state', state === '' ? 'firing' : state)
    if (sensor !== '') parameters.set('sensor', sensor)
    if (open !== '') parameters.set('acknowledged', 'false')
    if (cursor !== '') parameters.set('cursor', cursor)
    const { items, next } = await rest.get(`v1/alerts?${parameters}`, signal)
    if (asked !== this.#asked || signal.aborted) return
    const isFiltered = sensor !== '' || open !== ''
    const none = state === '' && !isFiltered ? 'All is well: no alert is firing.' : 'None.'
    const some = printMany(items.length, 'alert')
    const more = next ? '; older ones follow' : ''
    setText(part(this.element, 'note'), items.length > 0 || next ? `${some}${more}.` : none)
    link(part(this.element, 'first'), cursor && routeHash('alerts', { state, sensor, open }))
    link(
      part(this.element, 'next'),
      next && routeHash('alerts', { state, sensor, open, cursor: next }),
    )
    this.#render(items)
  }

  /** @param {Alert[]} alerts */
  #render(alerts) {
    const shown = JSON.stringify(alerts)
    if (shown === this.#shown) return
    this.#shown = shown
    part(this.element, 'rows').replaceChildren(...alerts.map((alert) => this.#row(alert)))
    part(this.element, 'table').hidden = alerts.length === 0
    keepRoles(this.element)
  }

  /** @param {Alert} alert */
  #row(alert) {
    const { state, rule, sensor, metric, text, fired, resolved, told } = alert
    const key = sensorKey(sensor.name, sensor.id)
    const href = routeHash('sensors', { metric: metric ?? '' }, key)
    const isFiring = state === 'firing'
    const failures = told.filter(({ state: how }) => how !== 'delivered')
    return element(
      'tr',
      {},
      cell(
        element(
          'span',
          { class: 'pill', 'data-state': isFiring ? 'bad' : 'good' },
          isFiring ? rule.severity : 'Ended',
        ),
      ),
      cell(
        element('strong', {}, text),
        element('p', { class: 'note' }, rule.name),
        ...failures.map(({ error }) =>
          element('p', { class: 'note wrong' }, `A receiver was not told: ${error ?? 'unknown'}`),
        ),
      ),
      cell(element('a', { href }, sensor.name)),
      cell(
        printMoment(fired),
        element('p', { class: 'note' }, resolved === null ? '' : endOf(alert, resolved)),
      ),
      cell(element('div', { class: 'buttons' }, ...this.#actions(alert, isFiring))),
    )
  }

  /** @param {Alert} alert  @param {boolean} isFiring */
  #actions(alert, isFiring) {
    const care = alert.acknowledged === null ? this.#acknowledge(alert) : careOf(alert)
    if (!isFiring) return [care]
    if (alert.silenced === null) return [care, this.#silence(alert)]
    return [care, ...this.#silenced(alert)]
  }

  /** @param {Alert} alert */
  #acknowledge({ id, text }) {
    const label = `Acknowledge: ${text}`
    const button = element('button', { type: 'button', 'aria-label': label }, 'Acknowledge')
    button.addEventListener('click', () => this.#send(id, 'acknowledge', {}))
    return button
  }

  /** @param {Alert} alert */
  #silence({ id, text }) {
    const silence = element(
      'select',
      { 'aria-label': `Tell nobody of this: ${text}` },
      element('option', { value: '' }, 'Silence…'),
      ...SILENCES_MS.map((ms) => element('option', { value: ms }, `for ${printDuration(ms)}`)),
    )
    silence.addEventListener('change', () => {
      const until = Date.now() + Number(silence.value)
      this.#send(id, 'silence', { until }, `Nobody is told of it until ${printMoment(until)}.`)
    })
    return silence
  }

  /** @param {Alert} alert */
  #silenced({ id, text, silenced }) {
    const label = `Tell again of this: ${text}`
    const button = element('button', { type: 'button', 'aria-label': label }, 'Tell again')
    button.addEventListener('click', () =>
      this.#send(id, 'silence', { until: null }, 'Receivers are told of it again.'),
    )
    const until = `Silenced until ${printMoment(Number(silenced))}.`
    return [element('p', { class: 'note right' }, until), button]
  }

  /**
   * @param {string} id
   * @param {'acknowledge' | 'silence'} action
   * @param {Record<string, unknown>} body
   * @param {string} [outcome]  What is said when it is done.
   */
  #send(id, action, body, outcome = '') {
    const { rest, signal } = this.#context
    this.#attempt(async () => {
      await rest.send('POST', `v1/alerts/${id}/${action}`, body, signal)
      setText(part(this.element, 'outcome'), outcome)
      await this.#load()
    })
  }
}

/** Who takes care of it. @param {Alert} alert */
function careOf({ acknowledged, by, note }) {
  const who = by === null ? 'Acknowledged' : `${by} takes care of it`
  const said = note === null ? '' : `: ${note}`
  return element(
    'p',
    { class: 'note right' },
    `${who}, ${printMoment(Number(acknowledged))}${said}`,
  )
}

/** @param {Alert} alert  @param {number} resolvedMs */
function endOf({ fired, why }, resolvedMs) {
  const after = `Ended after ${printDuration(resolvedMs - fired)}`
  return why === null || why === 'values' ? `${after}.` : `${after}: ${why}.`
}

/** @param {...(Node | string)} children */
function cell(...children) {
  return element('td', {}, ...children)
}
