/** Reads the blocks and records of version 1 of the spool. Nothing writes them any more. Pure. */

import { createHash } from 'node:crypto'
import { ALIGN_BYTES } from './block.js'

/** "SGB1". */
const MAGIC = 0x31424753
const HEADER_BYTES = 40
const DIGEST_AT = 24

/** Bytes of a record before its texts. */
const FIXED_BYTES = 44

/**
 * @param {Buffer} bytes  From where a block may begin.
 * @param {{ segment: number, offset: number }} place
 * @returns {{ messages: number, firstReceivedMs: number, payload: Buffer } | undefined}
 */
export function openBlock1(bytes, { segment, offset }) {
  if (bytes.length < HEADER_BYTES || bytes.readUInt32LE(0) !== MAGIC) return undefined
  const end = HEADER_BYTES + bytes.readUInt32LE(4)
  if (end > bytes.length) return undefined
  const where = Buffer.alloc(16)
  where.writeDoubleLE(segment, 0)
  where.writeDoubleLE(offset, 8)
  const payload = bytes.subarray(HEADER_BYTES, end)
  const hash = createHash('sha256').update(where).update(bytes.subarray(0, DIGEST_AT))
  const digest = hash
    .update(payload)
    .digest()
    .subarray(0, HEADER_BYTES - DIGEST_AT)
  if (!digest.equals(bytes.subarray(DIGEST_AT, HEADER_BYTES))) return undefined
  return { messages: bytes.readUInt32LE(8), firstReceivedMs: bytes.readDoubleLE(16), payload }
}

/** @param {number} payloadBytes  Of a block. */
export function blockBytes1(payloadBytes) {
  return Math.ceil((HEADER_BYTES + payloadBytes) / ALIGN_BYTES) * ALIGN_BYTES
}

/**
 * @param {Buffer} from  The payload of a block.
 * @param {number} at  Where the record begins.
 * @returns {import('./record.js').Fields}
 */
export function readRecord1(from, at) {
  const end = at + 4 + from.readUInt32LE(at)
  const flags = from.readUInt8(at + 4)
  const topicAt = at + FIXED_BYTES
  const clientAt = topicAt + from.readUInt16LE(at + 6)
  const payloadAt = clientAt + from.readUInt16LE(at + 8)
  return {
    end,
    qos: flags & 3,
    retain: (flags & 4) !== 0,
    // It knew only clients that may write every sensor or none.
    rights: (flags & 8) === 0 ? null : '',
    retention: undefined,
    format: from.readUInt8(at + 5),
    topic: from.toString('utf8', topicAt, clientAt),
    clientId: from.toString('utf8', clientAt, payloadAt),
    payload: Buffer.from(from.subarray(payloadAt, end)),
    receivedMs: from.readDoubleLE(at + 12),
    firstReceivedMs: from.readDoubleLE(at + 20),
    deadLetterId: Buffer.from(from.subarray(at + 28, at + 44)),
  }
}
