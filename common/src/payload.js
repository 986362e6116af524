/**
 * What an MQTT message says: topic and payload become measurements. Pure; `ingest` stores them and
 * `api` shows what a payload would become.
 *
 * ```text
 * sensors/<sensor>/<metric>   reading, or an array of readings
 *   reading  := value | {"t": time, "v": value}
 * sensors/<sensor>            object, or an array of objects
 *   object   := {"t": time, metric: value | null, ...}        a null is a metric not measured
 * value      := number | true | false | "text" | {"lat": number, "lon": number}
 * time       := milliseconds since the Unix epoch; may be missing
 *
 * without a topic, an object that names its sensor:
 *   object   := {"sensor": name, "t": time, metric: value | null, ...}
 *             | {"sensor": name, "metric": metric, "t": time, "v": value}
 * ```
 */

import { KIND } from './measurement.js'
import { isSensorName } from './sensor.js'

/** @typedef {import('./measurement.js').Measurement} Measurement */

/** Longest text value, in bytes of UTF-8. */
export const TEXT_BYTES_MAX = 64 * 1024

/** Longest name of a metric, in characters: it is repeated in every row's key. */
export const METRIC_LENGTH_MAX = 128

/** Most levels that MQTT topics of ours have. */
const LEVELS_MAX = 3

/** The first level of the topics that carry measurements. */
const ROOT = 'sensors'

/** @typedef {'topic' | 'json' | 'line' | 'value' | 'time'} PayloadFault */

/** Thrown for what is not a measurement. The message is for the sender and names the field. */
export class PayloadError extends Error {
  name = 'PayloadError'

  /** @param {PayloadFault} fault  Which part is at fault.  @param {string} message */
  constructor(fault, message) {
    super(message)
    this.fault = fault
  }
}

/**
 * Whether messages of a topic are measurements (or should have been), rather than ordinary MQTT
 * traffic.
 *
 * @param {string} topic
 */
export function isMeasurementTopic(topic) {
  return topic.startsWith('sensors') && (topic.length === 7 || topic.charCodeAt(7) === 47)
}

/**
 * @param {string} topic  Of which {@link isMeasurementTopic} holds.
 * @returns {{ sensor: string, metric: string | undefined }}  The metric is undefined where the
 *   payload names it.
 * @throws {PayloadError}
 */
export function parseTopic(topic) {
  const [root, sensor, metric, ...more] = topic.split('/', LEVELS_MAX + 1)
  if (root !== ROOT || sensor === undefined || more.length > 0) {
    throw new PayloadError('topic', 'topic is not sensors/<sensor> or sensors/<sensor>/<metric>')
  }
  checkNames(sensor, metric)
  return { sensor, metric }
}

/**
 * Whether a topic may name a sensor and a metric so.
 *
 * @param {string} sensor
 * @param {string | undefined} metric
 * @throws {PayloadError}
 */
export function checkNames(sensor, metric) {
  if (!isSensorName(sensor)) {
    throw new PayloadError(
      'topic',
      'the sensor in the topic is empty, too long or has a forbidden character',
    )
  }
  if (metric !== undefined) checkMetric(metric)
}

/** @param {string} metric  @throws {PayloadError} */
export function checkMetric(metric) {
  if (metric.length === 0) throw new PayloadError('topic', 'the name of a metric is empty')
  if (metric.length > METRIC_LENGTH_MAX) {
    throw new PayloadError(
      'topic',
      `the name of metric ${shown(metric)} has more than ${METRIC_LENGTH_MAX} characters`,
    )
  }
}

const UTF8 = new TextDecoder('utf-8', { fatal: true })

/**
 * Parses the payload of one message.
 *
 * @param {string | undefined} metric  From the topic.
 * @param {Buffer} payload  UTF-8 JSON.
 * @returns {Measurement[]}  At least one.
 * @throws {PayloadError}  The message as a whole is refused.
 */
export function parsePayload(metric, payload) {
  const body = parseJson(payload)
  /** @type {Measurement[]} */
  const measurements = []
  if (!Array.isArray(body)) {
    addElement(measurements, metric, body)
  } else {
    for (const element of body) addElement(measurements, metric, element)
  }
  if (measurements.length === 0) throw new PayloadError('value', 'the payload holds no value')
  return measurements
}

/**
 * Parses an object that names its sensor itself.
 *
 * @param {Buffer} payload  UTF-8 JSON.
 * @returns {{ sensor: string, measurements: Measurement[] }}  At least one measurement.
 * @throws {PayloadError}
 */
