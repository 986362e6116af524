/** One live series: its newest value, and a small chart that goes with the time. */

import { element, setText } from './dom.js'
import { printAge, printValue } from './format.js'
import { LiveLine } from './live-line.js'
import { LiveStrip } from './live-strip.js'
import { routeHash } from './route.js'

/** How far back it shows, in ms; a chart that is new begins a little before it was made. */
const SPAN_MS = 120_000
const LEAD_MS = 10_000

export class LiveCard {
  /** None: of places there is nothing to draw. @type {LiveLine | LiveStrip | undefined} */
  #chart
  /** @type {{ t: number, v: unknown } | undefined} */
  #newest
  #value = element('span')
  #title
  /** @type {import('./format.js').Known} */
  #known = {}
  #age = element('small')
  #box
  #madeMs = Date.now()

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

  /** Says what its values mean. @param {import('./format.js').Known} known */
  tell(known) {
    this.#known = known
    if (known.label) setText(this.#title, known.label)
  }

  /** @param {import('./live-line.js').Item} item */
  add(item) {
    const { t, v } = item
    this.#chart ??= chartOf(v, this.#box)
    this.#box.hidden = this.#chart === undefined
    if (t >= (this.#newest?.t ?? t)) this.#newest = { t, v }
    this.#chart?.add(item)
  }

  /** Draws what has come, and moves the time on. @param {number} nowMs */
  draw(nowMs) {
    if (this.#newest) {
      setText(this.#value, printValue(this.#newest.v, this.#known))
      setText(this.#age, printAge(nowMs - this.#newest.t))
    }
    const fromMs = Math.max(nowMs - SPAN_MS, this.#madeMs - LEAD_MS)
    this.#chart?.draw({ fromMs, toMs: nowMs })
  }

  resize() {
    this.#chart?.resize()
  }

  recolor() {
    this.#chart?.recolor()
  }

  destroy() {
    this.#chart?.destroy()
  }
}

/** @param {unknown} v  @param {HTMLElement} box */
function chartOf(v, box) {
  if (typeof v === 'number' || typeof v === 'bigint') return new LiveLine(box)
  return typeof v === 'object' ? undefined : new LiveStrip(box)
}
