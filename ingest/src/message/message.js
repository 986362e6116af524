/**
 * One PUBLISH on its way: from the bytes that arrived to its acknowledgement. The pipeline settles
 * it once everything that it became is durable; only then may its client hear of it.
 */

import { FORMAT } from '@sandglass/common/bodies'
import { EVERY_SENSOR } from './rights.js'
import { mayFollow, STATE } from './state.js'

/**
 * What the pipeline tells when a message is settled.
 *
 * @typedef {object} Origin
 * @property {(message: Message) => void} settled
 */

/**
 * Who sent messages that are in flight: what is counted of a client, in bytes.
 *
 * @typedef {{ bytesInFlight: number }} Sender
 */

/** @typedef {import('./refusal.js').Refusal} Refusal */
/** @typedef {import('./rights.js').Rights} Rights */
/** @typedef {import('./state.js').State} State */

/**
 * How it came: from a client; out of the spool, where it was acknowledged; or as a dead letter that
 * is taken once more.
 *
 * @typedef {'live' | 'spool' | 'replay'} Arrival
 */

/** What a message costs besides its bytes: what stands for it, and for one row, in bytes. */
export const MESSAGE_BYTES = 1_024

export class Message {
  /** @type {State} */
  #state = STATE.arrived
  /** From where it went to the spool. @type {State} */
  #stateBefore = STATE.arrived

  /**
   * @param {object} parts
   * @param {Origin} parts.origin  Who waits for it.
   * @param {Sender} [parts.sender]
   * @param {Arrival} [parts.arrival]
   * @param {string} parts.clientId
   * @param {string} [parts.senderName]  Of whom it is a part.
   * @param {Rights} [parts.rights]  What its client may write.
   * @param {boolean} [parts.isForSubscribers]  Whether its client may publish it to others.
   * @param {string} [parts.retention]  Class of a sensor that registers itself by it.
   * @param {import('../broker/session.js').Session} [parts.session]
   * @param {number} [parts.visit]  Which connection of the session it came by.
   * @param {string} parts.topic
   * @param {Buffer} parts.payload
   * @param {number} [parts.format]  Of `FORMAT`: what the payload is.
   * @param {0 | 1 | 2} [parts.qos]
   * @param {boolean} [parts.dup]  Whether the client says that it sent it before.
   * @param {boolean} [parts.retain]
   * @param {number} [parts.packetId]  0 where there is none.
   * @param {import('../broker/v5/dialect.js').Delivery} [parts.delivery]  What subscribers hear
   *   besides, in MQTT 5.
   * @param {number} parts.receivedMs  Time of receipt, milliseconds since the Unix epoch.
   * @param {number} parts.arrivedMs  The same moment by the clock that only goes forward.
   * @param {number} [parts.writtenMs]  By which rows are ordered, where that is not the receipt.
   * @param {number} [parts.firstReceivedMs]
   * @param {import('cassandra-driver').types.TimeUuid} [parts.deadLetterId]
   */
  constructor(parts) {
    this.origin = parts.origin
    this.sender = parts.sender
    this.arrival = parts.arrival ?? 'live'
    this.clientId = parts.clientId
    this.rights = parts.rights ?? EVERY_SENSOR
    /** Whose share it takes of what is limited. */
    this.senderName = parts.senderName ?? parts.session?.name ?? nameOf(parts.clientId, this.rights)
    this.isForSubscribers = parts.isForSubscribers ?? true
    this.retention = parts.retention
    this.session = parts.session
    this.visit = parts.visit ?? 0
    this.topic = parts.topic
    this.payload = parts.payload
    /** As it came, where the payload says more: for subscribers. @type {Buffer | undefined} */
    this.original = undefined
    this.format = parts.format ?? FORMAT.topic
    this.qos = parts.qos ?? 1
    this.dup = parts.dup ?? false
    this.retain = parts.retain ?? false
    this.packetId = parts.packetId ?? 0
    this.delivery = parts.delivery
    /** Whether it is no measurement: for subscribers alone. */
    this.isPassed = false
    this.receivedMs = parts.receivedMs
    this.writtenMs = parts.writtenMs ?? parts.receivedMs
    this.arrivedMs = parts.arrivedMs
    /** Bytes of memory that it is counted with. */
    this.bytes = parts.topic.length + parts.payload.length + MESSAGE_BYTES
    if (parts.delivery) this.bytes += parts.delivery.passOn.length
    /** Rows that are not durable yet, and one more while they are being made. */
    this.pending = 0
    /** Makes the rows that are left; more are not made at once. @type {(() => void) | undefined} */
    this.writeMore = undefined
    /** Why it cannot be stored, where that is so. @type {Refusal | undefined} */
    this.refusal = undefined
    /** Units that it tells, by metric. @type {ReadonlyMap<string, string> | undefined} */
    this.units = undefined
    /** Fields that it loses. @type {import('./refusal.js').PartialRefusal | undefined} */
    this.partial = undefined
    /** The id of its dead letter, so that it is the same one however often it is written. */
    this.deadLetterId = parts.deadLetterId
    /**
     * When it was first received, if this is a redelivery; milliseconds since the Unix epoch.
     * Undefined until its session was asked.
     */
    this.receipt = parts.firstReceivedMs
    /** When its dirty hours must be marked again, milliseconds since the Unix epoch. */
    this.markedUntilMs = Number.POSITIVE_INFINITY
    /** Series that alert rules must look at, each from which time on. */
    /** @type {Map<import('../sensors/series.js').Series, number> | undefined} */
    this.marks = undefined
    /** Until when the marks that say so may become durable, in ms since the Unix epoch. */
    this.markedRulesUntilMs = Number.NEGATIVE_INFINITY
    /**
     * The sensor and its class, where that is another one than was wished.
     *
     * @type {{ sensor: string, retention: string } | undefined}
     */
    this.keptAs = undefined
    /** Until when its rows are for certain where readers look, in ms since the Unix epoch. */
    this.placedUntilMs = Number.POSITIVE_INFINITY
    /** Whose it is, if that is known. @type {import('../sensors/series.js').Sensor | undefined} */
    this.sensor = undefined
    /** The sensor it waits for. @type {import('../sensors/series.js').Sensor | undefined} */
    this.waitsFor = undefined
    /** How often the past was asked for it, or that was given up. */
    this.asked = 0
    /** Its neighbours among those in flight. @type {Message | undefined} */
    this.earlier = undefined
    /** @type {Message | undefined} */
    this.later = undefined
  }

