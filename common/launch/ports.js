/** Whether the addresses that a platform is to listen on are free, and who has them if not. */

import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { createServer } from 'node:net'
import { Failure } from './failure.js'

/** @typedef {{ host: string, port: number }} Address */
/** @typedef {{ what: string, flag: string, address: Address }} Listener */

/** The environment variable that means the same as a flag. @param {string} flag */
const variableOf = (flag) => flag.slice(2).replaceAll('-', '_').toUpperCase()

/** @param {Address} address */
export function format({ host, port }) {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}

/**
 * Refuses addresses that are taken, or given to two.
 *
 * @param {Listener[]} listeners
 * @throws {Failure}  One line that names the flag and the variable that choose another.
 */
export async function checkPorts(listeners) {
  /** @type {Map<string, Listener>} */
  const seen = new Map()
  for (const listener of listeners) {
    const { what, flag, address } = listener
    const text = format(address)
    const choose = `${flag} HOST:PORT (or ${variableOf(flag)})`
    const other = seen.get(text)
    if (other) throw new Failure(`${what} and ${other.what} are both given ${text}: use ${choose}`)
    seen.set(text, listener)
    const code = await probe(address)
    if (code === 'EADDRINUSE') {
      const holder = holderOf(address.port)
      throw new Failure(
        `port ${address.port} (${what}) is taken${holder ? ` by ${holder}` : ''}: stop what ` +
          `listens there, or choose another with ${choose}`,
      )
    }
    if (code) throw new Failure(`cannot listen on ${text} (${what}): ${code}; use ${choose}`)
  }
}

/**
 * @param {Address} address
 * @returns {Promise<string | undefined>}  Why nobody can listen there.
 */
function probe({ host, port }) {
  return new Promise((resolve) => {
    const server = createServer()
    server.on('error', (/** @type {NodeJS.ErrnoException} */ error) => resolve(error.code))
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(undefined)))
  })
}

/**
 * The process that listens on a port, as far as we may see: `process 1234 (java)`.
 *
 * @param {number} port
 * @returns {string | undefined}
 */
function holderOf(port) {
  const inodes = new Set(
    ['/proc/net/tcp', '/proc/net/tcp6'].flatMap((path) => listening(path, port)),
  )
  for (const pid of readdirSync('/proc').filter((entry) => /^\d+$/.test(entry))) {
    try {
      const descriptors = readdirSync(`/proc/${pid}/fd`)
      if (descriptors.some((fd) => inodes.has(targetOf(`/proc/${pid}/fd/${fd}`)))) {
        return `process ${pid} (${readFileSync(`/proc/${pid}/comm`, 'utf8').trim()})`
      }
    } catch {
      // Another user's process, or one that has just ended.
    }
  }
  return undefined
}

/** What a descriptor is of; nothing if it was closed meanwhile. @param {string} path */
function targetOf(path) {
  try {
    return readlinkSync(path)
  } catch {
    return ''
  }
}

/**
 * The sockets that listen on a port, as `/proc/PID/fd` names them.
 *
 * @param {string} path  A table of the kernel's, as proc(5) describes it.
 * @param {number} port
 */
function listening(path, port) {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  try {
    return readFileSync(path, 'utf8')
      .split('\n')
      .map((line) => line.trim().split(/\s+/))
      .filter(([, local, , state]) => state === '0A' && local.endsWith(suffix))
      .map((fields) => `socket:[${fields[9]}]`)
  } catch {
    return []
  }
}
