/**
 * Metadata of a metric: what its numbers mean. A person says it of a metric of one sensor, or of
 * all sensors of a type; a device can tell the unit. Pure.
 */

import { isMetricName } from './sensor.js'

/**
 * @typedef {object} Metadata
 * @property {string} [unit]  As UCUM or SenML spells it, such as `Cel` or `%RH`.
 * @property {string} [label]  For people.
 * @property {number} [decimals]  With how many it is shown.
 * @property {number} [expected_min]  The range in which values are expected.
 * @property {number} [expected_max]
 */

/** @typedef {keyof Metadata} MetadataField */

/** @type {readonly MetadataField[]} */
export const METADATA_FIELDS = Object.freeze(
  /** @type {const} */ (['unit', 'label', 'decimals', 'expected_min', 'expected_max']),
)

/** Longest unit and label, in characters. */
export const UNIT_LENGTH_MAX = 64
export const LABEL_LENGTH_MAX = 128

/** What a double has at most. */
export const DECIMALS_MAX = 15

/** What errors say of a unit that is refused, after the words for what is named. */
export const UNIT_RULE = `must have 1 to ${UNIT_LENGTH_MAX} characters, none of them a control, direction or invisible one`

/** @type {Readonly<Record<MetadataField, { isFit: (value: any) => boolean, rule: string }>>} */
const RULES = Object.freeze({
  unit: { isFit: isUnit, rule: UNIT_RULE },
  label: {
    isFit: (label) => isText(label, LABEL_LENGTH_MAX),
    rule: `must have 1 to ${LABEL_LENGTH_MAX} characters, none of them a control, direction or invisible one`,
  },
  decimals: {
    isFit: (decimals) => Number.isInteger(decimals) && decimals >= 0 && decimals <= DECIMALS_MAX,
    rule: `must be a whole number from 0 to ${DECIMALS_MAX}`,
  },
  expected_min: { isFit: Number.isFinite, rule: 'must be a number' },
  expected_max: { isFit: Number.isFinite, rule: 'must be a number' },
})

/** @param {unknown} unit */
export function isUnit(unit) {
  return isText(unit, UNIT_LENGTH_MAX)
}

/** @param {unknown} text  @param {number} lengthMax */
function isText(text, lengthMax) {
  return typeof text === 'string' && text.length <= lengthMax && isMetricName(text)
}

/**
 * The metadata in an object, without what is null or undefined there.
 *
 * @param {Record<string, unknown>} said
 * @returns {Metadata}  Unchecked.
 */
export function metadataOf(said) {
  const known = METADATA_FIELDS.map((field) => [field, said[field] ?? undefined])
  return Object.fromEntries(known.filter(([, value]) => value !== undefined))
}

/**
 * What is wrong with metadata; undefined if nothing is.
 *
 * @param {Metadata} metadata
 * @returns {{ field: MetadataField, rule: string } | undefined}
 */
export function metadataFault(metadata) {
  for (const field of METADATA_FIELDS) {
    const value = metadata[field]
    if (value !== undefined && !RULES[field].isFit(value)) return { field, rule: RULES[field].rule }
  }
  const { expected_min: min = Number.NEGATIVE_INFINITY, expected_max: max = Infinity } = metadata
  if (min > max) return { field: 'expected_max', rule: `must not be below expected_min, ${min}` }
  return undefined
}

/** Whether nothing is said. @param {Metadata} metadata */
export function isSilent(metadata) {
  return METADATA_FIELDS.every((field) => metadata[field] === undefined)
}
