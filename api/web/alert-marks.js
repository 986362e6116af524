/** Alerts on a chart: from when to when a rule fired for a series, as bands and in words. */

import { element } from './dom.js'
import { printDuration, printMoment } from './format.js'
import { color } from './plot.js'
import { RestError } from './rest.js'
import { routeHash } from './route.js'

/** Alerts that are asked for at once, and how often for one chart. */
const PAGE = 1_000
const PAGES_MAX = 3

const DAY_MS = 86_400_000

/** Alerts that began longer before a time, in days, are looked for in it less often. */
const BEFORE_DAYS = 31

/** How often alerts of one sensor are asked for again, in milliseconds. */
const AGAIN_MS = 10_000
const EARLY_AGAIN_MS = 600_000

/** Alerts that are told one by one below a chart; of more, how many there are. */
const TOLD_MAX = 10

/** Narrowest band, in pixels: what fired for a moment is seen, too. */
const BAND_PX_MIN = 2

/** @typedef {import('./alerts-view.js').Alert} Alert */

/**
 * @typedef {object} Mark
 * @property {number} fromMs
 * @property {number | undefined} toMs  Undefined: it fires still.
 * @property {string} rule
 * @property {string} severity
 * @property {string} text  What was wrong.
 */

/**
 * The alerts of a metric, or of its sensor as a whole, that fired in a time, oldest first.
 *
 * @param {readonly Alert[]} alerts
 * @param {string} metric
 * @param {{ fromMs: number, toMs: number }} range
 * @returns {Mark[]}
 */
export function marksOf(alerts, metric, { fromMs, toMs }) {
  return alerts
    .filter((alert) => alert.metric === null || alert.metric === metric)
    .filter(({ fired, resolved }) => fired < toMs && (resolved ?? Number.MAX_VALUE) > fromMs)
    .map(({ fired, resolved, rule, text }) => ({
      fromMs: fired,
      toMs: resolved ?? undefined,
      rule: rule.name,
      severity: rule.severity,
      text,
    }))
    .sort((a, b) => a.fromMs - b.fromMs)
}

/** @param {Mark} mark */
export function printMark({ fromMs, toMs, rule, severity, text }) {
  const what = `${text} (${rule}, ${severity})`
  return toMs === undefined
    ? `${what}: since ${printMoment(fromMs)}, still firing`
    : `${what}: ${printMoment(fromMs)} to ${printMoment(toMs)}, ${printDuration(toMs - fromMs)}`
}

/** The alerts of sensors, asked for now and then. */
export class AlertReader {
  /** @type {Map<string, { atMs: number, asking: Promise<Alert[] | undefined> }>} */
  #read = new Map()
  /** What was answered last, by the same keys. @type {Map<string, Alert[]>} */
  #last = new Map()
  /** Those that began long before. */
  /** @type {Map<string, { atMs: number, asking: Promise<Alert[]> }>} */
  #early = new Map()
  #context

  /** @param {import('./page.js').Context} context */
  constructor(context) {
    this.#context = context
  }

