/**
 * CBOR (RFC 8949): bytes become the values that JSON would give. Maps are objects without a
 * prototype; keys that are numbers are their digits. Of two members with one name the last counts,
 * as in JSON. Pure.
 *
 * ```text
 * tag 0, 1         time          ISO 8601 text
 * tag 2, 3         bignum        bigint
 * tag 4, 5         decimal fraction, bigfloat: number
 * tag 55799        CBOR          its content
 * other tags, byte strings       unfit for a measurement: the field is refused
 * ```
 */

import { isUtf8 } from 'node:buffer'
import { decode, Tokenizer, Type } from 'cborg'
import { PayloadError, shown } from '../../payload.js'
import { UNFIT } from './unfit.js'

/** Most levels of arrays, maps and tags within each other. */
const LEVELS_MAX = 32

/** Longest bignum, in bytes: what is longer is beyond any double. */
const BIGNUM_BYTES_MAX = 128

/** Greatest exponent of a fraction: what is greater is beyond any double, or zero. */
const EXPONENT_MAX = 5_000

/** Last moment that ISO 8601 spells with four digits of the year, milliseconds since 1970. */
const ISO_MS_MAX = 253_402_300_799_999
const ISO_MS_MIN = -62_167_219_200_000

/**
 * @param {Buffer} payload
 * @returns {unknown}
 * @throws {PayloadError}
 */
export function readCbor(payload) {
  if (payload.length === 0) throw new PayloadError('value', 'the payload is empty')
  return reading(() => {
    const tokenizer = new BoundedTokenizer(payload, OPTIONS)
    return treeOf(decode(payload, { useMaps: true, tags: TAGS, tokenizer }))
  })
}

const OPTIONS = { allowBigInt: true, allowIndefinite: true, retainStringBytes: true }

/**
 * @template T
 * @param {() => T} read
 * @returns {T}
 * @throws {PayloadError}
 */
function reading(read) {
  try {
    return read()
  } catch (error) {
    if (error instanceof PayloadError) throw error
    // By the library, of bytes that are no CBOR.
    const { message } = /** @type {Error} */ (error)
    throw new PayloadError('value', `this is not CBOR: ${shown(message, 120)}`)
  }
}

/** Tag 55799: what follows is CBOR. It means nothing else. */
const SELF_DESCRIBED = Buffer.from('d9d9f7', 'hex')

/** An array has one of these heads. */
const [ARRAY_MIN, ARRAY_MAX] = [0x80, 0x9f]

/**
 * The bytes of each element of an array, as they stand. An element whose bytes have an end is not
 * looked at further: whoever reads it finds what is wrong with it.
 *
 * @param {Buffer} bytes
 * @param {import('./elements.js').Budget} budget
 * @returns {Buffer[] | undefined}  Undefined where the bytes are no array.
 * @throws {PayloadError}
 */
export function cborElements(bytes, budget) {
  const isTagged = bytes.subarray(0, SELF_DESCRIBED.length).equals(SELF_DESCRIBED)
  const array = isTagged ? bytes.subarray(SELF_DESCRIBED.length) : bytes
  if (!(array[0] >= ARRAY_MIN && array[0] <= ARRAY_MAX)) return undefined
  return reading(() => {
    const tokenizer = new BoundedTokenizer(array, OPTIONS)
    tokenizer.next()
    /** @type {Buffer[]} */
    const elements = []
    let from = tokenizer.pos()
    while (tokenizer.depth > 0) {
      if (tokenizer.done()) throw new PayloadError('value', 'this is not CBOR: it ends too early')
      tokenizer.next()
      budget.takeValue()
      // The break that ends an array is no element.
      if (tokenizer.depth > 1 || (tokenizer.depth === 0 && tokenizer.isAtBreak)) continue
      const to = tokenizer.pos()
      budget.takeElement()
      elements.push(Buffer.from(array.subarray(from, to)))
      from = to
    }
    if (!tokenizer.done())
      throw new PayloadError('value', 'this is not CBOR: bytes follow its value')
    return elements
  })
}

/** What the library does not see to: depth, and whether texts are UTF-8. */
class BoundedTokenizer extends Tokenizer {
  /** For each open level: how many values still belong to it. @type {number[]} */
  #open = []

