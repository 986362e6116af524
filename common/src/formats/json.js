/**
 * JSON.
 *
 * ```text
 * sensors/<sensor>/<metric>   reading, or an array of readings
 *   reading   := value | {"t": time, "v": value, "kind": kind} | object | telemetry
 * sensors/<sensor>            object or telemetry, or an array of these
 *   object    := {"t": time, metric: value | object | null, ...}     null: it was not measured
 *   telemetry := {"ts": time, "values": object}                      as ThingsBoard takes it
 * value       := number | true | false | "text" | {"lat": number, "lon": number}
 * time        := ISO 8601, or s, ms, us or ns since the Unix epoch, by its size; may be missing
 * kind        := "number" | "integer" | "boolean" | "text" | "location"; may be missing
 *
 * json-object: an object that names its sensor
 *   object    := {"sensor": name, "t": time, metric: value | object | null, ...}
 *              | {"sensor": name, "ts": time, "values": object}
 *              | {"sensor": name, "metric": metric, "t": time, "v": value, "kind": kind}
 * ```
 *
 * Members of an object within an object are dotted metrics. `t` is a time only in the outermost.
 * A number is a double, however it is spelled, so that 21 and 21.5 are of one kind. It is an
 * integer where the kind says so, or where no double could hold it: beyond 2^53, and whole.
 */

import {
  checkMetric,
  checkSensor,
  jsonOf,
  measurementOf,
  ofKind,
  PayloadError,
  timeOf,
} from '../payload.js'
import {
  addMembers,
  emptyPayload,
  isTree,
  payloadOf,
  refuse,
  requireAll,
  requireSome,
} from './fields.js'

/** @typedef {import('../measurement.js').Measurement} Measurement */
/** @typedef {import('./types.js').DecodedPayload} DecodedPayload */
/** @typedef {import('./types.js').Format} Format */
/** @typedef {import('./types.js').Place} Place */

/** @type {Format} */
export const json = {
  name: 'json',
  number: 0,
  help: 'JSON: a value, an object of metrics, {"ts", "values"}, or an array of these',
  decode: ({ metric }, payload) => decodeValue(metric, jsonOf(payload)),
}

/** @type {Format} */
export const jsonObject = {
  name: 'json-object',
  number: 1,
  help: 'JSON: one object of metrics, {"sensor": "a", "temperature": 21.5}',
  namesSensor: true,
  decode: ({ sensor }, payload) => decodeRecord(jsonOf(payload), sensor),
}

/**
 * What JSON says, or anything else that was read into the same values: CBOR, MessagePack.
 *
 * @param {string | undefined} metric  From the topic.
 * @param {unknown} body
 * @returns {DecodedPayload}  With at least one measurement.
 * @throws {PayloadError}  Nothing of it can be understood.
 */
export function decodeValue(metric, body) {
  // Nearly all messages.
  if (metric !== undefined && isReading(body)) return payloadOf(reading(metric, body))
  const into = emptyPayload()
  if (!Array.isArray(body)) {
    addElement(into, metric, body)
  } else {
    for (let at = 0; at < body.length; at++) addElementAt(into, metric, body[at], at)
  }
  requireSome(into, 'the payload holds no value')
  return into
}

/**
 * What an object says that names its sensor itself: of JSON, CBOR or MessagePack.
 *
 * @param {unknown} record  As `parseJson` gives it.
 * @param {string} [sensorOfTopic]  Where the object names none.
 * @returns {DecodedPayload & { sensor: string }}  With at least one measurement.
 * @throws {PayloadError}
 */
export function decodeRecord(record, sensorOfTopic) {
  if (typeof record !== 'object' || record === null || Array.isArray(record)) {
    throw new PayloadError('value', 'this is not an object such as {"sensor": "a", "metric": 1}')
  }
  const {
    sensor = sensorOfTopic,
    metric,
    ...more
  } = /** @type {Record<string, unknown>} */ (record)
  checkSensor(sensor)
  const into = emptyPayload()
  if (metric === undefined) {
    addElement(into, undefined, more)
  } else {
    checkMetric(metric)
    if (!('v' in more)) throw new PayloadError('value', 'v is missing: the value of the metric')
    into.measurements.push(reading(metric, more))
  }
  requireSome(into, 'the object holds no value')
  into.sensor = sensor
  return /** @type {DecodedPayload & { sensor: string }} */ (into)
}

/**
 * As {@link decodeRecord}, for whom a record is right as a whole or not at all.
 *
 * @param {unknown} record
 * @returns {{ sensor: string, measurements: Measurement[] }}
 * @throws {PayloadError}
 */
export function parseRecord(record) {
  const decoded = decodeRecord(record)
  requireAll(decoded)
  return { sensor: decoded.sensor, measurements: decoded.measurements }
}

/**
 * @param {DecodedPayload} into
 * @param {string | undefined} metric
 * @param {unknown} element
 * @param {number} at  Its place in the array.
 */
function addElementAt(into, metric, element, at) {
  const before = into.refused.length
  try {
    addElement(into, metric, element)
    for (let i = before; i < into.refused.length; i++) {
      into.refused[i].field = `[${at}].${into.refused[i].field}`
    }
  } catch (error) {
    refuse(into, `[${at}]`, error)
  }
}

/**
 * @param {DecodedPayload} into
 * @param {string | undefined} metric
 * @param {unknown} element
 */
function addElement(into, metric, element) {
  if (metric !== undefined && (isReading(element) || !isTree(element))) {
    into.measurements.push(reading(metric, element))
  } else if (typeof element !== 'object' || element === null || Array.isArray(element)) {
    throw new PayloadError('value', 'the payload is not an object of metrics')
  } else if (isTelemetry(element)) {
    addMembers(into, metric, timeOf(element.ts, 'ts'), element.values)
  } else {
    const timeMs = timeOf(/** @type {{ t?: unknown }} */ (element).t)
    addMembers(into, metric, timeMs, element, 't')
  }
}

/**
 * @param {object} element
 * @returns {element is { ts: unknown, values: object }}
 */
function isTelemetry(element) {
  const { values } = /** @type {{ values?: unknown }} */ (element)
  if (typeof values !== 'object' || values === null || Array.isArray(values)) return false
  return 'ts' in element && Object.keys(element).length === 2
}

/** Whether it is one measurement of a metric that the topic names. @param {unknown} element */
function isReading(element) {
  return typeof element !== 'object' || (element !== null && 'v' in element)
}

/** @param {string} metric  @param {unknown} element  @returns {Measurement} */
function reading(metric, element) {
  if (typeof element === 'object' && element !== null && 'v' in element) {
    const { t, v, kind } = /** @type {{ t?: unknown, v: unknown, kind?: unknown }} */ (element)
    const read = measurementOf(metric, timeOf(t), v)
    return kind === undefined ? read : ofKind(read, kind)
  }
  return measurementOf(metric, undefined, element)
}
