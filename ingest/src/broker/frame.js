/**
 * Bytes of an MQTT connection ⇄ packets, without understanding more of them than must be.
 *
 * ```text
 * packet := type: u4, flags: u4, remaining length: 1-4 bytes of 7 bits, lowest first
 *           body: u8[remaining length]
 * publish body := topic length: u16, topic, [packet id: u16 if QoS > 0], payload
 * ```
 *
 * The length is judged as soon as the header is there: of a packet that is too large not one byte
 * of the body is kept.
 */

import { isUtf8 } from 'node:buffer'
import { REASON } from './v5/reason.js'

/** The packet types we look at [MQTT-2.2.1]. */
export const TYPE = Object.freeze({
  connect: 1,
  connack: 2,
  publish: 3,
  puback: 4,
  pubrec: 5,
  pubrel: 6,
  pubcomp: 7,
  subscribe: 8,
  unsubscribe: 10,
  pingreq: 12,
  disconnect: 14,
})

export const PINGRESP = Buffer.from([0xd0, 0])

/** A CONNACK. */
/** @param {number} code  Of `REFUSED`, or 0.  @param {boolean} [isPresent]  Its session. */
export const connackOf = (code, isPresent = false) =>
  Buffer.from([TYPE.connack << 4, 2, Number(isPresent), code])

/** Set in the first byte of packets of these types, and in no other one of a client. */
/** @type {Set<number>} */
const FLAGS_2 = new Set([TYPE.pubrel, TYPE.subscribe, TYPE.unsubscribe])

/** Thrown for what a connection must be closed for. */
export class ProtocolError extends Error {
  name = 'ProtocolError'

  /** @param {string} message  @param {number} [code]  What a client of MQTT 5 hears. */
  constructor(message, code = REASON.malformed) {
    super(message)
    this.code = code
  }
}

/** @param {number} type  @param {number} flags  @throws {ProtocolError} */
export function checkFlags(type, flags) {
  // [MQTT-2.2.2-2], [MQTT5 2.1.3-1]
  if (flags !== (FLAGS_2.has(type) ? 2 : 0)) throw new ProtocolError('reserved flags')
}

const EMPTY = Buffer.alloc(0)

