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

/** The packet types we look at [MQTT-2.2.1]. */
export const TYPE = Object.freeze({
  connect: 1,
  publish: 3,
  puback: 4,
  pubrec: 5,
  pubrel: 6,
  pubcomp: 7,
  pingreq: 12,
  disconnect: 14,
})

export const PINGRESP = Buffer.from([0xd0, 0])

/** CONNACK, identifier rejected [MQTT-3.1.3-8]. */
export const CONNACK_IDENTIFIER_REJECTED = Buffer.from([0x20, 2, 0, 2])

/** Thrown for what a connection must be closed for. */
export class ProtocolError extends Error {
  name = 'ProtocolError'
}

const EMPTY = Buffer.alloc(0)

/**
 * Cuts the bytes that arrive into packets. Bytes that wait for the rest of their packet are kept in
 * a buffer that at least doubles when it grows, so that a packet that arrives byte by byte costs no
 * more than its size, twice.
 */
export class Framer {
  /** @param {number} packetBytesMax  Largest packet, header included. */
  constructor(packetBytesMax) {
    this.packetBytesMax = packetBytesMax
    /** Where the current packet lies, after {@link Framer.next}. @type {Buffer} */
    this.buffer = EMPTY
    this.packetStart = 0
    this.bodyStart = 0
    this.packetEnd = 0
    /** @private */
    this.start = 0
    /** @private */
    this.end = 0
    /** Whether `buffer` is ours to append to. @private */
    this.owned = false
  }

  /** Bytes that wait: for the rest of their packet, or to be looked at. */
  get waitingBytes() {
    return this.end - this.start
  }

  /** @param {Buffer} chunk  Ours from now on. */
  push(chunk) {
    const waiting = this.end - this.start
    if (waiting === 0) {
      this.buffer = chunk
      this.start = 0
      this.end = chunk.length
      this.owned = false
      return
    }
    if (!this.owned || this.end + chunk.length > this.buffer.length) {
      // Bytes before `start` are left to the messages that still refer to them.
      const grown = Buffer.allocUnsafeSlow(2 * (waiting + chunk.length))
      this.buffer.copy(grown, 0, this.start, this.end)
      this.buffer = grown
      this.start = 0
      this.end = waiting
      this.owned = true
    }
    chunk.copy(this.buffer, this.end)
    this.end += chunk.length
  }

  /** The first byte of the next packet (type and flags), -1 where there is none yet. */
  peek() {
    return this.start < this.end ? this.buffer[this.start] : -1
  }

  /**
   * Steps to the next packet, if all of it is there.
   *
   * @throws {ProtocolError}  If it is too large, or its length is malformed.
   */
  next() {
    const { buffer, start, end } = this
    let length = 0
    let at = start + 1
    for (let shift = 0; ; shift += 7) {
      if (at >= end) return false
      const byte = buffer[at++]
      length |= (byte & 0x7f) << shift
      if (byte < 0x80) break
      if (shift === 21) throw new ProtocolError('the length of a packet is malformed')
    }
    if (at - start + length > this.packetBytesMax) {
      throw new ProtocolError(`a packet of ${length} bytes is over the limit`)
    }
    if (at + length > end) return false
    this.packetStart = start
    this.bodyStart = at
    this.packetEnd = at + length
    this.start = this.packetEnd
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
  const topic = buffer.toString('utf8', topicStart, topicEnd)
  // [MQTT-1.5.3-1] [MQTT-1.5.3-2] [MQTT-3.3.2-2]
  // biome-ignore lint/suspicious/noControlCharactersInRegex: it is what is refused
  if (/[#+\u0000\ufffd]/.test(topic)) checkTopic(topic, buffer.subarray(topicStart, topicEnd))
  const packetId = qos > 0 ? buffer.readUInt16BE(topicEnd) : 0
  // [MQTT-2.3.1-1]
  if (qos > 0 && packetId === 0) throw new ProtocolError('a PUBLISH with packet id 0')
  return { topic, packetId, payload: buffer.subarray(payloadStart, end) }
}

/** @param {string} topic  @param {Buffer} bytes */
function checkTopic(topic, bytes) {
  if (/[#+\0]/.test(topic))
    throw new ProtocolError('a wildcard or U+0000 in the topic of a PUBLISH')
  if (!isUtf8(bytes)) throw new ProtocolError('the topic of a PUBLISH is not UTF-8')
}

/**
 * What of a CONNECT packet is ours to know.
 *
 * @typedef {object} Connect
 * @property {number} keepAliveS  0: none.
 * @property {boolean} anonymousSession  A kept session without a client id, which is not allowed.
 * @property {Buffer} packet  A copy that asks for no keep-alive.
 */

/**
 * Reads the keep-alive of a CONNECT and takes it out, so that one clock watches a connection: ours,
 * which knows when we ourselves stopped reading. What is malformed is left to the broker.
 *
 * @param {Buffer} packet  The whole packet, which is not changed.
 * @param {number} bodyStart
 * @returns {Connect}
 */
export function parseConnect(packet, bodyStart) {
  const copy = Buffer.from(packet)
  const nothing = { keepAliveS: 0, anonymousSession: false, packet: copy }
  if (packet.length < bodyStart + 2) return nothing
  const flagsAt = bodyStart + 2 + packet.readUInt16BE(bodyStart) + 1
  if (packet.length < flagsAt + 5) return nothing
  const keepAliveS = copy.readUInt16BE(flagsAt + 1)
  copy.writeUInt16BE(0, flagsAt + 1)
  const clean = (copy[flagsAt] & 0x02) !== 0
  const is311 = copy[flagsAt - 1] === 4
  const anonymousSession = is311 && !clean && copy.readUInt16BE(flagsAt + 3) === 0
  return { keepAliveS, anonymousSession, packet: copy }
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
