/** Says what a message says: whose measurements they are, and whether its client may send them. */

import { FORMAT, parseItem } from '@sandglass/common/bodies'
import { decodeWhole } from '@sandglass/common/formats/registry'
import { PayloadError } from '@sandglass/common/payload'
import { sensorId } from '@sandglass/common/sensor'
import { isLineTopic } from '@sandglass/common/topics'
import { Refusal } from './refusal.js'

/** What a topic that is remembered costs besides its text, in bytes. */
const ROUTE_BYTES = 250

/** @typedef {import('@sandglass/common/memory-share').MemoryShare} MemoryShare */
/** @typedef {import('./message.js').Message} Message */
/** @typedef {import('../sensors/series.js').Sensor} Sensor */
/** @typedef {import('@sandglass/common/measurement').Measurement} Measurement */
/** @typedef {{ sensor: Sensor, metric: string | undefined }} Route */

/**
 * @typedef {object} Decoded
 * @property {Sensor | string} sensor  A name where the topic was not seen before.
 * @property {Measurement[]} measurements  At least one.
 */

export class Decoder {
  #topics
  #lineTopic
  #share
  /** What topics mean that made sense before. @type {Map<string, Route>} */
  #routes = new Map()
  #routesBytes = 0

  /**
   * @param {object} parts
   * @param {import('@sandglass/common/topics').Topics} parts.topics  That carry measurements.
   * @param {string} parts.lineTopic  First levels of topics whose messages are line protocol.
   * @param {MemoryShare} parts.share  For what is remembered of topics.
   */
  constructor({ topics, lineTopic, share }) {
    this.#topics = topics
    this.#lineTopic = lineTopic
    this.#share = share
  }

  /**
   * Whether a message is a measurement, or should have been: a dead letter should, also when no
   * template fits its topic any more.
   *
   * @param {Message} message
   */
  takes({ format, topic, arrival }) {
    if (format !== FORMAT.topic || arrival === 'replay') return true
    return this.#routes.has(topic) || this.#topics.carry(topic)
  }

  /** Whether a message is of several lines. @param {Message} message */
  isOfLines({ topic }) {
    return isLineTopic(this.#lineTopic, topic)
  }

  /**
   * @param {Message} message
   * @returns {Decoded | Refusal}
   */
  decode(message) {
    try {
      return this.#decode(message)
    } catch (error) {
      if (!(error instanceof PayloadError)) throw error
      return new Refusal(error.fault, error.message)
    }
  }

  /**
   * @param {Message} message
   * @returns {Decoded | Refusal}
   * @throws {PayloadError}
   */
  #decode(message) {
    const { topic, payload, format } = message
    if (message.rights.kind === 'none') return forbidden(message)
    if (format !== FORMAT.topic) {
      const decoded = parseItem(message)
      return mayWrite(message, decoded.sensor) ? decoded : forbidden(message)
    }
    const { sensor, metric } = this.#route(topic) ?? this.#topics.parse(topic)
    // Whoever may not write does not hear what would be wrong with it.
    if (!mayWrite(message, sensor)) return forbidden(message)
    // The name of a route's sensor does not matter here.
    const place = { topic, sensor: typeof sensor === 'string' ? sensor : sensor.name, metric }
    return { sensor, measurements: decodeWhole(format, place, payload).measurements }
  }

  /** @param {string} topic */
  #route(topic) {
    const route = this.#routes.get(topic)
    if (route?.sensor.state !== 'forgotten') return route
    this.#routes.delete(topic)
    return undefined
  }

  /**
   * Remembers what a topic means, as it made sense.
   *
   * @param {Message} message
   * @param {Sensor} sensor
   */
  remember({ format, topic }, sensor) {
    if (format !== FORMAT.topic || this.#routes.has(topic)) return
    const bytes = 2 * topic.length + ROUTE_BYTES
    if (!this.#share.take(bytes)) {
      this.#share.give(this.#routesBytes)
      this.#routesBytes = 0
      this.#routes.clear()
      if (!this.#share.take(bytes)) return
    }
    this.#routesBytes += bytes
    this.#routes.set(topic, { sensor, metric: this.#topics.parse(topic).metric })
  }
}

/** @param {Message} message  @param {Sensor | string} sensor */
function mayWrite({ rights }, sensor) {
  if (rights.kind === 'all') return true
  return rights.mayWrite(typeof sensor === 'string' ? sensorId(sensor) : sensor.id)
}

/** @param {Message} message */
function forbidden({ clientId }) {
  return new Refusal('forbidden', `${clientId} may not publish here`)
}
