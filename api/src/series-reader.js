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
 * Reads the first rows of a span, in order, at most `rowsMax`; fewer only if there are no more.
 *
 * @callback ReadSpan
 * @param {string} metric
 * @param {Span} span
 * @param {Order} order
 * @param {number} rowsMax
 * @returns {Promise<Row[]>}
 */

/** @implements {Source} */
export class SeriesReader {
  /** @type {Row[]} */
  #buffer = []
  #next = 0
  /** Spans that are to be read before those of the iterator. @type {Span[]} */
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
    for (const [index, rows] of answers.entries()) {
      if (!this.#accept(batch[index], rows, rowsMax)) {
        this.#again.push(...batch.slice(index + 1))
        break
      }
    }
    this.#showHead()
  }

  /**
   * @param {Span} span
   * @param {Row[]} rows
   * @param {number} rowsMax
   * @returns {boolean}  Whether this was all of the span.
   */
  #accept(span, rows, rowsMax) {
    const fresh = this.#fresh(rows)
    for (const row of fresh) this.#buffer.push(row)
    this.#spansRead += 1
    this.#rowsRead += fresh.length
    if (rows.length < rowsMax) {
      this.#examine(this.#order === 'desc' ? -span.fromMs : span.toMs - 1)
      return true
    }
    const { t, seq } = rows[rows.length - 1]
    if (fresh.length > 0) this.#after = { t, seq }
    this.#again.unshift(this.#order === 'desc' ? { ...span, toMs: t + 1 } : { ...span, fromMs: t })
    this.#examine(this.#sign * t - 1)
    // More values of one millisecond than are read at once: only a longer answer gets past them.
    if (fresh.length === 0) {
      this.#rowsAtOnceMax *= 2
      this.#rowsAtOnce = this.#rowsAtOnceMax
    }
    return false
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

  /** As many spans as are expected to hold the rows of one answer. */
  #takeSpans() {
    if (this.#again.length > 0) return this.#again.splice(0, 1)
    if (this.#spansRead > 0) {
      const wanted = Math.ceil((this.#rowsAtOnce * this.#spansRead) / Math.max(1, this.#rowsRead))
      this.#spansAtOnce = Math.min(wanted, 2 * this.#spansAtOnce, SPANS_AT_ONCE_MAX)
    }
    /** @type {Span[]} */
    const batch = []
    while (batch.length < this.#spansAtOnce) {
      const { value, done } = this.#spans.next()
      if (done) break
      batch.push(value)
    }
    return batch
  }
}
