/**
 * A metric over a range of time: the average as a line, in a band from lowest to highest. Dragging
 * zooms; with the focus on it, the arrow keys go from point to point.
 */

import { printMoment, printValue } from './format.js'
import { around, color, createPlot, plotWidth } from './plot.js'
import { chartColumns } from './range.js'

const HEIGHT_PX = 300

/** A drag shorter than this is a click, in pixels. */
const DRAG_PX_MIN = 6

/**
 * @typedef {object} Drawing
 * @property {string} label  What a screen reader says of the chart.
 * @property {import('./format.js').Known} known  Of the metric.
 * @property {number} fromMs
 * @property {number} toMs
 * @property {number} stepMs
 * @property {{ t: number, avg: number, min: number, max: number }[]} items
 */

export class RangeChart {
  /** @type {any} */
  #plot
  /** @type {Drawing | undefined} */
  #drawing
  /** The point that was read last by keys, in seconds. @type {number | undefined} */
  #readS
  #box
  #readout
  #onZoom

  /**
   * @param {HTMLElement} box
   * @param {HTMLElement} readout  Where the point under the pointer is told.
   * @param {(range: { fromMs: number, toMs: number }) => void} onZoom
   * @param {AbortSignal} signal
   */
  constructor(box, readout, onZoom, signal) {
    this.#box = box
    this.#readout = readout
    this.#onZoom = onZoom
    box.tabIndex = 0
    // Its arrow keys are its own, and not those by which a screen reader goes through a page.
    box.setAttribute('role', 'application')
    box.setAttribute('aria-roledescription', 'chart')
    box.addEventListener('keydown', (event) => this.#onKey(event))
    // What is told for each move of a pointer would be noise to a screen reader.
    box.addEventListener('pointermove', () => readout.removeAttribute('role'))
    const resizing = new ResizeObserver(() => {
      this.#plot?.setSize({ width: plotWidth(box), height: HEIGHT_PX })
    })
    resizing.observe(box)
    const dark = matchMedia('(prefers-color-scheme: dark)')
    dark.addEventListener('change', () => this.#redraw(), { signal })
    signal.addEventListener('abort', () => {
      resizing.disconnect()
      this.#plot?.destroy()
    })
  }

  /** @param {Drawing} drawing */
  draw(drawing) {
    const before = this.#drawing
    this.#drawing = drawing
    this.#box.setAttribute('aria-label', drawing.label)
    // An axis has the words with which it was made.
    if (before?.known.symbol !== drawing.known.symbol) this.#forget()
    if (!this.#plot) {
      this.#create()
      return
    }
    this.#plot.setData(chartColumns(drawing.items, drawing.stepMs), false)
    this.#scale()
  }

  #forget() {
    this.#plot?.destroy()
    this.#plot = undefined
  }

  /** Takes the colours of the page anew. */
  #redraw() {
    this.#forget()
    if (this.#drawing) this.#create()
  }

  #create() {
    const { items, stepMs, known } = /** @type {Drawing} */ (this.#drawing)
    const accent = color('--accent')
    const edge = { stroke: `${accent}00`, width: 0, points: { show: false } }
    this.#plot = createPlot(
      {
        height: HEIGHT_PX,
        cursor: { drag: { x: true, y: false, setScale: false, dist: DRAG_PX_MIN } },
        scales: { x: { time: true, auto: false }, y: { range: around } },
        series: [{}, { stroke: accent, width: 1.75, points: { size: 5 } }, edge, edge],
        bands: [{ series: [3, 2], fill: `${accent}38` }],
        hooks: {
          drawAxes: [(/** @type {any} */ plot) => this.#drawExpected(plot)],
          setSelect: [(/** @type {any} */ plot) => this.#zoom(plot)],
          setCursor: [(/** @type {any} */ plot) => this.#tell(plot.cursor.idx)],
        },
      },
      chartColumns(items, stepMs),
      this.#box,
      known.symbol,
    )
    this.#scale()
  }

  /** Dashed lines where the expected range ends, as far as they are in sight. */
  /** @param {any} plot */
  #drawExpected(plot) {
    const { known } = /** @type {Drawing} */ (this.#drawing)
    const { ctx, bbox, scales } = plot
    ctx.save()
    ctx.strokeStyle = color('--soft')
    ctx.lineWidth = devicePixelRatio
    ctx.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio])
    for (const end of [known.expected_min, known.expected_max]) {
      if (end === undefined || end < scales.y.min || end > scales.y.max) continue
      const y = Math.round(plot.valToPos(end, 'y', true))
      ctx.beginPath()
      ctx.moveTo(bbox.left, y)
      ctx.lineTo(bbox.left + bbox.width, y)
      ctx.stroke()
    }
    ctx.restore()
  }

  #scale() {
    const { fromMs, toMs } = /** @type {Drawing} */ (this.#drawing)
    this.#plot.setScale('x', { min: fromMs / 1_000, max: toMs / 1_000 })
  }

  /** @param {any} plot */
  #zoom(plot) {
    const { left, width } = plot.select
    if (width < DRAG_PX_MIN) return
    const fromMs = Math.round(plot.posToVal(left, 'x') * 1_000)
    const toMs = Math.round(plot.posToVal(left + width, 'x') * 1_000)
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false)
    this.#onZoom({ fromMs, toMs: Math.max(toMs, fromMs + 1) })
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key]
    if (step === undefined || !this.#plot) return
    event.preventDefault()
    const [times, averages] = this.#plot.data
    const { min, max } = this.#plot.scales.x
    const isPoint = (/** @type {number} */ second, /** @type {number} */ index) =>
      averages[index] !== null && second >= min && second <= max
    const points = times.filter(isPoint)
    const fromS = this.#readS ?? (step > 0 ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY)
    const isBeyond = (/** @type {number} */ second) => (second - fromS) * step > 0
    const nextS = step > 0 ? points.find(isBeyond) : points.findLast(isBeyond)
    if (nextS === undefined) return
    this.#readS = nextS
    const top = this.#plot.valToPos(averages[times.indexOf(nextS)], 'y')
    this.#plot.setCursor({ left: this.#plot.valToPos(nextS, 'x'), top })
    this.#readout.setAttribute('role', 'status')
  }

  /** @param {number | null | undefined} index */
  #tell(index) {
    const [times, averages, lowest, highest] = this.#plot?.data ?? [[], [], [], []]
    const average = averages[index ?? -1]
    if (index == null || average == null) {
      this.#readout.textContent = ''
      return
    }
    const { known } = /** @type {Drawing} */ (this.#drawing)
    const bare = { decimals: known.decimals }
    const about =
      lowest[index] === highest[index]
        ? ''
        : ` (${printValue(lowest[index], bare)} to ${printValue(highest[index], known)})`
    this.#readout.textContent = `${printMoment(times[index] * 1_000)}: ${printValue(average, known)}${about}`
  }
}
