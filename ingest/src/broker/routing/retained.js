/** Retained messages, in memory and within its limit. */

import { isDesiredTopic } from '@sandglass/common/desired'
import { LEVEL_BYTES } from './level-tree.js'
import { ownBytes } from './own-bytes.js'
import { TopicTree } from './topic-tree.js'

/** Memory that a retained message takes besides topic and payload, in bytes. */
const RETAINED_BYTES = 512

/** Part of the share that clients can fill: the rest is for what is desired of devices. */
const CLIENTS_PART = 3 / 4

/**
 * @typedef {object} Retained
 * @property {string} topic
 * @property {Buffer} payload
 * @property {0 | 1 | 2} qos
 * @property {import('../v5/dialect.js').Delivery} [delivery]  Where its client spoke MQTT 5.
 */

export class RetainedMessages {
  #share
  #clockMs
  /** With the bytes of each. @type {TopicTree<{ message: Retained, bytes: number }>} */
  #byTopic = new TopicTree()

  /**
   * @param {import('@sandglass/common/memory-share').MemoryShare} share
   * @param {() => number} clockMs  By the clock that only goes forward.
   */
  constructor(share, clockMs) {
    this.#share = share
    this.#clockMs = clockMs
    /** Messages that there was no room for. */
    this.refused = 0
  }

  /**
   * An empty payload takes the last one away [MQTT-3.3.1-10].
   *
   * @param {Retained} message
   * @returns {boolean}  False if there is no room: then nothing is retained on its topic, rather
   *   than what is true no more [MQTT-3.3.1-7].
   */
  store({ topic, payload, qos, delivery }) {
    const before = this.#byTopic.get(topic)
    if (before) this.#drop(before)
    if (payload.length === 0) return true
    const passOnBytes = delivery?.passOn.length ?? 0
    const levelBytes = LEVEL_BYTES * topic.split('/').length
    const bytes = RETAINED_BYTES + levelBytes + 2 * topic.length + payload.length + passOnBytes
    if (!this.#take(topic, bytes)) {
      this.refused++
      return false
    }
    this.#byTopic.set(topic, { message: ownBytes({ topic, payload, qos, delivery }), bytes })
    return true
  }

  /** @param {string} topic  @param {number} bytes */
  #take(topic, bytes) {
    const share = this.#share
    const isTooMuch = share.bytes + bytes > share.bytesMax * CLIENTS_PART
    return (!isTooMuch || isDesiredTopic(topic)) && share.take(bytes)
  }

  /**
   * Those that match, and nothing now and then: there may be many that do not.
   *
   * @param {string} filter
   * @returns {Generator<Retained | undefined>}
   */
  *matching(filter) {
    for (const found of this.#byTopic.match(filter)) {
      if (found && this.#isOver(found.message)) this.#drop(found)
      else yield found?.message
    }
  }

  /** [MQTT5 3.3.2-5] @param {Retained} message */
  #isOver({ delivery }) {
    return delivery !== undefined && delivery.expiresMs <= this.#clockMs()
  }

  /** @param {{ message: Retained, bytes: number }} found */
  #drop({ message, bytes }) {
    this.#share.give(bytes)
    this.#byTopic.delete(message.topic)
  }
}
