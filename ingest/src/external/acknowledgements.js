/**
 * What one connection to a broker owes it: a PUBACK for each message of QoS 1, in the order in
 * which they arrived [MQTT-4.6.0-2], once the message is settled. Those that become due in one turn
 * leave in one write.
 *
 * Each connection has its own. Packet ids mean nothing on another connection, so what is still owed
 * when one closes is forgotten: the broker sends those messages again.
 */

import { AcknowledgementQueue } from '../broker/acknowledgement-queue.js'
import { pushAcknowledgement, TYPE } from '../broker/frame.js'

/** @typedef {import('../message/message.js').Message} Message */

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
    /** @private @type {AcknowledgementQueue<Message>} */
    this.turns = new AcknowledgementQueue()
    /** @private @type {NodeJS.Immediate | undefined} */
    this.turn = undefined
    /** @private */
    this.isClosed = false
  }

  /** Messages that are not acknowledged. */
  get count() {
    return this.turns.count
  }

  /** A message of QoS 1 has arrived. @param {Message} message */
  add(message) {
    if (!this.isClosed) this.turns.push(message)
  }

  /** A message is durable, or is none of ours. @param {Message} message */
  settled(message) {
    if (this.turns.first !== message || this.turn) return
    this.turn = setImmediate(() => this.flush())
  }

  /** Writes what is due. */
  flush() {
    clearImmediate(this.turn)
    this.turn = undefined
    /** @type {number[]} */
    const bytes = []
    for (let one = this.turns.take(); one; one = this.turns.take()) {
      pushAcknowledgement(bytes, TYPE.puback, one.packetId)
    }
    if (bytes.length === 0 || this.stream.destroyed) return
    this.stream.write(Buffer.from(bytes))
    this.onWritten()
  }

  /** The connection is gone. */
  close() {
    this.isClosed = true
    this.turns.clear()
  }
}
