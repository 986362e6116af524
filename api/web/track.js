/**
 * Places over a range of time as a way on the plane, north above: where it began and ended, and a
 * scale. There is no map below it: that would come from somebody else's server.
 */

import { svg } from './dom.js'
import { printDuration, printMoment } from './format.js'
import { distanceM, printDistance, project, scaleM, waysM } from './places.js'
import { plotWidth } from './plot.js'
import { makeReadable } from './reading.js'

const HEIGHT_PX = 340
const MARGIN_PX = 40

/** Longest scale, and the least distance of two points that are drawn, in pixels. */
const SCALE_PX_MAX = 140
const STEP_PX_MIN = 1

/**
 * @typedef {object} Drawing
 * @property {string} label  What a screen reader says of it.
 * @property {import('./places.js').Place[]} places  In the order of time.
 */

export class Track {
  /** @type {Drawing | undefined} */
  #drawing
  /** @type {import('./places.js').Point[]} */
  #points = []
  /** How far it was to each of them, in metres. @type {number[]} */
  #ways = []
  /** Which was read last. @type {number | undefined} */
  #read
  #box
  #readout
  #cursor = svg('circle', { class: 'cursor', r: 6, visibility: 'hidden' })

  /** @param {HTMLElement} box  @param {HTMLElement} readout  @param {AbortSignal} signal */
  constructor(box, readout, signal) {
    this.#box = box
    this.#readout = readout
    const reader = {
      onPoint: (/** @type {number} */ x, /** @type {number} */ y) => this.#point(x, y),
      onStep: (/** @type {number} */ step) => this.#step(step),
    }
    makeReadable(box, readout, reader, { signal, hasPointer: false })
    const resizing = new ResizeObserver(() => this.#render())
    resizing.observe(box)
    signal.addEventListener('abort', () => resizing.disconnect())
  }

  /** @param {Drawing} drawing */
  draw(drawing) {
    const readT = this.#points[this.#read ?? -1]?.t
    this.#drawing = drawing
    this.#ways = waysM(drawing.places)
    this.#box.setAttribute('aria-label', drawing.label)
    const index = drawing.places.findIndex(({ t }) => t === readT)
    this.#read = index < 0 ? undefined : index
    this.#render()
  }

  #render() {
    const { places = [] } = this.#drawing ?? {}
    const width = plotWidth(this.#box)
    const box = { width, height: HEIGHT_PX, margin: MARGIN_PX }
    const { points, metresPerPx } =
      places.length > 0 ? project(places, box) : { points: [], metresPerPx: 1 }
    this.#points = points
    const first = points[0]
    const last = points.at(-1)
    const size = { width, height: HEIGHT_PX, viewBox: `0 0 ${width} ${HEIGHT_PX}` }
    this.#box.replaceChildren(
      svg(
        'svg',
        { ...size, 'aria-hidden': 'true' },
        svg('polyline', { class: 'way', points: lineOf(points) }),
        ...(first ? [svg('circle', { class: 'start', cx: first.x, cy: first.y, r: 5 })] : []),
        ...(last ? [svg('circle', { class: 'end', cx: last.x, cy: last.y, r: 5 })] : []),
        ...(first ? [named('Start', first, width)] : []),
        ...(first && last && distancePx(first, last) > 30 ? [named('End', last, width)] : []),
        ...(first ? scale(metresPerPx) : []),
        this.#cursor,
      ),
    )
    this.#showCursor()
  }

  /** Reads the place that is nearest. @param {number} x  @param {number} y  Of the window. */
  #point(x, y) {
    const { left, top } = this.#box.getBoundingClientRect()
    const at = { x: x - left, y: y - top }
    let nearest = -1
    let best = Number.POSITIVE_INFINITY
    for (const [index, point] of this.#points.entries()) {
      const distance = distancePx(point, at)
      if (distance < best) {
        best = distance
        nearest = index
      }
    }
    if (nearest >= 0) this.#tell(nearest)
  }

  /** @param {number} step */
  #step(step) {
    const last = this.#points.length - 1
    if (last < 0) return
    const at = this.#read === undefined ? (step > 0 ? 0 : last) : this.#read + step
    this.#tell(Math.min(last, Math.max(0, at)))
  }

  /** @param {number} index */
  #tell(index) {
    this.#read = index
    const { t, lat, lon } = this.#points[index]
    this.#readout.textContent = `${printMoment(t)}: ${lat}, ${lon}, ${printDistance(this.#ways[index])} from the start`
    this.#showCursor()
  }

  #showCursor() {
    const point = this.#points[this.#read ?? -1]
    this.#cursor.setAttribute('visibility', point ? 'visible' : 'hidden')
    if (!point) return
    this.#cursor.setAttribute('cx', String(point.x))
    this.#cursor.setAttribute('cy', String(point.y))
  }
}

/** A way in words. @param {readonly import('./places.js').Place[]} places */
export function tellWay(places) {
  const first = places[0]
  const last = places.at(-1)
  if (!first || !last) return 'No places in this time.'
  const count = `${places.length} place${places.length === 1 ? '' : 's'}`
  if (first === last) return `${count}: ${first.lat}, ${first.lon}.`
  const long = printDistance(waysM(places).at(-1) ?? 0)
  const apart = printDistance(distanceM(first, last))
  return (
    `${count}, ${long} in ${printDuration(last.t - first.t)}, from ${first.lat}, ${first.lon} to ` +
    `${last.lat}, ${last.lon} (${apart} apart).`
  )
}

/** @param {{ x: number, y: number }} from  @param {{ x: number, y: number }} to */
function distancePx(from, to) {
  return Math.hypot(from.x - to.x, from.y - to.y)
}

/** The line's points; of those that nobody can tell apart, one. */
/** @param {readonly import('./places.js').Point[]} points */
function lineOf(points) {
  /** @type {import('./places.js').Point | undefined} */
  let drawn
  const kept = points.filter((point, index) => {
    const isDrawn = !drawn || index === points.length - 1 || distancePx(drawn, point) >= STEP_PX_MIN
    if (isDrawn) drawn = point
    return isDrawn
  })
  return kept.map(({ x, y }) => `${x.toFixed(1)},${y.toFixed(1)}`).join(' ')
}

/** @param {string} text  @param {{ x: number, y: number }} point  @param {number} width */
function named(text, { x, y }, width) {
  const isRight = x > width - 80
  const anchor = isRight ? 'end' : 'start'
  return svg('text', { x: x + (isRight ? -10 : 10), y: y + 4, 'text-anchor': anchor }, text)
}

/** A scale, and where north is. @param {number} metresPerPx */
function scale(metresPerPx) {
  const metres = scaleM(metresPerPx, SCALE_PX_MAX)
  const end = 10 + metres / metresPerPx
  const y = HEIGHT_PX - 10
  const line = `M10 ${y - 5}V${y}H${end.toFixed(1)}V${y - 5}`
  return [
    svg('path', { class: 'scale', d: line }),
    svg('text', { x: end + 8, y: y + 1 }, printDistance(metres)),
    svg('path', { class: 'scale', d: 'M14 26V10M10 15L14 9L18 15' }),
    svg('text', { x: 9, y: 40 }, 'N'),
  ]
}
