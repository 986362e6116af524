/**
 * Takes messages out of the spool, oldest first, and gives them to the pipeline, some at a time, so
 * that live traffic goes on beside it.
 */

import { readRecords } from './record.js'

/** Messages that are on their way from the spool to the database at once, in number and bytes. */
const MESSAGES_MAX = 1_000
const BYTES_MAX = 4 * 2 ** 20

/** @typedef {import('../message/message.js').Message} Message */
/** @typedef {import('./spool.js').Taken} Taken */

export class Drain {
  /** @private */
  messages = 0
  /** @private */
  bytes = 0
  /** @private @type {(() => void) | undefined} */
  wake

  /**
   * @param {object} parts
   * @param {import('./spool.js').Spool} parts.spool
   * @param {(message: Message) => void} parts.accept  Settles it some time later.
   * @param {(messages: number) => void} parts.lost  So many messages cannot be read.
   */
  constructor({ spool, accept, lost }) {
    /** @private */
    this.spool = spool
    /** @private */
    this.accept = accept
    /** @private */
    this.lost = lost
  }

  /** Runs until the spool is closed. */
  async run() {
    for (;;) {
      const taken = await this.spool.next()
      if (!taken) return
      if (taken.payload) await this.give(taken, taken.payload)
      else await this.lose(taken)
    }
  }

  /** @private @param {Taken} taken  @param {Buffer} payload */
  async give(taken, payload) {
    let left = taken.block.messages
    const settled = (/** @type {Message} */ message) => {
      this.messages--
      this.bytes -= message.bytes
      this.wake?.()
      left--
      if (left === 0) void this.spool.finish(taken)
    }
    for (const message of readRecords(payload, { settled })) {
      while (this.messages >= MESSAGES_MAX || this.bytes >= BYTES_MAX) {
        await new Promise((/** @type {(value?: undefined) => void} */ resolve) => {
          this.wake = resolve
        })
      }
      this.messages++
      this.bytes += message.bytes
      this.accept(message)
    }
  }

  /** @private @param {Taken} taken */
  async lose(taken) {
    this.lost(taken.block.messages)
    await this.spool.finish(taken)
  }
}
