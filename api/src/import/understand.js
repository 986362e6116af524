/** What a record of a file says, decided before anything is sent to be stored. Pure. */

import { EVENT_AHEAD_MS_MAX, EVENT_MS_MIN } from '@sandglass/common/measurement'
import { PayloadError, parseObject } from '@sandglass/common/payload'
import { parseTime } from '@sandglass/common/time'

/** @typedef {import('@sandglass/common/measurement').Measurement} Measurement */

/**
 * @typedef {object} Understood
 * @property {string} sensor
 * @property {Measurement[]} measurements  At least one; each has a time.
 * @property {Buffer} payload  What ingest is told: an object, as JSON.
 */

/**
 * A time in any unit becomes milliseconds. A record without a time is refused: it would be another
 * measurement whenever the file is sent again.
 *
 * @param {Record<string, unknown>} object
 * @param {string | undefined} sensor  Of objects that name none.
 * @param {number} nowMs
 * @returns {Understood}
 * @throws {PayloadError}  Why it is no measurement.
 */
export function understand(object, sensor, nowMs) {
  const t = timeOf(object.t, nowMs)
  const payload = Buffer.from(JSON.stringify({ sensor, ...object, t }))
  return { ...parseObject(payload), payload }
}

/** @param {unknown} t  @param {number} nowMs */
function timeOf(t, nowMs) {
  if (t === undefined || t === null) {
    throw new PayloadError('time', 'it has no time, and could not be told apart when sent again')
  }
  const timeMs = typeof t === 'string' || typeof t === 'number' ? parseTime(String(t)) : undefined
  if (timeMs === undefined) {
    throw new PayloadError('time', `${JSON.stringify(t)} is no time that is understood`)
  }
  if (timeMs < EVENT_MS_MIN) throw new PayloadError('time', `${t} is before the year 2000`)
  if (timeMs > nowMs + EVENT_AHEAD_MS_MAX) {
    throw new PayloadError('time', `${t} is more than 24 hours ahead`)
  }
  return timeMs
}
