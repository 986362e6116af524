/** The numbers of one live series as a line that goes with the time. */

import { around, color, createPlot, plotWidth } from './plot.js'

/** Most points that it keeps; of more, the oldest go. */
const POINTS_MAX = 5_000

const HEIGHT_PX = 110

/** @typedef {{ t: number, seq?: number, v: unknown }} Item */

export class LiveLine {
  /** Seconds and values, oldest first. @type {[number[], (number | null)[]]} */
  #data = [[], []]
  /** @type {any} */
  #plot
  #isDue = false
  #box

  /** @param {HTMLElement} box */
  constructor(box) {
    this.#box = box
  }

  /** @param {Item} item */
  add({ t, seq = 0, v }) {
    const [times, values] = this.#data
    // The seq tells values of one millisecond apart, well below what is seen; it may be a hash.
    const second = t / 1_000 + (seq % 1_000) / 1e6
    const isLast = times.length === 0 || second > times[times.length - 1]
    const at = isLast ? times.length : find(times, second)
    if (times[at] === second) return
    times.splice(at, 0, second)
    values.splice(at, 0, typeof v === 'number' || typeof v === 'bigint' ? Number(v) : null)
    if (times.length > POINTS_MAX) {
      times.shift()
      values.shift()
    }
    this.#isDue = true
  }

  /** @param {{ fromMs: number, toMs: number }} range */
  draw({ fromMs, toMs }) {
    if (!this.#plot) this.#create()
    if (this.#isDue) this.#plot.setData(this.#data, false)
    this.#isDue = false
    this.#plot.setScale('x', { min: fromMs / 1_000, max: toMs / 1_000 })
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

  /** Fits the width of its box. */
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
