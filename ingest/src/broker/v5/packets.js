/**
 * Packets of MQTT 5 that clients send: what we look at in them, strictly.
 *
 * ```text
 * publish body     := topic: string, [packet id: u16 if QoS > 0], properties, payload
 * subscribe body   := packet id: u16, properties, { filter: string, options: u8 }
 * unsubscribe body := packet id: u16, properties, { filter: string }
 * PUBACK, PUBREC, PUBREL, PUBCOMP := packet id: u16, [reason: u8, [properties]]
 * DISCONNECT       := [reason: u8, [properties]]
 * ```
 */

import { checkFilter, isTopic, ProtocolError, readString } from '../frame.js'
import { NO_PROPERTIES, readProperties } from './properties.js'
import { REASON } from './reason.js'

/** @typedef {import('./properties.js').Properties} Properties */

/**
 * @typedef {object} Filter
 * @property {string} filter  As the client writes it.
 * @property {string} pattern  Which topics it means.
 * @property {string | undefined} group  Of a shared subscription.
 * @property {0 | 1 | 2} qos
 * @property {boolean} noLocal
 * @property {boolean} retainAsPublished
 * @property {number} retainHandling  0: retained messages; 1: if it is new; 2: none.
 */

/**
 * @param {Buffer} buffer
 * @param {number} qos  0, 1 or 2.
 * @param {number} start  Where the body begins.
 * @param {number} end
 * @returns {{ topic: string, packetId: number, payload: Buffer, properties: Properties }}
 *   The topic is empty where an alias stands for it.
 */
export function parsePublish5(buffer, qos, start, end) {
  const name = readString(buffer, start, end, 'the topic of a PUBLISH')
  let at = name.end
  let packetId = 0
  if (qos > 0) {
    packetId = readPacketId(buffer, at, end)
    at += 2
  }
  // [MQTT-3.3.2-2]
  if (name.text !== '' && !isTopic(name.text)) {
    throw new ProtocolError('a wildcard in the topic of a PUBLISH', REASON.topicInvalid)
  }
  const { properties, end: to } = readProperties(buffer, at, end, 'publish')
  return { topic: name.text, packetId, payload: buffer.subarray(to, end), properties }
}

/**
 * @param {Buffer} buffer
 * @param {number} start
 * @param {number} end
 * @returns {{ packetId: number, id: number, filters: Filter[] }}  The id of the subscriptions: 0
 *   where they have none.
 */
export function parseSubscribe5(buffer, start, end) {
  const packetId = readPacketId(buffer, start, end)
  const { properties, end: from } = readProperties(buffer, start + 2, end, 'subscribe')
  /** @type {Filter[]} */
  const filters = []
  for (let at = from; at < end; ) {
    const { text, end: to } = readString(buffer, at, end, 'a topic filter')
    if (to >= end) throw new ProtocolError('a SUBSCRIBE that is cut short')
    filters.push(withOptions(text, buffer[to]))
    at = to + 1
  }
  // [MQTT-3.8.3-2]
  if (filters.length === 0) throw fault('a SUBSCRIBE without a filter')
  return { packetId, id: properties.subscriptionId ?? 0, filters }
}

/** @param {string} filter  @param {number} options  @returns {Filter} */
function withOptions(filter, options) {
  const qos = options & 3
  const retainHandling = (options >> 4) & 3
  // [MQTT-3.8.3-5]
  if (options > 0x3f || qos === 3) throw new ProtocolError('options of no subscription')
  if (retainHandling === 3) throw fault('a retain handling that there is not')
  const noLocal = (options & 4) !== 0
  const parts = partsOf(filter)
  // [MQTT-3.8.3-4]
  if (noLocal && parts.group !== undefined) throw fault('a shared subscription without local')
  return {
    filter,
    ...parts,
    qos: /** @type {0 | 1 | 2} */ (qos),
    noLocal,
    retainAsPublished: (options & 8) !== 0,
    retainHandling,
  }
}

/**
 * What a filter means: `$share/group/pattern` is the pattern, shared [MQTT5 4.8.2].
 *
 * @param {string} filter
 * @returns {{ pattern: string, group: string | undefined }}
 */
export function partsOf(filter) {
  if (!filter.startsWith('$share/')) {
    checkFilter(filter)
    return { pattern: filter, group: undefined }
  }
  const [, group, pattern] = /^\$share\/([^/+#]+)\/(.+)$/s.exec(filter) ?? []
  // [MQTT-4.8.2-1], [MQTT-4.8.2-2]
  if (!pattern) throw new ProtocolError('a shared subscription without a name or a filter')
  checkFilter(pattern)
  return { pattern, group }
}

/**
 * @param {Buffer} buffer
 * @param {number} start
 * @param {number} end
 * @returns {{ packetId: number, filters: string[] }}
 */
export function parseUnsubscribe5(buffer, start, end) {
  const packetId = readPacketId(buffer, start, end)
  /** @type {string[]} */
  const filters = []
  for (let at = readProperties(buffer, start + 2, end, 'unsubscribe').end; at < end; ) {
    const filter = readString(buffer, at, end, 'a topic filter')
    partsOf(filter.text)
    filters.push(filter.text)
    at = filter.end
  }
  // [MQTT-3.10.3-2]
  if (filters.length === 0) throw fault('an UNSUBSCRIBE without a filter')
  return { packetId, filters }
}

/** @param {Buffer} buffer  @param {number} start  @param {number} end */
export function parseAcknowledgement5(buffer, start, end) {
  const packetId = readPacketId(buffer, start, end)
  return { packetId, code: readReason(buffer, start + 2, end, 'acknowledgement').code }
}

/** @param {Buffer} buffer  @param {number} start  @param {number} end */
export function parseDisconnect5(buffer, start, end) {
  return readReason(buffer, start, end, 'disconnect')
}

/**
 * @param {Buffer} buffer
 * @param {number} at
 * @param {number} end
 * @param {'acknowledgement' | 'disconnect'} place
 */
function readReason(buffer, at, end, place) {
  const code = at < end ? buffer[at] : REASON.success
  if (at + 1 >= end) return { code, properties: NO_PROPERTIES }
  const { properties, end: to } = readProperties(buffer, at + 1, end, place)
  if (to !== end) throw new ProtocolError('a packet with more behind it')
  return { code, properties }
}

/** @param {Buffer} buffer  @param {number} at  @param {number} end */
function readPacketId(buffer, at, end) {
  if (at + 2 > end) throw new ProtocolError('a packet id that is cut short')
  const packetId = buffer.readUInt16BE(at)
  // [MQTT-2.2.1-3]
  if (packetId === 0) throw fault('packet id 0')
  return packetId
}

/** @param {string} reason */
const fault = (reason) => new ProtocolError(reason, REASON.protocol)
