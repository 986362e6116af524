/**
 * What a Sparkplug B payload measures, as far as it tells by itself. An alias means something only
 * to whoever follows the edge node (`session.js`), who completes the payload first. Pure.
 */

import { checkMetric, PayloadError } from '../../payload.js'
import { emptyPayload, refuse } from '../fields.js'
import { ambiguousAliases, isFollowable } from './session.js'
import { sparkplugMeasurement } from './value.js'

/** @typedef {import('../types.js').DecodedPayload} DecodedPayload */
/** @typedef {import('./payload.js').SparkplugMetric} SparkplugMetric */
/** @typedef {import('./payload.js').SparkplugPayload} SparkplugPayload */

/** Metrics that are not measured: numbers of connections, and commands. */
const BD_SEQ = 'bdSeq'
const CONTROL = /^(?:Node|Device) Control\//

/**
 * @param {string} type  Of the message, such as `NDATA`.
 * @param {SparkplugPayload} payload
 * @returns {DecodedPayload}
 * @throws {PayloadError}  It says nothing at all: these may be bytes of something else.
 */
export function measurementsOf(type, payload) {
  const said = emptyPayload()
  const { timeMs, seq, metrics } = payload
  // A death may repeat metrics; they are of before.
  if (type !== 'NDEATH' && type !== 'DDEATH') {
    if (timeMs === undefined && seq === undefined && metrics.length === 0) {
      throw new PayloadError('value', 'this is not Sparkplug B: it has neither time nor metrics')
    }
    if (type !== 'NDATA' && type !== 'DDATA') checkBirth(said, type, payload)
    for (const metric of metrics) addMetric(said, metric, timeMs)
  }
  said.isSilent = said.measurements.length === 0 && said.refused.length === 0
  return said
}

/**
 * What is strange in a birth is told, though its values are stored: data after it cannot be.
 *
 * @param {DecodedPayload} said
 * @param {string} type
 * @param {SparkplugPayload} birth
 */
function checkBirth(said, type, birth) {
  for (const alias of ambiguousAliases(birth)) {
    refuse(said, `alias ${alias}`, new PayloadError('value', 'the birth has two names for it'))
  }
  if (type === 'NBIRTH' && !isFollowable(birth)) {
    refuse(said, 'seq', new PayloadError('value', 'the birth has no seq from 0 to 255'))
  }
}

/**
 * @param {DecodedPayload} said
 * @param {SparkplugMetric} metric
 * @param {number | undefined} sentMs
 */
function addMetric(said, metric, sentMs) {
  const { name, alias, datatype, value, unit } = metric
  if (name === undefined) {
    const fault = new PayloadError('value', 'no birth that was received tells its name')
    refuse(said, alias === undefined ? 'a metric' : `alias ${alias}`, fault)
    return
  }
  if (metric.isNull || metric.isTransient || name === BD_SEQ || CONTROL.test(name)) return
  try {
    checkMetric(name)
    said.measurements.push(sparkplugMeasurement(name, timeOf(metric, sentMs), datatype, value))
    // Empty where a gateway has none.
    if (!unit) return
    said.units ??= new Map()
    said.units.set(name, unit)
  } catch (error) {
    refuse(said, name, error)
  }
}

/** @param {SparkplugMetric} metric  @param {number | undefined} sentMs */
function timeOf({ name, timeMs, isHistorical }, sentMs) {
  if (timeMs === undefined && isHistorical) {
    throw new PayloadError('time', `the value of ${name} is historical, without a time of its own`)
  }
  return timeMs ?? sentMs
}
