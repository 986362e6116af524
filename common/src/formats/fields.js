/**
 * Fields of payloads become measurements; those that cannot are refused one by one. For decoders.
 * Pure.
 */

import { checkMetric, measurementOf, PayloadError, quoted, shown } from '../payload.js'
import { isMetricName, NAME_LENGTH_MAX } from '../sensor.js'
import { cut } from '../text.js'

/** @typedef {import('./types.js').DecodedPayload} DecodedPayload */
/** @typedef {import('./types.js').RefusedField} RefusedField */

/** Most levels of objects within each other whose members become metrics. */
export const DEPTH_MAX = 8

/** Most refused fields of one message: a message with more of them is refused as a whole. */
export const REFUSED_FIELDS_MAX = 1_000

/** Most fields that a reason names; of the others it tells how many they are. */
const NAMED_MAX = 10

/** Of nearly all payloads. It is frozen: {@link refuse} adds to another one. */
const NONE = /** @type {RefusedField[]} */ (Object.freeze(/** @type {unknown[]} */ ([])))

/** @returns {DecodedPayload}  To which measurements are added. */
export function emptyPayload() {
  return { sensor: undefined, measurements: [], refused: NONE }
}

/**
 * @param {import('../measurement.js').Measurement} measurement  The only one.
 * @returns {DecodedPayload}
 */
export function payloadOf(measurement) {
  return { sensor: undefined, measurements: [measurement], refused: NONE }
}

/**
 * @param {DecodedPayload} into
 * @param {string} field  Where it stands in the payload.
 * @param {unknown} error  A `PayloadError`; anything else is thrown again.
 */
export function refuse(into, field, error) {
  if (!(error instanceof PayloadError)) throw error
  if (into.refused.length >= REFUSED_FIELDS_MAX) {
    throw new PayloadError('value', `more than ${REFUSED_FIELDS_MAX} fields are no measurements`)
  }
  const one = { field: fieldName(field), reason: error.message, fault: error.fault }
  if (into.refused === NONE) into.refused = [one]
  /** @type {RefusedField[]} */ else into.refused.push(one)
}

/** A field as it is shown: names that mislead are quoted. @param {string} field */
function fieldName(field) {
  return isMetricName(field) ? field : quoted(field)
}

/**
 * Adds one field.
 *
 * @param {DecodedPayload} into
 * @param {string} metric
 * @param {number | undefined} timeMs
 * @param {unknown} value  A number, bigint, boolean, text or `{lat, lon}`; else it is refused.
 * @param {string} [field]  Where it stands, if that is not the metric.
 */
export function addField(into, metric, timeMs, value, field = metric) {
  try {
    checkMetric(metric)
    into.measurements.push(measurementOf(metric, timeMs, value))
  } catch (error) {
    refuse(into, field, error)
  }
}

/**
 * Adds the members of an object. Objects in it are dotted metrics: `{"color":{"x":1}}` is
 * `color.x`. A null was not measured.
 *
 * @param {DecodedPayload} into
 * @param {string | undefined} prefix  Metric of the object; undefined where it has none.
 * @param {number | undefined} timeMs
 * @param {object} members
 * @param {string} [except]  A member that is no metric.
 * @param {number} [depth]
 */
export function addMembers(into, prefix, timeMs, members, except, depth = 1) {
  const values = /** @type {Record<string, unknown>} */ (members)
  for (const name of Object.keys(values)) {
    const value = values[name]
    if (name === except || value === null) continue
    const metric = prefix === undefined ? name : `${prefix}.${name}`
    if (typeof value !== 'object' || !isTree(value)) {
      addField(into, metric, timeMs, value)
    } else if (depth < DEPTH_MAX) {
      // No metric is so long: each member is refused without a copy of all of it.
      const inner = cut(metric, NAME_LENGTH_MAX + 1)
      addMembers(into, inner, timeMs, value, undefined, depth + 1)
    } else {
      const fault = `the value of ${shown(metric)} is nested deeper than ${DEPTH_MAX} levels`
      refuse(into, metric, new PayloadError('value', fault))
    }
  }
}

/**
 * Whether a value is an object of metrics, rather than a place.
 *
 * @param {unknown} value
 * @returns {value is object}
 */
export function isTree(value) {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  return !('lat' in value && 'lon' in value && Object.keys(value).length === 2)
}

/**
 * What is wrong with some fields, in one text.
 *
 * @param {readonly RefusedField[]} refused
 */
export function reasonOf(refused) {
  const named = refused
    .slice(0, NAMED_MAX)
    .map(({ field, reason }) => (reason.includes(field) ? reason : `${field}: ${reason}`))
  const others = refused.length - named.length
  return others > 0 ? `${named.join('; ')}; and ${others} fields more` : named.join('; ')
}

/**
 * Refuses a payload as a whole of which nothing is a measurement.
 *
 * @param {DecodedPayload} decoded
 * @param {string} [nothing]  What is wrong where it has no fields either.
 * @throws {PayloadError}
 */
export function requireSome({ measurements, refused }, nothing = 'the payload holds no value') {
  if (measurements.length > 0) return
  if (refused.length === 0) throw new PayloadError('value', nothing)
  throw new PayloadError(refused[0].fault ?? 'value', reasonOf(refused))
}

/**
 * Refuses a payload as a whole that has a field which is no measurement.
 *
 * @param {DecodedPayload} decoded
 * @throws {PayloadError}
 */
export function requireAll({ refused }) {
  if (refused.length > 0) throw new PayloadError(refused[0].fault ?? 'value', reasonOf(refused))
}
