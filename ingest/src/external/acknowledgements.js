/**
 * What one connection to a broker owes it: a PUBACK for each message of QoS 1, in the order in
 * which they arrived [MQTT-4.6.0-2], once the message is settled. Those that become due in one turn
 * of the event loop leave in one write.
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
  #onWritten
  #session
  /** @type {AcknowledgementQueue<Message>} */
  #queue = new AcknowledgementQueue()
  /** @type {NodeJS.Immediate | undefined} */
  #flushing
  #isClosed = false

  /**
   * @param {Stream} stream  The connection, by which it is known which one this is.
   * @param {() => void} [onWritten]  Called when some were written.
   * @param {Pick<import('../broker/session.js').Session, 'acknowledged'>} [session]
   */
  constructor(stream, onWritten = () => {}, session = undefined) {
    this.stream = stream
    this.#onWritten = onWritten
    this.#session = session
  }

  /** Messages that are not acknowledged. */
  get count() {
    return this.#queue.count
  }

  /** A message of QoS 1 has arrived. @param {Message} message */
  add(message) {
    if (!this.#isClosed) this.#queue.push(message)
  }

  /** A message is durable, or is none of ours. @param {Message} message */
  settled(message) {
    if (this.#queue.first !== message || this.#flushing) return
    this.#flushing = setImmediate(() => this.flush())
  }

  /** Writes what is due. */
  flush() {
    clearImmediate(this.#flushing)
    this.#flushing = undefined
    /** @type {number[]} */
    const bytes = []
    for (let one = this.#queue.take(); one; one = this.#queue.take()) {
      pushAcknowledgement(bytes, TYPE.puback, one.packetId)
      if (!this.#isClosed) this.#session?.acknowledged(one.packetId, performance.now())
    }
    if (bytes.length === 0 || this.stream.destroyed) return
    this.stream.write(Buffer.from(bytes))
    this.#onWritten()
  }

  /** The connection is gone. */
  close() {
    this.#isClosed = true
    this.#queue.clear()
  }
}
