/**
 * A cursor says where the next page begins: what was asked, and the position of the last item.
 *
 * ```text
 * cursor   := base64url(checksum json)
 * checksum := the first 6 bytes of SHA-256 of DOMAIN and json
 * json     := [kind, question, position]     both arrays of strings, numbers and null
 * ```
 *
 * It is a keyset position and holds nothing of a server, so it survives restarts, new rows and a
 * move to another cluster, which a driver's paging state does not. The checksum tells a cursor that
 * was cut or mistyped from one that is meant. It is no secret, and anybody can forge one: each list
 * holds what a cursor asks to what could have been asked in the open.
 */

import { createHash } from 'node:crypto'
import { invalid } from '@sandglass/common/problem'

/** The longest cursor that is looked at, in characters. */
export const CURSOR_LENGTH_MAX = 8_192

const DOMAIN = 'sandglass cursor 1\n'
const CHECKSUM_BYTES = 6

/** @typedef {(string | number | null)[]} Fields */

/** @param {string} json */
function checksum(json) {
  return createHash('sha256').update(DOMAIN).update(json).digest().subarray(0, CHECKSUM_BYTES)
}

/**
 * @param {string} kind  The list that is paged, e.g. `measurements`.
 * @param {Fields} question  All that decides which items there are, and their order.
 * @param {Fields} position  Where the last page ended.
 */
export function encodeCursor(kind, question, position) {
  const json = JSON.stringify([kind, question, position])
  return Buffer.concat([checksum(json), Buffer.from(json)]).toString('base64url')
}

/**
 * @param {string} kind  The list for which it is given.
 * @param {string} text
 * @returns {{ question: Fields, position: Fields }}
 * @throws {import('@sandglass/common/problem').Problem}  If it is broken, or of another list.
 */
export function decodeCursor(kind, text) {
  const bytes = Buffer.from(text, 'base64url')
  const json = bytes.subarray(CHECKSUM_BYTES).toString()
  const intact =
    text.length <= CURSOR_LENGTH_MAX &&
    // Buffer.from skips what is not base64url, so the same bytes have many spellings: take one.
    bytes.toString('base64url') === text &&
    bytes.length > CHECKSUM_BYTES &&
    checksum(json).equals(bytes.subarray(0, CHECKSUM_BYTES))
  if (!intact) throw broken()
  const parts = parse(json)
  if (!Array.isArray(parts)) throw broken()
  const [cursorKind, question, position] = parts
  if (cursorKind !== kind) throw foreign(`the list of ${cursorKind}`)
  if (!areFields(question) || !areFields(position)) throw broken()
  return { question, position }
}

/**
 * What a field of a cursor holds as JSON.
 *
 * @template T
 * @param {Fields[number]} field
 * @param {import('ajv').ValidateFunction<T>} check  Of what could be asked in the open.
 * @returns {T}
 * @throws {import('@sandglass/common/problem').Problem}
 */
export function fieldOf(field, check) {
  const value = parse(String(field))
  if (!check(value)) throw broken()
  return value
}

/** @param {string} json  @returns {unknown} */
function parse(json) {
  try {
    return JSON.parse(json)
  } catch {
    throw broken()
  }
}

/** @param {unknown} value  @returns {value is Fields} */
function areFields(value) {
  const isField = (/** @type {unknown} */ one) =>
    one === null || typeof one === 'string' || typeof one === 'number'
  return Array.isArray(value) && value.every(isField)
}

/** The refusal of a cursor that we never gave. */
export function broken() {
  return invalid('cursor', 'is broken: give it exactly as it came in `next`, or leave it out')
}

/**
 * The refusal of a cursor that belongs to another question.
 *
 * @param {string} where  What it belongs to.
 */
export function foreign(where) {
  return invalid('cursor', `belongs to ${where}: leave it out, or ask what was asked before`)
}
