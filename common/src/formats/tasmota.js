/**
 * Tasmota: `tele/<topic>/SENSOR` and `STATE`, `stat/<topic>/RESULT`, `POWER` and `STATUS8` to `11`
 * (tasmota.github.io/docs/JSON-Status-Responses).
 *
 * The metrics of an object are its members, whatever the topic ends in: `AM2301.Temperature`,
 * `ENERGY.Power`, and `ENERGY.Power.0` of a meter with several phases. `TempUnit` and
 * `PressureUnit` are the units of what they stand beside. `Time` is local, unless
 * `SetOption52 1` adds its zone: without one it is not believed.
 */

import { PayloadError, quoted } from '../payload.js'
import { addTree, addValue, metricOf } from './device.js'
import { readPlainOrObject } from './encoding/text.js'
import { emptyPayload, isTree, refuse, requireSome } from './fields.js'
import { zonedMs } from './local-time.js'

/** @typedef {import('./types.js').DecodedPayload} DecodedPayload */

/** Around what STATUS8, 10 and 11 tell. */
const WRAPPERS = ['StatusSNS', 'StatusSTS']

/** Names of units, as UCUM has them. @type {Map<unknown, string>} */
const UNITS = new Map([
  ['C', 'Cel'],
  ['F', '[degF]'],
  ['K', 'K'],
  ['hPa', 'hPa'],
  ['mmHg', 'mm[Hg]'],
  ['inHg', "[in_i'Hg]"],
])

const TEMPERATURE = /(?:^|\.)(?:Temperature|DewPoint|HeatIndex|FeelsLike)\d*$/
const PRESSURE = /(?:^|\.)(?:Pressure|SeaPressure)\d*$/

/** What Tasmota measures in ENERGY, with one phase or several. @type {Map<string, string>} */
const ENERGY_UNITS = new Map([
  ['Total', 'kW.h'],
  ['Yesterday', 'kW.h'],
  ['Today', 'kW.h'],
  ['Period', 'W.h'],
  ['Power', 'W'],
  ['ApparentPower', 'V.A'],
  ['ReactivePower', 'var'],
  ['Voltage', 'V'],
  ['Current', 'A'],
  ['Frequency', 'Hz'],
])
const ENERGY = /^ENERGY\.(\w+?)(?:\.\d+)?$/

/** @type {import('./types.js').Format} */
export const tasmota = {
  name: 'tasmota',
  number: 21,
  help: 'Tasmota, for the templates tele/{sensor}/{metric...} and stat/{sensor}/{metric...}',
  decode(place, payload) {
    const body = readPlainOrObject(payload)
    const into = emptyPayload()
    if (isTree(body)) addReport(into, unwrapped(body))
    else addValue(into, metricOf(place), undefined, body)
    requireSome(into)
    return into
  },
}

/** @param {object} body  @returns {Record<string, unknown>} */
function unwrapped(body) {
  const report = /** @type {Record<string, unknown>} */ (body)
  const inner = WRAPPERS.map((name) => report[name]).find((value) => isTree(value))
  return Object.keys(report).length === 1 && inner !== undefined
    ? /** @type {Record<string, unknown>} */ (inner)
    : report
}

/** @param {DecodedPayload} into  @param {Record<string, unknown>} report */
function addReport(into, { Time: time, TempUnit: temp, PressureUnit: pressure, ...values }) {
  addTree(into, undefined, timeMsOf(into, time), values)
  const units = new Map()
  for (const { metric } of into.measurements) {
    const unit = unitOf(metric, UNITS.get(temp), UNITS.get(pressure))
    if (unit !== undefined) units.set(metric, unit)
  }
  if (units.size > 0) into.units = units
  for (const [field, unit] of [
    ['TempUnit', temp],
    ['PressureUnit', pressure],
  ]) {
    if (unit === undefined || UNITS.has(unit)) continue
    refuse(into, `${field}`, new PayloadError('value', `it is no unit: ${quoted(unit)}`))
  }
}

/**
 * @param {string} metric
 * @param {string | undefined} temperature
 * @param {string | undefined} pressure
 */
function unitOf(metric, temperature, pressure) {
  if (TEMPERATURE.test(metric)) return temperature
  if (PRESSURE.test(metric)) return pressure
  const energy = ENERGY.exec(metric)
  return energy === null ? undefined : ENERGY_UNITS.get(energy[1])
}

/** @param {DecodedPayload} into  @param {unknown} time */
function timeMsOf(into, time) {
  if (time === undefined || time === null) return undefined
  try {
    if (typeof time === 'string') return zonedMs(time, 'Time')
    throw new PayloadError('time', 'Time is not a text')
  } catch (error) {
    refuse(into, 'Time', error)
    return undefined
  }
}
