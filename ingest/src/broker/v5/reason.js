/** Reason codes of MQTT 5 that we give or understand [MQTT5 2.4]. */
export const REASON = Object.freeze({
  success: 0x00,
  leavesWill: 0x04,
  noSubscription: 0x11,
  malformed: 0x81,
  protocol: 0x82,
  implementation: 0x83,
  version: 0x84,
  identifier: 0x85,
  badPassword: 0x86,
  notAuthorized: 0x87,
  unavailable: 0x88,
  shuttingDown: 0x8b,
  authenticationMethod: 0x8c,
  keepAlive: 0x8d,
  takenOver: 0x8e,
  topicInvalid: 0x90,
  packetIdUnknown: 0x92,
  receiveMaximum: 0x93,
  aliasInvalid: 0x94,
  tooLarge: 0x95,
  quota: 0x97,
  payloadFormat: 0x99,
})

/** From here on a code says that something was refused. */
export const REFUSED_FROM = 0x80

/** What refused a CONNECT, by the return code of MQTT 3.1.1. @type {Record<number, number>} */
const BY_RETURN_CODE = {
  1: REASON.version,
  2: REASON.identifier,
  3: REASON.unavailable,
  4: REASON.badPassword,
  5: REASON.notAuthorized,
}

/** @param {number} code  Of `REFUSED`, or one of these. */
export const reasonOfRefusal = (code) => BY_RETURN_CODE[code] ?? code

/**
 * What a publisher hears of a message that became a dead letter.
 *
 * @type {Record<import('../../message/refusal.js').RefusalKind, number>}
 */
const BY_REFUSAL = {
  topic: REASON.topicInvalid,
  format: REASON.payloadFormat,
  json: REASON.payloadFormat,
  line: REASON.payloadFormat,
  value: REASON.payloadFormat,
  time: REASON.payloadFormat,
  expression: REASON.payloadFormat,
  sensors: REASON.quota,
  hidden: REASON.topicInvalid,
  forbidden: REASON.notAuthorized,
  database: REASON.implementation,
}

/** @typedef {{ code: number, reason: string }} Outcome  The reason is for people. */

const DOLLAR = 36

/** @type {Outcome} */
const STORED = { code: REASON.success, reason: '' }
/** @type {Outcome} */
const NOT_ALLOWED = { code: REASON.notAuthorized, reason: 'its key does not allow this topic' }
/** @type {Outcome} */
const OURS = { code: REASON.topicInvalid, reason: 'topics that begin with $ are of the broker' }

/**
 * What became of a message that is settled.
 *
 * @param {import('../../message/message.js').Message} message
 * @returns {Outcome}
 */
export function outcomeOf(message) {
  const { refusal, partial } = message
  if (refusal) return { code: BY_REFUSAL[refusal.kind], reason: refusal.reason }
  if (partial) return { code: REASON.success, reason: partial.reason }
  if (!message.isPassed) return STORED
  // It is for subscribers alone, and they do not get it.
  if (!message.isForSubscribers) return NOT_ALLOWED
  return message.topic.charCodeAt(0) === DOLLAR ? OURS : STORED
}
