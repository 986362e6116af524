// Free ports on a loopback address, below the range from which the kernel picks the ports of
// outgoing connections: a part that is killed and started again must find its port still free.
import { createServer } from 'node:net'

const PORT_MIN = 20_000
const PORT_MAX = 32_000
const ATTEMPTS_MAX = 200

/** @type {Set<number>} Given to somebody in this process already. */
const given = new Set()

/**
 * @param {string} host
 * @returns {Promise<number>}
 */
export async function freePort(host) {
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
    const port = PORT_MIN + Math.floor(Math.random() * (PORT_MAX - PORT_MIN))
    if (given.has(port) || !(await isFree(host, port))) continue
    given.add(port)
    return port
  }
  throw new Error(`no free port on ${host} in ${ATTEMPTS_MAX} attempts`)
}

/**
 * @param {string} host
 * @param {number} port
 * @returns {Promise<boolean>}
 */
export function isFree(host, port) {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen(port, host, () => server.close(() => resolve(true)))
  })
}
