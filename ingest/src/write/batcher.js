/**
 * Gathers rows into requests. A request holds what arrived while those before it were on their way,
 * and where more rows are likely to come within a millisecond, it waits for them: the whole thread
 * sleeps, and then reads all sockets at once (ADRs 0052 and 0063). When little happens every row
 * goes out at once.
 */

import { Company } from './company.js'
import { RowQueue } from './row-queue.js'

/** Rows that have company enough: more would hardly make a row cheaper. */
const COMPANY_ROWS_ENOUGH = 32

/** Where rows wait for others, it takes so many for a request beside one in flight. */
const ROWS_MIN_BESIDE = 4

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
  /** Whether the thread slept for the rows that wait. */
  #hasNapped = false
  #company

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
    this.#company = new Company(now())
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
    this.#company.noteRow()
    this.#schedule()
  }

  /** Forgets rows that wait. @param {(row: Row) => boolean} isUseless */
  drop(isUseless) {
    for (const row of this.#queue.drop(isUseless)) row.series?.landed(row.timeMs)
  }

  /** Whether rows wait for others. */
  get #waits() {
    return this.#company.isWorthIt && this.#limits.companyMsMax > 0
  }

  get #canSend() {
    const rowsMin = this.#inFlight > 0 && this.#waits ? ROWS_MIN_BESIDE : 1
    return (
      this.#queue.isReady &&
      this.#inFlight < this.#limits.requestsMax &&
      this.#queue.length >= rowsMin
    )
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
    const nowMs = this.#now()
    this.#company.look(nowMs)
    if (!this.#canSend) return
    const leftMs = this.#limits.companyMsMax - Math.max(0, nowMs - this.#sinceMs)
    const hasCompany = this.#hasNapped || this.#queue.length >= COMPANY_ROWS_ENOUGH
    if (!this.#waits || hasCompany || leftMs <= 0) return this.#send()
    this.#hasNapped = true
    this.#nap(leftMs)
    this.#schedule()
  }

  #send() {
    this.#hasNapped = false
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
}
