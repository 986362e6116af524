/**
 * Blocks of the spool: what one fsync made durable. A block says where it belongs and its checksum
 * covers that, so that bytes of another place or another file are never taken for data. Pure.
 */

import { createHash } from 'node:crypto'

/** Blocks begin at multiples of this many bytes: where to look for the next after damage. */
export const ALIGN_BYTES = 64

/** "SGB1". */
const MAGIC = 0x31424753

const HEADER_BYTES = 40
const DIGEST_AT = 24
const DIGEST_BYTES = 16

/**
 * @typedef {object} Block
 * @property {number} offset  Where it begins in its segment.
 * @property {number} bytes  With header and padding.
 * @property {number} messages
 * @property {number} firstReceivedMs  Of its first message, milliseconds since the Unix epoch.
 */

/** @param {number} payloadBytes  @returns {number}  Of the whole block. */
function blockBytes(payloadBytes) {
  return Math.ceil((HEADER_BYTES + payloadBytes) / ALIGN_BYTES) * ALIGN_BYTES
}

/**
 * A block whose payload is filled in by the caller.
 *
 * @param {number} payloadBytes
 * @returns {{ block: Buffer, payload: Buffer }}  The payload is a part of the block.
 */
export function allocateBlock(payloadBytes) {
  const block = Buffer.alloc(blockBytes(payloadBytes))
  return { block, payload: block.subarray(HEADER_BYTES, HEADER_BYTES + payloadBytes) }
}

/**
 * Fills in the header, when the payload is whole and the block's place is known.
 *
 * @param {Buffer} block
 * @param {number} payloadBytes
 * @param {{ segment: number, offset: number, messages: number, firstReceivedMs: number }} about
 */
export function sealBlock(block, payloadBytes, { segment, offset, messages, firstReceivedMs }) {
  block.writeUInt32LE(MAGIC, 0)
  block.writeUInt32LE(payloadBytes, 4)
  block.writeUInt32LE(messages, 8)
  block.writeUInt32LE(0, 12)
  block.writeDoubleLE(firstReceivedMs, 16)
  const payload = block.subarray(HEADER_BYTES, HEADER_BYTES + payloadBytes)
  digest(segment, offset, block, payload).copy(block, DIGEST_AT)
}

/**
 * The payload of a block, or nothing if this is no block, or not one of this place.
 *
 * @param {Buffer} bytes  From where it should begin.
 * @param {number} segment
 * @param {number} offset
 * @returns {Buffer | undefined}
 */
export function openBlock(bytes, segment, offset) {
  if (bytes.length < HEADER_BYTES || bytes.readUInt32LE(0) !== MAGIC) return undefined
  const end = HEADER_BYTES + bytes.readUInt32LE(4)
  if (end > bytes.length) return undefined
  const payload = bytes.subarray(HEADER_BYTES, end)
  const wanted = digest(segment, offset, bytes, payload)
  if (!wanted.equals(bytes.subarray(DIGEST_AT, DIGEST_AT + DIGEST_BYTES))) return undefined
  return payload
}

/**
 * Finds the blocks of a segment.
 *
 * @param {Buffer} file  The whole of it.
 * @param {number} segment
 * @returns {{ blocks: Block[], isDamaged: boolean }}  Damaged: something that is no block lies
 *   before a block. What lies after the last block is what a crash tore, and nobody was promised.
 */
export function findBlocks(file, segment) {
  /** @type {Block[]} */
  const blocks = []
  let isDamaged = false
  let end = 0
  for (let offset = 0; offset < file.length; ) {
    const bytes = file.subarray(offset)
    const payload = openBlock(bytes, segment, offset)
    if (!payload) {
      offset += ALIGN_BYTES
      continue
    }
    if (offset > end) isDamaged = true
    const whole = blockBytes(payload.length)
    blocks.push({
      ...{ offset, bytes: whole, messages: bytes.readUInt32LE(8) },
      firstReceivedMs: bytes.readDoubleLE(16),
    })
    offset += whole
    end = offset
  }
  return { blocks, isDamaged }
}

/**
 * SHA-256, cut.
 *
 * @param {number} segment
 * @param {number} offset
 * @param {Buffer} header
 * @param {Buffer} payload
 */
function digest(segment, offset, header, payload) {
  const place = Buffer.alloc(16)
  place.writeDoubleLE(segment, 0)
  place.writeDoubleLE(offset, 8)
  const hash = createHash('sha256').update(place).update(header.subarray(0, DIGEST_AT))
  return hash.update(payload).digest().subarray(0, DIGEST_BYTES)
}
