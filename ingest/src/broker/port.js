/**
 * What aedes has in the place of a socket: it reads the packets that the server passes on, and what
 * it writes goes to the client.
 *
 * A write is always taken. aedes would otherwise wait for a subscriber that does not read, and with
 * it everybody behind it; such a subscriber is cut off by the connection, by its limit.
 */

import { Duplex } from 'node:stream'

/**
 * The connection of a client: here, or in another process (`processes/hub.js`).
 *
 * @typedef {object} Served
 * @property {import('@sandglass/common/keys').Grant | undefined} grant  What its key allows.
 * @property {{ topics: import('@sandglass/common/topics').Topics }} server
 * @property {(filter: string) => number | Promise<number>} subscribe  A reason code: 0 if it may.
 * @property {(topic: string) => boolean} mayPublishWill
 * @property {(bytes: Buffer) => void} send
 * @property {() => void} opened
 * @property {(reason?: string) => void} close
 */

export class Port extends Duplex {
  #isAnswered

  /**
   * @param {Served} connection
   * @param {boolean} isAnswered  Whether the client has a CONNACK: that of aedes is then left out.
   * @param {import('./v5/subscriber.js').Terms} [terms]  How a client of MQTT 5 connects: in the
   *   place of a CONNECT.
   */
  constructor(connection, isAnswered, terms) {
    super({ allowHalfOpen: false, emitClose: true })
    this.connection = connection
    this.terms = terms
    this.#isAnswered = isAnswered
  }

  /** aedes has let the client in: what it writes from now on goes to the client. */
  opened() {
    this.#isAnswered = false
    this.connection.opened()
  }

  /** aedes takes what is there; nothing has to be fetched. */
  _read() {}

  /**
   * @param {Buffer} chunk
   * @param {string} _encoding
   * @param {(error?: Error | null) => void} done
   */
  _write(chunk, _encoding, done) {
    this.#send(chunk)
    done()
  }

  /**
   * @param {{ chunk: Buffer }[]} chunks  A packet that was written in pieces: one write.
   * @param {(error?: Error | null) => void} done
   */
  _writev(chunks, done) {
    this.#send(Buffer.concat(chunks.map(({ chunk }) => chunk)))
    done()
  }

  /** @param {Buffer} bytes */
  #send(bytes) {
    if (!this.#isAnswered) this.connection.send(bytes)
  }

  /**
   * @param {Error | null} error
   * @param {(error?: Error | null) => void} done
   */
  _destroy(error, done) {
    this.connection.close(error?.message)
    done()
  }
}
