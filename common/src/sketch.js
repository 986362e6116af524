/**
 * A percentile sketch of bounded size that can be merged: UDDSketch (Epicoco, Melle, Cafaro,
 * Pulimeno and Morleo 2020), which is DDSketch (Masson, Rim and Lee 2019) that becomes coarser as a
 * whole when it has too many bins. `docs/format/sketch.md` has the bytes.
 *
 * Bin `i` holds values between γ^(i-1) and γ^i; its middle is at most α of any of them away, where
 * γ = (1 + α) / (1 - α). To collapse joins each two neighbours, and squares γ.
 */

/** Relative error of a percentile while nothing has been collapsed. */
export const SKETCH_ALPHA = 0.01

/** Most bins of either sign. */
export const SKETCH_BINS_MAX = 256

const LN_GAMMA = Math.log((1 + SKETCH_ALPHA) / (1 - SKETCH_ALPHA))

/** Values nearer to zero than this are counted as zero. */
const SMALLEST = 1e-300

const VERSION = 1

/** More collapses than the range of a double can need. */
const COLLAPSES_MAX = 20

export class Sketch {
  /** How often neighbours were joined. */
  #collapses = 0
  #zeros = 0
  /** Counts by bin. @type {Map<number, number>} */
  #positive = new Map()
  /** The same of values below zero, by their size. @type {Map<number, number>} */
  #negative = new Map()

  /** @param {number} value */
  add(value) {
    const size = Math.abs(value)
    if (size < SMALLEST) {
      this.#zeros++
      return
    }
    const bins = value > 0 ? this.#positive : this.#negative
    const bin = this.#binOf(size)
    bins.set(bin, (bins.get(bin) ?? 0) + 1)
    if (bins.size > SKETCH_BINS_MAX) this.#collapse()
  }

  /** Takes over what another one has counted. @param {Sketch} other */
  merge(other) {
    while (this.#collapses < other.#collapses) this.#collapse()
    const shift = this.#collapses - other.#collapses
    this.#zeros += other.#zeros
    addBins(this.#positive, other.#positive, shift)
    addBins(this.#negative, other.#negative, shift)
    while (this.#positive.size > SKETCH_BINS_MAX || this.#negative.size > SKETCH_BINS_MAX) {
      this.#collapse()
    }
  }

  /**
   * @param {number} share  From 0 to 1.
   * @returns {number}  NaN where nothing was counted.
   */
  quantile(share) {
    const negative = [...this.#negative].sort(([a], [b]) => b - a)
    const positive = [...this.#positive].sort(([a], [b]) => a - b)
    const bins = [
      ...negative.map(([bin, count]) => ({ value: -this.#middleOf(bin), count })),
      { value: 0, count: this.#zeros },
      ...positive.map(([bin, count]) => ({ value: this.#middleOf(bin), count })),
    ].filter(({ count }) => count > 0)
    const total = bins.reduce((sum, { count }) => sum + count, 0)
    const rank = share * (total - 1)
    let seen = 0
    for (const { value, count } of bins) {
      seen += count
      if (seen > rank) return value
    }
    return Number.NaN
  }

  /** @returns {Buffer} */
  encode() {
    /** @type {number[]} */
    const bytes = [VERSION, this.#collapses]
    putUnsigned(bytes, this.#zeros)
    putBins(bytes, this.#positive)
    putBins(bytes, this.#negative)
    return Buffer.from(bytes)
  }

  /**
   * @param {Buffer} bytes
   * @throws {RangeError}  Where they are none of ours.
   */
  static decode(bytes) {
    const reader = new Reader(bytes)
    const sketch = new Sketch()
    if (reader.byte() !== VERSION) throw new RangeError('a sketch of an unknown version')
    sketch.#collapses = reader.byte()
    if (sketch.#collapses > COLLAPSES_MAX) throw new RangeError('a sketch that is broken')
    sketch.#zeros = reader.unsigned()
    sketch.#positive = reader.bins()
    sketch.#negative = reader.bins()
    if (!reader.isAtEnd) throw new RangeError('a sketch that is too long')
    return sketch
  }

  /** @param {number} size */
  #binOf(size) {
    return Math.ceil(Math.log(size) / (LN_GAMMA * 2 ** this.#collapses))
  }

  /** The value from which both ends of a bin are relatively as far. @param {number} bin */
  #middleOf(bin) {
    const lnGamma = LN_GAMMA * 2 ** this.#collapses
    return (2 * Math.exp(bin * lnGamma)) / (1 + Math.exp(lnGamma))
  }

  #collapse() {
    this.#collapses++
    this.#positive = addBins(new Map(), this.#positive, 1)
    this.#negative = addBins(new Map(), this.#negative, 1)
  }
}

/**
 * @param {Map<number, number>} to
 * @param {ReadonlyMap<number, number>} from
 * @param {number} shift  How often these have to be collapsed for it.
 */
function addBins(to, from, shift) {
  for (const [bin, count] of from) {
    const coarse = Math.ceil(bin / 2 ** shift)
    to.set(coarse, (to.get(coarse) ?? 0) + count)
  }
  return to
}

/** @param {number[]} bytes  @param {number} value */
function putUnsigned(bytes, value) {
  let rest = value
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes.push((rest % 0x80) | 0x80)
  bytes.push(rest)
}

/** @param {number[]} bytes  @param {ReadonlyMap<number, number>} bins */
function putBins(bytes, bins) {
  putUnsigned(bytes, bins.size)
  let before = 0
  for (const [bin, count] of [...bins].sort(([a], [b]) => a - b)) {
    const step = bin - before
    putUnsigned(bytes, step < 0 ? -2 * step - 1 : 2 * step)
    putUnsigned(bytes, count)
    before = bin
  }
}

class Reader {
  #bytes
  #at = 0

  /** @param {Buffer} bytes */
  constructor(bytes) {
    this.#bytes = bytes
  }

  get isAtEnd() {
    return this.#at === this.#bytes.length
  }

  byte() {
    if (this.#at >= this.#bytes.length) throw new RangeError('a sketch that is too short')
    return this.#bytes[this.#at++]
  }

  unsigned() {
    let value = 0
    for (let scale = 1; ; scale *= 0x80) {
      const byte = this.byte()
      value += (byte & 0x7f) * scale
      if (!Number.isSafeInteger(value)) throw new RangeError('a sketch that is broken')
      if (byte < 0x80) return value
    }
  }

  bins() {
    const count = this.unsigned()
    if (count > SKETCH_BINS_MAX) throw new RangeError('a sketch that is broken')
    /** @type {Map<number, number>} */
    const bins = new Map()
    let bin = 0
    for (let at = 0; at < count; at++) {
      const step = this.unsigned()
      bin += step % 2 === 1 ? -(step + 1) / 2 : step / 2
      bins.set(bin, this.unsigned())
    }
    return bins
  }
}