  /** Whether the last token was the break that ends an array or a map. */
  isAtBreak = false

  /** How many arrays, maps and tags are open. */
  get depth() {
    return this.#open.length
  }

  /** @override */
  next() {
    const token = super.next()
    const { type, value } = token
    this.isAtBreak = Type.equals(type, Type.break)
    if (this.isAtBreak) {
      if (this.#open.pop() !== Infinity) throw new PayloadError('value', 'it has a break too many')
      this.#close()
      return token
    }
    if (Type.equals(type, Type.string) && !isUtf8(token.byteValue ?? EMPTY)) {
      throw new PayloadError('value', 'a text is not UTF-8')
    }
    const size = sizeOf(type, value)
    if (this.#open.length > 0) this.#open[this.#open.length - 1]--
    if (size > 0) {
      if (this.#open.length >= LEVELS_MAX) throw new PayloadError('value', 'it is nested too deep')
      this.#open.push(size)
    } else {
      this.#close()
    }
    return token
  }

  #close() {
    while (this.#open.at(-1) === 0) this.#open.pop()
  }
}

const EMPTY = new Uint8Array(0)

/** How many values follow that belong to a token. @param {Type} type  @param {number} value */
function sizeOf(type, value) {
  if (Type.equals(type, Type.array)) return value
  if (Type.equals(type, Type.map)) return 2 * value
  return Type.equals(type, Type.tag) ? 1 : 0
}

/** @typedef {import('cborg/interface').TagDecoder} TagDecoder */

/** @type {Map<string | symbol, (content: unknown) => unknown>} */
const READERS = new Map([
  ['0', (content) => (typeof content === 'string' ? content : UNFIT)],
  ['1', epochText],
  ['2', (content) => bignum(content, 0n)],
  ['3', (content) => bignum(content, -1n)],
  ['4', (content) => fraction(content, (mantissa, exponent) => Number(`${mantissa}e${exponent}`))],
  ['5', (content) => fraction(content, (mantissa, exponent) => Number(mantissa) * 2 ** exponent)],
  ['55799', (content) => content],
])

/** Every tag has a decoder, so that one that is unknown costs its field, not the message. */
const TAGS = new Proxy(/** @type {Record<number, TagDecoder>} */ ({}), {
  get(_, tag) {
    const read = READERS.get(tag)
    return (/** @type {() => unknown} */ content) => {
      const value = content()
      return read === undefined ? UNFIT : read(value)
    }
  },
})

/** @param {unknown} seconds  Since 1970. */
function epochText(seconds) {
  if (typeof seconds !== 'number') return UNFIT
  const timeMs = Math.floor(Math.round(seconds * 1e6) / 1e3)
  if (!(timeMs >= ISO_MS_MIN && timeMs <= ISO_MS_MAX)) return UNFIT
  return new Date(timeMs).toISOString()
}

/** @param {unknown} bytes  @param {bigint} base  -1 for those that are negative. */
function bignum(bytes, base) {
  if (!(bytes instanceof Uint8Array) || bytes.length > BIGNUM_BYTES_MAX) return UNFIT
  const value = BigInt(`0x0${Buffer.from(bytes).toString('hex')}`)
  const signed = base === 0n ? value : base - value
  const number = Number(signed)
  return Number.isSafeInteger(number) ? number : signed
}

/**
 * @param {unknown} content
 * @param {(mantissa: number | bigint, exponent: number) => number} combine
 */
function fraction(content, combine) {
  if (!Array.isArray(content) || content.length !== 2) return UNFIT
  const [exponent, mantissa] = content
  if (typeof exponent !== 'number' || !(Math.abs(exponent) <= EXPONENT_MAX)) return UNFIT
  if (typeof mantissa !== 'number' && typeof mantissa !== 'bigint') return UNFIT
  return combine(mantissa, exponent)
}

/** @param {unknown} value  As the library gives it.  @returns {unknown} */
function treeOf(value) {
  if (value instanceof Map) {
    const object = Object.create(null)
    for (const [key, member] of value) {
      object[typeof key === 'object' ? 'a key that is no text' : String(key)] = treeOf(member)
    }
    return object
  }
  if (value === UNFIT || value instanceof Uint8Array) return UNFIT
  if (Array.isArray(value)) return value.map(treeOf)
  return value ?? null
}
