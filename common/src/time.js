/**
 * Times as people and devices write them: dates, and counts of seconds down to nanoseconds. One
 * function for every door, so that a time means the same at each of them. Pure.
 */

const DATE = new RegExp(
  [
    /^(\d{4})-(\d{2})-(\d{2})/,
    /(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?)?/,
    /\s*(Z|UTC|[+-]\d{2}:?\d{2})?$/,
  ]
    .map(({ source }) => source)
    .join(''),
  'i',
)

/**
 * The unit of a count since the Unix epoch, by its size: each of these ends in the year 5138, and
 * begins in 1973 where the one above it would still say 1970. Milliseconds are the count without
 * its last digits, or with so many more.
 */
const UNITS = [
  { below: 1e11, digitsBeyondMs: -3 },
  { below: 1e14, digitsBeyondMs: 0 },
  { below: 1e17, digitsBeyondMs: 3 },
  { below: 1e20, digitsBeyondMs: 6 },
]

const COUNT = /^(\d{1,20})(?:\.(\d+))?$/
/** A count from before 1970; only milliseconds are told so. */
const EARLY = /^-\d{1,16}$/

/**
 * Milliseconds since the Unix epoch, or undefined for what is no time. Takes ISO 8601 (a date
 * without a zone is UTC) and counts of seconds, milliseconds, microseconds or nanoseconds. What is
 * finer than a millisecond is cut off.
 *
 * @param {string} text
 */
export function parseTime(text) {
  const count = COUNT.exec(text)
  if (count) return countMs(count[1], count[2] ?? '')
  const match = DATE.exec(text)
  if (!match) return undefined
  const [, year, month, day, hour = '00', minute = '00', second = '00', fraction = ''] = match
  const zone = (match[8] ?? 'Z').toUpperCase().replace('UTC', 'Z')
  const offset = zone === 'Z' || zone.includes(':') ? zone : `${zone.slice(0, 3)}:${zone.slice(3)}`
  const ms = `${fraction}000`.slice(0, 3)
  const timeMs = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}.${ms}${offset}`)
  // Date.parse takes the 30th of February for a day in March.
  const isDay = new Date(Date.UTC(+year, +month - 1, +day)).getUTCDate() === Number(day)
  return Number.isNaN(timeMs) || !isDay ? undefined : timeMs
}

/**
 * By digits: a double does not hold all nanoseconds.
 *
 * @param {string} whole
 * @param {string} fraction
 */
function countMs(whole, fraction) {
  const unit = UNITS.find(({ below }) => Number(whole) < below)
  if (!unit) return undefined
  return Number(`${whole}${fraction}000`.slice(0, whole.length - unit.digitsBeyondMs))
}

/**
 * The time of a measurement, as a member of JSON or a cell says it.
 *
 * @param {unknown} t  A text, or a count as a number or bigint. Before 1970 it is milliseconds.
 * @returns {number | undefined}  Milliseconds since the Unix epoch; undefined for what is no time.
 */
export function eventMs(t) {
  // Nearly all times: whole milliseconds.
  if (typeof t === 'number' && t >= 1e11 && t < 1e14 && Number.isInteger(t)) return t
  if (typeof t !== 'string' && typeof t !== 'number' && typeof t !== 'bigint') return undefined
  const text = String(t).trim()
  return EARLY.test(text) ? Number(text) : parseTime(text)
}
