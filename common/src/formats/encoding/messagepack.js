/**
 * MessagePack: bytes become the values that JSON would give. Maps are objects without a prototype;
 * keys that are numbers are their digits. Of two members with one name the last counts, as in JSON.
 * A timestamp is its ISO 8601 text; binary data and other extensions are unfit for a measurement.
 *
 * Read here and not by a library: those of npm allocate what the head of an array promises, so that
 * 60 KB of such heads take gigabytes, and they let texts pass that are not UTF-8.
 *
 * The grammar is that of github.com/msgpack/msgpack/blob/master/spec.md. Pure.
 */

import { isUtf8 } from 'node:buffer'
import { PayloadError } from '../../payload.js'
import { UNFIT } from './unfit.js'

/** Most levels of arrays and maps within each other. */
const LEVELS_MAX = 32

const TIMESTAMP = -1

/**
 * @param {Buffer} payload
 * @returns {unknown}
 * @throws {PayloadError}
 */
export function readMessagePack(payload) {
  if (payload.length === 0) throw new PayloadError('value', 'the payload is empty')
  const reader = new Reader(payload)
  const value = reader.value(0)
  if (!reader.isAtEnd) throw fault('bytes follow its value')
  return value
}

/**
 * The bytes of each element of an array, as they stand.
 *
 * @param {Buffer} bytes
 * @param {import('./elements.js').Budget} budget
 * @returns {Buffer[] | undefined}  Undefined where the bytes are no array.
 * @throws {PayloadError}
 */
export function messagePackElements(bytes, budget) {
  const reader = new Reader(bytes, budget)
  const count = reader.arrayHead()
  if (count === undefined) return undefined
  /** @type {Buffer[]} */
  const elements = []
  while (elements.length < count) {
    const from = reader.at
    reader.value(1)
    budget.takeElement()
    elements.push(Buffer.from(bytes.subarray(from, reader.at)))
  }
  if (!reader.isAtEnd) throw fault('bytes follow its value')
  return elements
}

/** @param {string} what */
const fault = (what) => new PayloadError('value', `this is not MessagePack: ${what}`)

class Reader {
  #bytes
  #budget
  #at = 0

  /** @param {Buffer} bytes  @param {import('./elements.js').Budget} [budget] */
  constructor(bytes, budget) {
    this.#bytes = bytes
    this.#budget = budget
  }

  get at() {
    return this.#at
  }

  /** How many elements follow; undefined, and nothing is read, where there is no array. */
  arrayHead() {
    const head = this.#bytes[0]
    if (head >= 0x90 && head < 0xa0) return this.#uint(1) & 0x0f
    if (head !== 0xdc && head !== 0xdd) return undefined
    this.#skip(1)
    return this.#uint(head === 0xdc ? 2 : 4)
  }

  get isAtEnd() {
    return this.#at === this.#bytes.length
  }

