/**
 * Values of rows, in the bytes of the native protocol. cassandra-driver makes two buffers for each
 * value and joins them all; here they are written one after another into the same bytes. What is
 * not known here is left to the driver's encoder.
 */

import cassandra from 'cassandra-driver'

const { dataTypes, Long, Uuid, unset } = cassandra.types

const BYTES_MIN = 64 * 1024

/** Longest text that is looked at letter by letter: a call to write it would cost more. */
const SHORT_TEXT = 32

/** Lengths that stand for no value and for one that is left as it was. */
const NULL_LENGTH = -1
const UNSET_LENGTH = -2

/**
 * @typedef {object} Column  As the driver has it of a prepared statement.
 * @property {{ code: number }} type
 *
 * @typedef {object} Encoder  The driver's.
 * @property {(value: unknown, type: { code: number }) => Uint8Array | object | null} encode  A
 *   buffer, null or `unset`.
 */

export class FrameValues {
  #bytes = Buffer.allocUnsafeSlow(BYTES_MIN)
  #length = 0

  /** A copy of what was written. */
  get copy() {
    return Buffer.from(this.#bytes.subarray(0, this.#length))
  }

  get length() {
    return this.#length
  }

  /** Begins anew. */
  clear() {
    if (this.#bytes.length > BYTES_MIN) this.#bytes = Buffer.allocUnsafeSlow(BYTES_MIN)
    this.#length = 0
  }

  /** @param {number} value */
  byte(value) {
    this.#room(1)
    this.#bytes[this.#length++] = value
  }

  /** @param {number} value */
  short(value) {
    this.#room(2)
    this.#length = this.#bytes.writeUInt16BE(value, this.#length)
  }

  /** @param {number} value */
  int(value) {
    this.#room(4)
    this.#length = this.#bytes.writeInt32BE(value, this.#length)
  }

  /** @param {number} at  Where an int stands.  @param {number} value */
  setInt(at, value) {
    this.#bytes.writeInt32BE(value, at)
  }

  /** @param {Uint8Array} value */
  raw(value) {
    this.#room(value.length)
    this.#bytes.set(value, this.#length)
    this.#length += value.length
  }

  /** @param {number} high  @param {number} low  32 bits each. */
  long(high, low) {
    this.int(high)
    this.int(low)
  }

  /**
   * A value with its length before it.
   *
   * @param {unknown} value
   * @param {Column} column
   * @param {Encoder} encoder  For what is not known here.
   * @throws {TypeError}  If it is none of the column.
   */
  value(value, { type }, encoder) {
    switch (type.code) {
      case dataTypes.double:
        if (typeof value !== 'number') break
        this.int(8)
        this.#room(8)
        this.#length = this.#bytes.writeDoubleBE(value, this.#length)
        return
      case dataTypes.bigint:
        if (!(value instanceof Long)) break
        this.int(8)
        this.long(value.getHighBits(), value.getLowBits())
        return
      case dataTypes.timestamp:
        if (!Number.isSafeInteger(value)) break
        this.int(8)
        this.long(Math.floor(Number(value) / 2 ** 32), Number(value) | 0)
        return
      case dataTypes.uuid:
        if (!(value instanceof Uuid)) break
        this.int(16)
        this.raw(/** @type {any} */ (value).buffer)
        return
      case dataTypes.text:
      case dataTypes.varchar:
        if (typeof value !== 'string') break
        this.#text(value)
        return
      case dataTypes.int:
        if (typeof value !== 'number' || (value | 0) !== value) break
        this.int(4)
        this.int(value)
        return
      case dataTypes.boolean:
        if (typeof value !== 'boolean') break
        this.int(1)
        this.byte(value ? 1 : 0)
        return
    }
    this.#encoded(encoder.encode(value, type))
  }

  /** @param {Uint8Array | null | object} bytes  As the driver's encoder gives them. */
  #encoded(bytes) {
    if (bytes === null) {
      this.int(NULL_LENGTH)
    } else if (bytes === unset) {
      this.int(UNSET_LENGTH)
    } else {
      const { length } = /** @type {Uint8Array} */ (bytes)
      this.int(length)
      this.raw(/** @type {Uint8Array} */ (bytes))
    }
  }

  /** @param {string} text */
  #text(text) {
    const start = this.#length
    this.int(text.length)
    this.#room(3 * text.length)
    if (text.length <= SHORT_TEXT && this.#isAscii(text)) {
      this.#length += text.length
      return
    }
    const bytes = this.#bytes.write(text, this.#length, 'utf8')
    this.setInt(start, bytes)
    this.#length += bytes
  }

  /** Writes a text behind what there is, up to what is not ASCII. @param {string} text */
  #isAscii(text) {
    for (let at = 0; at < text.length; at++) {
      const unit = text.charCodeAt(at)
      if (unit > 0x7f) return false
      this.#bytes[this.#length + at] = unit
    }
    return true
  }

  /** @param {number} more  Bytes that are to be written. */
  #room(more) {
    if (this.#length + more <= this.#bytes.length) return
    const larger = Buffer.allocUnsafeSlow(2 * (this.#length + more))
    this.#bytes.copy(larger, 0, 0, this.#length)
    this.#bytes = larger
  }
}
