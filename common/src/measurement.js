/**
 * A measurement: one value of one series at one time, and how its value lies in the columns of the
 * tables `measurement_<class>` and `latest`.
 */

/**
 * What a value is, as the column `latest.kind` says it. The numbers are stored: they never change.
 */
export const KIND = Object.freeze({ number: 1, integer: 2, boolean: 3, text: 4, location: 5 })

/** Oldest event time that is believed, milliseconds since the Unix epoch: the year 2000. */
export const EVENT_MS_MIN = 946_684_800_000

/** How far a device's clock may be ahead, in milliseconds. */
export const EVENT_AHEAD_MS_MAX = 86_400_000

/**
 * What exports and the REST interface call the kinds.
 *
 * @type {ReadonlyMap<number | undefined, string>}
 */
export const KIND_NAMES = new Map(Object.entries(KIND).map(([name, kind]) => [kind, name]))

/**
 * Why an event time is not believed; undefined if it is. The same for ingest, an import and what
 * `/v1/decode` says.
 *
 * @param {number | undefined} timeMs  Milliseconds since the Unix epoch.
 * @param {number} nowMs  When it was received.
 */
export function ageFault(timeMs, nowMs) {
  if (timeMs === undefined) return undefined
  if (timeMs < EVENT_MS_MIN) return `t is ${isoOf(timeMs)}, before the year 2000`
  if (timeMs > nowMs + EVENT_AHEAD_MS_MAX) return `t is ${isoOf(timeMs)}, more than 24 hours ahead`
  return undefined
}

/** Most metrics of one sensor. */
const SENSOR_METRICS_MAX = 1_000

/**
 * Why a sensor cannot have so many metrics; undefined if it can.
 *
 * @param {number} count
 */
export function metricsFault(count) {
  if (count <= SENSOR_METRICS_MAX) return undefined
  return `a sensor has at most ${SENSOR_METRICS_MAX} metrics`
}

/** @param {number} timeMs  @returns {string} */
function isoOf(timeMs) {
  const date = new Date(timeMs)
  return Number.isNaN(date.getTime()) ? `${timeMs} ms` : date.toISOString()
}

/** @typedef {{ lat: number, lon: number }} Location */
/** A `bigint` only where an integer is too large to be exact as a number. */
/** @typedef {number | bigint | boolean | string | Location} Value */

/**
 * @typedef {object} Measurement
 * @property {string} metric
 * @property {number | undefined} timeMs  When it was measured, milliseconds since the Unix epoch;
 *   undefined where the device did not say.
 * @property {number} [offsetMs]  Where it said only how long after its message was received that
 *   was, in milliseconds; mostly below zero.
 * @property {number} kind  One of {@link KIND}.
 * @property {Value} value
 */

/**
 * Gives those measurements their times whose device told only how long before its message they were
 * made.
 *
 * @param {readonly Measurement[]} measurements
 * @param {number} receivedMs  When the message was first received, milliseconds since the Unix
 *   epoch.
 */
export function settleTimes(measurements, receivedMs) {
  for (const measurement of measurements) {
    if (measurement.offsetMs !== undefined) measurement.timeMs = receivedMs + measurement.offsetMs
  }
}

const INT64_MIN = -(2n ** 63n)
const INT64_MAX = 2n ** 63n - 1n

/** Whether an integer fits the column `i`. @param {bigint} value */
export function isInt64(value) {
  return value >= INT64_MIN && value <= INT64_MAX
}

/** The columns that a value of each kind sets, in the order in which they are bound. */
export const VALUE_COLUMNS = Object.freeze({
  [KIND.number]: ['v'],
  [KIND.integer]: ['i'],
  [KIND.boolean]: ['b'],
  [KIND.text]: ['s'],
  [KIND.location]: ['lat', 'lon'],
})

/**
 * The value in a row of `latest` (which has a `kind`) or of a measurement table (where the columns
 * that are set tell).
 *
 * @param {{ kind?: number | null, v?: number | null, i?: { toString(): string } | null,
 *   b?: boolean | null, s?: string | null, lat?: number | null, lon?: number | null }} row
 * @returns {Value | null}  Null where the row holds no value of its kind.
 */
export function rowValue(row) {
  switch (row.kind ?? kindOf(row)) {
    case KIND.number:
      return row.v ?? null
    case KIND.integer:
      return row.i == null ? null : exact(row.i.toString())
    case KIND.boolean:
      return row.b ?? null
    case KIND.text:
      return row.s ?? null
    case KIND.location:
      return row.lat == null || row.lon == null ? null : { lat: row.lat, lon: row.lon }
    default:
      return null
  }
}

/** @param {string} digits */
function exact(digits) {
  const value = Number(digits)
  return Number.isSafeInteger(value) ? value : BigInt(digits)
}

/**
 * The kind of the value in a row of a measurement table; undefined where no column is set.
 *
 * @param {Parameters<typeof rowValue>[0]} row
 */
export function kindOf({ v, i, b, s, lat }) {
  if (v != null) return KIND.number
  if (i != null) return KIND.integer
  if (b != null) return KIND.boolean
  if (s != null) return KIND.text
  return lat == null ? undefined : KIND.location
}

/**
 * The day in whose partitions a dead letter lies: the column `dead_letter.day`.
 *
 * @param {number} receivedMs  Milliseconds since the Unix epoch.
 * @returns {number}  Days since the Unix epoch.
 */
export function deadLetterDay(receivedMs) {
  return Math.floor(receivedMs / 86_400_000)
}
