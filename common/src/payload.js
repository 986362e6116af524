/**
 * What every decoder of payloads needs: names, times and values that are checked, and the error
 * that says what is wrong. Pure. The formats are in `formats/`.
 */

import { parseJson } from './json.js'
import { isInt64, KIND } from './measurement.js'
import { isMetricName, isSensorName, METRIC_NAME_RULE, SENSOR_NAME_RULE } from './sensor.js'
import { cut, shortened } from './text.js'
import { eventMs } from './time.js'

/** @typedef {import('./measurement.js').Measurement} Measurement */

/** Longest text value, in bytes of UTF-8. */
export const TEXT_BYTES_MAX = 64 * 1024

/** Most levels that MQTT topics of ours have. */
const LEVELS_MAX = 3

/** The first level of the topics that carry measurements. */
const ROOT = 'sensors'

/**
 * @typedef {'topic' | 'format' | 'json' | 'line' | 'value' | 'time' | 'expression'} PayloadFault
 */

/** Thrown for what is not a measurement. The message is for the sender and names the field. */
export class PayloadError extends Error {
  name = 'PayloadError'

  /** @param {PayloadFault} fault  Which part is at fault.  @param {string} message */
  constructor(fault, message) {
    // It may quote half of a surrogate pair, of which a dead letter would keep U+FFFD.
    super(message.toWellFormed())
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
  checkSensor(sensor)
  if (metric !== undefined) checkMetric(metric)
  return { sensor, metric }
}

/** @param {unknown} sensor  @returns {asserts sensor is string}  @throws {PayloadError} */
export function checkSensor(sensor) {
  if (sensor === undefined) throw new PayloadError('topic', 'the sensor is missing')
  if (typeof sensor !== 'string') throw new PayloadError('topic', 'the sensor is not a text')
  if (!isSensorName(sensor)) throw new PayloadError('topic', `the sensor ${SENSOR_NAME_RULE}`)
}

/** @param {unknown} metric  @returns {asserts metric is string}  @throws {PayloadError} */
export function checkMetric(metric) {
  if (typeof metric !== 'string') throw new PayloadError('topic', 'the metric is not a text')
  if (!isMetricName(metric)) throw new PayloadError('topic', `the metric ${METRIC_NAME_RULE}`)
}

const UTF8 = new TextDecoder('utf-8', { fatal: true })

/**
 * @param {Buffer} payload  UTF-8 JSON.
 * @returns {unknown}
 * @throws {PayloadError}
 */
export function jsonOf(payload) {
  if (payload.length === 0) throw new PayloadError('json', 'the payload is empty')
  const text = textOf(payload, 'json')
  try {
    return parseJson(text)
  } catch (error) {
    const { message } = /** @type {Error} */ (error)
    throw new PayloadError('json', `this is not JSON: ${shown(message, 120)}`)
  }
}

/**
 * The text of some bytes, without a byte order mark.
 *
 * @param {Buffer} bytes
 * @param {PayloadFault} fault  If they are not UTF-8.
 * @param {string} [what]  They are, for the message.
 * @throws {PayloadError}
 */
export function textOf(bytes, fault, what = 'this') {
  const text = bytes.toString('latin1')
  // Nearly all texts are ASCII; only for others is it asked whether they are UTF-8.
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the range of ASCII
  if (/^[\x00-\x7f]*$/.test(text)) return text
  try {
    return UTF8.decode(bytes)
  } catch {
    throw new PayloadError(fault, `${what} is not UTF-8`)
  }
}

/**
 * @param {unknown} t
 * @param {string} [name]  Of the field.
 * @returns {number | undefined}  Milliseconds since the Unix epoch; undefined where there is none.
 * @throws {PayloadError}
 */
export function timeOf(t, name = 't') {
  if (t === undefined || t === null) return undefined
  const timeMs = eventMs(t)
  if (timeMs !== undefined) return timeMs
  const text = typeof t === 'string' ? `"${shown(t)}"` : typeof t === 'object' ? 'an object' : t
  const remedy = 'give ISO 8601, or s, ms, us or ns since 1970'
  throw new PayloadError('time', `${name} is not a time but ${text}: ${remedy}`)
}

/**
 * @param {string} metric  Whose name is checked.
 * @param {number | undefined} timeMs
 * @param {unknown} value  A number, bigint, boolean, text or `{lat, lon}`.
 * @returns {Measurement}
 * @throws {PayloadError}
 */
export function measurementOf(metric, timeMs, value) {
  switch (typeof value) {
    case 'number':
      // JSON.parse reads 1e999 as Infinity.
      if (!Number.isFinite(value)) throw unfit(metric, 'is too large for a double')
      return { metric, timeMs, kind: KIND.number, value }
    case 'bigint':
      if (isInt64(value)) return { metric, timeMs, kind: KIND.integer, value }
      return measurementOf(metric, timeMs, Number(value))
    case 'boolean':
      return { metric, timeMs, kind: KIND.boolean, value }
    case 'string':
      checkText(metric, value)
      return { metric, timeMs, kind: KIND.text, value }
    default:
      return { metric, timeMs, kind: KIND.location, value: location(metric, value) }
  }
}

/**
 * The measurement whose kind was said besides.
 *
 * @param {Measurement} measurement  As its value looks.
 * @param {unknown} name
 * @returns {Measurement}
 * @throws {PayloadError}
 */
export function ofKind(measurement, name) {
  const { metric, timeMs, kind, value } = measurement
  if (typeof name !== 'string' || !Object.hasOwn(KIND, name)) {
    const known = Object.keys(KIND).join(', ')
    throw new PayloadError('value', `the kind of ${shown(metric)} is none of ${known}`)
  }
  const said = /** @type {Record<string, number>} */ (KIND)[name]
  if (said === kind) return measurement
  if (said === KIND.number && typeof value === 'bigint') {
    return { metric, timeMs, kind: said, value: Number(value) }
  }
  if (said === KIND.integer && Number.isSafeInteger(value)) {
    // -0 is no integer.
    return { metric, timeMs, kind: said, value: /** @type {number} */ (value) + 0 }
  }
  if (said === KIND.integer) throw unfit(metric, 'is not a whole number of at most 64 bits')
  throw unfit(metric, `is not of kind ${name}`)
}

/** @param {string} metric  @param {string} text  @throws {PayloadError} */
export function checkText(metric, text) {
  if (3 * text.length > TEXT_BYTES_MAX && Buffer.byteLength(text) > TEXT_BYTES_MAX) {
    throw unfit(metric, `is a text of more than ${TEXT_BYTES_MAX} bytes`)
  }
  // UTF-8 has no halves of surrogate pairs: another text would be stored.
  if (/\p{Cs}/u.test(text)) throw unfit(metric, 'is a text with half of a surrogate pair')
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

/** A text as an error quotes it. @param {string} text  @param {number} [lengthMax] */
export function shown(text, lengthMax = 40) {
  return shortened(text, lengthMax)
}

/**
 * Something of a payload as an error names it: what misleads the eye is spelled out.
 *
 * @param {unknown} value
 * @param {number} [lengthMax]
 */
export function quoted(value, lengthMax = 80) {
  if (typeof value === 'object' && value !== null) return 'an object'
  // What is not shown is not spelled out either: escapes only make it longer.
  const text = typeof value === 'string' ? JSON.stringify(cut(value, lengthMax + 1)) : String(value)
  const escaped = text.replace(
    /[^ -~]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
  return shown(escaped, lengthMax)
}