  /** As it came. */
  get arrivedPayload() {
    return this.original ?? this.payload
  }

  /**
   * Gives it a payload that says more than the one that came. It is not in flight yet.
   *
   * @param {Buffer} payload
   */
  complete(payload) {
    if (payload === this.payload) return
    this.original = this.payload
    this.payload = payload
    this.bytes += payload.length
  }

  /** Keeps its payload by itself, not as a part of something larger. */
  /** @param {(bytes: Buffer) => Buffer} copyOf */
  detach(copyOf) {
    if (this.original) this.original = copyOf(this.original)
    else this.payload = copyOf(this.payload)
  }

  /** When it was first received, milliseconds since the Unix epoch. */
  get firstReceivedMs() {
    return this.receipt ?? this.receivedMs
  }

  get state() {
    return this.#state
  }

  /** Whether everything is durable. */
  get isSettled() {
    return this.#state === STATE.settled
  }

  /** @param {State} state  @throws {Error}  If it cannot go there: a fault of ours. */
  move(state) {
    if (!mayFollow(this.#state, state)) {
      throw new Error(`a message that is ${this.#state} cannot be ${state}`)
    }
    if (state === STATE.spooling) this.#stateBefore = this.#state
    this.#state = state
  }

  /** The spool could not take it. @returns {State}  In which it is again. */
  comeBack() {
    this.move(this.#stateBefore)
    return this.#state
  }

  /** Whether rows of it were made that nobody needs once it is in the spool. */
  get hasRows() {
    const state = this.#state === STATE.spooling ? this.#stateBefore : this.#state
    return state === STATE.storing || state === STATE.refused
  }
}

/**
 * The name of a client whose session is not known. Ids of clients are of the key that names them
 * (ADR 0022); of that, a message that was in the spool has the rights.
 *
 * @param {string} clientId
 * @param {Rights} rights
 */
function nameOf(clientId, { text }) {
  return text === null ? clientId : `${text}/${clientId}`
}

/**
 * A part of a message that is stored or refused by itself. It has the rights, the sender, the
 * receipt and everything else of the message; only what is given is its own.
 *
 * @param {Message} message
 * @param {{ origin: Origin, payload: Buffer, format: number }} own
 */
export function derive(message, { origin, payload, format }) {
  return new Message({
    origin,
    payload,
    format,
    sender: message.sender,
    arrival: message.arrival,
    clientId: message.clientId,
    senderName: message.senderName,
    rights: message.rights,
    isForSubscribers: message.isForSubscribers,
    retention: message.retention,
    topic: message.topic,
    qos: message.qos,
    receivedMs: message.receivedMs,
    writtenMs: message.writtenMs,
    arrivedMs: message.arrivedMs,
    firstReceivedMs: message.firstReceivedMs,
  })
}
