/**
 * Whether rows are to wait for others, so that they share a request. What that saves is CPU. What
 * it costs is a millisecond or two of each acknowledgement; and clients that wait for one before
 * they send the next message would send so much less. How fast rows come does not tell such clients
 * from others, but how that changes does: rows wait for a while, and if fewer come than before they
 * wait no more (ADR 0088).
 */

/** Rows a millisecond, where waiting saves something. */
const ROWS_PER_MS_MIN = 0.5

/** Over which time the rate is counted, in milliseconds: many devices send once a second. */
const PERIOD_MS = 1_000

/** Where so many come, each moment without waiting is dear: it is as short as tells the rate. */
const FAST_ROWS_PER_MS = 4
const FAST_MS = 50

/** Unless so many times as many come then as when rows wait. */
const MORE_MAX = 1.3

/** If less than such a part of the rows come when rows wait, clients wait for us. */
const PART_MIN = 0.75

/** For how long they then do not wait, in milliseconds: at first, and at most after some times. */
const ALONE_MS_MIN = 1_000
const ALONE_MS_MAX = 16_000

/** For how long they wait before it is looked anew how many come without: at first, and at most. */
const WAITING_MS_MIN = 4_000
const WAITING_MS_MAX = 300_000

export class Company {
  #isWorthIt = false
  /** Rows of this period, when it began, and how long it lasts. */
  #rows = 0
  #sinceMs
  #periodMs = PERIOD_MS
  /** Rows a millisecond that came when they waited last. */
  #waitedRowsPerMs = Number.POSITIVE_INFINITY
  /** How long the next time will last in which none waits, and in which rows wait. */
  #aloneMs = ALONE_MS_MIN
  #waitingMs = WAITING_MS_MIN
  /** Rows a millisecond that came before rows waited, and until when they do. */
  #rowsPerMs = 0
  #waitingUntilMs = 0

  /** @param {number} nowMs  By a clock that only goes forward. */
  constructor(nowMs) {
    this.#sinceMs = nowMs
  }

  /** Whether rows are to wait for others. */
  get isWorthIt() {
    return this.#isWorthIt
  }

  /** A row has come. */
  noteRow() {
    this.#rows++
  }

  /** Decides anew if it is time. To be called whenever rows could be sent. @param {number} nowMs */
  look(nowMs) {
    const ms = nowMs - this.#sinceMs
    const rowsPerMs = this.#rows / ms
    if (ms < this.#periodMs && !(ms >= FAST_MS && this.#isSteadilyFast(rowsPerMs))) return
    if (this.#isWorthIt) this.#judgeWaiting(rowsPerMs, nowMs)
    else if (rowsPerMs >= ROWS_PER_MS_MIN) this.#wait(rowsPerMs, nowMs)
    else this.#beAlone(PERIOD_MS)
    this.#rows = 0
    this.#sinceMs = nowMs
  }

  /** Whether there is no need to find out more. @param {number} rowsPerMs */
  #isSteadilyFast(rowsPerMs) {
    const isFast = !this.#isWorthIt && rowsPerMs >= FAST_ROWS_PER_MS
    return isFast && rowsPerMs <= MORE_MAX * this.#waitedRowsPerMs
  }

  /** @param {number} rowsPerMs  That came while rows waited.  @param {number} nowMs */
  #judgeWaiting(rowsPerMs, nowMs) {
    this.#waitedRowsPerMs = rowsPerMs
    if (rowsPerMs < PART_MIN * this.#rowsPerMs) {
      this.#beAlone(this.#aloneMs)
      this.#aloneMs = Math.min(2 * this.#aloneMs, ALONE_MS_MAX)
      this.#waitingMs = WAITING_MS_MIN
    } else if (nowMs >= this.#waitingUntilMs) {
      this.#beAlone(PERIOD_MS)
      this.#aloneMs = ALONE_MS_MIN
      this.#waitingMs = Math.min(2 * this.#waitingMs, WAITING_MS_MAX)
    }
  }

  /** @param {number} rowsPerMs  That came when none waited.  @param {number} nowMs */
  #wait(rowsPerMs, nowMs) {
    this.#isWorthIt = true
    this.#periodMs = PERIOD_MS
    this.#rowsPerMs = rowsPerMs
    this.#waitingUntilMs = nowMs + this.#waitingMs
  }

  /** @param {number} ms  How long, at least. */
  #beAlone(ms) {
    this.#isWorthIt = false
    this.#periodMs = ms
  }
}
