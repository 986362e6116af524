/**
 * What is measured now: values of all sensors, or of those that fit, as they are stored. What comes
 * is kept at once and shown a few times a second, so that a thousand values a second are no burden.
 */

import { element, fromTemplate, keepRoles, part, setText } from './dom.js'
import { listen, Seen } from './events.js'
import { printMany, printMoment, printRate, printValue } from './format.js'
import { LiveCard } from './live-card.js'
import { LivePicker } from './live-picker.js'
import { Rate } from './rate.js'
import { attempt, repeat } from './repeat.js'
import { parseJson, RestError, sensorPath } from './rest.js'
import { routeHash } from './route.js'
import { fillForm, listenToForm, sensorQuery } from './sensor-filter.js'

/** Sensors of one stream: the most that the api allows. */
const STREAM_SENSORS = 32

/** Streams at once: a browser has six connections to a host, and other requests need some. */
const STREAMS_MAX = 3

const SENSORS_MAX = STREAM_SENSORS * STREAMS_MAX

/** What is listened to where more sensors fit than can be heard, and none is chosen. */
const TOO_MANY = 'nothing'

/** How often sensors that are new are looked for, in milliseconds. */
const LOOK_MS = 5_000

const DRAW_MS = 250

/** Most charts; of more series the first have one. */
const CARDS_MAX = 12

/** Most lines of the newest values. */
const ROWS_MAX = 60

/** @typedef {{ sensor: string, metric: string, t: number, seq: number, v: unknown }} Item */
/** @typedef {import('./format.js').Known} Known */

export class LiveView {
  element = fromTemplate('live')
  #context
  #query = new URLSearchParams()
  /** @type {AbortController | undefined} */
  #streams
  /** The sensors and metrics that are listened to. */
  #listening = ''
  #rate = new Rate(performance.now())
  #isPaused = false
  /** Values that came while it was paused. */
  #missed = 0
  #seen = new Seen()
  /** What is not shown yet, newest first. @type {Item[]} */
  #news = []
  /** @type {Map<string, LiveCard>} */
  #cards = new Map()
  /** What the values of metrics mean, by sensor. @type {Map<string, Map<string, Known>>} */
  #known = new Map()
  /** Of how many sensors that is being asked. */
  #asking = 0
  #isRunning = false
  #picker

