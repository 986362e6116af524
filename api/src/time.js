/** Times in requests: milliseconds since the Unix epoch, or ISO 8601. */

import { invalid } from '@sandglass/common/problem'

/** The furthest time that JavaScript and CQL agree on, in milliseconds since the Unix epoch. */
export const TIME_MS_MAX = 8_640_000_000_000_000

const MILLISECONDS = /^-?\d{1,16}$/

// A `+` before the offset arrives as a space when a client does not escape it.
const OFFSET = String.raw`(?:[Zz]|([+\- ])(\d{2}):?(\d{2}))`
const CLOCK = String.raw`(\d{2}:\d{2})(?::(\d{2}(?:\.\d{1,9})?))?`
const ISO_8601 = new RegExp(String.raw`^(\d{4}-\d{2}-\d{2})(?:[Tt ]${CLOCK}${OFFSET}?)?$`)

/**
 * A time, in milliseconds since the Unix epoch. A time of day without an offset is UTC.
 *
 * @param {string} name  The parameter it came from, for the message.
 * @param {string} text
 * @throws {import('@sandglass/common/problem').Problem}  Names the parameter.
 */
export function parseTime(name, text) {
  const timeMs = MILLISECONDS.test(text) ? Number(text) : parseIso(text)
  if (!(Math.abs(timeMs) <= TIME_MS_MAX)) {
    throw invalid(
      name,
      'must be milliseconds since 1970, or ISO 8601 such as 2026-01-01T00:00:00Z or 2026-01-01',
    )
  }
  return timeMs
}

/** @param {string} text  @returns {number}  NaN if it is no such time. */
function parseIso(text) {
  const match = ISO_8601.exec(text)
  if (!match) return Number.NaN
  const [, day, minute = '00:00', second = '00', sign, hours = '0', minutes = '0'] = match
  const offsetMs = (Number(hours) * 60 + Number(minutes)) * 60_000
  const startMs = Date.parse(`${day}T00:00:00Z`)
  // Date.parse takes the 30th of February for the 2nd of March.
  if (Number.isNaN(startMs) || !new Date(startMs).toISOString().startsWith(day)) return Number.NaN
  const localMs = Date.parse(`${day}T${minute}:${second.slice(0, 6)}Z`)
  return localMs - (sign === '-' ? -offsetMs : offsetMs)
}
