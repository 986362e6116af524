/** Says what a message says: whose measurements they are, and whether its client may send them. */

import { FORMAT } from '@sandglass/common/bodies'
import { readEnvelope } from '@sandglass/common/expressions/envelope'
import { keepBelieved } from '@sandglass/common/formats/believed'
import { expression } from '@sandglass/common/formats/expression'
import { decode } from '@sandglass/common/formats/registry'
import { PayloadError } from '@sandglass/common/payload'
import { sensorId } from '@sandglass/common/sensor'
import { isLineTopic } from '@sandglass/common/topics'
import { Refusal } from './refusal.js'

/** What a topic that is remembered costs besides its text, in bytes; with words, more. */
const ROUTE_BYTES = 350
const WORDS_BYTES = 600

/** @typedef {import('@sandglass/common/memory-share').MemoryShare} MemoryShare */
/** @typedef {import('./message.js').Message} Message */
/** @typedef {import('../sensors/series.js').Sensor} Sensor */
/** @typedef {import('@sandglass/common/measurement').Measurement} Measurement */
/** @typedef {import('@sandglass/common/formats/types').Place} Place */
/** @typedef {import('@sandglass/common/formats/types').RefusedField} RefusedField */
/** @typedef {{ sensor: Sensor, place: Place, format: number }} Route */

/**
 * @typedef {object} Decoded
 * @property {Sensor | string} sensor  A name where the topic was not seen before.
 * @property {Measurement[]} measurements  None where it is understood and says nothing.
 * @property {RefusedField[]} refused  Fields that are no measurements.
 * @property {ReadonlyMap<string, string>} [units]  That it tells, by metric.
 * @property {boolean} [isRelative]  Whether times of it follow from when it was first received.
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
   * template fits its topic any more. The message gets the format of its topic, which it keeps:
   * the templates may be others when it comes out of the spool, or is replayed.
   *
   * @param {Message} message
   */
  receive(message) {
    const { format, topic, arrival } = message
    if (format !== FORMAT.topic || arrival === 'replay') return true
    const formatOfTopic = this.#routes.get(topic)?.format ?? this.#topics.formatOf(topic)
    if (formatOfTopic === undefined) return false
    message.format = formatOfTopic
    return true
  }

  /** Topics may mean something else from now on. */
  forget() {
    this.#share.give(this.#routesBytes)
    this.#routesBytes = 0
    this.#routes.clear()
  }

  /** The id of the sensor that a topic names, if it names one. @param {string} topic */
  sensorOf(topic) {
    const name = this.#topics.sensorOf(topic)
    return name === undefined ? undefined : sensorId(name)
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
      return refusalOf(error)
    }
  }

  /**
   * What a message says without the values whose time cannot be right.
   *
   * @param {Message} message  Whose first receipt is known.
   * @param {Decoded} decoded
   * @returns {Decoded | Refusal}
   */
  believed(message, decoded) {
    try {
      keepBelieved(decoded, message)
      return decoded
    } catch (error) {
      return refusalOf(error)
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
    const isOwn = format === expression.number
    const route = isOwn ? undefined : this.#route(topic)
    const place = route?.place ?? (isOwn ? placeThen(message) : this.#topics.place(topic, format))
    const sensor = route?.sensor ?? place.sensor
    // Whoever may not write does not hear what would be wrong with it.
    if (sensor !== undefined && !mayWriteOf(message, sensor, place)) return forbidden(message)
    const decoded = decode(format, place, payload)
    if (decoded.sensor !== place.sensor) {
      return mayWrite(message, decoded.sensor) ? decoded : forbidden(message)
    }
    // The same object: no other one is made for each message.
    const result = /** @type {Decoded} */ (decoded)
    if (route) result.sensor = route.sensor
    return result
  }

  /** @param {string} topic */
  #route(topic) {
    const route = this.#routes.get(topic)
    if (route?.sensor.state !== 'forgotten') return route
    this.#routes.delete(topic)
    return undefined
  }

  /**
   * Remembers what a topic means, as it made sense, if it is the topic that names the sensor.
   *
   * @param {Message} message
   * @param {Sensor} sensor
   * @param {string} name  Of the sensor, in the message.
   */
  remember({ topic }, sensor, name) {
    if (this.#routes.has(topic)) return
    const format = this.#topics.formatOf(topic)
    if (format === undefined) return
    const place = this.#topics.place(topic, format)
    if (place.sensor !== name) return
    const bytes = 2 * topic.length + ROUTE_BYTES + (place.words ? WORDS_BYTES : 0)
    if (!this.#share.take(bytes)) {
      this.forget()
      if (!this.#share.take(bytes)) return
    }
    this.#routesBytes += bytes
    this.#routes.set(topic, { sensor, place, format })
  }
}

/** @param {unknown} error  What is no fault of the payload is thrown again. */
function refusalOf(error) {
  if (!(error instanceof PayloadError)) throw error
  return new Refusal(error.fault, error.message)
}

/** What the topic meant when the message came. @param {Message} message  @returns {Place} */
function placeThen({ topic, payload }) {
  const { sensor, metric } = readEnvelope(payload)
  return { topic, sensor, metric }
}

/** @param {Message} message  @param {Sensor | string} sensor */
function mayWrite({ rights }, sensor) {
  if (rights.kind === 'all') return true
  return rights.mayWrite(typeof sensor === 'string' ? sensorId(sensor) : sensor.id)
}

/** Whether it may as that sensor's device, or as the edge node that speaks for it. */
/** @param {Message} message  @param {Sensor | string} sensor  @param {Place} place */
function mayWriteOf(message, sensor, { owner }) {
  return mayWrite(message, sensor) || (owner !== undefined && mayWrite(message, owner))
}

/** @param {Message} message */
function forbidden({ clientId }) {
  return new Refusal('forbidden', `${clientId} may not publish here`)
}
