/**
 * `seq` tells values of one series and millisecond apart. A process that alone receives a series
 * counts them from 0 (`recent.js`). Processes that share its messages do not know of each other's
 * values: there `seq` follows from the value, so that the same value is the same row, whoever
 * stores it, and another value another row (`hashed.js`).
 */

import { createHash } from 'node:crypto'
import { KIND } from '@sandglass/common/measurement'
import { ownText } from '@sandglass/common/text'

/** Most values of one series and millisecond that are counted. */
export const COUNTED_MAX = 32_767

/** Bytes of a hash that count: of 280,000 times a billion pairs of values, one would collide. */
const HASH_BYTES = 6

/** More than any `seq`. */
const SEQ_END = COUNTED_MAX + 1 + 2 ** (8 * HASH_BYTES)

/** Of the microseconds of a millisecond, those for counted values; the others are for hashes. */
const COUNTED_US = 500

/** Longest text that is remembered as it is, in characters; of longer ones, the hash. */
const TEXT_LENGTH_MAX = 40

/** @typedef {import('@sandglass/common/measurement').Value} Value */

/** What two values have in common if and only if they are the same. */
/** @param {number} kind  @param {Value} value */
export function tokenOf(kind, value) {
  if (kind === KIND.number || kind === KIND.boolean) return value
  if (kind === KIND.text) {
    const text = /** @type {string} */ (value)
    if (text.length <= TEXT_LENGTH_MAX) return ownText(`t${text}`)
    return `h${createHash('sha1').update(text).digest('base64')}`
  }
  if (kind === KIND.location) {
    const { lat, lon } = /** @type {import('@sandglass/common/measurement').Location} */ (value)
    return `l${lat} ${lon}`
  }
  return `i${value}`
}

/**
 * The `seq` that follows from a value: more than {@link COUNTED_MAX}, and exact as a number.
 *
 * @param {number} kind
 * @param {Value} value
 */
export function hashedSeq(kind, value) {
  const token = tokenOf(kind, value)
  const text = typeof token === 'string' ? token : `${typeof token} ${token}`
  return COUNTED_MAX + 1 + createHash('sha1').update(text).digest().readUIntBE(0, HASH_BYTES)
}

/**
 * Where in its millisecond a value counts as measured, in microseconds: of two values, the one of
 * the higher `seq` never earlier.
 *
 * @param {number} seq
 */
export function microsecondOf(seq) {
  if (seq <= COUNTED_MAX) return Math.min(seq, COUNTED_US - 1)
  return COUNTED_US + Math.floor((seq / SEQ_END) * (1_000 - COUNTED_US))
}
