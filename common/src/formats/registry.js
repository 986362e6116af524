/**
 * All formats in which measurements are sent. Every door decodes here: MQTT, HTTP, dead letters
 * that are replayed, the spool, and `/v1/decode`, so that each says the same of the same bytes.
 * Pure.
 */

import { isInt64, KIND } from '../measurement.js'
import { isUnit, UNIT_RULE } from '../metadata.js'
import { checkMetric, checkSensor, checkText, PayloadError, shown } from '../payload.js'
import { cbor, cborObject } from './cbor.js'
import { esphome } from './esphome.js'
import { expression } from './expression.js'
import { emptyPayload, refuse, requireAll, requireSome } from './fields.js'
import { json, jsonObject } from './json.js'
import { line } from './line.js'
import { messagepack, messagepackObject } from './messagepack.js'
import { senmlCbor } from './senml-cbor.js'
import { senmlJson } from './senml-json.js'
import { shelly } from './shelly.js'
import { sparkplugB } from './sparkplug-b.js'
import { statestream } from './statestream.js'
import { tasmota } from './tasmota.js'
import { theThingsStack } from './the-things-stack.js'
import { zigbee2mqtt } from './zigbee2mqtt.js'

/** @typedef {import('../measurement.js').Measurement} Measurement */
/** @typedef {import('./types.js').DecodedPayload} DecodedPayload */
/** @typedef {import('./types.js').Format} Format */
/** @typedef {import('./types.js').Place} Place */

/** Each is added here, and nowhere else. @type {readonly Format[]} */
export const FORMATS = Object.freeze([
  ...[json, jsonObject, line, senmlJson, senmlCbor],
  ...[cbor, cborObject, messagepack, messagepackObject],
  ...[zigbee2mqtt, tasmota, shelly, theThingsStack, esphome, statestream],
  sparkplugB,
  expression,
])

/** Those that a request may name. */
export const NAMED_FORMATS = FORMATS.filter(({ isEvaluated = false }) => !isEvaluated)

/** Those that a topic template may name. Line protocol has topics of its own: `--line-topic`. */
export const TOPIC_FORMATS = NAMED_FORMATS.filter((format) => format !== line)

/** Formats up to this number make measurements that need no second look: ours, from the start. */
const CHECKED_MAX = 2

/**
 * Largest payload of the formats besides `json`, in bytes, unless they say otherwise: while one is
 * decoded, nobody else is served.
 */
const PAYLOAD_BYTES_MAX = 2 ** 20

/** Largest number of a format: a dead letter has a `tinyint` for it. */
const NUMBER_MAX = 127

/** @type {ReadonlyMap<string, Format>} */
const BY_NAME = new Map(FORMATS.map((format) => [format.name, format]))

/** @type {readonly (Format | undefined)[]} */
const BY_NUMBER = Array.from({ length: NUMBER_MAX + 1 }, (_, at) =>
  FORMATS.find(({ number }) => number === at),
)

/** @param {string} name */
export function formatNamed(name) {
  return BY_NAME.get(name)
}

/** @param {number} number */
export function formatAt(number) {
  return BY_NUMBER[number]
}

/** What a format is called, also one that we do not know. @param {number} number */
export function formatName(number) {
  return BY_NUMBER[number]?.name ?? `${number}`
}

/**
 * What a payload says. Nothing is guessed: a format that is not known is refused.
 *
 * @param {number} number  Of the format.
 * @param {Place} place
 * @param {Buffer} payload
 * @returns {DecodedPayload & { sensor: string }}  With at least one measurement, unless it is
 *   silent.
 * @throws {PayloadError}  The payload is refused as a whole.
 */
export function decode(number, place, payload) {
  const format = BY_NUMBER[number]
  if (format === undefined) {
    const fault = `its format has the number ${number}, which this version does not know`
    throw new PayloadError('format', fault)
  }
  const { bytesMax = PAYLOAD_BYTES_MAX } = format
  if (number !== json.number && payload.length > bytesMax) {
    throw new PayloadError('value', `this has more than ${bytesMax} bytes`)
  }
  const said = format.decode(place, payload)
  const decoded = format.number <= CHECKED_MAX ? said : checked(said)
  if (decoded.sensor === undefined) {
    if (place.sensor === undefined) {
      throw new PayloadError('topic', 'neither the topic nor the payload names a sensor')
    }
    decoded.sensor = place.sensor
  }
  return /** @type {DecodedPayload & { sensor: string }} */ (decoded)
}

/**
 * As {@link decode}, but a payload with a field that is refused is refused as a whole.
 *
 * @param {number} number
 * @param {Place} place
 * @param {Buffer} payload
 * @throws {PayloadError}
 */
export function decodeWhole(number, place, payload) {
  const decoded = decode(number, place, payload)
  requireAll(decoded)
  return decoded
}

/**
 * A decoder of somebody's format may let through what must not be stored: names that mislead,
 * numbers that are none, texts without end. Such fields are refused.
 *
 * @param {DecodedPayload} decoded
 * @returns {DecodedPayload}
 */
function checked(decoded) {
  const { sensor, measurements, refused, units } = decoded
  if (sensor !== undefined) checkSensor(sensor)
  if (decoded.isSilent) return decoded
  const into = emptyPayload()
  into.sensor = sensor
  if (refused.length > 0) into.refused = [...refused]
  for (const measurement of measurements) {
    try {
      checkMeasurement(measurement)
      into.measurements.push(measurement)
    } catch (error) {
      refuse(into, measurement.metric, error)
    }
  }
  requireSome(into)
  if (units) into.units = checkedUnits(into, units)
  if (decoded.isRelative) into.isRelative = true
  return into
}

/**
 * The units that can be stored. Another one is refused alone: its values are stored.
 *
 * @param {DecodedPayload} into
 * @param {ReadonlyMap<string, string>} units  By metric.
 */
function checkedUnits(into, units) {
  const fit = new Map()
  for (const [metric, unit] of units) {
    if (isUnit(unit)) fit.set(metric, unit)
    else
      refuse(into, metric, new PayloadError('value', `the unit of ${shown(metric)} ${UNIT_RULE}`))
  }
  return fit
}

/** @param {Measurement} measurement  @throws {PayloadError} */
function checkMeasurement({ metric, timeMs, kind, value }) {
  checkMetric(metric)
  if (timeMs !== undefined && !Number.isSafeInteger(timeMs)) {
    throw new PayloadError('time', `the time of ${shown(metric)} is no time`)
  }
  if (kind === KIND.text && typeof value === 'string') checkText(metric, value)
  else if (!isOfKind(kind, value)) {
    throw new PayloadError('value', `the value of ${shown(metric)} cannot be stored`)
  }
}

/** @param {number} kind  @param {Measurement['value']} value */
function isOfKind(kind, value) {
  switch (kind) {
    case KIND.number:
      return Number.isFinite(value)
    case KIND.integer:
      return typeof value === 'bigint' ? isInt64(value) : Number.isSafeInteger(value)
    case KIND.boolean:
      return typeof value === 'boolean'
    case KIND.location: {
      const { lat, lon } = /** @type {import('../measurement.js').Location} */ (value ?? {})
      return Math.abs(lat) <= 90 && Math.abs(lon) <= 180
    }
    default:
      return false
  }
}
