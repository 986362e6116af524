/**
 * One series between two times as a source for the merge: reads partition after partition, a few
 * at once where they turn out to be nearly empty, and within a partition from where it stopped.
 */

/** @typedef {import('./merge.js').Row} Row */
/** @typedef {import('./merge.js').Source} Source */
/** @typedef {import('@sandglass/common/spans').Span} Span */
/** @typedef {import('@sandglass/common/spans').Order} Order */

/** Most partitions of one series that are read at once. */
export const SPANS_AT_ONCE_MAX = 8

/**
 * A part of a partition to be read: a span, or what comes after a `seq` in its one millisecond.
 *
 * @typedef {Span & { afterSeq?: number }} Part
 */

/**
 * The first rows of a part, in order; without any only if there are none.
 *
 * @typedef {{ rows: Row[], isAll: boolean }} Answer
 */

/**
 * Reads the first rows of a part: at most `rowsMax`, and fewer where they are long.
 *
 * @callback ReadSpan
 * @param {string} metric
 * @param {Part} part
 * @param {Order} order
 * @param {number} rowsMax
 * @returns {Promise<Answer>}
 */

/** @implements {Source} */
export class SeriesReader {
  /** @type {Row[]} */
  #buffer = []
  #next = 0
  /** Parts that are to be read before the spans of the iterator. @type {Part[]} */
  #again = []
  #spans
  #read
  #order
  #sign
  #rowsAtOnce
  #rowsAtOnceMax
  #spansAtOnce = 1
  #spansRead = 0
  #rowsRead = 0
  /** Rows up to this one are known already. @type {{ t: number, seq: number } | undefined} */
  #after

  /**
   * @param {object} series
   * @param {string} series.metric
   * @param {Iterator<Span>} series.spans  In the order of reading.
   * @param {Order} series.order
   * @param {ReadSpan} series.read
   * @param {number} series.rowsAtOnce  How many rows are asked for first; then twice as many,
   * @param {number} series.rowsAtOnceMax  until this.
   * @param {{ t: number, seq: number }} [series.after]  The row after which to begin.
   */
  constructor({ metric, spans, order, read, rowsAtOnce, rowsAtOnceMax, after }) {
    this.metric = metric
    /** @type {Row | undefined} */
    this.head = undefined
    this.place = Number.NaN
    this.examined = -Infinity
    this.#spans = spans
    this.#order = order
    this.#sign = order === 'desc' ? -1 : 1
    this.#read = read
    this.#rowsAtOnce = Math.min(rowsAtOnce, rowsAtOnceMax)
    this.#rowsAtOnceMax = rowsAtOnceMax
    this.#after = after
  }

  advance() {
    this.#next += 1
    this.#showHead()
  }

  async fill() {
    const batch = this.#takeSpans()
    if (batch.length === 0) {
      this.examined = Infinity
      return
    }
    // One more than wanted, as the first may be the one that is known already.
    const rowsMax = this.#rowsAtOnce + 1
    const answers = await Promise.all(
      batch.map((span) => this.#read(this.metric, span, this.#order, rowsMax)),
    )
    this.#rowsAtOnce = Math.min(2 * this.#rowsAtOnce, this.#rowsAtOnceMax)
    this.#buffer = []
    this.#next = 0
    for (const [index, answer] of answers.entries()) {
      if (!this.#accept(batch[index], answer)) {
        this.#again.push(...batch.slice(index + 1))
        break
      }
    }
    this.#showHead()
  }

  /**
   * @param {Part} part
   * @param {Answer} answer
   * @returns {boolean}  Whether this was all of the part.
   */
  #accept(part, { rows, isAll }) {
    const fresh = this.#fresh(rows)
    for (const row of fresh) this.#buffer.push(row)
    this.#spansRead += 1
    this.#rowsRead += fresh.length
    if (isAll) {
      this.#examine(this.#order === 'desc' ? -part.fromMs : part.toMs - 1)
      return true
    }
    const { t, seq } = rows[rows.length - 1]
    if (fresh.length > 0) this.#after = { t, seq }
    this.#again.unshift(...this.#rest(part, rows, t))
    this.#examine(this.#sign * t - 1)
    return false
  }

  /**
   * What is left of a part: mostly it is read from the last millisecond on, of which a row or two
   * are known. Where that is most of what was read, it is read on within the millisecond.
   *
   * @param {Part} part
   * @param {Row[]} rows  What was read of it.
   * @param {number} t  Of the last row.
   * @returns {Part[]}
   */
  #rest(part, rows, t) {
    const isDescending = this.#order === 'desc'
    const sameMs = rows.length - rows.findIndex((row) => row.t === t)
    if (2 * sameMs <= rows.length) {
      return [isDescending ? { ...part, toMs: t + 1 } : { ...part, fromMs: t }]
    }
    const moment = { ...part, fromMs: t, toMs: t + 1, afterSeq: this.#after?.seq }
    // What comes after its millisecond is to be read already.
    if (part.afterSeq !== undefined) return [moment]
    return [moment, isDescending ? { ...part, toMs: t } : { ...part, fromMs: t + 1 }]
  }

  /** @param {Row[]} rows */
  #fresh(rows) {
    const after = this.#after
    if (!after) return rows
    const place = this.#sign * after.t
    const first = rows.findIndex((row) => {
      const rowPlace = this.#sign * row.t
      return rowPlace > place || (rowPlace === place && this.#sign * (row.seq - after.seq) > 0)
    })
    return first === 0 ? rows : first < 0 ? [] : rows.slice(first)
  }

  /** @param {number} place */
  #examine(place) {
    this.examined = Math.max(this.examined, place)
  }

  #showHead() {
    this.head = this.#buffer[this.#next]
    if (this.head) this.place = this.#sign * this.head.t
  }

  /** As many as are expected to hold the rows of one answer. @returns {Part[]} */
  #takeSpans() {
    if (this.#again.length > 0) return this.#again.splice(0, 1)
    if (this.#spansRead > 0) {
      const wanted = Math.ceil((this.#rowsAtOnce * this.#spansRead) / Math.max(1, this.#rowsRead))
      this.#spansAtOnce = Math.min(wanted, 2 * this.#spansAtOnce, SPANS_AT_ONCE_MAX)
    }
    /** @type {Part[]} */
    const batch = []
    while (batch.length < this.#spansAtOnce) {
      const { value, done } = this.#spans.next()
      if (done) break
      batch.push(value)
    }
    return batch
  }
}
