/** Writes payloads of Sparkplug B, as edge nodes and hosts do. Pure. */

import { BinaryWriter } from '@bufbuild/protobuf/wire'

/**
 * @typedef {object} Written
 * @property {string} [name]
 * @property {number | bigint} [alias]
 * @property {number} [timeMs]
 * @property {number} [datatype]
 * @property {boolean} [isHistorical]
 * @property {boolean} [isTransient]
 * @property {boolean} [isNull]
 * @property {string} [unit]
 * @property {number | bigint} [int]
 * @property {number | bigint} [long]
 * @property {number} [float]
 * @property {number} [double]
 * @property {boolean} [boolean]
 * @property {string} [string]
 * @property {Uint8Array} [bytes]
 */

/**
 * @param {{ timeMs?: number, seq?: number, metrics?: Written[], uuid?: string }} payload
 * @returns {Buffer}
 */
export function writePayload({ timeMs, seq, metrics = [], uuid }) {
  const writer = new BinaryWriter()
  if (timeMs !== undefined) writer.tag(1, 0).uint64(BigInt(timeMs))
  for (const metric of metrics) writer.tag(2, 2).bytes(written(metric))
  if (seq !== undefined) writer.tag(3, 0).uint64(BigInt(seq))
  if (uuid !== undefined) writer.tag(4, 2).string(uuid)
  return Buffer.from(writer.finish())
}

/** @param {Written} metric */
function written({ name, alias, timeMs, datatype, isNull, unit, ...value }) {
  const writer = new BinaryWriter()
  if (name !== undefined) writer.tag(1, 2).string(name)
  if (alias !== undefined) writer.tag(2, 0).uint64(BigInt(alias))
  if (timeMs !== undefined) writer.tag(3, 0).uint64(BigInt(timeMs))
  if (datatype !== undefined) writer.tag(4, 0).uint32(datatype)
  if (value.isHistorical) writer.tag(5, 0).bool(true)
  if (value.isTransient) writer.tag(6, 0).bool(true)
  if (isNull !== undefined) writer.tag(7, 0).bool(isNull)
  if (unit !== undefined) writer.tag(9, 2).bytes(properties(unit))
  if (value.int !== undefined) writer.tag(10, 0).uint32(Number(value.int) >>> 0)
  if (value.long !== undefined) writer.tag(11, 0).uint64(BigInt.asUintN(64, BigInt(value.long)))
  if (value.float !== undefined) writer.tag(12, 5).float(value.float)
  if (value.double !== undefined) writer.tag(13, 1).double(value.double)
  if (value.boolean !== undefined) writer.tag(14, 0).bool(value.boolean)
  if (value.string !== undefined) writer.tag(15, 2).string(value.string)
  if (value.bytes !== undefined) writer.tag(16, 2).bytes(value.bytes)
  return writer.finish()
}

/** @param {string} unit */
function properties(unit) {
  const [quality, units] = [new BinaryWriter(), new BinaryWriter()]
  quality.tag(1, 0).uint32(3).tag(3, 0).uint32(192)
  units.tag(1, 0).uint32(12).tag(8, 2).string(unit)
  return new BinaryWriter()
    .tag(1, 2)
    .string('Quality')
    .tag(2, 2)
    .bytes(quality.finish())
    .tag(1, 2)
    .string('engUnit')
    .tag(2, 2)
    .bytes(units.finish())
    .finish()
}
