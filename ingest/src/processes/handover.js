/**
 * Gives a connection to the process that its client belongs to. What a client id means (a session,
 * what it sent before, an older connection) is known to one process, always the same; but the
 * kernel gives a new connection to any of them.
 *
 * A plain connection is given as such, once its CONNECT is read. Encryption and frames of a
 * WebSocket stay where they began: bytes go back and forth from there, by a socket in a directory.
 *
 * A handle that is passed on must not be read meanwhile, which Node does not offer for a connection
 * that was read before: `_handle` is private to Node.
 */

import { createHash } from 'node:crypto'
import { connect, createServer, Socket } from 'node:net'
import { TLSSocket } from 'node:tls'

const NEWLINE = 10

/** Longest first line of a connection that is passed on by bytes. */
const ADDRESS_BYTES_MAX = 100

/** @typedef {import('../broker/listener.js').Line} Line */

/** Which of the processes a client belongs to. @param {string} clientId  @param {number} count */
export function homeOf(clientId, count) {
  return createHash('sha1').update(clientId).digest().readUInt32LE(0) % count
}

/**
 * What stands for a connection in the kernel, which its socket here has lost.
 *
 * @param {Line} line
 * @returns {any}  Undefined where it is more than that: TLS, a WebSocket.
 */
export function handleOf(line) {
  if (!(line instanceof Socket) || line instanceof TLSSocket) return undefined
  const socket = /** @type {any} */ (line)
  const handle = socket._handle
  if (!handle) return undefined
  handle.reading = false
  handle.readStop()
  socket._handle = null
  socket.destroy()
  return handle
}

/** @param {any} handle  @returns {Line} */
export function lineOf(handle) {
  const options = { handle, allowHalfOpen: true }
  return /** @type {Line} */ (new Socket(/** @type {any} */ (options)))
}

/**
 * Goes between a client and the process that it belongs to.
 *
 * @param {Line} line
 * @param {Buffer} bytes  What was read of it.
 * @param {string} path  Where that process takes it.
 */
export function relay(line, bytes, path) {
  const other = connect({ path, allowHalfOpen: true })
  other.write(`${line.remoteAddress ?? ''}\n`)
  other.write(bytes)
  other.on('error', () => line.destroy())
  other.on('close', () => line.destroySoon())
  line.on('close', () => other.destroy())
  line.pipe(other)
  other.pipe(line)
}

/**
 * Takes what {@link relay} brings.
 *
 * @param {(line: Line, bytes: Buffer) => void} take
 */
export function createRelays(take) {
  return createServer({ allowHalfOpen: true }, (socket) => {
    let start = Buffer.alloc(0)
    socket.on('error', () => {})
    const read = (/** @type {Buffer} */ chunk) => {
      start = Buffer.concat([start, chunk])
      const end = start.indexOf(NEWLINE)
      if (end < 0 && start.length > ADDRESS_BYTES_MAX) socket.destroy()
      if (end < 0) return
      socket.off('data', read)
      const remoteAddress = start.toString('latin1', 0, end)
      const line = Object.defineProperty(socket, 'remoteAddress', { value: remoteAddress })
      take(/** @type {Line} */ (line), start.subarray(end + 1))
    }
    socket.on('data', read)
  })
}
