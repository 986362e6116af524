/**
 * A CONNECT packet [MQTT-3.1], taken apart strictly.
 *
 * ```text
 * body := protocol: string, level: u8, flags: u8, keep-alive: u16 in seconds
 *         [properties], client id: string, [[properties], will topic: string, will payload: bytes]
 *         [user name: string], [password: bytes]
 * string := bytes := length: u16, u8[length]
 * ```
 *
 * Properties are there in MQTT 5 (`v5/properties.js`).
 */

import { isTopic, ProtocolError, readString } from '../frame.js'
import { NO_PROPERTIES, readProperties } from '../v5/properties.js'
import { REASON } from '../v5/reason.js'
import { REFUSED } from './access.js'

const FLAG = Object.freeze({
  reserved: 0x01,
  clean: 0x02,
  will: 0x04,
  willQos: 0x18,
  willRetain: 0x20,
  password: 0x40,
  username: 0x80,
})

/** Set in the level by brokers that connect as bridges. */
const BRIDGE = 0x80

/** Longest client id, in bytes: it is kept with sessions, dead letters and states of devices. */
export const CLIENT_ID_BYTES_MAX = 1_024

/** The same in MQTT 3.1, in characters. */
const CLIENT_ID_MAX_31 = 23

/** Memory that a will takes besides topic and payload, in bytes. */
const WILL_BYTES = 512

/** The name of the protocol by its level: 3.1, 3.1.1 and 5. @type {Record<number, string>} */
const PROTOCOLS = { 3: 'MQIsdp', 4: 'MQTT', 5: 'MQTT' }
const NAMES = new Set(Object.values(PROTOCOLS))

/**
 * @typedef {object} Will
 * @property {string} topic
 * @property {Buffer} payload
 * @property {0 | 1 | 2} qos
 * @property {boolean} retain
 * @property {import('../v5/properties.js').Properties} [properties]
 */

/**
 * @typedef {object} Connect
 * @property {number} level  Of the protocol: 3, 4 or 5; another one has nothing behind it.
 * @property {boolean} clean  Whether its session begins anew, and ends with the connection.
 * @property {number} keepAliveS  0: none.
 * @property {string} clientId  May be empty.
 * @property {Will | undefined} will
 * @property {string | undefined} password
 * @property {import('../v5/properties.js').Properties} properties
 */

/** A CONNECT of which no more is known. */
const NOTHING = Object.freeze({
  level: 0,
  clientId: '',
  will: undefined,
  password: undefined,
  properties: NO_PROPERTIES,
})

/**
 * @param {Buffer} buffer
 * @param {number} start  Where the body begins.
 * @param {number} end
 * @returns {Connect}
 * @throws {ProtocolError}
 */
export function parseConnect(buffer, start, end) {
  const protocol = readString(buffer, start, end, 'the name of the protocol')
  // [MQTT-3.1.2-1]
  if (!NAMES.has(protocol.text)) throw new ProtocolError('a CONNECT of another protocol')
  let at = protocol.end
  if (at + 4 > end) throw new ProtocolError('a CONNECT that is cut short')
  const level = buffer[at] === (BRIDGE | 5) ? 0 : buffer[at] & ~BRIDGE
  const flags = buffer[at + 1]
  const keepAliveS = buffer.readUInt16BE(at + 2)
  const clean = (flags & FLAG.clean) !== 0
  at += 4
  if (PROTOCOLS[level] !== protocol.text) {
    return { ...NOTHING, clean, keepAliveS }
  }
  checkConnectFlags(flags, level)
  const place = level === 5 ? readProperties(buffer, at, end, 'connect') : undefined
  const { properties } = place ?? { properties: NO_PROPERTIES }
  at = place?.end ?? at
  const id = readString(buffer, at, end, 'the client id')
  at = id.end
  /** @type {Will | undefined} */
  let will
  if (flags & FLAG.will) {
    const own = place && readProperties(buffer, at, end, 'will')
    const topic = readString(buffer, own?.end ?? at, end, 'the topic of a will')
    const payload = readBytes(buffer, topic.end, end)
    const qos = /** @type {0 | 1 | 2} */ ((flags & FLAG.willQos) >> 3)
    const retain = (flags & FLAG.willRetain) !== 0
    will = { topic: topic.text, payload: payload.bytes, qos, retain, properties: own?.properties }
    at = payload.end
  }
  if (flags & FLAG.username) at = readString(buffer, at, end, 'the user name').end
  let password
  if (flags & FLAG.password) {
    const bytes = readBytes(buffer, at, end)
    password = bytes.bytes.toString()
    at = bytes.end
  }
  // [MQTT-3.1.3-1]
  if (at !== end) throw new ProtocolError('a CONNECT with more behind it')
  return { level, clean, keepAliveS, clientId: id.text, will, password, properties }
}

