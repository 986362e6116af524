/**
 * States over a range of time as a strip: each state a bar in its colour, alerts above them. It is
 * read and zoomed as a chart of numbers is.
 */

import { printMark } from './alert-marks.js'
import { element, svg } from './dom.js'
import { printDuration, printMoment } from './format.js'
import { plotWidth } from './plot.js'
import { listenToDrag, makeReadable } from './reading.js'
import { stateBars, stateColors, timeLabels } from './state-bars.js'
import { totalsOf } from './states.js'

/** From top to bottom, in pixels. */
const ALERTS_PX = 10
const BARS_PX = 64
const TICKS_PX = 24

/** States of the legend; of more, how many there are. */
const LEGEND_MAX = 24

/**
 * @typedef {object} Drawing
 * @property {string} label  What a screen reader says of it.
 * @property {number} fromMs
 * @property {number} toMs
 * @property {import('./states.js').Run[]} runs
 * @property {import('./alert-marks.js').Mark[]} marks
 */

export class Timeline {
  /** @type {Drawing | undefined} */
  #drawing
  /** Which run was read last. @type {number | undefined} */
  #read
  #box
  #readout
  #legend
  #cursor = svg('line', { class: 'cursor', y1: 0, y2: ALERTS_PX + BARS_PX, visibility: 'hidden' })
  #selection = svg('rect', { class: 'selection', y: ALERTS_PX, height: BARS_PX })

  /**
   * @param {HTMLElement} box
   * @param {HTMLElement} readout  Where the state under the pointer is told.
   * @param {HTMLElement} legend
   * @param {(range: { fromMs: number, toMs: number }) => void} onZoom
   * @param {AbortSignal} signal
   */
  constructor(box, readout, legend, onZoom, signal) {
    this.#box = box
    this.#readout = readout
    this.#legend = legend
    const reader = {
      onPoint: (/** @type {number} */ x) => this.#tellAt(this.#timeAt(x)),
      onStep: (/** @type {number} */ step) => this.#step(step),
      area: () => this.#area(),
      onPinch: (
        /** @type {import('./reading.js').Times} */ times,
        /** @type {boolean} */ isOver,
      ) => (isOver ? onZoom(times) : this.#render(times)),
    }
    makeReadable(box, readout, reader, { signal, hasPointer: false })
    const onDrag = (/** @type {number} */ from, /** @type {number} */ to) => {
      const fromMs = Math.round(this.#timeAt(from))
      onZoom({ fromMs, toMs: Math.max(fromMs + 1, Math.round(this.#timeAt(to))) })
    }
    const onSelect = (/** @type {number} */ from, /** @type {number} */ to) => {
      const { left } = box.getBoundingClientRect()
      this.#selection.setAttribute('x', String(from - left))
      this.#selection.setAttribute('width', String(to - from))
    }
    listenToDrag(box, onDrag, onSelect, signal)
    const resizing = new ResizeObserver(() => this.#drawing && this.#render(this.#drawing))
    resizing.observe(box)
    signal.addEventListener('abort', () => resizing.disconnect())
  }

  /** @param {Drawing} drawing */
  draw(drawing) {
    this.#drawing = drawing
    this.#box.setAttribute('aria-label', drawing.label)
    this.#render(drawing)
    this.#showLegend()
  }

  /** @param {import('./reading.js').Times} times */
  #render(times) {
    const { runs, marks } = /** @type {Drawing} */ (this.#drawing)
    const width = plotWidth(this.#box)
    const height = ALERTS_PX + BARS_PX + TICKS_PX
    const { fromMs, toMs } = times
    const xOf = (/** @type {number} */ timeMs) => ((timeMs - fromMs) / (toMs - fromMs)) * width
    const bars = stateBars(runs, times, { width, y: ALERTS_PX, height: BARS_PX })
    const alerts = marks.map((mark) => {
      const x = Math.max(0, xOf(mark.fromMs))
      const to = Math.min(width, xOf(mark.toMs ?? Date.now()))
      const box = { class: 'alert', x, y: 0, width: Math.max(2, to - x), height: ALERTS_PX - 3 }
      return svg('rect', box, svg('title', {}, printMark(mark)))
    })
    const labels = timeLabels(times, { width, y: height - 7 })
    const size = { width, height, viewBox: `0 0 ${width} ${height}`, 'aria-hidden': 'true' }
    const drawn = svg('svg', size, ...bars, ...alerts, ...labels, this.#selection, this.#cursor)
    this.#box.replaceChildren(drawn)
  }

  #showLegend() {
    const runs = this.#drawing?.runs ?? []
    const totals = totalsOf(runs)
    const colorOf = stateColors(runs)
    const rest = totals.length - LEGEND_MAX
    this.#legend.hidden = totals.length === 0
    this.#legend.replaceChildren(
      ...totals.slice(0, LEGEND_MAX).map(({ state, ms, share }) => {
        const swatch = element('span', { class: 'swatch' })
        swatch.style.background = colorOf(state)
        const percent = share > 0 && share < 0.01 ? '< 1' : `${Math.round(share * 100)}`
        const long = element('span', { class: 'soft' }, ` ${printDuration(ms)}, ${percent} %`)
        return element('li', {}, swatch, state, long)
      }),
      ...(rest > 0 ? [element('li', { class: 'soft' }, `and ${rest} more states`)] : []),
    )
  }

  #area() {
    if (!this.#drawing) return undefined
    const { left } = this.#box.getBoundingClientRect()
    const { fromMs, toMs } = this.#drawing
    return { times: { fromMs, toMs }, left, width: plotWidth(this.#box) }
  }

  /** @param {number} x  In pixels of the window. */
  #timeAt(x) {
    const { left, width, times } = this.#area() ?? {
      left: 0,
      width: 1,
      times: { fromMs: 0, toMs: 0 },
    }
    return times.fromMs + ((x - left) / width) * (times.toMs - times.fromMs)
  }

  /** @param {number} timeMs */
  #tellAt(timeMs) {
    const runs = this.#drawing?.runs ?? []
    const index = runs.findIndex(({ fromMs, toMs }) => timeMs >= fromMs && timeMs < toMs)
    this.#tell(index < 0 ? undefined : index, timeMs)
  }

  /** @param {number} step */
  #step(step) {
    const last = (this.#drawing?.runs.length ?? 0) - 1
    if (last < 0) return
    const at = this.#read === undefined ? (step > 0 ? 0 : last) : this.#read + step
    this.#tell(Math.min(last, Math.max(0, at)))
  }

  /** @param {number | undefined} index  @param {number} [timeMs] */
  #tell(index, timeMs) {
    this.#read = index
    const run = index === undefined ? undefined : this.#drawing?.runs[index]
    const text = run
      ? `${run.state}: ${printMoment(run.fromMs)} to ${printMoment(run.toMs)}, ` +
        `${printDuration(run.toMs - run.fromMs)}`
      : ''
    this.#readout.textContent = text
    const area = this.#area()
    this.#cursor.setAttribute('visibility', run ? 'visible' : 'hidden')
    if (!run || !area) return
    const { fromMs, toMs } = area.times
    const at = timeMs ?? Math.max(fromMs, run.fromMs)
    const x = String(((at - fromMs) / (toMs - fromMs)) * area.width)
    this.#cursor.setAttribute('x1', x)
    this.#cursor.setAttribute('x2', x)
  }
}