  /** @param {import('./page.js').Context} context */
  constructor(context) {
    this.#context = context
    this.#picker = new LivePicker(this.element, (name, isChosen) => this.#pick(name, isChosen))
    part(this.element, 'picker').addEventListener('toggle', () => {
      if (this.#isRunning && this.#picker.isOpen) this.#chooseNow()
    })
    const { signal, replace } = context
    listenToForm(
      /** @type {HTMLFormElement} */ (part(this.element, 'filters')),
      (values) => replace(routeHash('live', { ...values, sensor: this.#query.getAll('sensor') })),
      signal,
    )
    part(this.element, 'pause').addEventListener('click', () => this.#pause(!this.#isPaused))
    const timer = setInterval(() => this.#draw(), DRAW_MS)
    const resizing = new ResizeObserver(() => this.#each((card) => card.resize()))
    resizing.observe(part(this.element, 'cards'))
    const dark = matchMedia('(prefers-color-scheme: dark)')
    dark.addEventListener('change', () => this.#each((card) => card.recolor()), { signal })
    signal.addEventListener('abort', () => {
      clearInterval(timer)
      resizing.disconnect()
      this.#forget()
    })
  }

  /** @param {(card: LiveCard) => void} action */
  #each(action) {
    for (const card of this.#cards.values()) action(card)
  }

  /** @param {URLSearchParams} query */
  show(query) {
    this.#query = query
    fillForm(/** @type {HTMLFormElement} */ (part(this.element, 'filters')), query)
    this.#showChosen(query.getAll('sensor'))
    const { signal } = this.#context
    const fail = (/** @type {import('./rest.js').RestError} */ error) => this.#fail(error)
    if (this.#isRunning) this.#chooseNow()
    else
      void repeat(
        () => this.#choose(),
        () => LOOK_MS,
        signal,
        fail,
      )
    this.#isRunning = true
  }

  #chooseNow() {
    void attempt(
      () => this.#choose(),
      this.#context.signal,
      (error) => this.#fail(error),
    )
  }

  /** Hears one more sensor, or one less. @param {string} name  @param {boolean} isChosen */
  #pick(name, isChosen) {
    const others = this.#query.getAll('sensor').filter((other) => other !== name)
    if (isChosen && others.length >= SENSORS_MAX) {
      setText(
        part(this.element, 'note'),
        `No more than ${SENSORS_MAX} sensors can be heard at once: leave one out first.`,
      )
      this.#chooseNow()
      return
    }
    const query = Object.fromEntries(this.#query)
    this.#context.replace(
      routeHash('live', { ...query, sensor: isChosen ? [...others, name] : others }),
    )
  }

  /** @param {import('./rest.js').RestError} error */
  #fail(error) {
    this.#context.report(error)
    setText(part(this.element, 'note'), error.message)
  }

  /** @param {string[]} names */
  #showChosen(names) {
    const list = part(this.element, 'chosen')
    list.hidden = names.length === 0
    list.replaceChildren(
      ...names.map((name) => {
        const query = Object.fromEntries(this.#query)
        const others = names.filter((other) => other !== name)
        const href = routeHash('live', { ...query, sensor: others })
        return element(
          'li',
          {},
          element('a', { class: 'chip', href, 'aria-label': `Leave out ${name}` }, `${name} ×`),
        )
      }),
    )
  }

  /** Listens to the sensors that are wanted now, unless it does already. */
  async #choose() {
    const query = this.#query
    const { rest, signal } = this.#context
    const chosen = query.getAll('sensor').slice(0, SENSORS_MAX)
    /** @type {string[]} */
    let fitting = []
    let hasMore = false
    if (chosen.length === 0 || this.#picker.isOpen) {
      const asked = sensorQuery(query, { limit: `${SENSORS_MAX}` })
      const answer = await rest.get(`v1/sensors?${asked}`, signal)
      if (query !== this.#query || signal.aborted) return
      fitting = answer.items.map((/** @type {{ name: string }} */ { name }) => name)
      hasMore = answer.next !== null
      this.#picker.show(fitting, hasMore, new Set(chosen))
    }
    // The first by name are no better than others: of too many somebody has to choose.
    const isTooMany = chosen.length === 0 && hasMore
    if (isTooMany && this.#listening !== TOO_MANY) this.#picker.open()
    const names = chosen.length > 0 ? chosen : isTooMany ? [] : fitting
    const metric = query.get('metric') ?? ''
    const listening = isTooMany ? TOO_MANY : JSON.stringify([names, metric])
    if (listening === this.#listening) return
    this.#forget()
    this.#listening = listening
    const some = printMany(names.length, 'sensor')
    const none = isTooMany
      ? `More than ${SENSORS_MAX} sensors fit: choose those to hear, or filter them.`
      : 'No sensor is like that.'
    this.#listen(names, metric, names.length === 0 ? none : `Listening to ${some}.`)
  }

  /** Lets go of what was listened to, and of what was heard. */
  #forget() {
    this.#streams?.abort()
    this.#each((card) => card.destroy())
    this.#cards.clear()
    this.#known.clear()
    this.#news = []
    this.#seen = new Seen()
    this.#rate = new Rate(performance.now())
    part(this.element, 'cards').replaceChildren()
    part(this.element, 'rows').replaceChildren()
  }

  /** @param {string[]} names  @param {string} metric  @param {string} text  Once it is open. */
  #listen(names, metric, text) {
    const { rest, signal } = this.#context
    this.#streams = new AbortController()
    const both = AbortSignal.any([signal, this.#streams.signal])
    const note = part(this.element, 'note')
    setText(note, names.length === 0 ? text : 'Connecting…')
    const listener = {
      onEvent: (/** @type {import('./events.js').ServerEvent} */ { event, data }) => {
        if (event === 'measurements') for (const item of parseJson(data)) this.#hear(item)
      },
      onOpen: () => setText(note, text),
      onError: (/** @type {import('./rest.js').RestError} */ error) => {
        // A stream that breaks says little of the api, which is looked at anyway.
        if (error.status === 0) setText(note, error.message)
        else this.#fail(error)
      },
    }
    for (let at = 0; at < names.length; at += STREAM_SENSORS) {
      const asked = new URLSearchParams()
      for (const name of names.slice(at, at + STREAM_SENSORS)) asked.append('sensor', name)
      if (metric) asked.append('metric', metric)
      void listen(rest, `v1/stream?${asked}`, listener, both)
    }
  }

  /** @param {Item} item */
  #hear(item) {
    if (!this.#seen.add(item)) return
    this.#rate.note(performance.now())
    if (this.#isPaused) this.#missed += 1
    this.#news.unshift(item)
    if (this.#news.length > ROWS_MAX) this.#news.pop()
    if (!this.#known.has(item.sensor)) void this.#learn(item.sensor)
    this.#card(item)?.add(item)
  }

  /** @param {Item} item */
  #card({ sensor, metric }) {
    const key = `${sensor}\n${metric}`
    let card = this.#cards.get(key)
    if (!card && this.#cards.size < CARDS_MAX) {
      card = new LiveCard(sensor, metric)
      this.#cards.set(key, card)
      card.tell(this.#known.get(sensor)?.get(metric) ?? {})
      const after = [...this.#cards.keys()].sort().find((other) => other > key)
      const next = after === undefined ? null : this.#cards.get(after)?.element
      part(this.element, 'cards').insertBefore(card.element, next ?? null)
    }
    return card
  }

  /** What its values mean; without an answer they are shown as they are. @param {string} sensor */
  async #learn(sensor) {
    const { rest, signal } = this.#context
    const metrics = new Map()
    this.#known.set(sensor, metrics)
    this.#asking += 1
    try {
      const { items } = await rest.get(`${sensorPath(sensor)}/latest`, signal)
      for (const item of items) {
        metrics.set(item.metric, item)
        this.#cards.get(`${sensor}\n${item.metric}`)?.tell(item)
      }
    } catch (error) {
      if (!(error instanceof RestError)) throw error
    } finally {
      this.#asking -= 1
    }
  }

  /** @param {boolean} isPaused */
  #pause(isPaused) {
    this.#isPaused = isPaused
    this.#missed = 0
    setText(part(this.element, 'pause'), isPaused ? 'Resume' : 'Pause')
    this.#draw()
  }

  #draw() {
    if (document.hidden) return
    setText(part(this.element, 'rate'), printRate(this.#rate.perS(performance.now())))
    const paused = `Paused; ${printMany(this.#missed, 'value')} came meanwhile.`
    setText(part(this.element, 'missed'), this.#isPaused ? paused : '')
    if (this.#isPaused) return
    const nowMs = Date.now()
    this.#each((card) => card.draw(nowMs))
    this.#showNews()
  }

  /** Lines that stay are not made again, with their unit or not: the focus may be on one. */
  #showNews() {
    if (this.#news.length === 0 || this.#asking > 0) return
    const rows = part(this.element, 'rows')
    rows.prepend(
      ...this.#news.map(({ sensor, metric, t, v }) => {
        const href = routeHash('sensors', { metric }, sensor)
        const known = this.#known.get(sensor)?.get(metric)
        const cells = [element('a', { href }, sensor), metric, printValue(v, known), printMoment(t)]
        return element('tr', {}, ...cells.map((cell) => element('td', {}, cell)))
      }),
    )
    this.#news = []
    while (rows.children.length > ROWS_MAX) rows.lastElementChild?.remove()
    keepRoles(this.element)
  }
}
