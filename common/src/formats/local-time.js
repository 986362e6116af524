/**
 * Times of devices that may be local. A time without a zone could be hours off in either direction,
 * so it is not believed: what has it was measured when it was received. Pure.
 */

import { timeOf } from '../payload.js'

const ZONE = /(?:Z|UTC|[+-]\d{2}:?\d{2})$/i

/**
 * @param {string} text  ISO 8601, with or without a zone.
 * @param {string} name  Of the field.
 * @returns {number | undefined}  Milliseconds since the Unix epoch; undefined without a zone.
 * @throws {import('../payload.js').PayloadError}  It is no time.
 */
export function zonedMs(text, name) {
  const timeMs = timeOf(text, name)
  return ZONE.test(text.trim()) ? timeMs : undefined
}
