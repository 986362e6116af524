/**
 * More doors to one listening socket. Node takes one connection a turn of its event loop from a
 * handle that listens, and where clients also publish a turn takes milliseconds: thousands who come
 * back at once would wait for as many turns. With more handles it takes more. They must be of the
 * same socket, so that its port is still nobody else's; but only a process that is sent a handle
 * gets a descriptor of its own. So a helper is started for a moment, which sends back what it is
 * sent (`door-copier.js`).
 */

import { fork } from 'node:child_process'
import { createServer } from 'node:net'
import { fileURLToPath } from 'node:url'

const COPIER = fileURLToPath(new URL('./door-copier.js', import.meta.url))

/** How long the helper may take on a busy machine, in milliseconds. */
const COPY_MS_MAX = 60_000

/** @typedef {import('node:net').Server} Server */
/** @typedef {import('node:child_process').ChildProcess} ChildProcess */

/**
 * Whoever comes in by one of the doors is a connection of the server.
 *
 * @typedef {object} Doors
 * @property {Server[]} servers  Those that are open; none is left out when all are to be closed.
 * @property {Promise<void>} opened  Rejects if they cannot be had: what is open serves on.
 * @property {() => Promise<void>} stop  Opens no more; resolves when nobody else has the socket.
 */

/** @returns {ChildProcess} */
function startCopier() {
  return fork(COPIER, [], {
    execArgv: [],
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    timeout: COPY_MS_MAX,
  })
}

/**
 * @param {Server} server  It listens, and allows half-open connections.
 * @param {object} options
 * @param {number} options.count  How many doors more.
 * @param {number} options.backlog  Of the socket: each handle that listens sets it anew.
 * @param {ChildProcess} [options.helper]
 * @returns {Doors}
 */
export function openDoors(server, { count, backlog, helper = startCopier() }) {
  /** @type {Server[]} */
  const servers = []
  let isStopped = false
  helper.on('message', (_message, /** @type {any} */ handle) => {
    if (isStopped) handle?.close()
    else if (handle) servers.push(openDoor(server, handle, backlog))
  })
  const opened = new Promise((/** @type {(value: void) => void} */ resolve, reject) => {
    helper.once('error', reject)
    helper.once('close', (code, signal) => {
      if (isStopped || servers.length === count) resolve()
      else reject(new Error(`the helper ended with ${signal ?? code} after ${servers.length}`))
    })
  })
  // A server that is sent would accept connections over there; what it stands on does not.
  const { _handle: handle } = /** @type {any} */ (server)
  helper.send({ count }, handle, (error) => error && helper.kill())
  const gone = new Promise((/** @type {(value: void) => void} */ resolve) => {
    helper.once('close', () => resolve())
  })
  const stop = () => {
    isStopped = true
    helper.kill('SIGKILL')
    return gone
  }
  return { servers, opened, stop }
}

/** @param {Server} server  @param {any} handle  @param {number} backlog */
function openDoor(server, handle, backlog) {
  const door = createServer({ allowHalfOpen: true, noDelay: true })
  door.on('connection', (socket) => server.emit('connection', socket))
  return door.listen(handle, backlog)
}
