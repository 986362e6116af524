/**
 * Decides when messages go to the spool rather than wait for the database: from when one has waited
 * for more than a moment, until the database answers quickly again.
 */

import { STATE } from '../message/state.js'

/** @typedef {import('../message/message.js').Message} Message */

export class Diversion {
  #spool
  #afterMs

  /** Whether messages take it. */
  isOpen = false

  /**
   * @param {object} parts
   * @param {import('./spool.js').Spool} parts.spool
   * @param {number} parts.afterMs  How long a message waits for the database, in milliseconds.
   */
  constructor({ spool, afterMs }) {
    this.#spool = spool
    this.#afterMs = afterMs
  }

  /**
   * To be called now and then.
   *
   * @param {import('../message/in-flight.js').InFlight} inFlight
   * @param {number} nowMs
   */
  look(inFlight, nowMs) {
    const { oldestMs } = inFlight
    if (oldestMs !== undefined && nowMs - oldestMs > this.#afterMs) this.isOpen = true
    if (!this.isOpen) return
    for (const message of inFlight.all()) if (this.takes(message)) this.add(message)
  }

  /** An attempt to write succeeded. @param {number} tookMs */
  wrote(tookMs) {
    if (tookMs < this.#afterMs) this.isOpen = false
  }

  /**
   * Whether a message takes it. A replay does not: whoever asked for it waits to hear what became
   * of it, and its dead letter keeps it meanwhile.
   *
   * @param {Message} message
   */
  takes(message) {
    if (!this.isOpen || message.arrival !== 'live' || message.state === STATE.spooling) return false
    return this.#spool.hasRoom(message)
  }

  /** Adds a message that it takes; nothing else waits for it from now on. */
  /** @param {Message} message */
  add(message) {
    message.move(STATE.spooling)
    message.asked++
    message.waitsFor?.waiters.delete(message)
    message.waitsFor = undefined
    this.#spool.add(message)
  }
}
