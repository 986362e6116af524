/**
 * What a connection of MQTT 5 says and understands otherwise than one of 3.1.1: properties, reason
 * codes, topic aliases, and how many messages its client may have in flight.
 */

import { cut } from '@sandglass/common/text'
import { generate } from 'mqtt-packet'
import { checkFlags, ProtocolError, TYPE } from '../frame.js'
import {
  parseAcknowledgement5,
  parseDisconnect5,
  parsePublish5,
  parseSubscribe5,
  parseUnsubscribe5,
} from './packets.js'
import { outcomeOf, REASON, REFUSED_FROM } from './reason.js'
import { ALIASES_MAX, TopicAliases } from './topic-aliases.js'

const V5 = { protocolVersion: 5 }

/** Longest packet that any client of MQTT can take, in bytes. */
export const PACKET_BYTES_MAX = 268_435_460

/** In flight at most, if nobody says otherwise [MQTT5 3.1.2.11.3]. */
export const RECEIVE_MAX = 65_535

/** Most characters of a reason that a client hears. */
const REASON_LENGTH_MAX = 512

/** @typedef {import('../entrance/connect-packet.js').Connect} Connect */
/** @typedef {import('../session.js').Session} Session */
/** @typedef {import('../../message/message.js').Message} Message */

/**
 * What subscribers hear of a message besides its payload.
 *
 * @typedef {object} Delivery
 * @property {Buffer} passOn  Properties as they came.
 * @property {number} expiresMs  After which nobody hears it, by the clock that only goes forward.
 * @property {string} from  Name of the session that published it.
 */

/**
 * A CONNACK that refuses.
 *
 * @param {number} code
 * @param {string} reason  For people.
 */
export function refusingConnack(code, reason) {
  return generate(
    {
      cmd: 'connack',
      sessionPresent: false,
      reasonCode: code,
      properties: { reasonString: reason },
    },
    V5,
  )
}

/** When a message expires. @param {number | undefined} expiryS  @param {number} nowMs */
export function expiresMs(expiryS, nowMs) {
  return expiryS === undefined ? Number.POSITIVE_INFINITY : nowMs + expiryS * 1_000
}

export class Dialect {
  #session
  #aliases
  #receiveMax
  #theirReceiveMax
  #packetBytesMax
  #tellsReasons
  /** Messages that are neither acknowledged nor complete. */
  #inFlight = 0
  /** Packet ids of QoS 2 that were received here. @type {Set<number>} */
  #toRelease = new Set()

