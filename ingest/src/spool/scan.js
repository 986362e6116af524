/** Finds the blocks of a segment that an earlier run wrote. Pure. */

import {
  ALIGN_BYTES,
  blockBytes,
  HEADER_BYTES,
  isZero,
  mayBeTorn,
  readHeader,
  readPayload,
} from './block.js'
import { blockBytes1, openBlock1 } from './format-1.js'

/**
 * What is known of a segment. Of each block only numbers are kept: there may be millions.
 *
 * @typedef {object} Scan
 * @property {1 | 2} version
 * @property {number} number
 * @property {number} bytes  Of the file.
 * @property {number} blocksEnd  Where the last block ends, in bytes.
 * @property {number[]} offsets  Of the blocks that are whole.
 * @property {number[]} counts  Their messages.
 * @property {number[]} positions  Of version 1 they are not known before all segments are.
 * @property {number | undefined} segmentPosition  Of its first block, whether that is whole or not.
 * @property {number | undefined} oldestMs
 * @property {boolean} hasFailed  Whether blocks after those failed: nobody was promised them.
 * @property {boolean} isDamaged  Proved by its bytes alone.
 * @property {number | undefined} tailEnd  Position after the last block, if that is damaged.
 */

/**
 * @param {Buffer} file
 * @param {number} number
 * @param {string} spoolId
 * @returns {Scan}
 */
export function scanSegment(file, number, spoolId) {
  const scan = newScan(number, file.length)
  /** @type {{ header: import('./block.js').Header, offset: number } | undefined} */
  let broken
  for (let offset = 0; offset < file.length; ) {
    const bytes = file.subarray(offset)
    const header = readHeader(bytes, { spoolId, segment: number, offset })
    if (!header) {
      offset += ALIGN_BYTES
      continue
    }
    scan.segmentPosition ??= header.segmentPosition
    broken = undefined
    if (readPayload(bytes, header)) {
      note(scan, offset, header)
      scan.positions.push(header.position)
    } else {
      broken = { header, offset }
    }
    offset += blockBytes(header.payloadBytes)
    scan.blocksEnd = offset
  }
  noteTail(scan, file, broken)
  return scan
}

/**
 * Tells what a crash tore from what was damaged. A crash leaves sectors that were never written:
 * zeros, or beyond the end of the file. A header lies in one sector. So a header that is neither
 * zeros nor right, and a payload that is wrong though all its sectors were written, were changed
 * later.
 *
 * @param {Scan} scan
 * @param {Buffer} file
 * @param {{ header: import('./block.js').Header, offset: number } | undefined} broken  The last
 *   block, if it is not whole.
 */
function noteTail(scan, file, broken) {
  if (broken && !mayBeTorn(file, broken.offset, broken.header)) {
    scan.tailEnd = broken.header.position + broken.header.messages
  }
  const next = file.subarray(scan.blocksEnd, scan.blocksEnd + HEADER_BYTES)
  scan.isDamaged = scan.tailEnd !== undefined || !isZero(next)
}

/**
 * Finds the blocks of a segment of version 1. How many messages damage took cannot be told there.
 *
 * @param {Buffer} file
 * @param {number} number
 * @returns {Scan}
 */
export function scanSegment1(file, number) {
  const scan = newScan(number, file.length, 1)
  for (let offset = 0; offset < file.length; ) {
    const block = openBlock1(file.subarray(offset), { segment: number, offset })
    if (!block) {
      offset += ALIGN_BYTES
      continue
    }
    if (offset > scan.blocksEnd) scan.isDamaged = true
    note(scan, offset, block)
    offset += blockBytes1(block.payload.length)
    scan.blocksEnd = offset
  }
  return scan
}

/** @param {Buffer} file  Whether version 1 began to write it. */
export function isOfVersion1(file) {
  return file.subarray(0, 4).toString('latin1') === 'SGB1'
}

/**
 * A segment of which nothing is known yet.
 *
 * @param {number} number
 * @param {number} bytes
 * @param {1 | 2} [version]
 * @returns {Scan}
 */
export function newScan(number, bytes, version = 2) {
  return {
    version,
    number,
    bytes,
    blocksEnd: 0,
    offsets: [],
    counts: [],
    positions: [],
    segmentPosition: undefined,
    oldestMs: undefined,
    hasFailed: false,
    isDamaged: false,
    tailEnd: undefined,
  }
}

/**
 * @param {Scan} scan
 * @param {number} offset
 * @param {{ messages: number, firstReceivedMs: number }} block
 */
function note(scan, offset, { messages, firstReceivedMs }) {
  scan.offsets.push(offset)
  scan.counts.push(messages)
  scan.oldestMs ??= firstReceivedMs
}
