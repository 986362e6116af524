/** What a record of a file says, decided before anything is sent to be stored. Pure. */

import { parseRecord } from '@sandglass/common/formats/json'
import { jsonText } from '@sandglass/common/json'
import { ageFault } from '@sandglass/common/measurement'
import { PayloadError, timeOf } from '@sandglass/common/payload'

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
  const t = timeOf(object.t)
  if (t === undefined) {
    throw new PayloadError('time', 'it has no time, and could not be told apart when sent again')
  }
  const fault = ageFault(t, nowMs)
  if (fault !== undefined) throw new PayloadError('time', fault)
  const record = { sensor, ...object, t }
  const { sensor: name, measurements } = parseRecord(record)
  return { sensor: name, measurements, payload: Buffer.from(jsonText(needed(record))) }
}

/**
 * What of a record means something: in one that names its metric, other members do not.
 *
 * @param {Record<string, unknown>} record  That was understood.
 */
function needed(record) {
  const { sensor, metric, t, v, kind } = record
  return metric === undefined ? record : { sensor, metric, t, v, kind }
}
