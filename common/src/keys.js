/**
 * Keys by which the api and MQTT know who asks. A key is `sg_<id>_<secret>`; of the secret, 256
 * random bits, only the SHA-256 is stored. (A slow hash is for what people can remember.)
 */

import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'

/**
 * What a key may do: `read` everything; `write` measurements; `manage` sensors and dead letters;
 * `admin` keys. None contains another one.
 */
export const SCOPES = /** @type {const} */ (['read', 'write', 'manage', 'admin'])

/** @typedef {typeof SCOPES[number]} Scope */

/**
 * What is stored of a key, and is no secret.
 *
 * @typedef {object} Grant
 * @property {string} keyId
 * @property {string} name  What its owner calls it.
 * @property {ReadonlySet<string>} scopes
 * @property {string | undefined} sensorId  The one sensor whose device has it, in lower case.
 * @property {number | undefined} expiresMs  Milliseconds since the Unix epoch.
 */

const KEY = /^(sg|sgc)_([0-9a-f]{16})_([A-Za-z0-9_-]{43})$/

/**
 * How keys begin: `sg` is one by which somebody is served, `sgc` a claim key, by which a device
 * gets one.
 *
 * @typedef {'sg' | 'sgc'} Prefix
 */

/** A new key; its text is told once. @param {Prefix} [prefix] */
export function createKey(prefix = 'sg') {
  const keyId = randomBytes(8).toString('hex')
  const secret = randomBytes(32).toString('base64url')
  return { keyId, text: `${prefix}_${keyId}_${secret}`, hash: hashOf(secret) }
}

/** The parts of a key; undefined for what is none. */
/** @param {string} text  @param {Prefix} [prefix] */
export function parseKey(text, prefix = 'sg') {
  const match = KEY.exec(text)
  return match?.[1] === prefix ? { keyId: match[2], secret: match[3] } : undefined
}

/** Whether a hash is that of a secret. @param {Buffer} hash  @param {string} secret */
export function isSecret(hash, secret) {
  const its = hashOf(secret)
  return hash.length === its.length && timingSafeEqual(hash, its)
}

/** @param {string} secret */
function hashOf(secret) {
  return createHash('sha256').update(secret).digest()
}
