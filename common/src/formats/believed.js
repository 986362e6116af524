/**
 * Which measurements of a payload are believed once it is known when it was received: a time that
 * cannot be right costs the values that it dates, and no others. Pure.
 */

import { ageFault, settleTimes } from '../measurement.js'
import { PayloadError } from '../payload.js'
import { refuse } from './fields.js'

/** @typedef {import('../measurement.js').Measurement} Measurement */

/**
 * Gives measurements the times that follow from the receipt, and refuses those whose time is not
 * believed, field by field.
 *
 * @param {object} decoded  Changed.
 * @param {Measurement[]} decoded.measurements
 * @param {import('./types.js').RefusedField[]} decoded.refused
 * @param {boolean} [decoded.isRelative]
 * @param {object} receipt  Milliseconds since the Unix epoch.
 * @param {number} receipt.receivedMs
 * @param {number} receipt.firstReceivedMs  Of a message that was sent again: when it first came.
 * @throws {PayloadError}  Of none of its measurements the time is believed.
 */
export function keepBelieved(decoded, { receivedMs, firstReceivedMs }) {
  const { measurements } = decoded
  if (decoded.isRelative) settleTimes(measurements, firstReceivedMs)
  const first = firstUnbelieved(measurements, receivedMs)
  if (first === undefined) return
  /** @type {Measurement[]} */
  const believed = []
  const into = { sensor: undefined, measurements: believed, refused: [...decoded.refused] }
  for (const measurement of measurements) {
    const { metric, timeMs } = measurement
    const fault = ageFault(timeMs, receivedMs)
    if (fault === undefined) believed.push(measurement)
    else refuse(into, metric, new PayloadError('time', fault))
  }
  if (believed.length === 0) {
    throw new PayloadError('time', String(ageFault(first.timeMs, receivedMs)))
  }
  decoded.measurements = believed
  decoded.refused = into.refused
}

/** @param {Measurement[]} all  @param {number} nowMs */
function firstUnbelieved(all, nowMs) {
  for (const measurement of all) {
    if (ageFault(measurement.timeMs, nowMs) !== undefined) return measurement
  }
  return undefined
}
