/** Writes messages that cannot be stored as dead letters, as many of each client as are kept. */

import { PAYLOAD_KEPT_BYTES_MAX } from '../write/rows.js'

/** When a dead letter that the database refuses is written again, in milliseconds. */
const REFUSED_MS = 5_000

/** @typedef {import('./message.js').Message} Message */
/** @typedef {import('../write/row.js').Row} Row */

export class DeadLetters {
  #rows
  #write
  #quota
  #counts

  /**
   * @param {object} parts
   * @param {import('../write/rows.js').Rows} parts.rows
   * @param {(row: Row) => void} parts.write
   * @param {import('./dead-letter-quota.js').DeadLetterQuota} parts.quota
   * @param {import('../counts.js').Counts} parts.counts
   */
  constructor({ rows, write, quota, counts }) {
    this.#rows = rows
    this.#write = write
    this.#quota = quota
    this.#counts = counts
  }

  /**
   * @param {Message} message  With the reason in `refusal`.
   * @returns {boolean}  Whether it is kept, and its row is given to be written.
   */
  keep(message) {
    return this.#keep(message, message.refusal?.reason ?? '')
  }

  /**
   * Keeps a message of which some fields are lost. It waits for that as for its other rows.
   *
   * @param {Message} message
   * @param {import('./refusal.js').PartialRefusal} partial
   */
  keepFields(message, partial) {
    // Its rows may be made once more, in another place.
    if (partial.isKept) return
    partial.isKept = true
    this.#keep(message, partial.reason)
  }

  /** @param {Message} message  @param {string} reason */
  #keep(message, reason) {
    const { topic, clientId, senderName, payload, arrival } = message
    const texts = [topic, clientId, reason]
    const bytes = texts.reduce(
      (sum, text) => sum + Buffer.byteLength(text),
      Math.min(payload.length, PAYLOAD_KEPT_BYTES_MAX),
    )
    // Of the day on which it is written: out of the spool they may be of several, by turns.
    if (arrival !== 'replay' && !this.#quota.takes(senderName, bytes, Date.now())) {
      this.#counts.unkeptLetters++
      return false
    }
    this.#write(this.#rows.deadLetter(message, reason))
    return true
  }

  /**
   * The database refuses the row of a dead letter. Only mending the database can help; until then
   * its message is in flight.
   *
   * @param {Message} message
   * @param {Row} row
   */
  retry(message, row) {
    setTimeout(() => {
      if (!message.isSettled) this.#write(row)
    }, REFUSED_MS)
  }
}
