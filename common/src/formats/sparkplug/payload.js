/**
 * The payload of a Sparkplug B message: bytes of Protocol Buffers become metrics. The grammar is
 * sparkplug_b.proto of Eclipse Tahu; numbers of fields are those of its messages `Payload`,
 * `Metric`, `PropertySet` and `PropertyValue`. What it says beyond that is skipped. Pure.
 */

import { BinaryReader } from '@bufbuild/protobuf/wire'
import { PayloadError, shown } from '../../payload.js'

/**
 * @typedef {object} SparkplugMetric
 * @property {string | undefined} name  Births tell it; data may give the alias alone.
 * @property {bigint | undefined} alias
 * @property {number | undefined} timeMs
 * @property {number | undefined} datatype  Births tell it; data may leave it out.
 * @property {boolean} isHistorical  Whether it is told late, and was true at its own time.
 * @property {boolean} isTransient  Whether it is not meant to be stored.
 * @property {boolean} isNull
 * @property {RawValue | undefined} value
 * @property {string | undefined} unit  Property `engUnit`.
 */

/**
 * @typedef {object} RawValue
 * @property {string} member  Of the message, such as `int_value`.
 * @property {number | bigint | boolean | string | undefined} content
 */

/**
 * @typedef {object} SparkplugPayload
 * @property {number | undefined} timeMs
 * @property {number | undefined} seq
 * @property {SparkplugMetric[]} metrics
 */

/** Most metrics of a payload. */
export const METRICS_MAX = 10_000

/** The name under which Ignition and others put the unit of a metric. */
const UNIT_PROPERTY = 'engUnit'

/** Members of `value` by their number. @type {Map<number, string>} */
const MEMBERS = new Map([
  [10, 'int_value'],
  [11, 'long_value'],
  [12, 'float_value'],
  [13, 'double_value'],
  [14, 'boolean_value'],
  [15, 'string_value'],
  [16, 'bytes_value'],
  [17, 'dataset_value'],
  [18, 'template_value'],
  [19, 'extension_value'],
])

/**
 * @param {Buffer} bytes
 * @returns {SparkplugPayload}
 * @throws {PayloadError}
 */
export function readPayload(bytes) {
  try {
    return payloadOf(new BinaryReader(bytes))
  } catch (error) {
    if (error instanceof PayloadError) throw error
    // By the library, of bytes that are no Protocol Buffers.
    const { message } = /** @type {Error} */ (error)
    throw new PayloadError('value', `this is not Sparkplug B: ${shown(message, 120)}`)
  }
}

/**
 * Reads the fields of a message.
 *
 * @param {BinaryReader} reader
 * @param {(field: number, wire: number) => boolean} read  Whether it took a field.
 */
function readFields(reader, read) {
  while (reader.pos < reader.len) {
    const [field, wire] = reader.tag()
    if (!read(field, wire)) reader.skip(wire, field)
  }
}

export const [VARINT, BIT64, DELIMITED, BIT32] = [0, 1, 2, 5]

/** @param {BinaryReader} reader  @returns {SparkplugPayload} */
function payloadOf(reader) {
  /** @type {SparkplugPayload} */
  const payload = { timeMs: undefined, seq: undefined, metrics: [] }
  readFields(reader, (field, wire) => {
    if (field === 1 && wire === VARINT) payload.timeMs = msOf(reader)
    else if (field === 3 && wire === VARINT) payload.seq = Number(reader.uint64())
    else if (field === 2 && wire === DELIMITED) {
      if (payload.metrics.length === METRICS_MAX) {
        throw new PayloadError('value', `the payload has more than ${METRICS_MAX} metrics`)
      }
      payload.metrics.push(metricOf(new BinaryReader(reader.bytes())))
    } else return false
    return true
  })
  return payload
}

/** @param {BinaryReader} reader  @returns {SparkplugMetric} */
function metricOf(reader) {
  /** @type {SparkplugMetric} */
  const metric = {
    name: undefined,
    alias: undefined,
    timeMs: undefined,
    datatype: undefined,
    isHistorical: false,
    isTransient: false,
    isNull: false,
    value: undefined,
    unit: undefined,
  }
  readFields(reader, (field, wire) => {
    if (field === 1 && wire === DELIMITED) metric.name = reader.string(true)
    else if (field === 2 && wire === VARINT) metric.alias = BigInt(reader.uint64())
    else if (field === 3 && wire === VARINT) metric.timeMs = msOf(reader)
    else if (field === 4 && wire === VARINT) metric.datatype = reader.uint32()
    else if (field === 5 && wire === VARINT) metric.isHistorical = reader.bool()
    else if (field === 6 && wire === VARINT) metric.isTransient = reader.bool()
    else if (field === 7 && wire === VARINT) metric.isNull = reader.bool()
    else if (field === 9 && wire === DELIMITED)
      metric.unit = unitOf(new BinaryReader(reader.bytes()))
    else if (MEMBERS.has(field)) metric.value = rawOf(reader, field, wire)
    else return false
    return true
  })
  return metric
}

/**
 * @param {BinaryReader} reader
 * @param {number} field
 * @param {number} wire
 * @returns {RawValue}
 */
function rawOf(reader, field, wire) {
  const member = /** @type {string} */ (MEMBERS.get(field))
  if (field === 10 && wire === VARINT) return { member, content: reader.uint32() }
  if (field === 11 && wire === VARINT) return { member, content: BigInt(reader.uint64()) }
  if (field === 12 && wire === BIT32) return { member, content: reader.float() }
  if (field === 13 && wire === BIT64) return { member, content: reader.double() }
  if (field === 14 && wire === VARINT) return { member, content: reader.bool() }
  if (field === 15 && wire === DELIMITED) return { member, content: reader.string(true) }
  reader.skip(wire, field)
  return { member, content: undefined }
}

/** What is too large for a time is refused with its value. @param {BinaryReader} reader */
const msOf = (reader) => Number(reader.uint64())

/** Of a set of properties: two lists, of keys and of values. @param {BinaryReader} reader */
function unitOf(reader) {
  /** @type {string[]} */
  const keys = []
  /** @type {(string | undefined)[]} */
  const texts = []
  readFields(reader, (field, wire) => {
    if (field === 1 && wire === DELIMITED) keys.push(reader.string(true))
    else if (field === 2 && wire === DELIMITED) texts.push(textOf(new BinaryReader(reader.bytes())))
    else return false
    return true
  })
  return texts[keys.indexOf(UNIT_PROPERTY)]
}

/** @param {BinaryReader} reader  Of a property's value. */
function textOf(reader) {
  /** @type {string | undefined} */
  let text
  readFields(reader, (field, wire) => {
    if (field !== 8 || wire !== DELIMITED) return false
    text = reader.string(true)
    return true
  })
  return text
}
