/**
 * One PUBLISH on its way: from the bytes that arrived to its acknowledgement. The pipeline settles
 * it once everything that it became is durable; only then may its client hear of it.
 */

import { FORMAT } from '@sandglass/common/bodies'

/**
 * What the pipeline tells when a message is settled.
 *
 * @typedef {object} Origin
 * @property {(message: Message) => void} settled
 */

/** @typedef {import('./refusal.js').Refusal} Refusal */

/** What a message costs besides its bytes: the objects that stand for it, in bytes. */
const MESSAGE_BYTES = 256

export class Message {
  /**
   * @param {object} parts
   * @param {Origin} parts.origin  Who waits for it.
   * @param {string} parts.clientId
   * @param {import('../broker/session.js').Session | undefined} parts.session
   * @param {number} parts.visit  Which connection of the session it came by.
   * @param {string} parts.topic
   * @param {Buffer} parts.payload
   * @param {number} [parts.format]  Of `FORMAT`: what the payload is.
   * @param {0 | 1 | 2} parts.qos
   * @param {boolean} parts.dup  Whether the client says that it sent it before.
   * @param {boolean} parts.retain
   * @param {number} parts.packetId  0 where there is none.
   * @param {number} parts.receivedMs  Time of receipt, milliseconds since the Unix epoch.
   * @param {number} parts.arrivedMs  The same moment by the clock that only goes forward.
   * @param {number} [parts.firstReceivedMs]
   * @param {import('cassandra-driver').types.TimeUuid} [parts.deadLetterId]
   * @param {boolean} [parts.isFromSpool]
   * @param {boolean} [parts.isForbidden]
   * @param {boolean} [parts.isReplay]  Whether it is a dead letter that is taken once more.
   */
  constructor(parts) {
    this.origin = parts.origin
    this.clientId = parts.clientId
    this.session = parts.session
    this.visit = parts.visit
    this.topic = parts.topic
    this.payload = parts.payload
    this.format = parts.format ?? FORMAT.topic
    this.qos = parts.qos
    this.dup = parts.dup
    this.retain = parts.retain
    this.packetId = parts.packetId
    this.receivedMs = parts.receivedMs
    this.arrivedMs = parts.arrivedMs
    /** Bytes of memory that it is counted with. */
    this.bytes = parts.topic.length + parts.payload.length + MESSAGE_BYTES
    /** Rows that are not durable yet, and one more while it is being taken apart. */
    this.pending = 0
    /** Why it cannot be stored, where that is so. @type {Refusal | undefined} */
    this.refusal = undefined
    /** Whether it became a dead letter. */
    this.isDead = false
    /** The id of that, so that it is the same one however often it is written. */
    this.deadLetterId = parts.deadLetterId
    /** When it was first received, if this is a redelivery; milliseconds since the Unix epoch. */
    this.firstReceivedMs = parts.firstReceivedMs ?? parts.receivedMs
    /** Whether its session was asked about that. */
    this.isNoted = false
    /** Whether it was acknowledged when it was put into the spool, and is taken out again. */
    this.isFromSpool = parts.isFromSpool ?? false
    this.isReplay = parts.isReplay ?? false
    /** Whether its client may not publish on its topic. */
    this.isForbidden = parts.isForbidden ?? false
    /** Whether it was given to the spool. */
    this.isSpooling = false
    /** Whether its rows, or its dead letter, were given to be written. */
    this.isWritten = false
    /** When its marks will no longer do, milliseconds since the Unix epoch. */
    this.markedUntilMs = Number.POSITIVE_INFINITY
    /** The sensor it waits for. @type {import('../sensors/series.js').Sensor | undefined} */
    this.waitsFor = undefined
    /** How often the past was asked for it, or that was given up. */
    this.asked = 0
    /** Its neighbours among those that are held. @type {Message | undefined} */
    this.earlier = undefined
    /** @type {Message | undefined} */
    this.later = undefined
    /** Whether everything is durable. */
    this.isSettled = false
  }
}
