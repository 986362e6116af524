/**
 * Packets of MQTT 3.1 and 3.1.1 that clients send, besides CONNECT and PUBLISH: what we look at in
 * them, strictly.
 *
 * ```text
 * subscribe body   := packet id: u16, { filter: string, QoS: u8 }
 * unsubscribe body := packet id: u16, { filter: string }
 * PUBACK, PUBREC, PUBREL, PUBCOMP := packet id: u16
 * PINGREQ, DISCONNECT := nothing
 * ```
 */

import { checkFilter, checkFlags, ProtocolError, readString, TYPE } from '../frame.js'

/** @typedef {import('../v5/packets.js').Filter} Filter */

/**
 * @param {number} type
 * @param {number} flags
 * @param {Buffer} buffer
 * @param {number} start  Of its body.
 * @param {number} end
 * @throws {ProtocolError}
 */
export function checkPacket3(type, flags, buffer, start, end) {
  checkFlags(type, flags)
  switch (type) {
    case TYPE.subscribe:
      parseSubscribe3(buffer, start, end)
      return
    case TYPE.unsubscribe:
      parseUnsubscribe3(buffer, start, end)
      return
    case TYPE.puback:
    case TYPE.pubrec:
    case TYPE.pubrel:
    case TYPE.pubcomp:
      parseAcknowledgement3(buffer, start, end)
      return
    case TYPE.pingreq:
    case TYPE.disconnect:
      requireEnd(start, end)
      return
    default:
      throw new ProtocolError(`packet type ${type} is not for a server`)
  }
}

/**
 * @param {Buffer} buffer
 * @param {number} start  Where the body begins.
 * @param {number} end
 * @returns {{ packetId: number, id: number, filters: Filter[] }}
 * @throws {ProtocolError}
 */
export function parseSubscribe3(buffer, start, end) {
  const packetId = readPacketId(buffer, start, end)
  /** @type {Filter[]} */
  const filters = []
  for (let at = start + 2; at < end; ) {
    const { text: filter, end: to } = readString(buffer, at, end, 'a topic filter')
    checkFilter(filter)
    // [MQTT-3-8.3-4]
    if (to === end || buffer[to] > 2) throw new ProtocolError('a SUBSCRIBE of QoS 3')
    const qos = /** @type {0 | 1 | 2} */ (buffer[to])
    filters.push({ ...PLAIN, filter, pattern: filter, qos })
    at = to + 1
  }
  // [MQTT-3.8.3-3]
  if (filters.length === 0) throw new ProtocolError('a SUBSCRIBE without a filter')
  return { packetId, id: 0, filters }
}

/** What a subscription of 3.1.1 does not say. */
const PLAIN = Object.freeze({
  group: undefined,
  noLocal: false,
  retainAsPublished: false,
  retainHandling: 0,
})

/**
 * @param {Buffer} buffer
 * @param {number} start
 * @param {number} end
 * @returns {{ packetId: number, filters: string[] }}
 * @throws {ProtocolError}
 */
export function parseUnsubscribe3(buffer, start, end) {
  const packetId = readPacketId(buffer, start, end)
  /** @type {string[]} */
  const filters = []
  for (let at = start + 2; at < end; ) {
    const filter = readString(buffer, at, end, 'a topic filter')
    checkFilter(filter.text)
    filters.push(filter.text)
    at = filter.end
  }
  // [MQTT-3.10.3-2]
  if (filters.length === 0) throw new ProtocolError('an UNSUBSCRIBE without a filter')
  return { packetId, filters }
}

/** @param {Buffer} buffer  @param {number} start  @param {number} end */
export function parseAcknowledgement3(buffer, start, end) {
  const packetId = readPacketId(buffer, start, end)
  requireEnd(start + 2, end)
  return { packetId, code: 0 }
}

/** @param {Buffer} buffer  @param {number} at  @param {number} end */
function readPacketId(buffer, at, end) {
  if (at + 2 > end) throw new ProtocolError('a packet id that is cut short')
  const packetId = buffer.readUInt16BE(at)
  // [MQTT-2.3.1-1]
  if (packetId === 0) throw new ProtocolError('packet id 0')
  return packetId
}

/** @param {number} at  @param {number} end */
function requireEnd(at, end) {
  if (at !== end) throw new ProtocolError('a packet with more behind it')
}
