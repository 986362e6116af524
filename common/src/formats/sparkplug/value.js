/**
 * The value of a Sparkplug B metric by its datatype, as the specification numbers them. Integers
 * are of kind integer, whatever their size; a DateTime is its ISO 8601 text. Pure.
 */

import { isInt64, KIND } from '../../measurement.js'
import { checkText, measurementOf, PayloadError } from '../../payload.js'

/** @typedef {import('../../measurement.js').Measurement} Measurement */
/** @typedef {import('./payload.js').RawValue} RawValue */

export const DATATYPE = Object.freeze({
  Int8: 1,
  Int16: 2,
  Int32: 3,
  Int64: 4,
  UInt8: 5,
  UInt16: 6,
  UInt32: 7,
  UInt64: 8,
  Float: 9,
  Double: 10,
  Boolean: 11,
  String: 12,
  DateTime: 13,
  Text: 14,
  UUID: 15,
})

/** @type {Map<number, { bits: number, isSigned: boolean }>} */
const INTEGERS = new Map([
  [DATATYPE.Int8, { bits: 8, isSigned: true }],
  [DATATYPE.Int16, { bits: 16, isSigned: true }],
  [DATATYPE.Int32, { bits: 32, isSigned: true }],
  [DATATYPE.Int64, { bits: 64, isSigned: true }],
  [DATATYPE.UInt8, { bits: 8, isSigned: false }],
  [DATATYPE.UInt16, { bits: 16, isSigned: false }],
  [DATATYPE.UInt32, { bits: 32, isSigned: false }],
  [DATATYPE.UInt64, { bits: 64, isSigned: false }],
])

/** What Java's `Date` can be, milliseconds since 1970; ISO 8601 has years of four digits. */
const ISO_MS_MAX = 253_402_300_799_999n

/**
 * @param {string} metric
 * @param {number | undefined} timeMs
 * @param {number | undefined} datatype
 * @param {RawValue | undefined} raw
 * @returns {Measurement}
 * @throws {PayloadError}
 */
export function sparkplugMeasurement(metric, timeMs, datatype, raw) {
  if (datatype === undefined) throw unfit(metric, 'has no datatype')
  if (raw === undefined) throw unfit(metric, 'is missing')
  const { member, content } = raw
  const integer = INTEGERS.get(datatype)
  if (integer !== undefined) {
    return { metric, timeMs, kind: KIND.integer, value: integerOf(metric, integer, content) }
  }
  switch (datatype) {
    case DATATYPE.Float:
    case DATATYPE.Double:
      if (member !== 'float_value' && member !== 'double_value') throw mismatch(metric, raw)
      return measurementOf(metric, timeMs, content)
    case DATATYPE.Boolean:
      if (typeof content !== 'boolean') throw mismatch(metric, raw)
      return { metric, timeMs, kind: KIND.boolean, value: content }
    case DATATYPE.String:
    case DATATYPE.Text:
    case DATATYPE.UUID:
      if (typeof content !== 'string') throw mismatch(metric, raw)
      checkText(metric, content)
      return { metric, timeMs, kind: KIND.text, value: content }
    case DATATYPE.DateTime:
      if (typeof content !== 'bigint') throw mismatch(metric, raw)
      return { metric, timeMs, kind: KIND.text, value: isoOf(metric, content) }
    default:
      throw unfit(metric, `is of the datatype ${datatype}, which no measurement has`)
  }
}

/**
 * @param {string} metric
 * @param {{ bits: number, isSigned: boolean }} type
 * @param {RawValue['content']} content
 */
function integerOf(metric, { bits, isSigned }, content) {
  // Tahu writes a UInt32 as a long, others as an int.
  // A double, whatever its datatype says, may be no integer at all.
  if (typeof content !== 'bigint' && !Number.isInteger(content)) {
    throw unfit(metric, 'is not an integer, as its datatype says')
  }
  const bytes = BigInt(/** @type {number | bigint} */ (content))
  // Negative numbers come as two's complement, of their own bits or of those of the field.
  const value = isSigned ? BigInt.asIntN(bits, bytes) : bytes
  if (isSigned ? !isExtended(bytes, bits) : bytes !== BigInt.asUintN(bits, bytes)) {
    throw unfit(metric, `does not fit ${bits} bits`)
  }
  if (!isInt64(value)) throw unfit(metric, 'is not a whole number of at most 64 bits')
  const number = Number(value)
  return Number.isSafeInteger(number) ? number : value
}

/**
 * Whether bits above those of the type only repeat its sign.
 *
 * @param {bigint} bytes
 * @param {number} bits
 */
function isExtended(bytes, bits) {
  const value = BigInt.asIntN(bits, bytes)
  return [bits, 32, 64].some((width) => BigInt.asUintN(width, value) === bytes)
}

/** @param {string} metric  @param {bigint} timeMs */
function isoOf(metric, timeMs) {
  const signed = BigInt.asIntN(64, timeMs)
  if (signed < -ISO_MS_MAX / 4n || signed > ISO_MS_MAX) throw unfit(metric, 'is not a time')
  return new Date(Number(signed)).toISOString()
}

/** @param {string} metric  @param {RawValue} raw */
const mismatch = (metric, { member }) => unfit(metric, `came as ${member}, against its datatype`)

/** @param {string} metric  @param {string} what */
const unfit = (metric, what) => new PayloadError('value', `the value of ${metric} ${what}`)
