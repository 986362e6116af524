// Free ports on a loopback address, below the range from which the kernel picks the ports of
// outgoing connections: a part that is killed and started again must find its port still free.
// Tests of other processes are kept off it, too: whoever is given a port holds an abstract socket
// of its number, which nobody else can bind, and which the kernel frees when its process is gone.
import { createServer } from 'node:net'

const PORT_MIN = 20_000
const PORT_MAX = 32_000
const ATTEMPTS_MAX = 200

/**
 * @param {string} host
 * @returns {Promise<number>}
 */
export async function freePort(host) {
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
    const port = PORT_MIN + Math.floor(Math.random() * (PORT_MAX - PORT_MIN))
    if ((await reserve(port)) && (await isFree(host, port))) return port
  }
  throw new Error(`no free port on ${host} in ${ATTEMPTS_MAX} attempts`)
}

/**
 * Keeps a port for this process; false if somebody has it.
 *
 * @param {number} port
 * @returns {Promise<boolean>}
 */
function reserve(port) {
  return new Promise((resolve) => {
    const holder = createServer()
    holder.once('error', () => resolve(false))
    holder.listen(`\0sandglass-test-port-${port}`, () => resolve(true))
    holder.unref()
  })
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
