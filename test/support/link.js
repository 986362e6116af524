// A TCP link that can be cut: what stands between the services and a database that is not ours to
// kill. Cutting it in the middle of writes leaves the services as uncertain as a crash does: the
// request may have been carried out, its answer never comes.
import { connect, createServer } from 'node:net'

/** @typedef {{ host: string, port: number }} Address */

export class Link {
  #server
  /** @type {Set<import('node:net').Socket>} */
  #sockets = new Set()
  #up = true

  /** @param {Address} target */
  constructor(target) {
    this.#server = createServer((near) => {
      if (!this.#up) {
        near.destroy()
        return
      }
      const far = connect({ ...target, noDelay: true })
      near.setNoDelay(true)
      this.#join(near, far)
      this.#join(far, near)
    })
  }

  /** @param {Address} address */
  async listen({ host, port }) {
    await new Promise((resolve, reject) => {
      this.#server.once('error', reject)
      this.#server.listen(port, host, () => resolve(undefined))
    })
  }

  /** Resets every connection and lets no new one through. */
  cut() {
    this.#up = false
    for (const socket of this.#sockets) socket.resetAndDestroy()
  }

  /** Lets connections through again. */
  mend() {
    this.#up = true
  }

  async close() {
    const closed = new Promise((resolve) => this.#server.close(resolve))
    this.cut()
    await closed
  }

  /**
   * @param {import('node:net').Socket} from
   * @param {import('node:net').Socket} to
   */
  #join(from, to) {
    this.#sockets.add(from)
    from.pipe(to)
    from.on('error', () => {})
    from.on('close', () => {
      this.#sockets.delete(from)
      to.destroy()
    })
  }
}
