/** One live series: its newest value, and a small chart that goes with the time. */

import { element, setText } from './dom.js'
import { printAge, printValue } from './format.js'
import { around, color, createPlot, plotWidth } from './plot.js'
import { routeHash } from './route.js'

/** Most points that a chart keeps; of more, the oldest go. */
const POINTS_MAX = 5_000

/** How far back it shows, in seconds; a chart that is new begins a little before it was made. */
const SPAN_S = 120
const LEAD_S = 10

const HEIGHT_PX = 110

/** @typedef {{ t: number, seq?: number, v: unknown }} Item */

export class LiveCard {
  /** Seconds and values, oldest first. @type {[number[], (number | null)[]]} */
  #data = [[], []]
  /** @type {any} */
  #plot
  /** @type {{ t: number, v: unknown } | undefined} */
  #newest
  #value = element('span')
  #title
  /** @type {import('./format.js').Known} */
  #known = {}
  #age = element('small')
  #box
  #isDue = false
  #madeS = Date.now() / 1_000

  /** @param {string} sensor  @param {string} metric */
  constructor(sensor, metric) {
    this.#box = element('div', {
      class: 'chart',
      role: 'img',
      'aria-label': `Chart of ${metric} of ${sensor}`,
    })
    this.#title = element('p', { class: 'soft' }, metric)
    this.element = element(
      'article',
      { class: 'card' },
      element('h3', {}, element('a', { href: routeHash('sensors', { metric }, sensor) }, sensor)),
      this.#title,
      element('p', { class: 'now' }, this.#value, this.#age),
      this.#box,
    )
  }

  /** What its values mean. */
  get known() {
    return this.#known
  }

  /** @param {string} metric  @param {import('./format.js').Known} known */
  tell(metric, known) {
    this.#known = known
    setText(this.#title, known.label ?? metric)
  }

  /** @param {Item} item */
  add({ t, seq = 0, v }) {
    const [times, values] = this.#data
    if (t >= (this.#newest?.t ?? t)) this.#newest = { t, v }
    // The seq tells values of one millisecond apart, well below what is seen; it may be a hash.
    const second = t / 1_000 + (seq % 1_000) / 1e6
    const isLast = times.length === 0 || second > times[times.length - 1]
    const at = isLast ? times.length : find(times, second)
    if (times[at] === second) return
    times.splice(at, 0, second)
    values.splice(at, 0, asNumber(v))
    if (times.length > POINTS_MAX) {
      times.shift()
      values.shift()
    }
    this.#isDue = true
  }

  /** Draws what has come, and moves the time on. @param {number} nowMs */
  draw(nowMs) {
    if (this.#newest) {
      setText(this.#value, printValue(this.#newest.v, this.#known))
      setText(this.#age, printAge(nowMs - this.#newest.t))
    }
    if (!this.#plot) this.#create()
    if (this.#isDue) this.#plot.setData(this.#data, false)
    this.#isDue = false
    const max = nowMs / 1_000
    this.#plot.setScale('x', { min: Math.max(max - SPAN_S, this.#madeS - LEAD_S), max })
  }

  #create() {
    const accent = color('--accent')
    this.#plot = createPlot(
      {
        height: HEIGHT_PX,
        cursor: { show: false },
        scales: { x: { time: true, auto: false }, y: { range: around } },
        series: [{}, { stroke: accent, width: 1.75, fill: `${accent}1f`, points: { size: 5 } }],
      },
      this.#data,
      this.#box,
    )
  }

  /** Fits the card's width. */
  resize() {
    this.#plot?.setSize({ width: plotWidth(this.#box), height: HEIGHT_PX })
  }

  /** Takes the colours of the page anew. */
  recolor() {
    this.#plot?.destroy()
    this.#plot = undefined
    this.#isDue = true
  }

  destroy() {
    this.#plot?.destroy()
  }
}

/** Where a time is, or belongs. @param {number[]} times  @param {number} time */
function find(times, time) {
  let low = 0
  let high = times.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (times[middle] < time) low = middle + 1
    else high = middle
  }
  return low
}

/** What a chart can draw of a value. @param {unknown} v */
function asNumber(v) {
  if (typeof v === 'number') return v
  return typeof v === 'boolean' || typeof v === 'bigint' ? Number(v) : null
}
