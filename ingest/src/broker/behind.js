/** What the broker behind has of a connection: a port, from when there is something for it. */

import { connectFor } from './entrance/connect-packet.js'
import { TYPE } from './frame.js'
import { Port } from './port.js'
import { PLAIN_TERMS } from './v5/terms.js'

const DISCONNECT = Buffer.from([TYPE.disconnect << 4, 0])

/** @typedef {import('./connection.js').Connection} Connection */
/** @typedef {import('./entrance/connect-packet.js').Connect} Connect */
/** @typedef {import('./session.js').Session} Session */
/** @typedef {import('./v5/subscriber.js').Terms} Terms */

export class Behind {
  /** @type {Port | undefined} */
  #port
  /** What it gets when it has let the client in. @type {Buffer | undefined} */
  #first
  #connection

  /** @param {Connection} connection */
  constructor(connection) {
    this.#connection = connection
  }

  get isOpen() {
    return this.#port !== undefined
  }

  /**
   * Has aedes let the client in.
   *
   * @param {Pick<Connect, 'clean' | 'will'>} connect
   * @param {Session} session
   */
  open(connect, session) {
    this.#begin(new Port(this.#connection, false), connect, session)
  }

  /** The same for a client that has its CONNACK. @param {Session} session  @param {Buffer} first */
  openLate(session, first) {
    this.#first = first
    this.#begin(new Port(this.#connection, true), { clean: true, will: undefined }, session)
  }

  /**
   * @param {Port} port
   * @param {Pick<Connect, 'clean' | 'will'>} connect
   * @param {Session} session
   */
  #begin(port, connect, session) {
    this.#port = port
    this.#connection.server.broker.handle(port)
    port.push(connectFor(connect, session.name))
  }

  /** A client of MQTT 5 is there. @param {Terms} terms */
  open5(terms) {
    this.#port = new Port(this.#connection, false, terms)
    this.#connection.server.broker.handle(this.#port)
  }

  /** One that left nothing behind asks for something. */
  /** @param {Session} session  @param {Pick<Terms, 'receiveMax' | 'packetBytesMax'>} limits */
  openLate5({ name }, limits) {
    this.open5({ ...PLAIN_TERMS, ...limits, name })
  }

  /** aedes has let the client in. */
  opened() {
    if (this.#first) this.#port?.push(this.#first)
    this.#first = undefined
  }

  /** @param {Buffer} packet */
  push(packet) {
    this.#port?.push(packet)
  }

  /** Whether it closes the connection once it has heard that the client disconnects. */
  leave() {
    this.#port?.push(DISCONNECT)
    return this.#port !== undefined
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
