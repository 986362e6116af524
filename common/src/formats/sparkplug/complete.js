/**
 * A Sparkplug B payload with the names and datatypes that its birth told, so that it means the same
 * to whoever has not heard the birth: the spool, a dead letter, the next process. Nothing else of
 * it is changed. Pure.
 */

import { BinaryReader, BinaryWriter } from '@bufbuild/protobuf/wire'
import { DELIMITED, VARINT } from './payload.js'

/** Fields of `Payload` and of `Metric` in sparkplug_b.proto. */
const METRICS = 2
const NAME = 1
const DATATYPE = 4

/** @typedef {import('./payload.js').SparkplugMetric} SparkplugMetric */

/**
 * @param {Buffer} bytes  Of a payload that can be read.
 * @param {readonly SparkplugMetric[]} before  Its metrics, as they were read.
 * @param {readonly SparkplugMetric[]} after  The same ones, some with more than before.
 * @returns {Buffer}  The same bytes where there is nothing to add.
 */
export function completed(bytes, before, after) {
  if (before.every((metric, at) => metric === after[at])) return bytes
  const reader = new BinaryReader(bytes)
  const writer = new BinaryWriter()
  let at = 0
  while (reader.pos < reader.len) {
    const start = reader.pos
    const [field, wire] = reader.tag()
    if (field === METRICS && wire === DELIMITED) {
      const metric = reader.bytes()
      writer.tag(METRICS, DELIMITED).bytes(withMore(metric, before[at], after[at]))
      at++
    } else {
      reader.skip(wire, field)
      writer.raw(bytes.subarray(start, reader.pos))
    }
  }
  return Buffer.from(writer.finish())
}

/**
 * @param {Uint8Array} bytes  Of a metric.
 * @param {SparkplugMetric} before
 * @param {SparkplugMetric} after
 */
function withMore(bytes, before, after) {
  const writer = new BinaryWriter()
  if (before.name === undefined && after.name !== undefined) {
    writer.tag(NAME, DELIMITED).string(after.name)
  }
  if (before.datatype === undefined && after.datatype !== undefined) {
    writer.tag(DATATYPE, VARINT).uint32(after.datatype)
  }
  return writer.raw(bytes).finish()
}
