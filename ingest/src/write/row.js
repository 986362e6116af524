/**
 * A row on its way to the database, and the messages that wait for it.
 */

/** @typedef {import('../message/message.js').Message} Message */

/** What a row costs in a request besides its texts: numbers, ids and lengths, in bytes. */
const ROW_BYTES = 80

export class Row {
  /**
   * @param {string} query  The statement, with markers.
   * @param {unknown[]} params  As the driver takes them.
   * @param {string} partition  Equal for rows of one partition of one table.
   * @param {number} textBytes  About how long its texts and blobs are.
   * @param {Message | undefined} message  That waits for it.
   */
  constructor(query, params, partition, textBytes, message) {
    this.query = query
    this.params = params
    this.partition = partition
    this.bytes = ROW_BYTES + textBytes
    this.message = message
    /** More messages that wait for it. @type {Message[] | undefined} */
    this.waiters = undefined
    /** The series of which it is a value, and of which time. */
    this.series = /** @type {import('../sensors/series.js').Series | undefined} */ (undefined)
    this.timeMs = 0
    /** Called when it is durable, or refused for good. @type {(() => void) | undefined} */
    this.onDone = undefined
    if (message) message.pending++
  }

  /** Lets one more message wait for this row. @param {Message} message */
  holdBack(message) {
    if (message === this.message || this.waiters?.at(-1) === message) return
    message.pending++
    this.waiters ??= []
    this.waiters.push(message)
  }
}
