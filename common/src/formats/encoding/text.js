/**
 * Payloads that are a value as plain text, as small firmware publishes them: `21.5`, `on`, `nan`.
 * What JSON calls a number is one; `true` and `false` are booleans; anything else is a text. Pure.
 */

import { exactNumber } from '../../json.js'
import { jsonOf, PayloadError, quoted, textOf } from '../../payload.js'

const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?$/

/** What is sent where nothing was measured, in any case of letters. */
const NOTHING = new Set(['', 'nan', '-nan', 'inf', '-inf', 'infinity', '-infinity', 'null', 'none'])

/**
 * @param {Buffer} payload
 * @returns {unknown}  A number, bigint, boolean or text.
 * @throws {PayloadError}  It is no value.
 */
export function readPlain(payload) {
  return valueOfText(plainText(payload))
}

/**
 * A value as plain text, or an object as JSON.
 *
 * @param {Buffer} payload
 * @returns {unknown}
 * @throws {PayloadError}
 */
export function readPlainOrObject(payload) {
  const text = plainText(payload)
  return text.startsWith('{') ? jsonOf(payload) : valueOfText(text)
}

/** @param {Buffer} payload  @throws {PayloadError} */
function plainText(payload) {
  if (payload.length === 0) throw new PayloadError('value', 'the payload is empty')
  return textOf(payload, 'value').trim()
}

/**
 * @param {string} text
 * @returns {number | bigint | boolean | string}
 * @throws {PayloadError}
 */
function valueOfText(text) {
  if (NUMBER.test(text)) return exactNumber(text)
  if (text === 'true') return true
  if (text === 'false') return false
  if (!NOTHING.has(text.toLowerCase())) return text
  throw new PayloadError('value', `nothing was measured: the payload is ${quoted(text)}`)
}