const WILDCARD = /[#+]/

/** Payloads that are less than this part of their chunk are copied: an eighth. */
const COPY_SHARE = 8

/** @typedef {import('../message/message.js').Message} Message */

/** A chunk is let go of when less than this part of it still waits: an eighth. */
const COMPACT_SHARE = 8

/**
 * Cuts the bytes that arrive into packets. Bytes that wait for the rest of their packet are kept in
 * a buffer that at least doubles when it grows, so that a packet that arrives byte by byte costs no
 * more than its size, twice.
 */
export class Framer {
  #packetBytesMax
  #start = 0
  #end = 0
  /** Whether `buffer` is ours to append to. */
  #isOwned = false

  /** @param {number} packetBytesMax  Largest packet, header included. */
  constructor(packetBytesMax) {
    this.#packetBytesMax = packetBytesMax
    /** Where the current packet lies, after {@link Framer.next}. @type {Buffer} */
    this.buffer = EMPTY
    this.packetStart = 0
    this.bodyStart = 0
    this.packetEnd = 0
  }

  /** Bytes that wait: for the rest of their packet, or to be looked at. */
  get waitingBytes() {
    return this.#end - this.#start
  }

  /** Bytes of memory that are kept because of them. */
  get heldBytes() {
    return this.waitingBytes === 0 ? 0 : this.buffer.length
  }

  /** @param {Buffer} chunk  Ours from now on. */
  push(chunk) {
    const waiting = this.waitingBytes
    if (waiting === 0) {
      this.buffer = chunk
      this.#start = 0
      this.#end = chunk.length
      this.#isOwned = false
      return
    }
    if (!this.#isOwned || this.#end + chunk.length > this.buffer.length) {
      // Bytes before `#start` are left to the messages that still refer to them.
      this.#move(2 * (waiting + chunk.length))
    }
    chunk.copy(this.buffer, this.#end)
    this.#end += chunk.length
  }

  /** The current packet and what waits behind it, in bytes of their own. */
  fromPacket() {
    return Buffer.from(this.buffer.subarray(this.packetStart, this.#end))
  }

  /**
   * Lets go of the chunk in which a few last bytes lie: one byte of a packet must not keep 64 KiB
   * of others, which are done with.
   */
  compact() {
    const waiting = this.waitingBytes
    if (waiting === 0) this.buffer = EMPTY
    else if (COMPACT_SHARE * waiting < this.buffer.length) this.#move(waiting)
  }

  /** @param {number} bytes */
  #move(bytes) {
    const waiting = this.waitingBytes
    const moved = Buffer.allocUnsafeSlow(bytes)
    this.buffer.copy(moved, 0, this.#start, this.#end)
    this.buffer = moved
    this.#start = 0
    this.#end = waiting
    this.#isOwned = true
  }

  /** The first byte of the next packet (type and flags), -1 where there is none yet. */
  peek() {
    return this.#start < this.#end ? this.buffer[this.#start] : -1
  }

  /**
   * Steps to the next packet, if all of it is there.
   *
   * @throws {ProtocolError}  If it is too large, or its length is malformed.
   */
  next() {
    const { buffer } = this
    const start = this.#start
    const end = this.#end
    let length = 0
    let at = start + 1
    for (let shift = 0; ; shift += 7) {
      if (at >= end) return false
      const byte = buffer[at++]
      length |= (byte & 0x7f) << shift
      if (byte < 0x80) break
      if (shift === 21) throw new ProtocolError('the length of a packet is malformed')
    }
    if (at - start + length > this.#packetBytesMax) {
      throw new ProtocolError(`a packet of ${length} bytes is over the limit`, REASON.tooLarge)
    }
    if (at + length > end) return false
    this.packetStart = start
    this.bodyStart = at
    this.packetEnd = at + length
    this.#start = this.packetEnd
    return true
  }
}

/**
 * A PUBLISH packet, as far as a broker looks at it.
 *
 * @typedef {object} Publish
 * @property {string} topic
 * @property {number} packetId  0 where there is none (QoS 0).
 * @property {Buffer} payload  A view of the bytes that arrived.
 * @property {import('./v5/dialect.js').Delivery} [delivery]  What subscribers hear besides.
 */

/**
 * @param {Buffer} buffer
 * @param {number} qos  0, 1 or 2.
 * @param {number} start  Where the body begins.
 * @param {number} end
 * @returns {Publish}
 * @throws {ProtocolError}
 */
export function parsePublish(buffer, qos, start, end) {
  if (end - start < 2) throw new ProtocolError('a PUBLISH without a topic')
  const topicStart = start + 2
  const topicEnd = topicStart + buffer.readUInt16BE(start)
  const payloadStart = qos > 0 ? topicEnd + 2 : topicEnd
  if (topicEnd === topicStart || payloadStart > end) {
    throw new ProtocolError('a PUBLISH without a topic or cut short')
  }
  const topic = textOf(buffer, topicStart, topicEnd, 'the topic of a PUBLISH')
  // [MQTT-3.3.2-2]
  if (WILDCARD.test(topic)) throw new ProtocolError('a wildcard in the topic of a PUBLISH')
  const packetId = qos > 0 ? buffer.readUInt16BE(topicEnd) : 0
  // [MQTT-2.3.1-1]
  if (qos > 0 && packetId === 0) throw new ProtocolError('a PUBLISH with packet id 0')
  return { topic, packetId, payload: buffer.subarray(payloadStart, end) }
}

/** [MQTT-4.7.1-2], [MQTT-4.7.1-3], [MQTT-4.7.3-1] @param {string} filter */
export function checkFilter(filter) {
  const levels = filter.split('/')
  const isWrong = levels.some((level, at) =>
    level.length > 1 ? WILDCARD.test(level) : level === '#' && at < levels.length - 1,
  )
  if (filter === '' || isWrong) throw new ProtocolError('a topic filter that is none')
}

/**
 * A string with its length before it.
 *
 * @param {Buffer} buffer
 * @param {number} at
 * @param {number} end  Of what it must lie in.
 * @param {string} what
 * @returns {{ text: string, end: number }}
 * @throws {ProtocolError}
 */
export function readString(buffer, at, end, what) {
  const textEnd = at + 2 > end ? end + 1 : at + 2 + buffer.readUInt16BE(at)
  if (textEnd > end) throw new ProtocolError(`${what} is cut short`)
  return { text: textOf(buffer, at + 2, textEnd, what), end: textEnd }
}

/** Whether something may be the topic of a message. @param {string} topic */
export function isTopic(topic) {
  return topic !== '' && !WILDCARD.test(topic)
}

/** @param {Buffer} buffer  @param {number} start  @param {number} end  @param {string} what */
function textOf(buffer, start, end, what) {
  const text = buffer.toString('utf8', start, end)
  // Bytes that are not UTF-8 become U+FFFD, which may also be meant.
  if (/\ufffd/.test(text) && !isUtf8(buffer.subarray(start, end))) {
    throw new ProtocolError(`${what} is not UTF-8`) // [MQTT-1.5.3-1]
  }
  // [MQTT-1.5.3-2]
  if (text.includes('\0')) throw new ProtocolError(`${what} has U+0000`)
  return text
}

/**
 * Appends the four bytes of a PUBACK, PUBREC or PUBCOMP.
 *
 * @param {number[]} into
 * @param {number} type  One of {@link TYPE}.
 * @param {number} packetId
 */
export function pushAcknowledgement(into, type, packetId) {
  into.push(type << 4, 2, packetId >> 8, packetId & 0xff)
}

/** Bytes in memory of their own, of which no other ones are kept alive. @param {Buffer} bytes */
export function copyOf(bytes) {
  const copy = Buffer.allocUnsafeSlow(bytes.length)
  bytes.copy(copy)
  return copy
}

/**
 * The messages of a chunk of bytes, whose payloads are views of it: any of them keeps all of it in
 * memory. Where they are dense that costs nothing, and saves the copying. Where they are few among
 * much else, as small ones among PINGREQs, their payloads are copied out of it.
 */
export class ChunkMessages {
  /** @type {Message[]} */
  #messages = []
  #bytes = 0

  /** @param {Message} message  @param {Buffer} chunk  In which its payload lies. */
  add(message, chunk) {
    const { length } = message.arrivedPayload
    this.#bytes += length
    if (COPY_SHARE * length < chunk.length) this.#messages.push(message)
  }

  /** No more of the chunk is read for now. @param {Buffer} chunk */
  end(chunk) {
    if (this.#messages.length > 0) {
      const isSparse = COPY_SHARE * this.#bytes < chunk.length
      for (const message of isSparse ? this.#messages : []) {
        if (!message.isSettled) message.detach(copyOf)
      }
      this.#messages = []
    }
    this.#bytes = 0
  }
}
