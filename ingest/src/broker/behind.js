/** What the broker behind has of a connection: a port, from when there is something for it. */

import { TYPE } from './frame.js'
import { Port } from './port.js'
import { PLAIN_TERMS } from './routing/terms.js'
import { PACKET_BYTES_MAX, RECEIVE_MAX } from './v5/dialect.js'

const DISCONNECT = Buffer.from([TYPE.disconnect << 4, 0])

/** What a client of 3.1.1 may be sent. */
const UNLIMITED = Object.freeze({ receiveMax: RECEIVE_MAX, packetBytesMax: PACKET_BYTES_MAX })

/** @typedef {import('./connection.js').Connection} Connection */
/** @typedef {import('./session.js').Session} Session */
/** @typedef {import('./routing/subscriber.js').Terms} Terms */

export class Behind {
  /** @type {Port | undefined} */
  #port
  #connection

  /** @param {Connection} connection */
  constructor(connection) {
    this.#connection = connection
  }

  get isOpen() {
    return this.#port !== undefined
  }

  /** The client is let in. @param {Terms} terms */
  open(terms) {
    this.#port = new Port(this.#connection, terms)
    this.#connection.server.broker.handle(this.#port)
  }

  /** One that left nothing behind asks for something. */
  /** @param {Session} session  @param {Pick<Terms, 'receiveMax' | 'packetBytesMax'>} [limits] */
  openLate({ name, version }, limits = UNLIMITED) {
    this.open({ ...PLAIN_TERMS, ...limits, name, version })
  }

  /** @param {Buffer} packet */
  push(packet) {
    this.#port?.push(packet)
  }

  /** The client has taken bytes. */
  taken() {
    this.#port?.emit('taken')
  }

  /** The connection is gone. @param {boolean} isLeaving  Its will is none any more. */
  close(isLeaving) {
    const port = this.#port
    if (isLeaving && port && !port.destroyed) {
      // [MQTT-3.1.2-10]: after a DISCONNECT there is no will.
      port.push(DISCONNECT)
      port.push(null)
    } else {
      port?.destroy()
    }
  }
}
