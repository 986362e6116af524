/**
 * This process as one of several that are one ingest: what it gives to the others and takes from
 * them, by way of the first one (`first.js`).
 */

import { once } from 'node:events'
import { join } from 'node:path'
import { createRelays, handleOf, homeOf, lineOf, relay } from './handover.js'

/** @typedef {import('../broker/listener.js').Line} Line */
/** @typedef {'stats' | 'health' | 'metrics'} Question */
/** @typedef {import('./reports.js').Said<any>} Said */

/** Where in the directory that they share a process takes connections. @param {number} index */
const relayName = (index) => `process-${index}`

/** Where the broker is. */
export const HUB = 'broker'

export class Member {
  /** @type {Record<Question, () => unknown> | undefined} */
  #answers
  /** @type {((line: Line, bytes: Buffer) => void) | undefined} */
  #take
  /** Who waits for what the processes say. @type {Map<number, (said: Said[]) => void>} */
  #asked = new Map()
  #nextQuestion = 0
  /** @type {import('node:net').Server | undefined} */
  #relays

  /**
   * @param {object} parts
   * @param {number} parts.index
   * @param {number} parts.count
   * @param {string} parts.directory  That they share.
   */
  constructor({ index, count, directory }) {
    this.index = index
    this.count = count
    this.directory = directory
    process.on('message', (message, handle) => this.#hear(/** @type {any} */ (message), handle))
  }

  /** Where the broker is. */
  get hub() {
    return join(this.directory, HUB)
  }

  /** @param {Record<Question, () => unknown>} answers  About this process. */
  answer(answers) {
    this.#answers = answers
  }

  /**
   * Takes connections of its clients that came to others. They send some from now on.
   *
   * @param {(line: Line, bytes: Buffer) => void} take
   */
  async start(take) {
    this.#take = take
    this.#relays = createRelays(take)
    this.#relays.listen(join(this.directory, relayName(this.index)))
    await once(this.#relays, 'listening')
    this.#send({ ready: true })
  }

  stop() {
    this.#take = undefined
    this.#relays?.close()
  }

  /** Another process that a client belongs to. @param {string} clientId */
  elsewhere(clientId) {
    if (clientId === '') return undefined
    const home = homeOf(clientId, this.count)
    return home === this.index ? undefined : home
  }

  /** @param {number} to  @param {Line} line  @param {Buffer} bytes  What was read of it. */
  give(to, line, bytes) {
    const handle = handleOf(line)
    if (handle) this.#send({ to, bytes: bytes.toString('base64') }, handle)
    else relay(line, bytes, join(this.directory, relayName(to)))
  }

  /** What all processes say. @param {Question} what  @returns {Promise<Said[]>} */
  ask(what) {
    const question = this.#nextQuestion++
    this.#send({ question, what })
    return new Promise((resolve) => this.#asked.set(question, resolve))
  }

  /** @param {object} message  @param {any} [handle] */
  #send(message, handle) {
    const sent = () => handle?.close()
    process.send?.(message, handle, {}, sent)
  }

  /** @param {any} message  @param {any} handle */
  #hear(message, handle) {
    if (handle) {
      if (this.#take) this.#take(lineOf(handle), Buffer.from(message.bytes, 'base64'))
      else handle.close()
    } else if (message.said) {
      this.#asked.get(message.question)?.(message.said)
      this.#asked.delete(message.question)
    } else if (message.what) {
      void this.#tell(message.what, message.question)
    }
  }

  /** @param {Question} what  @param {number} question */
  async #tell(what, question) {
    const value = await this.#answers?.[what]()
    if (value !== undefined) this.#send({ question, value })
  }
}
