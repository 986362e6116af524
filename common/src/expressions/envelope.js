/**
 * The payload of a message whose format is somebody's own: what arrived, by which decoder it was
 * read, and what that said. It is decided once, when the message is received, and travels with it
 * into the spool and into its dead letter, which is evaluated anew only when somebody replays it.
 * The format is in docs/format/expression.md. Pure.
 */

import { PayloadError } from '../payload.js'

/** The number of the format: `formats/expression.js`. */
export const EXPRESSION_FORMAT = 40

/** What the decoder said. The numbers are stored. */
export const OUTCOME = Object.freeze({
  /** It was not asked yet. */
  none: 0,
  /** JSON, as the format `json` has it. */
  value: 1,
  /** JSON, as the format `json-object` has it: it names its sensor. */
  record: 2,
  /** That the message is no measurement. */
  nothing: 3,
  /** Why it cannot be read. */
  refused: 4,
})

/**
 * @typedef {object} Envelope
 * @property {string} decoder  Its name.
 * @property {number} version  Of the decoder.
 * @property {string | undefined} sensor  That the topic named.
 * @property {string | undefined} metric  That the topic named.
 * @property {Buffer} original  The payload, as it arrived.
 * @property {number} outcome  Of {@link OUTCOME}.
 * @property {Buffer} said  JSON, or a reason; empty where there is nothing to say.
 */

const MAGIC = Buffer.from('SGX')
const VERSION = 1

/** Bytes before the texts. */
const FIXED_BYTES = 20

export const NOTHING_SAID = Buffer.alloc(0)

/** @param {Envelope} envelope  @returns {Buffer} */
export function writeEnvelope({ decoder, version, sensor, metric, original, outcome, said }) {
  const texts = [decoder, sensor ?? '', metric ?? ''].map((text) => Buffer.from(text))
  const head = Buffer.alloc(FIXED_BYTES)
  MAGIC.copy(head)
  head.writeUInt8(VERSION, 3)
  head.writeUInt8(outcome, 4)
  for (const [at, text] of texts.entries()) head.writeUInt16LE(text.length, 6 + 2 * at)
  head.writeUInt32LE(version, 12)
  head.writeUInt32LE(original.length, 16)
  return Buffer.concat([head, ...texts, original, said])
}

/**
 * The envelope of a payload that no expression was asked about.
 *
 * @param {Pick<Envelope, 'decoder' | 'version' | 'original'> & Partial<Envelope>} about
 * @returns {Envelope}
 */
export function bareEnvelope(about) {
  const nowhere = { sensor: undefined, metric: undefined }
  return { ...nowhere, outcome: OUTCOME.none, said: NOTHING_SAID, ...about }
}

/**
 * A body that is one payload of a decoder of somebody's own.
 *
 * @param {string} decoder  Its name.
 * @param {Buffer} original
 * @returns {import('../bodies.js').Item}
 */
export function ownItem(decoder, original) {
  const payload = writeEnvelope(bareEnvelope({ decoder, version: 0, original }))
  return { format: EXPRESSION_FORMAT, payload }
}

/** @param {Envelope} envelope  @param {string} reason  @returns {Envelope} */
export function refusedEnvelope(envelope, reason) {
  return { ...envelope, outcome: OUTCOME.refused, said: Buffer.from(reason) }
}

/**
 * One whose decoder was deleted.
 *
 * @param {Envelope} envelope
 */
export function goneEnvelope(envelope) {
  const name = envelope.decoder
  return refusedEnvelope(
    envelope,
    `there is no decoder ${name}: make one of this name, and replay it`,
  )
}

/**
 * @param {Buffer} payload
 * @returns {Envelope}  Parts of the payload, no copies. One that was cut has less of the original.
 * @throws {PayloadError}  It is none.
 */
export function readEnvelope(payload) {
  const isOurs = payload.length >= FIXED_BYTES && payload.subarray(0, 3).equals(MAGIC)
  if (!isOurs || payload[3] !== VERSION || payload[4] > OUTCOME.refused) {
    throw new PayloadError('expression', 'this is no payload that a decoder of your own has read')
  }
  let end = FIXED_BYTES
  const [decoder, sensor, metric] = [6, 8, 10].map((at) => {
    const begin = end
    end += payload.readUInt16LE(at)
    return payload.toString('utf8', begin, end)
  })
  const saidAt = end + payload.readUInt32LE(16)
  if (end > payload.length) {
    throw new PayloadError('expression', 'this payload is cut before its content')
  }
  return {
    decoder,
    version: payload.readUInt32LE(12),
    // No name is empty.
    sensor: sensor || undefined,
    metric: metric || undefined,
    original: payload.subarray(end, saidAt),
    outcome: saidAt > payload.length ? OUTCOME.none : payload[4],
    said: payload.subarray(saidAt),
  }
}

/**
 * As a dead letter keeps it: without what the decoder said where there is no room for that.
 *
 * @param {Buffer} payload  An envelope.
 * @param {number} bytesMax
 */
export function letterEnvelope(payload, bytesMax) {
  if (payload.length < bytesMax) return payload
  const envelope = readEnvelope(payload)
  return writeEnvelope({ ...envelope, outcome: OUTCOME.none, said: NOTHING_SAID })
}

/** The payload as it arrived, of any message. @param {Buffer} payload */
export function originalOf(payload) {
  try {
    return readEnvelope(payload).original
  } catch (error) {
    if (error instanceof PayloadError) return payload
    throw error
  }
}
