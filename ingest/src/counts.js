/**
 * What happened to messages since the start, and how long it took. Plain numbers, so that counting
 * costs nothing; `metrics.js` shows them.
 */

import { Histogram } from './histogram.js'
import { REFUSAL_KINDS } from './message/refusal.js'

/** @typedef {import('./message/message.js').Message} Message */
/** @typedef {import('./message/refusal.js').RefusalKind} RefusalKind */

export class Counts {
  constructor() {
    /** Messages on measurement topics. */
    this.received = 0
    /** Of these: whose rows are durable, */
    this.storedMessages = 0
    /** that are in the spool, */
    this.spooled = 0
    /** that were dropped. */
    this.droppedQos0 = 0
    /** Messages that an earlier run left in the spool. */
    this.recovered = 0
    /** Messages in the spool that could not be read. */
    this.lost = 0
    /** Those that became dead letters. @type {Record<RefusalKind, number>} */
    this.deadLetters = /** @type {Record<RefusalKind, number>} */ (
      Object.fromEntries(REFUSAL_KINDS.map((kind) => [kind, 0]))
    )
    /** Of those, the ones that are not kept, because their client has too many. */
    this.unkeptLetters = 0
    /** Messages that were stored without some of their fields, by format. */
    this.partialMessages = /** @type {Map<number, number>} */ (new Map())
    /** Those fields, by format. */
    this.refusedFields = /** @type {Map<number, number>} */ (new Map())
    /** Dead letters that were stored after all. */
    this.replayed = 0
    /** From the time of an event to its arrival, in seconds. */
    this.late = new Histogram()
    /** Events whose time was ahead of ours when they arrived. */
    this.ahead = 0
    /** Redeliveries of messages without a time that were recognised. */
    this.duplicates = 0
    /** Messages on other topics: ordinary MQTT traffic. */
    this.passed = 0
    /** Rows written, of every table. */
    this.rows = 0
    /** Requests to the database that failed and were repeated. */
    this.failures = 0
    /** From the arrival of a message to its being durable, in milliseconds. */
    this.publishToStored = new Histogram()
    /** Rows of a request. */
    this.requestRows = new Histogram()
  }

  /** @param {Message} message */
  stored(message) {
    this.storedMessages++
    if (message.partial) this.#partial(message.format, message.partial.fields.length)
    this.publishToStored.note(performance.now() - message.arrivedMs)
  }

  /** @param {number} format  @param {number} fields */
  #partial(format, fields) {
    this.partialMessages.set(format, (this.partialMessages.get(format) ?? 0) + 1)
    this.refusedFields.set(format, (this.refusedFields.get(format) ?? 0) + fields)
  }

  /** An event that says its time has arrived. @param {number} lateMs  Negative: it is ahead. */
  event(lateMs) {
    if (lateMs < 0) this.ahead++
    this.late.note(Math.max(0, lateMs) / 1000)
  }

  /** @param {RefusalKind} kind */
  deadLetter(kind) {
    this.deadLetters[kind]++
  }

  /** Lets what is long ago not count as recent; to be called now and then. */
  age() {
    this.publishToStored.turn()
    this.requestRows.turn()
  }

  get deadLettered() {
    let sum = 0
    for (const kind of REFUSAL_KINDS) sum += this.deadLetters[kind]
    return sum
  }
}
