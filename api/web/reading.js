/**
 * How a chart is read and moved: by a pointer that goes over it, by one finger, by arrow keys; by
 * dragging and by two fingers, which choose another time.
 */

import { pinchRange } from './range.js'

/** A drag shorter than this is a click, in pixels. */
const DRAG_PX_MIN = 6

/** Where arrow keys go. */
const STEPS = new Map([
  ['ArrowLeft', -1],
  ['ArrowRight', 1],
  ['Home', Number.NEGATIVE_INFINITY],
  ['End', Number.POSITIVE_INFINITY],
])

/** @typedef {{ fromMs: number, toMs: number }} Times */

/**
 * @typedef {object} Reader
 * @property {(x: number, y: number) => void} onPoint  A finger, or another pointer where the chart
 *   has none of its own, is there; in pixels of the window.
 * @property {(step: number) => void} onStep  A key: -1, 1, or to the first or last.
 * @property {() => { times: Times, left: number, width: number } | undefined} [area]  What time is
 *   drawn, and where; of a chart that two fingers can stretch.
 * @property {(times: Times, isOver: boolean) => void} [onPinch]
 */

/**
 * @param {HTMLElement} box
 * @param {HTMLElement} readout  Where what was read is told.
 * @param {Reader} reader
 * @param {{ signal: AbortSignal, hasPointer: boolean }} options  `hasPointer`: it listens to a
 *   mouse itself.
 */
export function makeReadable(box, readout, reader, { signal, hasPointer }) {
  box.tabIndex = 0
  // Its arrow keys are its own, and not those by which a screen reader goes through a page.
  box.setAttribute('role', 'application')
  box.setAttribute('aria-roledescription', 'chart')
  box.addEventListener(
    'keydown',
    (event) => {
      const step = STEPS.get(event.key)
      if (step === undefined || event.ctrlKey || event.metaKey || event.altKey) return
      event.preventDefault()
      readout.setAttribute('role', 'status')
      reader.onStep(step)
    },
    { signal },
  )
  const fingers = new Fingers(reader)
  /** @param {PointerEvent} event */
  const onMove = (event) => {
    // What is told for each move of a pointer would be noise to a screen reader.
    readout.removeAttribute('role')
    if (event.pointerType === 'touch') fingers.move(event)
    else if (!hasPointer) reader.onPoint(event.clientX, event.clientY)
  }
  const onDown = (/** @type {PointerEvent} */ event) => {
    if (event.pointerType === 'touch') fingers.put(event)
    onMove(event)
  }
  const onUp = (/** @type {PointerEvent} */ event) => fingers.lift(event)
  box.addEventListener('pointerdown', onDown, { signal })
  box.addEventListener('pointermove', onMove, { signal })
  box.addEventListener('pointerup', onUp, { signal })
  box.addEventListener('pointercancel', onUp, { signal })
}

/** The fingers on a chart: one reads, two move and stretch the time. */
class Fingers {
  #reader
  /** Where each finger is, in pixels of the window. @type {Map<number, number>} */
  #at = new Map()
  /** How it was when the second finger came. */
  #start = /** @type {{ times: Times, before: [number, number] } | undefined} */ (undefined)
  /** @type {Times | undefined} */
  #now

  /** @param {Reader} reader */
  constructor(reader) {
    this.#reader = reader
  }

  /** @param {PointerEvent} event */
  put({ pointerId, clientX }) {
    this.#at.set(pointerId, clientX)
    const area = this.#reader.area?.()
    if (this.#at.size === 2 && area) this.#start = { times: area.times, before: this.#shares(area) }
  }

  /** @param {PointerEvent} event */
  move({ pointerId, clientX, clientY }) {
    if (this.#at.has(pointerId)) this.#at.set(pointerId, clientX)
    const area = this.#reader.area?.()
    if (!this.#start || !area) {
      this.#reader.onPoint(clientX, clientY)
      return
    }
    if (this.#at.size !== 2) return
    const range = { span: undefined, ...this.#start.times }
    this.#now = pinchRange(range, this.#start.before, this.#shares(area))
    this.#reader.onPinch?.(this.#now, false)
  }

  /** @param {PointerEvent} event */
  lift({ pointerId }) {
    this.#at.delete(pointerId)
    if (this.#now) this.#reader.onPinch?.(this.#now, true)
    this.#now = undefined
    if (this.#at.size === 0) this.#start = undefined
  }

  /** @param {{ left: number, width: number }} area  @returns {[number, number]} */
  #shares({ left, width }) {
    const [first, second] = [...this.#at.values()].map((x) => (x - left) / width)
    return [first, second]
  }
}

/**
 * Chooses a time by dragging a mouse, on a chart that does not do so itself.
 *
 * @param {HTMLElement} box
 * @param {(fromX: number, toX: number) => void} onDrag  In pixels of the window, left to right.
 * @param {(fromX: number, toX: number) => void} onSelect  While it is dragged; 0, 0 at its end.
 * @param {AbortSignal} signal
 */
export function listenToDrag(box, onDrag, onSelect, signal) {
  /** @type {number | undefined} */
  let fromX
  const ends = (/** @type {PointerEvent} */ { clientX }) =>
    /** @type {[number, number]} */ ([fromX ?? clientX, clientX].sort((a, b) => a - b))
  box.addEventListener(
    'pointerdown',
    (event) => {
      if (event.pointerType === 'touch' || event.button !== 0) return
      fromX = event.clientX
      box.setPointerCapture(event.pointerId)
    },
    { signal },
  )
  box.addEventListener('pointermove', (event) => fromX !== undefined && onSelect(...ends(event)), {
    signal,
  })
  box.addEventListener(
    'pointerup',
    (event) => {
      if (fromX === undefined) return
      const [left, right] = ends(event)
      fromX = undefined
      onSelect(0, 0)
      if (right - left >= DRAG_PX_MIN) onDrag(left, right)
    },
    { signal },
  )
}
