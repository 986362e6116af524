/**
 * What decoders of devices share: objects whose members are metrics, arrays among them, and values
 * without a name of their own. Pure.
 */

import { jsonOf, PayloadError } from '../payload.js'
import { addField, addMembers, isTree } from './fields.js'

/** @typedef {import('./types.js').DecodedPayload} DecodedPayload */
/** @typedef {import('./types.js').Place} Place */

/** Longest array whose elements become metrics, such as the three phases of a meter. */
export const ARRAY_LENGTH_MAX = 16

/** Most levels that are searched for arrays: what is deeper is refused. */
const LEVELS_MAX = 10

/**
 * @param {Buffer} payload
 * @param {string} example
 * @returns {Record<string, unknown>}
 * @throws {PayloadError}
 */
export function objectOf(payload, example) {
  const body = jsonOf(payload)
  if (isTree(body)) return /** @type {Record<string, unknown>} */ (body)
  throw new PayloadError('value', `this is not an object such as ${example}`)
}

/**
 * Adds the members of an object as {@link addMembers} does, and elements of short arrays as
 * `name.0`, `name.1`.
 *
 * @param {DecodedPayload} into
 * @param {string | undefined} prefix
 * @param {number | undefined} timeMs
 * @param {object} members
 */
export function addTree(into, prefix, timeMs, members) {
  addMembers(into, prefix, timeMs, /** @type {object} */ (indexed(members, 0)))
}

/**
 * Adds a value that may be an object.
 *
 * @param {DecodedPayload} into
 * @param {string} metric
 * @param {number | undefined} timeMs
 * @param {unknown} value
 */
export function addValue(into, metric, timeMs, value) {
  if (value === null) return
  if (Array.isArray(value)) addTree(into, undefined, timeMs, { [metric]: value })
  else if (isTree(value)) addTree(into, metric, timeMs, value)
  else addField(into, metric, timeMs, value)
}

/**
 * Arrays as objects whose names are indexes.
 *
 * @param {unknown} value
 * @param {number} level
 * @returns {unknown}
 */
function indexed(value, level) {
  if (typeof value !== 'object' || value === null || level > LEVELS_MAX) return value
  if (Array.isArray(value) && (value.length === 0 || value.length > ARRAY_LENGTH_MAX)) return value
  const object = Object.create(null)
  for (const [name, member] of Object.entries(value)) object[name] = indexed(member, level + 1)
  return object
}

/**
 * The metric that a topic names.
 *
 * @param {Place} place
 * @returns {string}
 * @throws {PayloadError}
 */
export function metricOf({ metric }) {
  if (metric !== undefined) return metric
  throw new PayloadError('topic', 'the topic names no metric: the template needs {metric...}')
}
