/**
 * Gathers rows into requests. A request holds what arrived while those before it were on their way,
 * and where rows come so fast that more will be there within a millisecond, it waits for them: the
 * whole thread sleeps, and then reads all sockets at once (ADR 0063). When little happens every row
 * goes out at once.
 */

import { RowQueue } from './row-queue.js'

/** Rows that must be expected within the wait, so that it is worth it. */
const COMPANY_ROWS_MIN = 4

/** Rows that have company enough: more would hardly make a row cheaper. */
const COMPANY_ROWS_ENOUGH = 32

/** Over what time the rate of rows is averaged, in milliseconds. */
const RATE_MS = 20

/**
 * How requests may look.
 *
 * @typedef {object} BatchLimits
 * @property {boolean} onePartition  Whether a request may hold one partition only.
 * @property {number} rowsMax  Most rows of a request.
 * @property {number} bytesMax  Size, in bytes, beyond which a request takes no further row.
 * @property {number} requestsMax  Most requests in flight.
 * @property {number} companyMsMax  Longest that rows wait for others, in milliseconds.
 */

/**
 * Our own engine: a request costs the same for any number of partitions. Two requests in flight
 * keep the engine busy while we prepare the next.
 *
 * @type {BatchLimits}
 */
export const SANDGLASS_LIMITS = Object.freeze({
  onePartition: false,
  rowsMax: 1_000,
  bytesMax: 256 * 1024,
  requestsMax: 2,
  companyMsMax: 1,
})

/**
 * Other databases: a batch of several partitions is their coordinator's burden, and Cassandra warns
 * of one from 5 KB on and refuses it from 50 KB. A batch of one partition is one mutation. A
 * partition has one request on its way, and what comes meanwhile is company enough.
 *
 * @type {BatchLimits}
 */
export const CLUSTER_LIMITS = Object.freeze({
  onePartition: true,
  rowsMax: 100,
  bytesMax: 16 * 1024,
  requestsMax: 256,
  companyMsMax: 0,
})

/** What the thread sleeps on. */
const NEVER_WOKEN = new Int32Array(new SharedArrayBuffer(4))

/** Stops the thread for a while. @param {number} ms */
const nap = (ms) => void Atomics.wait(NEVER_WOKEN, 0, 0, ms)

/** @typedef {import('./row.js').Row} Row */

/**
 * How much longer rows wait for others to share their request, in milliseconds.
 *
 * @param {object} queue
 * @param {number} queue.rows  That wait.
 * @param {number} queue.waitedMs  How long the first of them has waited.
 * @param {number} queue.rowsPerMs  How fast rows came lately.
 * @param {number} msMax  Longest that they wait in all.
 */
export function companyMs({ rows, waitedMs, rowsPerMs }, msMax) {
  if (rows >= COMPANY_ROWS_ENOUGH || rowsPerMs * msMax < COMPANY_ROWS_MIN) return 0
  return Math.max(0, msMax - waitedMs)
}

/**
 * How fast rows come, once some more have.
 *
 * @param {number} rowsPerMs  How fast they came before.
 * @param {number} rows  How many have come since.
 * @param {number} ms  In which time.
 */
export function rateAfter(rowsPerMs, rows, ms) {
  const weight = Math.min(1, ms / RATE_MS)
  return ms > 0 ? rowsPerMs + weight * (rows / ms - rowsPerMs) : rowsPerMs
}

/**
 * @typedef {object} RowWriter
 * @property {(rows: Row[]) => Promise<void>} write  Resolves when each row is durable or
 *   was refused for good; never rejects.
 */

export class Batcher {
  #limits
  #writer
  #onRequest
  #now
  #nap
  #queue
  /** Since when the first of them waits, by the clock that only goes forward. */
  #sinceMs = 0
  #inFlight = 0
  #isScheduled = false
  /** Rows that were there before the nap in which others should have come; 0 without one. */
  #rowsBeforeNap = 0
  /** Rows that have come since the rate was last looked at, and when that was. */
  #rowsCame = 0
  #ratedMs
  #rowsPerMs = 0

  /**
   * @param {object} parts
   * @param {RowWriter} parts.writer
   * @param {BatchLimits} parts.limits
   * @param {(rows: number) => void} [parts.onRequest]  For measuring: rows of a request.
   * @param {() => number} [parts.now]  A clock that only goes forward, in milliseconds.
   * @param {(ms: number) => void} [parts.nap]  Stops the thread.
   */
  constructor({ writer, limits, onRequest = () => {}, ...clock }) {
    const { now = () => performance.now(), nap: sleep = nap } = clock
    this.#limits = limits
    this.#queue = new RowQueue(limits.onePartition)
    this.#writer = writer
    this.#onRequest = onRequest
    this.#now = now
    this.#nap = sleep
    this.#ratedMs = now()
  }

  get limits() {
    return this.#limits
  }

  /** May be replaced once it is known which database this is. */
  set limits(limits) {
    const waiting = this.#queue.drop(() => true)
    this.#limits = limits
    this.#queue = new RowQueue(limits.onePartition)
    for (const row of waiting) this.add(row)
  }

  /** Rows that wait for a request. */
  get waiting() {
    return this.#queue.length
  }

  /** Whether nothing waits and nothing is on its way. */
  get isIdle() {
    return this.#queue.length === 0 && this.#inFlight === 0
  }

  /** @param {Row} row */
  add(row) {
    if (this.#queue.length === 0) this.#sinceMs = this.#now()
    this.#queue.push(row)
    this.#rowsCame++
    this.#schedule()
  }

  /** Forgets rows that wait. @param {(row: Row) => boolean} isUseless */
  drop(isUseless) {
    for (const row of this.#queue.drop(isUseless)) row.series?.landed(row.timeMs)
  }

  get #canSend() {
    return this.#queue.isReady && this.#inFlight < this.#limits.requestsMax
  }

  #schedule() {
    if (this.#isScheduled || !this.#canSend) return
    // After all sockets of this turn were read, so that what arrived together goes together.
    this.#isScheduled = true
    setImmediate(() => {
      this.#isScheduled = false
      this.#sendOrNap()
    })
  }

  #sendOrNap() {
    if (!this.#canSend) return
    const rows = this.#queue.length
    const nowMs = this.#now()
    const waitedMs = nowMs - this.#sinceMs
    // Those who would come wait for us: clients that send when the last one is acknowledged.
    if (rows === this.#rowsBeforeNap) this.#rowsPerMs = 0
    const rowsPerMs = rateAfter(this.#rowsPerMs, this.#rowsCame, nowMs - this.#ratedMs)
    const ms = companyMs({ rows, waitedMs, rowsPerMs }, this.#limits.companyMsMax)
    if (ms === 0) return this.#send()
    // A short nap to which nobody comes says nothing.
    this.#rowsBeforeNap = rowsPerMs * ms >= COMPANY_ROWS_MIN ? rows : 0
    this.#nap(ms)
    this.#schedule()
  }

  #send() {
    this.#rowsBeforeNap = 0
    this.#noteRate()
    const free = this.#limits.requestsMax - this.#inFlight
    for (const { rows, lane } of this.#queue.take(this.#limits, free)) {
      this.#inFlight++
      this.#onRequest(rows.length)
      void this.#writer.write(rows).finally(() => {
        this.#inFlight--
        this.#queue.answered(lane)
        this.#schedule()
      })
    }
  }

  #noteRate() {
    const nowMs = this.#now()
    this.#rowsPerMs = rateAfter(this.#rowsPerMs, this.#rowsCame, nowMs - this.#ratedMs)
    this.#rowsCame = 0
    this.#ratedMs = nowMs
  }
}
