/** What many values of a series are summed up to, and how two such sums become one. */

import { Sketch } from './sketch.js'

export class Aggregate {
  /** Of values of one millisecond: which one. */
  #firstOrder = 0
  #lastOrder = 0

  constructor() {
    this.n = 0
    this.sum = 0
    this.min = Number.POSITIVE_INFINITY
    this.max = Number.NEGATIVE_INFINITY
    this.first = Number.NaN
    this.last = Number.NaN
    /** The time of `first` and of `last`, or where what they came from begins, in milliseconds. */
    this.firstMs = Number.POSITIVE_INFINITY
    this.lastMs = Number.NEGATIVE_INFINITY

    /** @type {Sketch | undefined} */
    this.sketch = undefined
  }

  /**
   * @param {number} timeMs
   * @param {number} order  Of two values of one millisecond, the later has the higher one.
   * @param {number} value
   */
  add(timeMs, order, value) {
    this.n++
    this.sum += value
    if (value < this.min) this.min = value
    if (value > this.max) this.max = value
    if (timeMs < this.firstMs || (timeMs === this.firstMs && order < this.#firstOrder)) {
      this.first = value
      this.firstMs = timeMs
      this.#firstOrder = order
    }
    if (timeMs > this.lastMs || (timeMs === this.lastMs && order > this.#lastOrder)) {
      this.last = value
      this.lastMs = timeMs
      this.#lastOrder = order
    }
    this.sketch?.add(value)
  }

  /** @param {Aggregate} other  Of other values. */
  merge(other) {
    this.n += other.n
    this.sum += other.sum
    if (other.min < this.min) this.min = other.min
    if (other.max > this.max) this.max = other.max
    if (other.firstMs < this.firstMs) {
      this.first = other.first
      this.firstMs = other.firstMs
      this.#firstOrder = other.#firstOrder
    }
    if (other.lastMs >= this.lastMs) {
      this.last = other.last
      this.lastMs = other.lastMs
      this.#lastOrder = other.#lastOrder
    }
    if (this.sketch && other.sketch) this.sketch.merge(other.sketch)
  }

  /** One that also estimates percentiles. */
  static withSketch() {
    const aggregate = new Aggregate()
    aggregate.sketch = new Sketch()
    return aggregate
  }

  /**
   * That of a row of a rollup.
   *
   * @param {{ ts: Date, n: { toString(): string }, sum: number, min: number, max: number,
   *   first: number, last: number, sketch?: Buffer | null }} row
   */
  static ofRow({ ts, n, sum, min, max, first, last, sketch }) {
    const aggregate = new Aggregate()
    const timeMs = ts.getTime()
    Object.assign(aggregate, { n: Number(n.toString()), sum, min, max, first, last })
    aggregate.firstMs = timeMs
    aggregate.lastMs = timeMs
    if (sketch) aggregate.sketch = Sketch.decode(sketch)
    return aggregate
  }
}

/**
 * A value as a rollup counts it; undefined where it is no number.
 *
 * @param {{ v?: number | null, i?: { toString(): string } | null, b?: boolean | null }} row
 */
export function rollupValue({ v, i, b }) {
  if (v != null) return v
  if (i != null) return Number(i.toString())
  return b == null ? undefined : Number(b)
}
