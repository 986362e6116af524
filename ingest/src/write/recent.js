/**
 * Which values of a series were seen at which millisecond, for a while: two values of one
 * millisecond are two measurements, told apart by `seq`; the same value again is the same one.
 *
 * Memory is bounded in number and time by two generations: new ones go into the young generation;
 * when that is full or old it takes the place of the one before, which is forgotten. Everything
 * later than a series' horizon is remembered; what lies before it is asked of the database first
 * (`past.js`).
 */

import { SeenTimes } from './seen-times.js'
import { COUNTED_MAX, tokenOf } from './seq.js'

/** Most event times remembered in one generation, of all series: 20 to 80 bytes each. */
export const GENERATION_TIMES_MAX = 131_072

/** Longest life of a young generation, in milliseconds: at least so long is remembered. */
export const GENERATION_MS_MAX = 600_000

/** There is no `seq` left. */
export const NONE_LEFT = -1

/** @typedef {import('../sensors/series.js').Series} Series */
/** @typedef {import('@sandglass/common/measurement').Value} Value */
/** @typedef {{ seq: number, token: unknown }} Taken  A `seq`, and the value that has it. */

/** The values of one millisecond, where there are none or several. */
class Tokens {
  /** @type {Map<unknown, number>} */
  #seqs = new Map()
  /** The first `seq` that is free, and after which all are. */
  end = 0

  /** What it counts for. */
  get size() {
    return Math.max(1, this.#seqs.size)
  }

  /** @param {unknown} token */
  seqOf(token) {
    return this.#seqs.get(token)
  }

  /** @param {number} seq  @param {unknown} token  @returns {number}  The `seq`. */
  set(seq, token) {
    if (!this.#seqs.has(token)) this.#seqs.set(token, seq)
    this.end = Math.max(this.end, seq + 1)
    return seq
  }
}

export class Recent {
  #now
  #timesMax
  #times = 0
  #bornMs
  /** Series that have a young generation, @type {Series[]} */
  #young = []
  /** or an older one. @type {Series[]} */
  #old = []

  /**
   * @param {object} [parts]
   * @param {() => number} [parts.now]  A clock that only goes forward, in milliseconds.
   * @param {number} [parts.timesMax]  Most event times of a generation.
   */
  constructor({ now = () => performance.now(), timesMax = GENERATION_TIMES_MAX } = {}) {
    /** Values that found another one at their millisecond. */
    this.sameTime = 0
    this.#now = now
    this.#timesMax = timesMax
    this.#bornMs = now()
  }

  /**
   * The `seq` of a value: its own if it was seen before, else the next free one.
   *
   * @param {Series} series
   * @param {number} timeMs
   * @param {number} kind
   * @param {Value} value
   * @returns {number}  {@link NONE_LEFT} where the millisecond is full.
   */
  place(series, timeMs, kind, value) {
    const token = tokenOf(kind, value)
    const seen = series.recent?.get(timeMs) ?? this.#recall(series, timeMs)
    if (seen === undefined) {
      this.#remember(series, timeMs, token)
      return 0
    }
    if (!(seen instanceof Tokens)) {
      if (seen === token) return 0
      this.sameTime++
      const tokens = new Tokens()
      tokens.set(0, seen)
      tokens.set(1, token)
      series.recent?.set(timeMs, tokens)
      this.#count()
      return 1
    }
    const seq = seen.seqOf(token)
    if (seq !== undefined) return seq
    this.sameTime++
    if (seen.end > COUNTED_MAX) return NONE_LEFT
    this.#count()
    return seen.set(seen.end, token)
  }

  /** Takes what the older generation knows over into the young one. */
  /** @param {Series} series  @param {number} timeMs */
  #recall(series, timeMs) {
    const seen = series.recentBefore?.get(timeMs)
    if (seen !== undefined) this.#remember(series, timeMs, seen)
    return seen
  }

  /** @param {Series} series  @param {number} timeMs  @param {unknown} seen */
  #remember(series, timeMs, seen) {
    if (this.#times >= this.#timesMax) this.#rotate()
    if (!series.recent) {
      series.recent = new SeenTimes()
      this.#young.push(series)
    }
    series.recent.set(timeMs, seen)
    this.#times += seen instanceof Tokens ? seen.size : 1
  }

  /** One more value is remembered at a time that is. */
  #count() {
    this.#times++
    if (this.#times >= this.#timesMax) this.#rotate()
  }

  /**
   * Whether all values of a series at a millisecond are remembered.
   *
   * @param {Series} series
   * @param {number} timeMs
   */
  knows(series, timeMs) {
    if (timeMs > series.horizonMs) return true
    return (series.recent?.get(timeMs) ?? series.recentBefore?.get(timeMs)) !== undefined
  }

  /**
   * Learns which values a series has at a millisecond.
   *
   * @param {Series} series
   * @param {number} timeMs
   * @param {readonly Taken[]} taken
   */
  learn(series, timeMs, taken) {
    if (this.knows(series, timeMs)) return
    const tokens = new Tokens()
    for (const { seq, token } of taken) {
      // Those of processes that share a series lie where no counted one comes.
      if (seq <= COUNTED_MAX) tokens.set(seq, token)
    }
    this.#remember(series, timeMs, tokens)
  }

  /** Begins a new generation if this one is old; to be called now and then. */
  age() {
    if (this.#now() - this.#bornMs >= GENERATION_MS_MAX) this.#rotate()
  }

  #rotate() {
    for (const series of this.#old) {
      series.horizonMs = Math.max(series.horizonMs, series.recentBefore?.toMs ?? -Infinity)
      series.recentBefore = undefined
    }
    for (const series of this.#young) {
      series.recentBefore = series.recent
      series.recent = undefined
    }
    this.#old = this.#young
    this.#young = []
    this.#times = 0
    this.#bornMs = this.#now()
  }
}
