/** Retained messages, in memory and within its limit. */

import { matchesTopic } from '@sandglass/common/topic-match'
import { copyOf } from '../frame.js'

/** Memory that a retained message takes besides topic and payload, in bytes. */
const RETAINED_BYTES = 512

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
  /** By topic, with the bytes of each. @type {Map<string, { message: Retained, bytes: number }>} */
  #byTopic = new Map()

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

  /** @param {Retained} message  An empty payload takes the last one away [MQTT-3.3.1-10]. */
  store({ topic, payload, qos, delivery }) {
    const before = this.#byTopic.get(topic)?.bytes ?? 0
    const passOnBytes = delivery?.passOn.length ?? 0
    const wholeBytes = RETAINED_BYTES + 2 * topic.length + payload.length + passOnBytes
    const bytes = payload.length === 0 ? 0 : wholeBytes
    this.#share.give(before)
    if (bytes > 0 && !this.#share.take(bytes)) {
      this.#share.add(before)
      this.refused++
      return
    }
    // A copy: it must not keep alive the whole chunk in which it came.
    const message = { topic, payload: copyOf(payload), qos, delivery }
    if (bytes > 0) this.#byTopic.set(topic, { message, bytes })
    else this.#byTopic.delete(topic)
  }

  /** @param {string} filter  @returns {Generator<Retained>} */
  *matching(filter) {
    for (const [topic, { message, bytes }] of this.#byTopic) {
      if (!matchesTopic(filter, topic)) continue
      const { delivery } = message
      // [MQTT5 3.3.2-5]
      if (delivery && delivery.expiresMs <= this.#clockMs()) this.#drop(topic, bytes)
      else yield message
    }
  }

  /** @param {string} topic  @param {number} bytes */
  #drop(topic, bytes) {
    this.#share.give(bytes)
    this.#byTopic.delete(topic)
  }
}
