/** A PUBLISH of MQTT 3.1.1 for a subscriber. */

import { TYPE } from '../frame.js'
import { varintBytes, writeVarint } from '../varint.js'

/** @param {import('../v5/encode.js').Outgoing} message  @returns {Buffer} */
export function encodePublish3({ topic, payload, qos, retain, dup, packetId }) {
  const topicBytes = Buffer.byteLength(topic)
  const length = 2 + topicBytes + (qos > 0 ? 2 : 0) + payload.length
  const bytes = Buffer.allocUnsafe(1 + varintBytes(length) + length)
  bytes[0] = (TYPE.publish << 4) | (dup ? 8 : 0) | (qos << 1) | (retain ? 1 : 0)
  let at = writeVarint(bytes, 1, length)
  at = bytes.writeUInt16BE(topicBytes, at)
  at += bytes.write(topic, at)
  if (qos > 0) at = bytes.writeUInt16BE(packetId, at)
  payload.copy(bytes, at)
  return bytes
}
