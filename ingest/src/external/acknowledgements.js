/**
 * What one connection to a broker owes it: a PUBACK for each message of QoS 1, in the order in
 * which they arrived [MQTT-4.6.0-2], once the message is settled. Those that become due in one turn
 * leave in one write.
 *
 * Each connection has its own. Packet ids mean nothing on another connection, so what is still owed
 * when one closes is forgotten: the broker sends those messages again.
 */

import { pushAcknowledgement, TYPE } from '../broker/frame.js'

/** Settled entries that are kept before the queue is cut. */
const QUEUE_CUT = 64

/** @typedef {import('../message.js').Message} Message */

/**
 * @typedef {object} Stream
 * @property {(bytes: Buffer) => unknown} write
 * @property {boolean} [destroyed]
 */

export class Acknowledgements {
  /**
   * @param {Stream} stream  The connection, by which it is known which one this is.
   * @param {() => void} [onWritten]  Called when some were written.
   */
  constructor(stream, onWritten = () => {}) {
    this.stream = stream
    /** @private */
    this.onWritten = onWritten
    /** @private @type {Message[]} */
    this.queue = []
    /** The first of the queue that is not acknowledged. @private */
    this.head = 0
    /** @private @type {NodeJS.Immediate | undefined} */
    this.turn = undefined
    /** @private */
    this.isClosed = false
  }

  /** Messages that are not acknowledged. */
  get count() {
    return this.queue.length - this.head
  }

  /** A message of QoS 1 has arrived. @param {Message} message */
  add(message) {
    if (!this.isClosed) this.queue.push(message)
  }

  /** A message is durable, or is none of ours. @param {Message} message */
  settled(message) {
    if (this.queue[this.head] !== message || this.turn) return
    this.turn = setImmediate(() => this.flush())
  }

  /** Writes what is due. */
  flush() {
    clearImmediate(this.turn)
    this.turn = undefined
    /** @type {number[]} */
    const bytes = []
    for (; this.head < this.queue.length && this.queue[this.head].isSettled; this.head++) {
      pushAcknowledgement(bytes, TYPE.puback, this.queue[this.head].packetId)
    }
    this.cut()
    if (bytes.length === 0 || this.stream.destroyed) return
    this.stream.write(Buffer.from(bytes))
    this.onWritten()
  }

  /** The connection is gone. */
  close() {
    this.isClosed = true
    this.queue.length = 0
    this.head = 0
  }

  /** Gives back the memory of what is done with. @private */
  cut() {
    if (this.head === this.queue.length) {
      this.queue.length = 0
      this.head = 0
    } else if (this.head >= QUEUE_CUT && 2 * this.head >= this.queue.length) {
      this.queue.splice(0, this.head)
      this.head = 0
    }
  }
}
