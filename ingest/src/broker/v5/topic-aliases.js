/**
 * Topics that a client has given numbers, for as long as its connection lasts [MQTT5 3.3.2.3.4].
 * What they take is counted with its subscriptions.
 */

import { ProtocolError } from '../frame.js'
import { REASON } from './reason.js'

/** Most aliases of a connection. */
export const ALIASES_MAX = 64

/** Memory of the topics of a connection that have aliases, in bytes: a kilobyte each. */
export const ALIAS_BYTES_MAX = 2 ** 16

/** Memory that an alias takes besides its topic, in bytes. */
const ENTRY_BYTES = 64

/** @param {string} topic */
const aliasBytes = (topic) => ENTRY_BYTES + 2 * topic.length

export class TopicAliases {
  /** @type {Map<number, string>} */
  #topics = new Map()
  #take
  #give
  #bytes = 0

  /**
   * @param {object} room
   * @param {(bytes: number) => boolean} room.take  False where there is none.
   * @param {(bytes: number) => void} room.give
   */
  constructor({ take, give }) {
    this.#take = take
    this.#give = give
  }

  /**
   * The topic of a PUBLISH.
   *
   * @param {string} topic  Empty where the alias stands for it.
   * @param {number | undefined} alias
   * @returns {string}
   * @throws {ProtocolError}
   */
  resolve(topic, alias) {
    if (alias === undefined) {
      if (topic === '') throw new ProtocolError('a PUBLISH without a topic', REASON.protocol)
      return topic
    }
    // [MQTT-3.3.2-8], [MQTT-3.3.2-9]
    if (alias === 0 || alias > ALIASES_MAX) {
      throw new ProtocolError(`topic alias ${alias}`, REASON.aliasInvalid)
    }
    const known = this.#topics.get(alias)
    if (topic === '') {
      if (known === undefined) throw new ProtocolError('an unknown topic alias', REASON.protocol)
      return known
    }
    if (topic !== known) this.#set(alias, topic, known)
    return topic
  }

  /** @param {number} alias  @param {string} topic  @param {string | undefined} known */
  #set(alias, topic, known) {
    const more = aliasBytes(topic) - (known === undefined ? 0 : aliasBytes(known))
    const isOver = this.#bytes + more > ALIAS_BYTES_MAX
    if (isOver || (more > 0 && !this.#take(more))) {
      throw new ProtocolError('topic aliases take too much memory', REASON.quota)
    }
    if (more < 0) this.#give(-more)
    this.#bytes += more
    this.#topics.set(alias, topic)
  }

  /** Forgets all. */
  clear() {
    this.#give(this.#bytes)
    this.#bytes = 0
    this.#topics.clear()
  }
}
