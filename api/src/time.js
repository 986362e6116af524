/** Times in requests. */

import { invalid } from '@sandglass/common/problem'
import { parseTime as parse } from '@sandglass/common/time'

/** The furthest time that JavaScript and CQL agree on, in milliseconds since the Unix epoch. */
export const TIME_MS_MAX = 8_640_000_000_000_000

/** A `+` before an offset arrives as a space when a client does not escape it. */
const SPACED_OFFSET = /([Tt ]\d{2}:\d{2}\S{0,16}) (\d{2}:?\d{2})$/

/**
 * A time, in milliseconds since the Unix epoch: ISO 8601, where a time of day without an offset is
 * UTC; or a count of seconds, milliseconds, microseconds or nanoseconds, told apart by its size.
 * One before 1970 is milliseconds.
 *
 * @param {string} name  The parameter it came from, for the message.
 * @param {string | number} time
 * @throws {import('@sandglass/common/problem').Problem}  Names the parameter.
 */
export function parseTime(name, time) {
  const text = String(time)
  const isEarly = /^-\d{1,16}$/.test(text)
  const timeMs = isEarly ? Number(text) : parse(text.replace(SPACED_OFFSET, '$1+$2'))
  if (timeMs === undefined || !(Math.abs(timeMs) <= TIME_MS_MAX)) {
    throw invalid(
      name,
      'must be seconds, ms, us or ns since 1970, or ISO 8601 such as 2026-01-01T00:00:00Z',
    )
  }
  return timeMs
}