  /**
   * @param {Session} session
   * @param {Connect} connect
   * @param {number} receiveMax  Most messages that the client may have in flight.
   */
  constructor(session, { properties }, receiveMax) {
    this.#session = session
    this.#receiveMax = receiveMax
    this.#theirReceiveMax = properties.receiveMax ?? RECEIVE_MAX
    this.#packetBytesMax = properties.packetBytesMax ?? PACKET_BYTES_MAX
    this.#tellsReasons = properties.requestProblem !== 0
    this.#aliases = new TopicAliases({
      take: (bytes) => session.takeBytes(bytes),
      give: (bytes) => session.giveBytes(bytes),
    })
  }

  /**
   * @param {object} told
   * @param {boolean} told.isPresent  Whether the client comes back to its session.
   * @param {string | undefined} told.assignedId  Its client id, if we chose it.
   * @param {number | undefined} told.sessionExpiryS  If it is another one than was asked for.
   * @param {number} told.packetBytesMax  Largest packet that it may send.
   * @returns {Buffer | undefined}  Nothing if that is more than the client takes.
   */
  connack({ isPresent, assignedId, sessionExpiryS, packetBytesMax }) {
    const bytes = generate(
      {
        cmd: 'connack',
        sessionPresent: isPresent,
        reasonCode: REASON.success,
        properties: {
          receiveMaximum: this.#receiveMax,
          maximumPacketSize: packetBytesMax,
          topicAliasMaximum: ALIASES_MAX,
          retainAvailable: true,
          wildcardSubscriptionAvailable: true,
          subscriptionIdentifiersAvailable: true,
          sharedSubscriptionAvailable: true,
          ...(assignedId !== undefined && { assignedClientIdentifier: assignedId }),
          ...(sessionExpiryS !== undefined && { sessionExpiryInterval: sessionExpiryS }),
        },
      },
      V5,
    )
    return this.#fits(bytes) ? bytes : undefined
  }

  /**
   * @param {number} flags  Of the first byte.
   * @param {Buffer} buffer
   * @param {number} start  Of the body.
   * @param {number} end
   * @param {number} nowMs  By the clock that only goes forward.
   */
  publish(flags, buffer, start, end, nowMs) {
    const qos = (flags >> 1) & 3
    const { topic, packetId, payload, properties } = parsePublish5(buffer, qos, start, end)
    const isAgain = qos === 2 && this.#session.isUnreleased(packetId)
    if (qos > 0 && !isAgain && ++this.#inFlight > this.#receiveMax) {
      throw new ProtocolError('more messages than may be in flight', REASON.receiveMaximum)
    }
    return {
      topic: this.#aliases.resolve(topic, properties.topicAlias),
      packetId,
      payload,
      delivery: {
        passOn: properties.passOn,
        expiresMs: expiresMs(properties.messageExpiryS, nowMs),
        from: this.#session.name,
      },
    }
  }

  /**
   * Acknowledges a message, with what became of it where there is something to say.
   *
   * @param {Message} message
   * @returns {{ isRefused: boolean, bytes: Buffer | undefined }}  No bytes: as in MQTT 3.1.1.
   */
  acknowledge(message) {
    const { qos, packetId } = message
    const { code, reason } = outcomeOf(message)
    const isRefused = code >= REFUSED_FROM
    if (qos === 2 && !isRefused) this.#toRelease.add(packetId)
    else this.#inFlight--
    if (code === REASON.success && reason === '') return { isRefused, bytes: undefined }
    const cmd = qos === 1 ? 'puback' : 'pubrec'
    return { isRefused, bytes: this.#withReason({ cmd, messageId: packetId }, code, reason) }
  }

  /**
   * The client releases a message of QoS 2.
   *
   * @param {number} flags
   * @param {Buffer} buffer
   * @param {number} start
   * @param {number} end
   * @returns {Buffer}  The PUBCOMP.
   */
  release(flags, buffer, start, end) {
    checkFlags(TYPE.pubrel, flags)
    const { packetId } = parseAcknowledgement5(buffer, start, end)
    const isKnown = this.#session.isUnreleased(packetId)
    this.#session.release(packetId)
    if (this.#toRelease.delete(packetId)) this.#inFlight--
    const code = isKnown ? REASON.success : REASON.packetIdUnknown
    return this.#withReason({ cmd: 'pubcomp', messageId: packetId }, code, '')
  }

  /** What the broker must not send more of. */
  get limits() {
    return { receiveMax: this.#theirReceiveMax, packetBytesMax: this.#packetBytesMax }
  }

  /** @param {number} code  @param {string} reason */
  disconnect(code, reason) {
    return this.#withReason({ cmd: 'disconnect' }, code, reason)
  }

  /**
   * Looks at a packet that somebody else takes.
   *
   * @param {number} type
   * @param {number} flags
   * @param {Buffer} buffer
   * @param {number} start  Of its body.
   * @param {number} end
   * @throws {ProtocolError}
   */
  check(type, flags, buffer, start, end) {
    checkFlags(type, flags)
    switch (type) {
      case TYPE.subscribe:
        parseSubscribe5(buffer, start, end)
        return
      case TYPE.unsubscribe:
        parseUnsubscribe5(buffer, start, end)
        return
      case TYPE.puback:
      case TYPE.pubrec:
      case TYPE.pubcomp:
        parseAcknowledgement5(buffer, start, end)
        return
      case TYPE.pingreq:
        if (end > start) throw new ProtocolError('a PINGREQ with more behind it')
        return
      default:
        throw new ProtocolError(`packet type ${type} is not for a server`, REASON.protocol)
    }
  }

  /**
   * The client disconnects.
   *
   * @param {number} flags
   * @param {Buffer} buffer
   * @param {number} start
   * @param {number} end
   * @returns {boolean}  Whether its will is to be published all the same.
   */
  leave(flags, buffer, start, end) {
    checkFlags(TYPE.disconnect, flags)
    const { code, properties } = parseDisconnect5(buffer, start, end)
    const { sessionExpiryS } = properties
    if (sessionExpiryS !== undefined) {
      // [MQTT-3.14.2-2]
      if (sessionExpiryS > 0 && !this.#session.isKept) {
        throw new ProtocolError('a session that ends now cannot be kept', REASON.protocol)
      }
      this.#session.keepFor(sessionExpiryS * 1_000)
    }
    if (code === REASON.success) this.#session.isWillDelayed = false
    return code !== REASON.success
  }

  /** The connection is gone. */
  close() {
    this.#aliases.clear()
  }

  /** @param {object} packet  @param {number} code  @param {string} reason  @returns {Buffer} */
  #withReason(packet, code, reason) {
    const full = { ...packet, reasonCode: code }
    if (reason !== '' && this.#tellsReasons) {
      const told = { ...full, properties: { reasonString: cut(reason, REASON_LENGTH_MAX) } }
      const bytes = generate(/** @type {any} */ (told), V5)
      // [MQTT-3.4.2-2]
      if (this.#fits(bytes)) return bytes
    }
    return generate(/** @type {any} */ (full), V5)
  }

  /** @param {Buffer} bytes */
  #fits(bytes) {
    return bytes.length <= this.#packetBytesMax
  }
}
