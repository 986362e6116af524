/**
 * Numbers over a range of time: the average of each series as a line, in a band from lowest to
 * highest, and alerts as bands behind them. Dragging zooms; with the focus on it, the arrow keys go
 * from point to point; one finger reads, two zoom.
 */

import { drawMarks } from './alert-marks.js'
import { axesOf, columnsOf, tellLines } from './lines.js'
import { around, color, createPlot, lineColor, plotWidth, SCALES } from './plot.js'
import { makeReadable } from './reading.js'

const HEIGHT_PX = 300

/** A drag shorter than this is a click, in pixels. */
const DRAG_PX_MIN = 6

/** Lines after this one are dashed, too: colours alone do not tell so many apart. */
const PLAIN_LINES = 4

/** How much of its colour a band has, alone and among others, in hexadecimal. */
const BAND_ALPHA = '38'
const BANDS_ALPHA = '20'

/**
 * @typedef {object} Drawing
 * @property {string} label  What a screen reader says of the chart.
 * @property {number} fromMs
 * @property {number} toMs
 * @property {import('./lines.js').Line[]} lines
 * @property {import('./alert-marks.js').Mark[]} marks
 */

export class RangeChart {
  /** @type {any} */
  #plot
  /** @type {Drawing | undefined} */
  #drawing
  /** What the plot was made for: it has its lines and axes for good. */
  #shape = ''
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
    const reader = {
      onPoint: (/** @type {number} */ x) => this.#point(x),
      onStep: (/** @type {number} */ step) => this.#step(step),
      area: () => this.#area(),
      onPinch: (
        /** @type {import('./reading.js').Times} */ times,
        /** @type {boolean} */ isOver,
      ) => (isOver ? onZoom(times) : this.#scale(times)),
    }
    makeReadable(box, readout, reader, { signal, hasPointer: true })
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
    this.#drawing = drawing
    this.#box.setAttribute('aria-label', drawing.label)
    const shape = JSON.stringify(drawing.lines.map(({ known, index }) => [known.symbol, index]))
    if (shape !== this.#shape) this.#forget()
    this.#shape = shape
    if (this.#plot) this.#plot.setData(this.#columns(), false)
    else this.#create()
    this.#scale(drawing)
  }

  #forget() {
    this.#plot?.destroy()
    this.#plot = undefined
  }

  /** Takes the colours of the page anew. */
  #redraw() {
    this.#forget()
    if (!this.#drawing) return
    this.#create()
    this.#scale(this.#drawing)
  }

  /** Of all lines, by one row of times. */
  #columns() {
    const { lines } = /** @type {Drawing} */ (this.#drawing)
    if (lines.length === 0) return [[]]
    return /** @type {any} */ (window).uPlot.join(columnsOf(lines))
  }

  #create() {
    const { lines } = /** @type {Drawing} */ (this.#drawing)
    const { units, axisOf } = axesOf(lines)
    const alpha = lines.length > 1 ? BANDS_ALPHA : BAND_ALPHA
    const series = lines.flatMap((line) => {
      const stroke = color(lineColor(line.index))
      const scale = SCALES[axisOf(line)]
      const dash = line.index >= PLAIN_LINES ? [6, 3] : undefined
      const edge = { scale, stroke: `${stroke}00`, width: 0, points: { show: false } }
      return [{ scale, stroke, dash, width: 1.75, points: { size: 5 } }, edge, edge]
    })
    const bands = lines.map((line, at) => ({
      series: [3 * at + 3, 3 * at + 2],
      fill: `${color(lineColor(line.index))}${alpha}`,
    }))
    const scales = Object.fromEntries(SCALES.map((name) => [name, { range: around }]))
    this.#plot = createPlot(
      {
        height: HEIGHT_PX,
        cursor: { drag: { x: true, y: false, setScale: false, dist: DRAG_PX_MIN } },
        scales: { x: { time: true, auto: false }, ...scales },
        series: [{}, ...series],
        bands,
        hooks: {
          drawClear: [(/** @type {any} */ plot) => this.#drawMarks(plot)],
          drawAxes: [(/** @type {any} */ plot) => this.#drawExpected(plot)],
          setSelect: [(/** @type {any} */ plot) => this.#zoom(plot)],
          setCursor: [(/** @type {any} */ plot) => this.#tell(plot.cursor.idx)],
        },
      },
      this.#columns(),
      this.#box,
      units.length > 0 ? units : [''],
    )
  }

  /** @param {any} plot */
  #drawMarks(plot) {
    drawMarks(plot, this.#drawing?.marks ?? [])
  }

  /** Dashed lines where the expected range ends, as far as they are in sight. */
  /** @param {any} plot */
  #drawExpected(plot) {
    const [line, ...others] = this.#drawing?.lines ?? []
    if (!line || others.length > 0) return
    const { ctx, bbox, scales } = plot
    ctx.save()
    ctx.strokeStyle = color('--soft')
    ctx.lineWidth = devicePixelRatio
    ctx.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio])
    for (const end of [line.known.expected_min, line.known.expected_max]) {
      if (end === undefined || end < scales.y.min || end > scales.y.max) continue
      const y = Math.round(plot.valToPos(end, 'y', true))
      ctx.beginPath()
      ctx.moveTo(bbox.left, y)
      ctx.lineTo(bbox.left + bbox.width, y)
      ctx.stroke()
    }
    ctx.restore()
  }

  /** @param {import('./reading.js').Times} times */
  #scale({ fromMs, toMs }) {
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

  /** The time that is drawn, and where. */
  #area() {
    const times = this.#drawing
    if (!this.#plot || !times) return undefined
    const { left, width } = this.#plot.over.getBoundingClientRect()
    return { times: { fromMs: times.fromMs, toMs: times.toMs }, left, width }
  }

  /** Goes to where a finger is. @param {number} x  In pixels of the window. */
  #point(x) {
    if (!this.#plot) return
    const { left } = this.#plot.over.getBoundingClientRect()
    this.#moveTo(x - left)
  }

  /** Goes to the next point, or to the last of all. @param {number} step */
  #step(step) {
    if (!this.#plot) return
    const [times, ...columns] = this.#plot.data
    const { min, max } = this.#plot.scales.x
    const isPoint = (/** @type {number} */ second, /** @type {number} */ index) =>
      columns.some((/** @type {any} */ column) => column[index] != null) &&
      second >= min &&
      second <= max
    const points = times.filter(isPoint)
    const isEnd = !Number.isFinite(step)
    const fromS = isEnd ? undefined : this.#readS
    const startS = fromS ?? (step > 0 ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY)
    const isBeyond = (/** @type {number} */ second) => (second - startS) * step > 0
    const ends = step > 0 ? points.at(-1) : points[0]
    const nextS = isEnd ? ends : step > 0 ? points.find(isBeyond) : points.findLast(isBeyond)
    if (nextS === undefined) return
    this.#readS = nextS
    this.#moveTo(this.#plot.valToPos(nextS, 'x'))
  }

  /** @param {number} left  In pixels of the chart. */
  #moveTo(left) {
    const { height } = this.#plot.over.getBoundingClientRect()
    this.#plot.setCursor({ left, top: height / 2 })
  }

  /** @param {number | null | undefined} index */
  #tell(index) {
    const { lines = [], fromMs = 0, toMs = 0 } = this.#drawing ?? {}
    const second = this.#plot?.data[0][index ?? -1]
    const isNothing = index == null || second === undefined
    const text = isNothing ? '' : tellLines(lines, second * 1_000, toMs - fromMs)
    this.#readout.textContent = text
  }
}
