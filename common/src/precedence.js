/**
 * Which of several sayings about a metric holds (ADR 0070). Field by field, the first that says it:
 *
 * ```text
 * 1. a person, of the metric of this sensor
 * 2. a person, of the metric of all sensors of its type
 * 3. the device, of the metric: the unit alone
 * 4. a person, of the sensor as a whole: its `unit`
 * ```
 *
 * A range is one field with two ends. What a type says of decimals and range is in the unit that
 * the type says: it does not hold for a sensor that has another one. Pure.
 */

import { isSilent } from './metadata.js'

/** @typedef {import('./metadata.js').Metadata} Metadata */

/**
 * What each says of one metric.
 *
 * @typedef {object} Said
 * @property {Metadata} [sensor]
 * @property {Metadata} [type]
 * @property {string} [device]  The unit.
 */

/**
 * @param {Said} said
 * @param {string | undefined} sensorUnit  Of the sensor as a whole.
 * @returns {Metadata}
 */
export function effective({ sensor = {}, type = {}, device }, sensorUnit) {
  const unit = sensor.unit ?? type.unit ?? device ?? sensorUnit
  const isOfType = type.unit === undefined || type.unit === unit
  const scaled = isOfType ? type : {}
  const hasRange = sensor.expected_min !== undefined || sensor.expected_max !== undefined
  const range = hasRange ? sensor : scaled
  return {
    unit,
    label: sensor.label ?? type.label,
    decimals: sensor.decimals ?? scaled.decimals,
    expected_min: range.expected_min,
    expected_max: range.expected_max,
  }
}

/**
 * What several metrics have in common, as a group of them is shown.
 *
 * @param {readonly Metadata[]} all
 * @returns {Metadata}
 */
export function agreed(all) {
  const [first = {}, ...others] = all
  const known = /** @type {[keyof Metadata, any][]} */ (Object.entries(first))
  return Object.fromEntries(
    known.filter(([field, value]) => others.every((other) => other[field] === value)),
  )
}

/** Whether nobody says anything. @param {Said} said */
export function isUnsaid({ sensor = {}, type = {}, device }) {
  return isSilent(sensor) && isSilent(type) && device === undefined
}
