/**
 * Takes messages out of the spool, oldest first, and gives them to the pipeline, some at a time, so
 * that live traffic goes on beside it.
 */

import { readRecords } from './record.js'

/**
 * Messages on their way from the spool to the database at once, in number and in bytes of memory.
 * One block is held besides, while its messages are given.
 */
const MESSAGES_MAX = 1_000
const BYTES_MAX = 4 * 2 ** 20

/** @typedef {import('../message/message.js').Message} Message */
/** @typedef {import('./spool.js').Taken} Taken */

export class Drain {
  #spool
  #accept
  #messages = 0
  #bytes = 0
  /** @type {(() => void) | undefined} */
  #wake

  /**
   * @param {object} parts
   * @param {import('./spool.js').Spool} parts.spool
   * @param {(message: Message) => void} parts.accept  Settles it some time later.
   */
  constructor({ spool, accept }) {
    this.#spool = spool
    this.#accept = accept
  }

  /** Memory of the messages that are on their way, in bytes. */
  get bytes() {
    return this.#bytes
  }

  /** Runs until the spool is closed. */
  async run() {
    for (;;) {
      const taken = await this.#spool.next()
      if (!taken) return
      await this.#give(taken)
    }
  }

  /** @param {Taken} taken */
  async #give(taken) {
    let left = taken.messages
    const settled = (/** @type {Message} */ message) => {
      this.#messages--
      this.#bytes -= message.bytes
      this.#wake?.()
      left--
      if (left === 0) void this.#spool.finish(taken)
    }
    for (const message of readRecords(taken.payload, taken.version, { settled })) {
      while (this.#messages >= MESSAGES_MAX || this.#bytes >= BYTES_MAX) {
        await new Promise((/** @type {(value?: undefined) => void} */ resolve) => {
          this.#wake = resolve
        })
      }
      this.#messages++
      this.#bytes += message.bytes
      this.#accept(message)
    }
  }
}