  /** @param {number} level  @returns {unknown} */
  value(level) {
    this.#budget?.takeValue()
    const head = this.#uint(1)
    if (head < 0x80) return head
    if (head >= 0xe0) return head - 0x100
    if (head < 0x90) return this.#map(head & 0x0f, level)
    if (head < 0xa0) return this.#array(head & 0x0f, level)
    if (head < 0xc0) return this.#text(head & 0x1f)
    switch (head) {
      case 0xc0:
        return null
      case 0xc2:
        return false
      case 0xc3:
        return true
      case 0xca:
        return this.#bytes.readFloatBE(this.#skip(4))
      case 0xcb:
        return this.#bytes.readDoubleBE(this.#skip(8))
      case 0xcf:
        return exact(this.#bytes.readBigUInt64BE(this.#skip(8)))
      case 0xd3:
        return exact(this.#bytes.readBigInt64BE(this.#skip(8)))
      default:
        return this.#sized(head, level)
    }
  }

  /** What follows a head of 0xc4 to 0xdf. @param {number} head  @param {number} level */
  #sized(head, level) {
    if (head >= 0xc4 && head <= 0xc6) return this.#binary(this.#uint(1 << (head - 0xc4)))
    if (head >= 0xc7 && head <= 0xc9) return this.#extension(this.#uint(1 << (head - 0xc7)))
    if (head >= 0xcc && head <= 0xce) return this.#uint(1 << (head - 0xcc))
    if (head >= 0xd0 && head <= 0xd2) return this.#int(1 << (head - 0xd0))
    if (head >= 0xd4 && head <= 0xd8) return this.#extension(1 << (head - 0xd4))
    if (head >= 0xd9 && head <= 0xdb) return this.#text(this.#uint(1 << (head - 0xd9)))
    if (head === 0xdc || head === 0xdd) return this.#array(this.#uint(head === 0xdc ? 2 : 4), level)
    if (head === 0xde || head === 0xdf) return this.#map(this.#uint(head === 0xde ? 2 : 4), level)
    throw fault('0xc1 begins no value')
  }

  /** Goes on behind some bytes, and tells where they begin. @param {number} size */
  #skip(size) {
    const at = this.#at
    if (at + size > this.#bytes.length) throw fault('it ends too early')
    this.#at = at + size
    return at
  }

  /** @param {number} size  In bytes. */
  #uint(size) {
    return this.#bytes.readUIntBE(this.#skip(size), size)
  }

  /** @param {number} size  In bytes. */
  #int(size) {
    return this.#bytes.readIntBE(this.#skip(size), size)
  }

  /** @param {number} size  In bytes. */
  #slice(size) {
    const at = this.#skip(size)
    return this.#bytes.subarray(at, at + size)
  }

  /** @param {number} size  In bytes. */
  #text(size) {
    const bytes = this.#slice(size)
    if (!isUtf8(bytes)) throw fault('a text is not UTF-8')
    return bytes.toString()
  }

  /** @param {number} size  In bytes. */
  #binary(size) {
    this.#skip(size)
    return UNFIT
  }

  /** @param {number} length  @param {number} level */
  #array(length, level) {
    if (level === LEVELS_MAX) throw fault('it is nested too deep')
    /** @type {unknown[]} */
    const values = []
    while (values.length < length) values.push(this.value(level + 1))
    return values
  }

  /** @param {number} length  @param {number} level */
  #map(length, level) {
    if (level === LEVELS_MAX) throw fault('it is nested too deep')
    const object = Object.create(null)
    for (let at = 0; at < length; at++) {
      const key = this.value(level + 1)
      const name = typeof key === 'object' ? 'a key that is no text' : String(key)
      object[name] = this.value(level + 1)
    }
    return object
  }

  /** @param {number} size  In bytes. */
  #extension(size) {
    const type = this.#int(1)
    const data = this.#slice(size)
    return type === TIMESTAMP ? timestampText(data) : UNFIT
  }
}

/** @param {bigint} value */
function exact(value) {
  const number = Number(value)
  return Number.isSafeInteger(number) ? number : value
}

/** Last second of the year 9999, and the first of the year 0. */
const SECONDS_MAX = 253_402_300_799
const SECONDS_MIN = -62_167_219_200

/** @param {Buffer} data  32, 64 or 96 bits. */
function timestampText(data) {
  let seconds = 0
  let ns = 0
  if (data.length === 4) {
    seconds = data.readUInt32BE(0)
  } else if (data.length === 8) {
    const [high, low] = [data.readUInt32BE(0), data.readUInt32BE(4)]
    ns = high >>> 2
    seconds = (high & 3) * 2 ** 32 + low
  } else if (data.length === 12) {
    ns = data.readUInt32BE(0)
    seconds = Number(data.readBigInt64BE(4))
  } else {
    return UNFIT
  }
  if (seconds < SECONDS_MIN || seconds > SECONDS_MAX || ns >= 1e9) return UNFIT
  return new Date(seconds * 1000 + Math.floor(ns / 1e6)).toISOString()
}
