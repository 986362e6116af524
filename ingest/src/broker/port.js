/**
 * What aedes has in the place of a socket: it reads the packets that the server passes on, and what
 * it writes goes to the client.
 *
 * A write is always taken. aedes would otherwise wait for a subscriber that does not read, and with
 * it everybody behind it; such a subscriber is cut off by the connection, by its limit.
 */

import { Duplex } from 'node:stream'

export class Port extends Duplex {
  /** @param {import('./connection.js').Connection} connection */
  constructor(connection) {
    super({ allowHalfOpen: false, emitClose: true })
    this.connection = connection
  }

  /** aedes takes what is there; nothing has to be fetched. */
  _read() {}

  /**
   * @param {Buffer} chunk
   * @param {string} _encoding
   * @param {(error?: Error | null) => void} done
   */
  _write(chunk, _encoding, done) {
    this.connection.send(chunk)
    done()
  }

  /**
   * @param {{ chunk: Buffer }[]} chunks  A packet that was written in pieces: one write.
   * @param {(error?: Error | null) => void} done
   */
  _writev(chunks, done) {
    this.connection.send(Buffer.concat(chunks.map(({ chunk }) => chunk)))
    done()
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
