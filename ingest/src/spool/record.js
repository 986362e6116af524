/**
 * A message as it lies in the spool: what arrived, and what was decided about it before it was
 * acknowledged, so that it becomes the same rows whenever and however often it is taken out. The
 * format is in docs/format/spool.md. Pure.
 */

import cassandra from 'cassandra-driver'
import { Message } from '../message/message.js'
import { rightsFrom } from '../message/rights.js'
import { deadLetterIdOf } from '../write/dead-letter-id.js'
import { readRecord1 } from './format-1.js'

const { TimeUuid } = cassandra.types

/** @typedef {import('../message/message.js').Origin} Origin */

/**
 * @typedef {object} Fields  What a record says.
 * @property {number} end  Where it ends, in its block.
 * @property {number} qos
 * @property {boolean} retain
 * @property {string | null} rights  Of `Rights`.
 * @property {string | undefined} retention
 * @property {number} format
 * @property {string} topic
 * @property {string} clientId
 * @property {Buffer} payload  A copy: a part would keep its whole block in memory.
 * @property {number} receivedMs
 * @property {number} firstReceivedMs
 * @property {Buffer} deadLetterId
 */

/** Bytes of a record before its texts: numbers, lengths and the id of its dead letter. */
const FIXED_BYTES = 52

/** Stands for the length of rights that are every sensor. */
const EVERY_SENSOR_BYTES = 0xffff

/** @param {Message} message */
export function recordBytes({ topic, clientId, rights, retention = '', payload }) {
  const texts = Buffer.byteLength(topic) + Buffer.byteLength(clientId)
  return FIXED_BYTES + (rights.text?.length ?? 0) + retention.length + texts + payload.length
}

/**
 * @param {Message} message  Gets an id for its dead letter if it has none.
 * @returns {Buffer}
 */
export function writeRecord(message) {
  const { qos, retain, format, rights, retention = '', topic, clientId, payload } = message
  message.deadLetterId ??= deadLetterIdOf(message.receivedMs)
  const { buffer: deadLetterId } = /** @type {any} */ (message.deadLetterId)
  const texts = [rights.text ?? '', retention, topic, clientId].map((text) => Buffer.from(text))
  const fixed = Buffer.alloc(FIXED_BYTES)
  const record = Buffer.concat([fixed, ...texts, payload])
  record.writeUInt32LE(record.length - 4, 0)
  record.writeUInt8(qos | (retain ? 4 : 0), 4)
  record.writeUInt8(format, 5)
  record.writeUInt16LE(rights.text === null ? EVERY_SENSOR_BYTES : texts[0].length, 6)
  record.writeUInt16LE(texts[1].length, 8)
  record.writeUInt32LE(texts[2].length, 12)
  record.writeUInt32LE(texts[3].length, 16)
  record.writeDoubleLE(message.receivedMs, 20)
  record.writeDoubleLE(message.firstReceivedMs, 28)
  deadLetterId.copy(record, 36)
  return record
}

/**
 * Reads the records of a block, one when it is asked for.
 *
 * @param {Buffer} payload  Of one block, whose digest is right.
 * @param {1 | 2} version
 * @param {Origin} origin  Hears of each message when it is durable in the database.
 * @returns {Generator<Message>}
 */
export function* readRecords(payload, version, origin) {
  const read = version === 1 ? readRecord1 : readRecord2
  for (let at = 0; at < payload.length; ) {
    const fields = read(payload, at)
    yield messageOf(fields, origin)
    at = fields.end
  }
}

/** @param {Buffer} from  @param {number} at  @returns {Fields} */
function readRecord2(from, at) {
  const flags = from.readUInt8(at + 4)
  const rightsBytes = from.readUInt16LE(at + 6)
  const isEverySensor = rightsBytes === EVERY_SENSOR_BYTES
  let end = at + FIXED_BYTES
  const text = (/** @type {number} */ bytes) => {
    end += bytes
    return from.toString('utf8', end - bytes, end)
  }
  const rights = isEverySensor ? null : text(rightsBytes)
  const retention = text(from.readUInt16LE(at + 8)) || undefined
  const topic = text(from.readUInt32LE(at + 12))
  const clientId = text(from.readUInt32LE(at + 16))
  const recordEnd = at + 4 + from.readUInt32LE(at)
  return {
    end: recordEnd,
    qos: flags & 3,
    retain: (flags & 4) !== 0,
    rights,
    retention,
    format: from.readUInt8(at + 5),
    topic,
    clientId,
    payload: Buffer.from(from.subarray(end, recordEnd)),
    receivedMs: from.readDoubleLE(at + 20),
    firstReceivedMs: from.readDoubleLE(at + 28),
    deadLetterId: Buffer.from(from.subarray(at + 36, at + 52)),
  }
}

/** @param {Fields} fields  @param {Origin} origin */
function messageOf(fields, origin) {
  return new Message({
    origin,
    arrival: 'spool',
    clientId: fields.clientId,
    rights: rightsFrom(fields.rights),
    retention: fields.retention,
    topic: fields.topic,
    payload: fields.payload,
    format: fields.format,
    qos: /** @type {0 | 1 | 2} */ (fields.qos),
    retain: fields.retain,
    receivedMs: fields.receivedMs,
    arrivedMs: performance.now() - (Date.now() - fields.receivedMs),
    firstReceivedMs: fields.firstReceivedMs,
    deadLetterId: new TimeUuid(fields.deadLetterId),
  })
}
