// Counts durations by size, so that percentiles of millions of them need little memory.
//
// A bucket is at most 1/32 wider than its lower bound: percentiles are exact to about 3 %, and are
// given as the upper bound, so they are never too good.

const BUCKETS_PER_OCTAVE = 32
const OCTAVES = 32

export class Histogram {
  #counts = new Uint32Array(BUCKETS_PER_OCTAVE * OCTAVES)
  count = 0

  /** @param {number} us  Microseconds; fractions are dropped. */
  add(us) {
    this.#counts[bucketOf(us)]++
    this.count++
  }

  /**
   * @param {number} share  From 0 to 1, e.g. 0.99.
   * @returns {number}  Microseconds; 0 if nothing was counted.
   */
  percentile(share) {
    const wanted = Math.ceil(share * this.count)
    let seen = 0
    for (const [bucket, count] of this.#counts.entries()) {
      seen += count
      if (count > 0 && seen >= wanted) return upperBound(bucket)
    }
    return 0
  }
}

/** @param {number} us */
function bucketOf(us) {
  const value = Math.max(0, Math.floor(us))
  if (value < BUCKETS_PER_OCTAVE) return value
  const shift = 31 - Math.clz32(value) - 5
  return Math.min(
    BUCKETS_PER_OCTAVE * OCTAVES - 1,
    BUCKETS_PER_OCTAVE * (shift + 1) + (value >>> shift) - BUCKETS_PER_OCTAVE,
  )
}

/** @param {number} bucket  @returns {number}  The first value that is not in it. */
function upperBound(bucket) {
  if (bucket < BUCKETS_PER_OCTAVE) return bucket + 1
  const shift = Math.floor(bucket / BUCKETS_PER_OCTAVE) - 1
  return ((bucket % BUCKETS_PER_OCTAVE) + BUCKETS_PER_OCTAVE + 1) * 2 ** shift
}
