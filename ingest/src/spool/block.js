/**
 * Blocks of the spool: what one sync made durable. A block says how many messages came before it,
 * so that missing ones can be counted. Its digests cover where it belongs, so that bytes of another
 * place, file or spool are never taken for data. The format is in docs/format/spool.md. Pure.
 */

import { createHash } from 'node:crypto'

/** Blocks begin at multiples of this many bytes: where to look for the next after damage. */
export const ALIGN_BYTES = 64

/** What a disk writes as a whole or not at all, in bytes. */
const SECTOR_BYTES = 512

/** "SGB2". */
const MAGIC = 0x32424753

/** A header never crosses a border of sectors: it is written as a whole or not at all. */
export const HEADER_BYTES = 64

const PAYLOAD_DIGEST_AT = 36
const PAYLOAD_DIGEST_BYTES = 16
const HEADER_DIGEST_AT = 52
const HEADER_DIGEST_BYTES = 12

/**
 * @typedef {object} Place  Where a block lies.
 * @property {string} spoolId  32 hexadecimal digits.
 * @property {number} segment
 * @property {number} offset
 */

/**
 * @typedef {object} Header
 * @property {number} payloadBytes
 * @property {number} messages
 * @property {number} position  Messages that were put into the spool before.
 * @property {number} segmentPosition  The same, of the first block of its segment.
 * @property {number} firstReceivedMs  Of its first message, milliseconds since the Unix epoch.
 */

/**
 * Of a whole block, with header and padding.
 *
 * @param {number} payloadBytes
 */
export function blockBytes(payloadBytes) {
  return Math.ceil((HEADER_BYTES + payloadBytes) / ALIGN_BYTES) * ALIGN_BYTES
}

/**
 * @param {Buffer[]} records  The payload.
 * @param {Place} place
 * @param {{ position: number, segmentPosition: number, firstReceivedMs: number }} about
 */
export function makeBlock(records, place, { position, segmentPosition, firstReceivedMs }) {
  let payloadBytes = 0
  for (const record of records) payloadBytes += record.length
  const block = Buffer.alloc(blockBytes(payloadBytes))
  let at = HEADER_BYTES
  for (const record of records) at += record.copy(block, at)
  block.writeUInt32LE(MAGIC, 0)
  block.writeUInt32LE(payloadBytes, 4)
  block.writeUInt32LE(records.length, 8)
  block.writeDoubleLE(position, 12)
  block.writeDoubleLE(segmentPosition, 20)
  block.writeDoubleLE(firstReceivedMs, 28)
  payloadDigest(block.subarray(HEADER_BYTES, at)).copy(block, PAYLOAD_DIGEST_AT)
  headerDigest(block, place).copy(block, HEADER_DIGEST_AT)
  return block
}

/**
 * @param {Buffer} bytes  From where a block may begin.
 * @param {Place} place
 * @returns {Header | undefined}  Nothing if no block of this place begins here.
 */
export function readHeader(bytes, place) {
  if (bytes.length < HEADER_BYTES || bytes.readUInt32LE(0) !== MAGIC) return undefined
  if (!headerDigest(bytes, place).equals(bytes.subarray(HEADER_DIGEST_AT, HEADER_BYTES))) {
    return undefined
  }
  return {
    payloadBytes: bytes.readUInt32LE(4),
    messages: bytes.readUInt32LE(8),
    position: bytes.readDoubleLE(12),
    segmentPosition: bytes.readDoubleLE(20),
    firstReceivedMs: bytes.readDoubleLE(28),
  }
}

/**
 * @param {Buffer} bytes  From where the block begins.
 * @param {Header} header
 * @returns {Buffer | undefined}  Nothing if it is not whole.
 */
export function readPayload(bytes, { payloadBytes }) {
  const end = HEADER_BYTES + payloadBytes
  if (end > bytes.length) return undefined
  const payload = bytes.subarray(HEADER_BYTES, end)
  const wanted = bytes.subarray(PAYLOAD_DIGEST_AT, PAYLOAD_DIGEST_AT + PAYLOAD_DIGEST_BYTES)
  return payloadDigest(payload).equals(wanted) ? payload : undefined
}

/**
 * Whether a block that is not whole may be one that a crash tore: some of its sectors were never
 * written. If all were, its payload was changed later.
 *
 * @param {Buffer} file
 * @param {number} offset  Of the block.
 * @param {Header} header
 */
export function mayBeTorn(file, offset, { payloadBytes }) {
  const end = offset + HEADER_BYTES + payloadBytes
  if (end > file.length) return true
  // The rest of the header's own sector was written with the header.
  let from = Math.ceil((offset + HEADER_BYTES) / SECTOR_BYTES) * SECTOR_BYTES
  for (; from < end; from += SECTOR_BYTES) {
    if (isZero(file.subarray(from, Math.min(from + SECTOR_BYTES, end)))) return true
  }
  return false
}

/** @param {Buffer} bytes */
export function isZero(bytes) {
  return bytes.every((byte) => byte === 0)
}

/** @param {Buffer} header  @param {Place} place */
function headerDigest(header, { spoolId, segment, offset }) {
  const where = Buffer.alloc(16)
  where.writeDoubleLE(segment, 0)
  where.writeDoubleLE(offset, 8)
  const hash = createHash('sha256').update(spoolId, 'hex').update(where)
  return hash.update(header.subarray(0, HEADER_DIGEST_AT)).digest().subarray(0, HEADER_DIGEST_BYTES)
}

/** @param {Buffer} payload */
function payloadDigest(payload) {
  return createHash('sha256').update(payload).digest().subarray(0, PAYLOAD_DIGEST_BYTES)
}
