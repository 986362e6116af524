/**
 * A Sparkplug B payload with the names and datatypes that its birth told, so that it means the same
 * to whoever has not heard the birth: the spool, a dead letter, the next process. Nothing else of
 * it is changed. Pure.
 */

import { BinaryReader } from '@bufbuild/protobuf/wire'
import { DELIMITED } from './payload.js'

/** Tags in sparkplug_b.proto: of `Payload.metrics`, `Metric.name` and `Metric.datatype`. */
const METRICS_TAG = (2 << 3) | DELIMITED
const NAME_TAG = (1 << 3) | DELIMITED
const DATATYPE_TAG = 4 << 3

/** The field of metrics. */
const METRICS = 2

/** Most bytes of a tag, which is less than 16, with the number behind it. */
const NUMBER_BYTES_MAX = 6

/** @typedef {import('./payload.js').SparkplugMetric} SparkplugMetric */

/**
 * @param {Buffer} bytes  Of a payload that can be read.
 * @param {readonly SparkplugMetric[]} before  Its metrics, as they were read.
 * @param {readonly SparkplugMetric[]} after  The same ones, some with more than before.
 * @returns {Buffer}  The same bytes where there is nothing to add.
 */
export function completed(bytes, before, after) {
  const { length } = after
  let bytesMax = bytes.length
  for (let at = 0; at < length; at++) {
    if (after[at] !== before[at]) bytesMax += moreBytesMax(after[at])
  }
  if (bytesMax === bytes.length) return bytes
  const into = Buffer.allocUnsafe(bytesMax)
  const reader = new BinaryReader(bytes)
  let at = 0
  let end = 0
  while (reader.pos < reader.len) {
    const start = reader.pos
    const [field, wire] = reader.tag()
    const isMetric = field === METRICS && wire === DELIMITED
    reader.skip(wire, field)
    const isMore = isMetric && after[at] !== before[at]
    if (isMore) {
      const own = bytes.subarray(start, reader.pos)
      end = writeMetric(into, end, own, before[at], after[at])
    } else {
      end += bytes.copy(into, end, start, reader.pos)
    }
    if (isMetric) at++
  }
  return into.subarray(0, end)
}

/** Most bytes that a metric gets: a name, a datatype, and a longer length of its own. */
/** @param {SparkplugMetric} after */
function moreBytesMax({ name = '' }) {
  return 3 * name.length + 3 * NUMBER_BYTES_MAX
}

/**
 * @param {Buffer} into
 * @param {number} at  Where in it.
 * @param {Buffer} own  The metric as it is, with tag and length.
 * @param {SparkplugMetric} before
 * @param {SparkplugMetric} after
 * @returns {number}  Where it ends.
 */
function writeMetric(into, at, own, before, after) {
  const body = own.subarray(bodyStart(own))
  const name = before.name === undefined ? after.name : undefined
  const datatype = before.datatype === undefined ? after.datatype : undefined
  const nameBytes = name === undefined ? 0 : Buffer.byteLength(name)
  const length =
    body.length +
    (name === undefined ? 0 : 1 + varintBytes(nameBytes) + nameBytes) +
    (datatype === undefined ? 0 : 1 + varintBytes(datatype))
  let end = writeNumber(into, at, METRICS_TAG, length)
  if (name !== undefined) {
    end = writeNumber(into, end, NAME_TAG, nameBytes)
    end += into.write(name, end)
  }
  if (datatype !== undefined) end = writeNumber(into, end, DATATYPE_TAG, datatype)
  return end + body.copy(into, end)
}

/** Where what follows tag and length begins: both are varints. @param {Buffer} field */
function bodyStart(field) {
  let at = 0
  for (let left = 2; left > 0; at++) if (field[at] < 0x80) left--
  return at
}

/** @param {number} value  Of 32 bits. */
function varintBytes(value) {
  let bytes = 1
  for (let rest = value >>> 7; rest > 0; rest >>>= 7) bytes++
  return bytes
}

/** @param {Buffer} into  @param {number} at  @param {number} tag  @param {number} value */
function writeNumber(into, at, tag, value) {
  let end = into.writeUInt8(tag, at)
  let rest = value
  for (; rest > 0x7f; rest >>>= 7) end = into.writeUInt8((rest & 0x7f) | 0x80, end)
  return into.writeUInt8(rest, end)
}
