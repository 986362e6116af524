/**
 * A message as it lies in the spool: what arrived, and what was decided about it before it was
 * acknowledged, so that it becomes the same rows whenever and however often it is taken out. The
 * format is in docs/format/spool.md. Pure.
 */

import cassandra from 'cassandra-driver'
import { Message } from '../message/message.js'
import { rightsFrom } from '../message/rights.js'

const { TimeUuid } = cassandra.types

/** @typedef {import('../message/message.js').Origin} Origin */

/** Bytes of a record before its texts: numbers, lengths and the id of its dead letter. */
const FIXED_BYTES = 44

/** @param {Message} message */
export function recordBytes({ topic, clientId, payload }) {
  return FIXED_BYTES + Buffer.byteLength(topic) + Buffer.byteLength(clientId) + payload.length
}

/**
 * Writes a record.
 *
 * @param {Buffer} out  With room for `recordBytes`.
 * @param {number} at  Where it begins.
 * @param {Message} message  Gets an id for its dead letter if it has none.
 * @returns {number}  Where it ends.
 */
export function writeRecord(out, at, message) {
  const { topic, clientId, payload, qos, retain, rights, receivedMs } = message
  message.deadLetterId ??= TimeUuid.fromDate(new Date(receivedMs))
  const { buffer: id } = /** @type {any} */ (message.deadLetterId)
  let end = at + FIXED_BYTES
  end += out.write(topic, end)
  const topicBytes = end - at - FIXED_BYTES
  const clientAt = end
  end += out.write(clientId, end)
  const clientBytes = end - clientAt
  end += payload.copy(out, end)
  out.writeUInt32LE(end - at - 4, at)
  out.writeUInt8(qos | (retain ? 4 : 0) | (rights.kind === 'none' ? 8 : 0), at + 4)
  out.writeUInt8(message.format, at + 5)
  out.writeUInt16LE(topicBytes, at + 6)
  out.writeUInt16LE(clientBytes, at + 8)
  out.writeUInt16LE(0, at + 10)
  out.writeDoubleLE(receivedMs, at + 12)
  out.writeDoubleLE(message.firstReceivedMs, at + 20)
  id.copy(out, at + 28)
  return end
}

/**
 * Reads the records of a block.
 *
 * @param {Buffer} payload  Of one block, whose checksum is right.
 * @param {Origin} origin  Hears of each message when it is durable in the database.
 * @returns {Message[]}
 */
export function readRecords(payload, origin) {
  /** @type {Message[]} */
  const messages = []
  for (let at = 0; at < payload.length; ) {
    const end = at + 4 + payload.readUInt32LE(at)
    messages.push(readRecord(payload, at, end, origin))
    at = end
  }
  return messages
}

/** @param {Buffer} from  @param {number} at  @param {number} end  @param {Origin} origin */
function readRecord(from, at, end, origin) {
  const flags = from.readUInt8(at + 4)
  const topicAt = at + FIXED_BYTES
  const clientAt = topicAt + from.readUInt16LE(at + 6)
  const payloadAt = clientAt + from.readUInt16LE(at + 8)
  const receivedMs = from.readDoubleLE(at + 12)
  return new Message({
    origin,
    arrival: 'spool',
    clientId: from.toString('utf8', clientAt, payloadAt),
    topic: from.toString('utf8', topicAt, clientAt),
    payload: from.subarray(payloadAt, end),
    format: from.readUInt8(at + 5),
    qos: /** @type {0 | 1 | 2} */ (flags & 3),
    retain: (flags & 4) !== 0,
    rights: rightsFrom((flags & 8) !== 0 ? '' : null),
    receivedMs,
    arrivedMs: performance.now() - (Date.now() - receivedMs),
    firstReceivedMs: from.readDoubleLE(at + 20),
    deadLetterId: new TimeUuid(Buffer.from(from.subarray(at + 28, at + 44))),
  })
}
