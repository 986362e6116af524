/**
 * Gathers rows into requests. Nothing lingers while no request is in flight: a request holds what
 * arrived while those before it were on their way. Under load requests grow by themselves, and when
 * little happens every row goes out at once.
 */

/**
 * How requests may look.
 *
 * @typedef {object} BatchLimits
 * @property {boolean} onePartition  Whether a request may hold one partition only.
 * @property {number} rowsMax  Most rows of a request.
 * @property {number} bytesMax  Size, in bytes, beyond which a request takes no further row.
 * @property {number} requestsMax  Most requests in flight.
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
})

/**
 * Other databases: a batch of several partitions is their coordinator's burden, and Cassandra warns
 * of one from 5 KB on and refuses it from 50 KB. A batch of one partition is one mutation.
 *
 * @type {BatchLimits}
 */
export const CLUSTER_LIMITS = Object.freeze({
  onePartition: true,
  rowsMax: 100,
  bytesMax: 16 * 1024,
  requestsMax: 256,
})

/** @typedef {import('./row.js').Row} Row */

/**
 * Takes rows from the front of a queue and puts them into requests.
 *
 * @param {Row[]} queue
 * @param {BatchLimits} limits
 * @param {number} requestsFree  Most requests to make.
 * @returns {{ requests: Row[][], taken: number }}  `taken` rows are in the requests.
 */
export function plan(queue, { onePartition, rowsMax, bytesMax }, requestsFree) {
  /** @type {{ rows: Row[], bytes: number }[]} */
  const requests = []
  /** @type {Map<string, { rows: Row[], bytes: number }>} */
  const open = new Map()
  let taken = 0
  for (const row of queue) {
    const key = onePartition ? row.partition : ''
    let request = open.get(key)
    const isFull =
      request && (request.rows.length >= rowsMax || request.bytes + row.bytes > bytesMax)
    if (!request || isFull) {
      if (requests.length === requestsFree) break
      request = { rows: [], bytes: 0 }
      requests.push(request)
      open.set(key, request)
    }
    request.rows.push(row)
    request.bytes += row.bytes
    taken++
  }
  return { requests: requests.map(({ rows }) => rows), taken }
}

/**
 * @typedef {object} RowWriter
 * @property {(rows: Row[]) => Promise<void>} write  Resolves when each row is durable or
 *   was refused for good; never rejects.
 */

export class Batcher {
  #writer
  #onRequest
  /** @type {Row[]} */
  #queue = []
  #inFlight = 0
  #isScheduled = false

  /**
   * @param {object} parts
   * @param {RowWriter} parts.writer
   * @param {BatchLimits} parts.limits
   * @param {(rows: number) => void} [parts.onRequest]  For measuring: rows of a request.
   */
  constructor({ writer, limits, onRequest = () => {} }) {
    /** May be replaced once it is known which database this is. */
    this.limits = limits
    this.#writer = writer
    this.#onRequest = onRequest
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
    this.#queue.push(row)
    if (this.#isScheduled || this.#inFlight >= this.limits.requestsMax) return
    // After all sockets of this turn were read, so that what arrived together goes together.
    this.#isScheduled = true
    setImmediate(() => {
      this.#isScheduled = false
      this.#send()
    })
  }

  /** Forgets rows that wait. @param {(row: Row) => boolean} isUseless */
  drop(isUseless) {
    this.#queue = this.#queue.filter((row) => {
      const isGone = isUseless(row)
      if (isGone) row.series?.landed(row.timeMs)
      return !isGone
    })
  }

  #send() {
    const free = this.limits.requestsMax - this.#inFlight
    if (free <= 0 || this.#queue.length === 0) return
    const { requests, taken } = plan(this.#queue, this.limits, free)
    this.#queue = taken === this.#queue.length ? [] : this.#queue.slice(taken)
    for (const rows of requests) {
      this.#inFlight++
      this.#onRequest(rows.length)
      void this.#writer.write(rows).finally(() => {
        this.#inFlight--
        this.#send()
      })
    }
  }
}
