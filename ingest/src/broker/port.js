/**
 * What the broker has in the place of a socket: it reads the packets that the server passes on.
 * What it sends goes to the connection, which cuts off a subscriber that does not read, by its
 * limit.
 */

import { EventEmitter } from 'node:events'

/**
 * The connection of a client: here, or in another process (`processes/hub.js`).
 *
 * @typedef {object} Served
 * @property {import('@sandglass/common/keys').Grant | undefined} grant  What its key allows.
 * @property {{ topics: import('@sandglass/common/topics').Topics }} server
 * @property {(filters: string[]) => number[] | Promise<number[]>} subscribe  A reason for each: 0
 *   if it may.
 * @property {(filters: string[]) => void} unsubscribe  They are subscribed to no more.
 * @property {() => void} answered  A SUBSCRIBE or UNSUBSCRIBE is: the next one may come.
 * @property {number} outgoingBytes  That were sent, and that its client has not taken.
 * @property {(topic: string) => boolean} mayPublishWill
 * @property {(bytes: Buffer) => void} send
 * @property {(reason?: string) => void} close
 */

/**
 * Emits `data` for each packet, `taken` when the client has taken something, `end` when it has left
 * in order, and `close`, once.
 */
export class Port extends EventEmitter {
  destroyed = false

  /**
   * @param {Served} connection
   * @param {import('./routing/subscriber.js').Terms} terms  How the client connects.
   */
  constructor(connection, terms) {
    super()
    this.connection = connection
    this.terms = terms
  }

  /** Passes a packet on, at once. @param {Buffer | null} packet  Null: there are no more. */
  push(packet) {
    if (this.destroyed) return
    if (packet) {
      this.emit('data', packet)
      return
    }
    this.emit('end')
    this.destroy()
  }

  destroy() {
    if (this.destroyed) return
    this.destroyed = true
    this.connection.close()
    process.nextTick(() => this.emit('close'))
  }
}
