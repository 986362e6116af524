/** The states of one live series as a strip that goes with the time. */

import { svg } from './dom.js'
import { plotWidth } from './plot.js'
import { stateBars, timeLabels } from './state-bars.js'
import { historyFrom, runsOf } from './states.js'

/** Most values that it keeps; of more, the oldest go. */
const VALUES_MAX = 1_000

/** From top to bottom, in pixels. */
const BARS_PX = 86
const TICKS_PX = 24

export class LiveStrip {
  /** Oldest first. @type {{ t: number, v: any }[]} */
  #rows = []
  #box

  /** @param {HTMLElement} box */
  constructor(box) {
    this.#box = box
  }

  /** @param {import('./live-line.js').Item} item */
  add({ t, v }) {
    const rows = this.#rows
    const at = rows.findLastIndex((row) => row.t <= t) + 1
    rows.splice(at, 0, { t, v })
    if (rows.length > VALUES_MAX) rows.shift()
  }

  /** @param {{ fromMs: number, toMs: number }} range */
  draw(range) {
    const width = plotWidth(this.#box)
    const runs = runsOf(historyFrom(this.#rows, range.fromMs), range, range.toMs)
    const bars = stateBars(runs, range, { width, y: 0, height: BARS_PX })
    const height = BARS_PX + TICKS_PX
    const labels = timeLabels(range, { width, y: height - 7 })
    const size = { width, height, 'aria-hidden': 'true' }
    this.#box.replaceChildren(svg('svg', size, ...bars, ...labels))
  }

  /** It is drawn anew each time. */
  resize() {}
  recolor() {}
  destroy() {}
}
