/** A PUBLISH of MQTT 5 for a subscriber, with the properties of its message as they came. */

import { TYPE } from '../frame.js'
import { varintBytes, writeVarint } from '../varint.js'

const EXPIRY = 2
const SUBSCRIPTION_ID = 11

/** Bytes of an expiry among the properties. */
const EXPIRY_BYTES = 5

/**
 * @typedef {object} Outgoing
 * @property {string} topic
 * @property {Buffer} payload
 * @property {0 | 1 | 2} qos
 * @property {boolean} retain
 * @property {boolean} dup
 * @property {number} packetId
 * @property {Buffer} passOn  Properties as they came.
 * @property {number | undefined} expiryS
 * @property {readonly number[]} ids  Of the subscriptions for which it is sent.
 */

/** @param {Outgoing} message  @returns {Buffer} */
export function encodePublish5(message) {
  const { topic, payload, qos, retain, dup, packetId, passOn, expiryS, ids } = message
  let propertyBytes = passOn.length + (expiryS === undefined ? 0 : EXPIRY_BYTES)
  for (const id of ids) propertyBytes += 1 + varintBytes(id)
  const topicBytes = Buffer.byteLength(topic)
  const idBytes = qos > 0 ? 2 : 0
  const length =
    2 + topicBytes + idBytes + varintBytes(propertyBytes) + propertyBytes + payload.length
  const bytes = Buffer.allocUnsafe(1 + varintBytes(length) + length)
  bytes[0] = (TYPE.publish << 4) | (dup ? 8 : 0) | (qos << 1) | (retain ? 1 : 0)
  let at = writeVarint(bytes, 1, length)
  at = bytes.writeUInt16BE(topicBytes, at)
  at += bytes.write(topic, at)
  if (qos > 0) at = bytes.writeUInt16BE(packetId, at)
  at = writeVarint(bytes, at, propertyBytes)
  if (expiryS !== undefined) {
    bytes[at++] = EXPIRY
    at = bytes.writeUInt32BE(expiryS, at)
  }
  for (const id of ids) {
    bytes[at++] = SUBSCRIPTION_ID
    at = writeVarint(bytes, at, id)
  }
  at += passOn.copy(bytes, at)
  payload.copy(bytes, at)
  return bytes
}