/** @param {number} flags  @param {number} level */
function checkConnectFlags(flags, level) {
  // [MQTT-3.1.2-22]; in MQTT 5 there is a password without a user name.
  if (level < 5 && flags & FLAG.password && !(flags & FLAG.username)) {
    throw new ProtocolError('a password without a user name')
  }
  // [MQTT-3.1.2-3]
  if (flags & FLAG.reserved) throw new ProtocolError('a reserved flag in a CONNECT')
  // [MQTT-3.1.2-14]
  if ((flags & FLAG.willQos) === FLAG.willQos) throw new ProtocolError('a will of QoS 3')
  // [MQTT-3.1.2-11], [MQTT-3.1.2-13], [MQTT-3.1.2-15]
  if (!(flags & FLAG.will) && flags & (FLAG.willQos | FLAG.willRetain)) {
    throw new ProtocolError('flags of a will in a CONNECT without one')
  }
}

/** @param {Buffer} buffer  @param {number} at  @param {number} end */
function readBytes(buffer, at, end) {
  const to = at + 2 > end ? end + 1 : at + 2 + buffer.readUInt16BE(at)
  if (to > end) throw new ProtocolError('a CONNECT that is cut short')
  return { bytes: buffer.subarray(at + 2, to), end: to }
}

/**
 * Why a CONNECT is refused before anybody is asked.
 *
 * @param {Connect} connect
 * @returns {number | undefined}  Of `REFUSED`.
 */
export function refusalOf({ level, clean, clientId, will }) {
  if (level === 0) return REFUSED.protocol
  // [MQTT-3.1.3-8]
  if (clientId === '' && !clean && level < 5) return REFUSED.identifier
  if (Buffer.byteLength(clientId) > CLIENT_ID_BYTES_MAX) return REFUSED.identifier
  if (level === 3 && clientId.length > CLIENT_ID_MAX_31) return REFUSED.identifier
  // A topic that begins with $ is the broker's own.
  if (will && (!isTopic(will.topic) || will.topic.startsWith('$'))) return REFUSED.notAuthorized
  return undefined
}

/**
 * Why a CONNECT of MQTT 5 is refused, where 3.1.1 has no word for it.
 *
 * @param {Connect} connect
 * @returns {number | undefined}  Of `REASON`.
 */
export function refusalOf5({ will, properties }) {
  const { authenticationMethod, authenticationData } = properties
  // [MQTT-4.12.0-1]
  if (authenticationMethod !== undefined) return REASON.authenticationMethod
  if (authenticationData !== undefined) return REASON.protocol
  if (will && (!isTopic(will.topic) || will.topic.startsWith('$'))) return REASON.topicInvalid
  return undefined
}

/** Bytes that a will costs while its client is connected. @param {Connect} connect */
export function willBytes({ will }) {
  if (will === undefined) return 0
  const passOnBytes = will.properties?.passOn.length ?? 0
  return WILL_BYTES + 2 * will.topic.length + will.payload.length + passOnBytes
}
