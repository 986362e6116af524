/**
 * Rows that wait for a request, in lanes: one for each partition where a request holds one
 * partition, one for all rows elsewhere.
 *
 * A lane of one partition has one request on its way at a time. What comes meanwhile makes up its
 * next one, so that rows of many sensors that come by turns share requests all the same, and a row
 * is looked at once however many wait before it. Lanes take turns.
 */

/** @typedef {import('./row.js').Row} Row */
/** @typedef {import('./batcher.js').BatchLimits} BatchLimits */

/**
 * Rows that go together.
 *
 * @typedef {object} Request
 * @property {Row[]} rows
 * @property {Lane} lane  To be given back when the request is answered.
 */

class Lane {
  /** @type {Row[]} */
  rows = []
  isInFlight = false

  /** @param {string} key */
  constructor(key) {
    this.key = key
  }

  /** Takes as many rows from its front as a request may hold. @param {BatchLimits} limits */
  take({ rowsMax, bytesMax }) {
    let count = 0
    let bytes = 0
    for (const row of this.rows) {
      if (count === rowsMax || (count > 0 && bytes + row.bytes > bytesMax)) break
      bytes += row.bytes
      count++
    }
    const taken = this.rows
    this.rows = taken.splice(count)
    return taken
  }
}

export class RowQueue {
  /** @type {Map<string, Lane>} */
  #lanes = new Map()
  /** Lanes that may send, in the order of their turns. @type {Set<Lane>} */
  #ready = new Set()
  #isByPartition

  /** @param {boolean} isByPartition */
  constructor(isByPartition) {
    this.#isByPartition = isByPartition
    /** Rows that wait. */
    this.length = 0
  }

  /** Whether a row could go now. */
  get isReady() {
    return this.#ready.size > 0
  }

  /** @param {Row} row */
  push(row) {
    const key = this.#isByPartition ? row.partition : ''
    let lane = this.#lanes.get(key)
    if (!lane) {
      lane = new Lane(key)
      this.#lanes.set(key, lane)
    }
    if (lane.rows.push(row) === 1 && !lane.isInFlight) this.#ready.add(lane)
    this.length++
  }

  /**
   * @param {BatchLimits} limits
   * @param {number} requestsFree  Most requests to make.
   */
  take(limits, requestsFree) {
    /** @type {Request[]} */
    const requests = []
    // A lane that is added again has its next turn after the others.
    for (const lane of this.#ready) {
      if (requests.length === requestsFree) break
      const rows = lane.take(limits)
      this.length -= rows.length
      requests.push({ rows, lane })
      this.#ready.delete(lane)
      lane.isInFlight = this.#isByPartition
      if (lane.rows.length > 0 && !lane.isInFlight) this.#ready.add(lane)
    }
    return requests
  }

  /** A request is answered. @param {Lane} lane */
  answered(lane) {
    lane.isInFlight = false
    if (lane.rows.length > 0) this.#ready.add(lane)
    else if (this.#lanes.get(lane.key) === lane) this.#lanes.delete(lane.key)
  }

  /** Takes out what is useless, and returns it. @param {(row: Row) => boolean} isUseless */
  drop(isUseless) {
    /** @type {Row[]} */
    const dropped = []
    for (const lane of this.#lanes.values()) {
      lane.rows = lane.rows.filter((row) => {
        const isGone = isUseless(row)
        if (isGone) dropped.push(row)
        return !isGone
      })
      if (lane.rows.length > 0) continue
      this.#ready.delete(lane)
      if (!lane.isInFlight) this.#lanes.delete(lane.key)
    }
    this.length -= dropped.length
    return dropped
  }
}