export function parseObject(payload) {
  const body = parseJson(payload)
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw new PayloadError('value', 'this is not an object such as {"sensor": "a", "metric": 1}')
  }
  const { sensor, metric, ...more } = /** @type {Record<string, unknown>} */ (body)
  if (typeof sensor !== 'string' || !isSensorName(sensor)) {
    const fault = 'is missing, empty, too long or has a forbidden character'
    throw new PayloadError('topic', `sensor ${fault}`)
  }
  /** @type {Measurement[]} */
  const measurements = []
  if (metric === undefined) {
    addMetrics(measurements, more)
  } else {
    if (typeof metric !== 'string') throw new PayloadError('topic', 'metric is not a text')
    checkMetric(metric)
    if (!('v' in more)) throw new PayloadError('value', 'v is missing: the value of the metric')
    measurements.push(reading(metric, more))
  }
  if (measurements.length === 0) throw new PayloadError('value', 'the object holds no value')
  return { sensor, measurements }
}

/** @param {Buffer} payload  @returns {unknown} */
function parseJson(payload) {
  if (payload.length === 0) throw new PayloadError('json', 'the payload is empty')
  let text = payload.toString('latin1')
  try {
    // Nearly all payloads are ASCII; only for others is it asked whether they are UTF-8.
    // biome-ignore lint/suspicious/noControlCharactersInRegex: the range of ASCII
    if (!/^[\x00-\x7f]*$/.test(text)) text = UTF8.decode(payload)
    return JSON.parse(text)
  } catch (error) {
    const { message } = /** @type {Error} */ (error)
    throw new PayloadError('json', `the payload is not JSON in UTF-8: ${shown(message, 120)}`)
  }
}

/** @param {Measurement[]} into  @param {string | undefined} metric  @param {unknown} element */
function addElement(into, metric, element) {
  if (metric === undefined) addMetrics(into, element)
  else into.push(reading(metric, element))
}

/** @param {string} metric  @param {unknown} element  @returns {Measurement} */
function reading(metric, element) {
  if (typeof element === 'object' && element !== null && 'v' in element) {
    const { t, v } = /** @type {{ t?: unknown, v: unknown }} */ (element)
    return measurement(metric, timeOf(t), v)
  }
  return measurement(metric, undefined, element)
}

/** @param {Measurement[]} into  @param {unknown} element */
function addMetrics(into, element) {
  if (typeof element !== 'object' || element === null || Array.isArray(element)) {
    throw new PayloadError('value', 'the payload is not an object of metrics')
  }
  const metrics = /** @type {Record<string, unknown>} */ (element)
  const timeMs = timeOf(metrics.t)
  for (const metric of Object.keys(metrics)) {
    if (metric === 't' || metrics[metric] === null) continue
    checkMetric(metric)
    into.push(measurement(metric, timeMs, metrics[metric]))
  }
}

/** @param {unknown} t */
function timeOf(t) {
  if (t === undefined || t === null) return undefined
  if (typeof t === 'number' && Number.isSafeInteger(t)) return t
  throw new PayloadError('time', 't is not a whole number of milliseconds since the Unix epoch')
}

/**
 * @param {string} metric
 * @param {number | undefined} timeMs
 * @param {unknown} value
 * @returns {Measurement}
 */
function measurement(metric, timeMs, value) {
  switch (typeof value) {
    case 'number':
      // JSON.parse reads 1e999 as Infinity.
      if (!Number.isFinite(value)) throw unfit(metric, 'is too large for a double')
      return { metric, timeMs, kind: KIND.number, value }
    case 'boolean':
      return { metric, timeMs, kind: KIND.boolean, value }
    case 'string':
      checkText(metric, value)
      return { metric, timeMs, kind: KIND.text, value }
    default:
      return { metric, timeMs, kind: KIND.location, value: location(metric, value) }
  }
}

/** @param {string} metric  @param {string} text  @throws {PayloadError} */
export function checkText(metric, text) {
  if (3 * text.length > TEXT_BYTES_MAX && Buffer.byteLength(text) > TEXT_BYTES_MAX) {
    throw unfit(metric, `is a text of more than ${TEXT_BYTES_MAX} bytes`)
  }
}

/** @param {string} metric  @param {unknown} value */
function location(metric, value) {
  const { lat, lon, ...more } = /** @type {Record<string, unknown>} */ (value ?? {})
  if (typeof lat !== 'number' || typeof lon !== 'number' || Object.keys(more).length > 0) {
    throw unfit(metric, 'is not a number, a boolean, a text or {"lat": number, "lon": number}')
  }
  if (!(Math.abs(lat) <= 90 && Math.abs(lon) <= 180)) {
    throw unfit(metric, 'is not a place: lat is -90 to 90, lon is -180 to 180')
  }
  return { lat, lon }
}

/** @param {string} metric  @param {string} what */
function unfit(metric, what) {
  return new PayloadError('value', `the value of ${shown(metric)} ${what}`)
}

/** @param {string} text  @param {number} [lengthMax] */
function shown(text, lengthMax = 40) {
  return text.length > lengthMax ? `${text.slice(0, lengthMax)}…` : text
}
