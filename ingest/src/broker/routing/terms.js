/** What a CONNECT asks for, in our terms. */

import { copyOf } from '../frame.js'
import { PACKET_BYTES_MAX, RECEIVE_MAX } from '../v5/dialect.js'

/** @typedef {import('../entrance/connect-packet.js').Connect} Connect */
/** @typedef {import('../session.js').Session} Session */

const NO_BYTES = Buffer.alloc(0)

/** Of a client that leaves nothing behind. */
export const PLAIN_TERMS = Object.freeze({ clean: true, isKept: false, will: undefined })

/** How long its session is to be kept, in milliseconds. @param {Connect} connect */
export function termsOf5({ properties }) {
  return { version: 5, keptMs: (properties.sessionExpiryS ?? 0) * 1_000 }
}

/** The expiry of a session, if it is another one than its client asked for, in seconds. */
/** @param {Session} session  @param {Connect} connect */
export function toldExpiryS({ keptMs }, { properties }) {
  const keptS = keptMs / 1_000
  return keptS === (properties.sessionExpiryS ?? 0) ? undefined : keptS
}

/**
 * For the broker behind.
 *
 * @param {Session} session
 * @param {Connect} connect
 * @returns {import('./subscriber.js').Terms}
 */
export function brokerTerms(session, { will, properties }) {
  return {
    name: session.name,
    version: session.version,
    clean: !session.isPresent,
    isKept: session.isKept,
    receiveMax: properties.receiveMax ?? RECEIVE_MAX,
    packetBytesMax: properties.packetBytesMax ?? PACKET_BYTES_MAX,
    will: will && {
      topic: will.topic,
      payload: copyOf(will.payload),
      qos: will.qos,
      retain: will.retain,
      delayMs: (will.properties?.willDelayS ?? 0) * 1_000,
      expiryS: will.properties?.messageExpiryS,
      passOn: copyOf(will.properties?.passOn ?? NO_BYTES),
    },
  }
}

/** Terms as JSON, for another process. @param {import('./subscriber.js').Terms} terms */
export function sentTerms({ will, ...terms }) {
  if (!will) return terms
  const payload = will.payload.toString('base64')
  return { ...terms, will: { ...will, payload, passOn: will.passOn.toString('base64') } }
}

/** @param {any} sent  @returns {import('./subscriber.js').Terms} */
export function receivedTerms({ will, ...terms }) {
  if (!will) return { ...terms, will: undefined }
  const [payload, passOn] = [will.payload, will.passOn].map((one) => Buffer.from(one, 'base64'))
  return { ...terms, will: { ...will, payload: copyOf(payload), passOn: copyOf(passOn) } }
}
