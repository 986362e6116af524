/**
 * A histogram of values, in buckets that grow by an eighth: quantiles are exact to 13 %. Since
 * the start for Prometheus, and over the last while for people.
 */

/** Buckets of one doubling. */
const STEPS = 8

/** The first bucket ends here; the last one begins after as many doublings. */
const FIRST = 2 ** -6
const DOUBLINGS = 26
const BUCKETS = STEPS * DOUBLINGS + 2

/** How long the recent past is: between one and two of these, in milliseconds. */
const RECENT_MS = 15_000

/** @param {number} value */
function bucketOf(value) {
  if (!(value > FIRST)) return 0
  return Math.min(Math.ceil(Math.log2(value / FIRST) * STEPS), BUCKETS - 1)
}

/** The upper bound of a bucket. @param {number} bucket */
function boundOf(bucket) {
  return FIRST * 2 ** (bucket / STEPS)
}

export class Histogram {
  #now
  #total
  #current
  #previous
  #turnedMs

  /** @param {{ now?: () => number }} [parts]  A clock that only goes forward, in milliseconds. */
  constructor({ now = () => performance.now() } = {}) {
    this.count = 0
    this.sum = 0
    this.#now = now
    this.#total = new Float64Array(BUCKETS)
    this.#current = new Float64Array(BUCKETS)
    this.#previous = new Float64Array(BUCKETS)
    this.#turnedMs = now()
  }

  /** @param {number} value  At least 0. */
  note(value) {
    const bucket = bucketOf(value)
    this.count++
    this.sum += value
    this.#total[bucket]++
    this.#current[bucket]++
  }

  /**
   * The value that a share of the recent ones do not exceed; null where there are none.
   *
   * @param {number} share  0 to 1.
   */
  quantile(share) {
    this.turn()
    let count = 0
    for (let at = 0; at < BUCKETS; at++) count += this.#current[at] + this.#previous[at]
    if (count === 0) return null
    let left = share * count
    for (let at = 0; at < BUCKETS; at++) {
      left -= this.#current[at] + this.#previous[at]
      if (left <= 0) return boundOf(at)
    }
    return boundOf(BUCKETS - 1)
  }

  /** How many values since the start were not greater. @param {number} bound */
  countUpTo(bound) {
    let count = 0
    for (let at = 0; at < BUCKETS && boundOf(at) <= bound * 1.0001; at++) count += this.#total[at]
    return count
  }

  /** Lets the recent past become the past; to be called now and then. */
  turn() {
    const nowMs = this.#now()
    const passedMs = nowMs - this.#turnedMs
    if (passedMs < RECENT_MS) return
    this.#previous = passedMs < 2 * RECENT_MS ? this.#current : new Float64Array(BUCKETS)
    this.#current = new Float64Array(BUCKETS)
    this.#turnedMs = nowMs
  }
}