  /**
   * Those of a sensor that may have fired in a time; undefined where they cannot be had, which is
   * no reason to draw nothing.
   *
   * @param {string} sensor
   * @param {{ fromMs: number, toMs: number }} range
   * @returns {Promise<Alert[] | undefined>}
   */
  of(sensor, range) {
    const key = keyOf(sensor, range)
    const nowMs = performance.now()
    const known = this.#read.get(key)
    if (known && nowMs - known.atMs < AGAIN_MS) return known.asking
    const asking = this.#ask(sensor, range).then(
      (alerts) => {
        this.#last.set(key, alerts)
        return alerts
      },
      (error) => {
        this.#read.delete(key)
        if (error instanceof RestError) return undefined
        throw error
      },
    )
    this.#read.set(key, { atMs: nowMs, asking })
    return asking
  }

  /** What is known of them already. */
  /** @param {string} sensor  @param {{ fromMs: number, toMs: number }} range */
  known(sensor, range) {
    return this.#last.get(keyOf(sensor, range)) ?? []
  }

  /** @param {string} sensor  @param {{ fromMs: number, toMs: number }} range */
  async #ask(sensor, range) {
    const { from, to } = daysOf(range)
    const [late, early] = await Promise.all([
      this.#pages({ sensor, from: `${from}`, to: `${to}` }),
      from > 0 ? this.#askEarly(sensor, from) : [],
    ])
    return [...late, ...early]
  }

  /**
   * Those that began long before: all days of alerts are looked through for them.
   *
   * @param {string} sensor
   * @param {number} to  In milliseconds since 1970.
   */
  #askEarly(sensor, to) {
    const key = `${to} ${sensor}`
    const nowMs = performance.now()
    const known = this.#early.get(key)
    if (known && nowMs - known.atMs < EARLY_AGAIN_MS) return known.asking
    const asking = this.#pages({ sensor, from: '0', to: `${to}` })
    asking.catch(() => this.#early.delete(key))
    this.#early.set(key, { atMs: nowMs, asking })
    return asking
  }

  /** @param {{ sensor: string, from: string, to: string }} question */
  async #pages(question) {
    const { rest, signal } = this.#context
    /** @type {Alert[]} */
    const alerts = []
    let cursor = ''
    for (let page = 0; page < PAGES_MAX; page++) {
      const query = new URLSearchParams({
        ...question,
        limit: `${PAGE}`,
        ...(cursor && { cursor }),
      })
      const { items, next } = await rest.get(`v1/alerts?${query}`, signal)
      alerts.push(...items)
      if (next === null) break
      cursor = next
    }
    return alerts
  }
}

/** Whole days, so that a range that goes with the time is the same question for long. */
/** @param {{ fromMs: number, toMs: number }} range */
function daysOf({ fromMs, toMs }) {
  const from = (Math.floor(fromMs / DAY_MS) - BEFORE_DAYS) * DAY_MS
  return { from: Math.max(0, from), to: Math.max(DAY_MS, (Math.floor(toMs / DAY_MS) + 1) * DAY_MS) }
}

/** @param {string} sensor  @param {{ fromMs: number, toMs: number }} range */
function keyOf(sensor, range) {
  const { from, to } = daysOf(range)
  return `${from} ${to} ${sensor}`
}

/**
 * Bands behind the lines of a chart, each with an edge where it began.
 *
 * @param {any} plot
 * @param {readonly Mark[]} marks
 */
export function drawMarks(plot, marks) {
  const { ctx, bbox } = plot
  const right = bbox.left + bbox.width
  const at = (/** @type {number} */ timeMs) => plot.valToPos(timeMs / 1_000, 'x', true)
  const within = (/** @type {number} */ x) => Math.min(right, Math.max(bbox.left, x))
  ctx.save()
  const bad = color('--bad')
  for (const { fromMs, toMs } of marks) {
    const began = at(fromMs)
    const from = within(began)
    const to = within(
      toMs === undefined ? at(Math.min(Date.now(), plot.scales.x.max * 1e3)) : at(toMs),
    )
    const width = Math.max(to - from, BAND_PX_MIN * devicePixelRatio)
    ctx.fillStyle = `${bad}2e`
    ctx.fillRect(from, bbox.top, width, bbox.height)
    ctx.fillStyle = bad
    if (began >= bbox.left)
      ctx.fillRect(from, bbox.top, BAND_PX_MIN * devicePixelRatio, bbox.height)
    ctx.fillRect(from, bbox.top, width, 4 * devicePixelRatio)
  }
  ctx.restore()
}

/**
 * The same in words.
 *
 * @param {HTMLElement} list
 * @param {readonly Mark[]} marks
 * @param {string} [sensor]  Whose they are, for the link to all of them.
 */
export function listMarks(list, marks, sensor) {
  const shown = JSON.stringify([marks, sensor])
  if (list.dataset.shown === shown) return
  list.dataset.shown = shown
  list.hidden = marks.length === 0
  const rest = marks.length - TOLD_MAX
  const all = element('a', { href: routeHash('alerts', { state: 'all', sensor }) }, 'All alerts')
  list.replaceChildren(
    ...marks.slice(-TOLD_MAX).map((mark) => element('li', {}, printMark(mark))),
    element('li', {}, rest > 0 ? `and ${rest} before these. ` : '', all),
  )
}
