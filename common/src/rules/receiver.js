/** Who is told of alerts: a webhook, an MQTT topic or an address for mail. Pure: its validation. */

import { randomBytes } from 'node:crypto'
import { invalid } from '../problem.js'
import { isMetricName, METRIC_NAME_RULE } from '../sensor.js'

export const RECEIVER_KINDS = Object.freeze(/** @type {const} */ (['webhook', 'mqtt', 'mail']))

/** Most receivers: every process keeps all of them in memory. */
export const RECEIVERS_MAX = 1_000

/** Longest URL and topic, in characters. */
const TEXT_LENGTH_MAX = 2_048

/** Bytes of a secret that we make, and the shortest that is taken. */
const SECRET_BYTES = 24

/** How secrets of Standard Webhooks begin. */
const SECRET_PREFIX = 'whsec_'

/** Addresses of one receiver. */
const ADDRESSES_MAX = 32

/**
 * @typedef {object} ReceiverBody  As a client writes it.
 * @property {string} name
 * @property {'webhook' | 'mqtt' | 'mail'} kind
 * @property {string} [url]  Of a webhook.
 * @property {string} [secret]  By which what is sent there is signed.
 * @property {string} [topic]  Of MQTT.
 * @property {string[]} [to]  Addresses for mail.
 */

/** @typedef {ReceiverBody & { id: string }} Receiver */

/** What belongs to which kind. */
const FIELDS_OF = Object.freeze({
  webhook: ['url', 'secret'],
  mqtt: ['topic'],
  mail: ['to'],
})

/** A secret, as Standard Webhooks writes them. */
export function newSecret() {
  return SECRET_PREFIX + randomBytes(SECRET_BYTES).toString('base64')
}

/** The bytes with which is signed. @param {string} secret */
export function secretBytes(secret) {
  return Buffer.from(secret.slice(SECRET_PREFIX.length), 'base64')
}

/**
 * @param {ReceiverBody} body  Its types are right.
 * @returns {ReceiverBody}
 * @throws {import('../problem.js').Problem}  Names the field and what it should be.
 */
export function checkReceiver(body) {
  const { kind, name } = body
  if (!RECEIVER_KINDS.includes(kind))
    throw invalid('kind', `must be one of ${RECEIVER_KINDS.join(', ')}`)
  if (!isMetricName(name)) throw invalid('name', METRIC_NAME_RULE)
  for (const field of Object.values(FIELDS_OF).flat()) {
    if (/** @type {any} */ (body)[field] === undefined || FIELDS_OF[kind].includes(field)) continue
    throw invalid(field, `does not belong to a receiver of the kind ${kind}: leave it out`)
  }
  if (kind === 'webhook') return checkWebhook(body)
  if (kind === 'mqtt') return checkTopic(body)
  return checkMail(body)
}

/** @param {ReceiverBody} body */
function checkWebhook(body) {
  const { url = '', secret = newSecret() } = body
  const parsed = url.length <= TEXT_LENGTH_MAX && URL.canParse(url) ? new URL(url) : undefined
  if (!parsed || !/^https?:$/.test(parsed.protocol)) {
    throw invalid('url', 'must be an address that begins with https:// or http://')
  }
  if (parsed.username || parsed.password) {
    throw invalid('url', 'must not hold a name or password: what is sent is signed instead')
  }
  const bytes = secretBytes(secret)
  const isWhole = secret === SECRET_PREFIX + bytes.toString('base64')
  if (!isWhole || bytes.length < SECRET_BYTES || bytes.length > 64) {
    throw invalid(
      'secret',
      `must be ${SECRET_PREFIX} and 24 to 64 bytes in base64: leave it out to have one made`,
    )
  }
  return { ...body, secret }
}

/** @param {ReceiverBody} body */
function checkTopic(body) {
  const { topic = '' } = body
  const isFit =
    topic.length > 0 && topic.length <= 256 && !/[+#\0]/.test(topic) && !topic.startsWith('$')
  if (!isFit) throw invalid('topic', 'must be a topic of 1 to 256 characters without + and #')
  return body
}

/** @param {ReceiverBody} body */
function checkMail(body) {
  const { to = [] } = body
  const isAddress = (/** @type {string} */ one) =>
    /^[^\s@<>,;"]{1,64}@[^\s@<>,;"]{1,253}$/.test(one)
  if (to.length === 0 || to.length > ADDRESSES_MAX || !to.every(isAddress)) {
    throw invalid('to', `must be 1 to ${ADDRESSES_MAX} addresses such as ops@example.com`)
  }
  return body
}

/** As it is shown: without its secret. @param {Receiver} receiver */
export function withoutSecret({ secret: _, ...shown }) {
  return shown
}
