/** Numbers, values, times and ages as the reader sees them. */

const COUNT = new Intl.NumberFormat('en')
const RATE = new Intl.NumberFormat('en', { maximumFractionDigits: 1 })
const MOMENT = new Intl.DateTimeFormat(undefined, {
  year: 'numeric',
  month: 'short',
  day: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  hourCycle: 'h23',
})

/** Longest text of a value that a line of a table shows, in characters. */
const TEXT_LENGTH_MAX = 120

/** @param {number} count */
export function printCount(count) {
  return COUNT.format(count)
}

/**
 * So many of something: `1 sensor`, `2 sensors`.
 *
 * @param {number} count
 * @param {string} word
 * @param {string} [plural]
 */
export function printMany(count, word, plural = `${word}s`) {
  return `${printCount(count)} ${count === 1 ? word : plural}`
}

/** @param {number} perS */
export function printRate(perS) {
  return RATE.format(perS)
}

/** @param {number} timeMs  Milliseconds since 1970; shown in the reader's time zone. */
export function printMoment(timeMs) {
  return MOMENT.format(timeMs)
}

/** What time zone all times are shown in: the reader's own. */
export function timeZone() {
  return Intl.DateTimeFormat().resolvedOptions().timeZone
}

/**
 * What is known of a metric, as the REST interface tells it.
 *
 * @typedef {object} Known
 * @property {string} [unit]
 * @property {string} [symbol]  Of the unit.
 * @property {string} [label]
 * @property {number} [decimals]
 * @property {number} [expected_min]
 * @property {number} [expected_max]
 */

/** Significant digits with which every double that a person wrote reads as it was written. */
export const DIGITS_ALL = 15

/** Digits of a number that is summed up, or one of many: six, and three decimals in any case. */
/** @param {number} v */
function digitsOf(v) {
  const whole = Math.trunc(Math.abs(v)).toFixed(0).length
  return Math.min(DIGITS_ALL, Math.max(6, whole + 3))
}

/**
 * A measured value; a number in its unit, and with as many decimals as are wanted.
 *
 * @param {unknown} v
 * @param {Known} [known]
 * @param {number} [digits]  Significant ones, where no decimals are wanted.
 */
export function printValue(v, { symbol, decimals } = {}, digits) {
  const suffix = symbol ? ` ${symbol}` : ''
  if (typeof v === 'bigint') return `${v}${suffix}`
  if (typeof v === 'number') {
    if (decimals !== undefined) return `${v.toFixed(decimals)}${suffix}`
    return `${Number.isInteger(v) ? v : Number(v.toPrecision(digits ?? digitsOf(v)))}${suffix}`
  }
  if (typeof v === 'object' && v !== null && 'lat' in v && 'lon' in v) return `${v.lat}, ${v.lon}`
  const text = String(v)
  return text.length > TEXT_LENGTH_MAX ? `${text.slice(0, TEXT_LENGTH_MAX)}…` : text
}

/**
 * Whether a value is outside the range in which it is expected.
 *
 * @param {unknown} v
 * @param {Known} known
 */
export function isUnexpected(v, { expected_min: min, expected_max: max }) {
  if (typeof v !== 'number' && typeof v !== 'bigint') return false
  return (min !== undefined && v < min) || (max !== undefined && v > max)
}

/** A metric as it is called; two with one label are told apart by their names. */
/** @param {string} metric  @param {Known} known */
export function printMetric(metric, { label }) {
  return label === undefined || label === metric ? metric : `${label} (${metric})`
}

/** @param {number} ms  Since something happened; negative: it is ahead. */
export function printAge(ms) {
  if (ms < -2_000) return 'ahead of now'
  const seconds = Math.round(ms / 1_000)
  return seconds < 2 ? 'now' : `${printDuration(seconds * 1_000)} ago`
}

/** @param {number} ms */
export function printDuration(ms) {
  if (ms < 1_000) return `${Number(ms.toPrecision(3))} ms`
  const seconds = Math.round(ms / 1_000)
  if (seconds < 120) return `${seconds} s`
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`
  if (seconds < 172_800) return `${Math.round(seconds / 3_600)} h`
  return `${Math.round(seconds / 86_400)} days`
}

/** @param {number} bytes */
export function printBytes(bytes) {
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB']
  const power = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10))
  return `${RATE.format(bytes / 1_024 ** power)} ${units[power]}`
}
