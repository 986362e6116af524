/** Times as people write them in files: dates, and counts of seconds down to nanoseconds. */

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
 * begins in 1973 where the one above it would still say 1970.
 */
const UNITS = [
  { below: 1e11, perMs: 1e-3 },
  { below: 1e14, perMs: 1 },
  { below: 1e17, perMs: 1e3 },
  { below: 1e20, perMs: 1e6 },
]

/**
 * Milliseconds since the Unix epoch, or undefined for what is no time. Takes ISO 8601 (a date
 * without a zone is UTC) and counts of seconds, milliseconds, microseconds or nanoseconds.
 *
 * @param {string} text
 */
export function parseTime(text) {
  if (/^\d{1,20}(\.\d+)?$/.test(text)) {
    const value = Number(text)
    const unit = UNITS.find(({ below }) => value < below)
    return unit && Math.round(value / unit.perMs)
  }
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
