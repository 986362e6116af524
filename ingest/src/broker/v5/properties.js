/**
 * Properties of packets of MQTT 5 [MQTT5 2.2.2].
 *
 * ```text
 * properties := length: varint, { id: varint, value }
 * varint := 1-4 bytes of 7 bits, lowest first
 * ```
 *
 * Those that are the business of subscribers are kept as the bytes that came, in their order.
 */

import { ProtocolError, readString } from '../frame.js'
import { REASON } from './reason.js'

/** @typedef {'byte' | 'u16' | 'u32' | 'varint' | 'string' | 'bytes' | 'pair'} Kind */

/**
 * @typedef {object} Properties
 * @property {number} [payloadFormat]
 * @property {number} [messageExpiryS]
 * @property {string} [contentType]
 * @property {string} [responseTopic]
 * @property {Buffer} [correlationData]
 * @property {number} [subscriptionId]
 * @property {number} [sessionExpiryS]
 * @property {string} [authenticationMethod]
 * @property {Buffer} [authenticationData]
 * @property {number} [requestProblem]
 * @property {number} [willDelayS]
 * @property {number} [requestResponse]
 * @property {string} [reasonString]
 * @property {number} [receiveMax]
 * @property {number} [topicAliasMax]
 * @property {number} [topicAlias]
 * @property {number} [packetBytesMax]
 * @property {Buffer} passOn  As they came: what subscribers get as it is.
 */

/** @type {Record<number, { name: string, kind: Kind }>} */
const BY_ID = {
  1: { name: 'payloadFormat', kind: 'byte' },
  2: { name: 'messageExpiryS', kind: 'u32' },
  3: { name: 'contentType', kind: 'string' },
  8: { name: 'responseTopic', kind: 'string' },
  9: { name: 'correlationData', kind: 'bytes' },
  11: { name: 'subscriptionId', kind: 'varint' },
  17: { name: 'sessionExpiryS', kind: 'u32' },
  21: { name: 'authenticationMethod', kind: 'string' },
  22: { name: 'authenticationData', kind: 'bytes' },
  23: { name: 'requestProblem', kind: 'byte' },
  24: { name: 'willDelayS', kind: 'u32' },
  25: { name: 'requestResponse', kind: 'byte' },
  31: { name: 'reasonString', kind: 'string' },
  33: { name: 'receiveMax', kind: 'u16' },
  34: { name: 'topicAliasMax', kind: 'u16' },
  35: { name: 'topicAlias', kind: 'u16' },
  38: { name: 'userProperty', kind: 'pair' },
  39: { name: 'packetBytesMax', kind: 'u32' },
}

const USER_PROPERTY = 38

/** What subscribers get: format, content type, response topic, correlation, user properties. */
const PASSED_ON = new Set([1, 3, 8, 9, USER_PROPERTY])

/** Values that are 0 or 1. */
const FLAGS = new Set([1, 23, 25])

/** Values that are not 0. */
const NOT_ZERO = new Set([11, 33, 39])

/** Which of them a packet of a client may have. */
export const ALLOWED = Object.freeze({
  connect: new Set([17, 21, 22, 23, 25, 33, 34, USER_PROPERTY, 39]),
  will: new Set([1, 2, 3, 8, 9, 24, USER_PROPERTY]),
  publish: new Set([1, 2, 3, 8, 9, 35, USER_PROPERTY]),
  acknowledgement: new Set([31, USER_PROPERTY]),
  subscribe: new Set([11, USER_PROPERTY]),
  unsubscribe: new Set([USER_PROPERTY]),
  disconnect: new Set([17, 31, USER_PROPERTY]),
})

const NO_BYTES = Buffer.alloc(0)

/** @type {Properties} */
export const NO_PROPERTIES = Object.freeze({ passOn: NO_BYTES })

/**
 * @param {Buffer} buffer
 * @param {number} at
 * @param {number} end
 * @returns {{ value: number, end: number }}
 * @throws {ProtocolError}
 */
function readVarint(buffer, at, end) {
  let value = 0
  for (let shift = 0; shift <= 21; shift += 7) {
    if (at >= end) break
    const byte = buffer[at++]
    value |= (byte & 0x7f) << shift
    // [MQTT-1.5.5-1]
    if (byte === 0 && shift > 0) break
    if (byte < 0x80) return { value, end: at }
  }
  throw new ProtocolError('a variable length that is malformed')
}

/**
 * @param {Buffer} buffer
 * @param {number} at  Where their length is.
 * @param {number} end  Of the packet.
 * @param {keyof typeof ALLOWED} place
 * @returns {{ properties: Properties, end: number }}
 * @throws {ProtocolError}
 */
export function readProperties(buffer, at, end, place) {
  const length = readVarint(buffer, at, end)
  const to = length.end + length.value
  if (to > end) throw new ProtocolError('properties that are cut short')
  if (length.value === 0) return { properties: NO_PROPERTIES, end: to }
  /** @type {Properties & Record<string, any>} */
  const properties = { passOn: NO_BYTES }
  /** @type {Buffer[]} */
  const passOn = []
  for (let from = length.end; from < to; ) {
    const id = readVarint(buffer, from, to)
    const known = BY_ID[id.value]
    if (!known || !ALLOWED[place].has(id.value)) {
      throw new ProtocolError(`property ${id.value} has no place here`)
    }
    const one = readValue(buffer, id.end, to, known.kind)
    if (id.value !== USER_PROPERTY) {
      // Whichever comes twice: a protocol error.
      if (known.name in properties) throw fault(`property ${known.name} twice`)
      check(id.value, known.name, one.value)
      properties[known.name] = one.value
    }
    if (PASSED_ON.has(id.value)) passOn.push(buffer.subarray(from, one.end))
    from = one.end
  }
  if (passOn.length > 0) properties.passOn = Buffer.concat(passOn)
  return { properties, end: to }
}

/** @param {string} reason */
const fault = (reason) => new ProtocolError(reason, REASON.protocol)

/** @param {number} id  @param {string} name  @param {any} value */
function check(id, name, value) {
  const isWrong =
    (FLAGS.has(id) && value > 1) ||
    (NOT_ZERO.has(id) && value === 0) ||
    // [MQTT-3.3.2-14]
    (name === 'responseTopic' && (value === '' || /[#+]/.test(value)))
  if (isWrong) throw fault(`property ${name} cannot be ${value}`)
}

/**
 * @param {Buffer} buffer
 * @param {number} at
 * @param {number} end
 * @param {Kind} kind
 * @returns {{ value: any, end: number }}
 */
function readValue(buffer, at, end, kind) {
  if (kind === 'string') {
    const { text, end: to } = readString(buffer, at, end, 'a property')
    return { value: text, end: to }
  }
  if (kind === 'varint') return readVarint(buffer, at, end)
  if (kind === 'pair') {
    const name = readString(buffer, at, end, 'a user property')
    return { value: undefined, end: readString(buffer, name.end, end, 'a user property').end }
  }
  const size = kind === 'byte' ? 1 : kind === 'u32' ? 4 : 2
  if (at + size > end) throw new ProtocolError('a property that is cut short')
  if (kind === 'bytes') {
    const to = at + 2 + buffer.readUInt16BE(at)
    if (to > end) throw new ProtocolError('a property that is cut short')
    return { value: Buffer.from(buffer.subarray(at + 2, to)), end: to }
  }
  return { value: buffer.readUIntBE(at, size), end: at + size }
}
