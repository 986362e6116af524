/**
 * Home Assistant's MQTT Statestream (www.home-assistant.io/integrations/mqtt_statestream):
 * `<base topic>/<domain>/<object id>/state` is the state as plain text; other last levels are
 * attributes in JSON, or times as plain text. `unavailable` and `unknown` are no measurement and
 * are refused; `on` and `off` are texts. The attribute `unit_of_measurement` is also the unit of
 * `state`.
 */

import { jsonOf, PayloadError } from '../payload.js'
import { addValue, metricOf } from './device.js'
import { readPlain } from './encoding/text.js'
import { emptyPayload, requireSome } from './fields.js'

/** @typedef {import('./types.js').DecodedPayload} DecodedPayload */

const NO_STATES = new Set(['unavailable', 'unknown'])

/** Longest name of a unit, in characters. */
const UNIT_LENGTH_MAX = 64

/** Names of units that UCUM spells otherwise. @type {Map<string, string>} */
const UNITS = new Map([
  ['°C', 'Cel'],
  ['°F', '[degF]'],
  ['Wh', 'W.h'],
  ['kWh', 'kW.h'],
  ['VA', 'V.A'],
  ['mmHg', 'mm[Hg]'],
  ['inHg', "[in_i'Hg]"],
  ['µg/m³', 'ug/m3'],
  ['m³', 'm3'],
  ['°', 'deg'],
])

/** @type {import('./types.js').Format} */
export const statestream = {
  name: 'statestream',
  number: 25,
  help: 'Home Assistant MQTT Statestream, for the template homeassistant/{domain}/{sensor}/{metric}',
  decode(place, payload) {
    const metric = metricOf(place)
    const into = emptyPayload()
    const value = metric === 'state' ? state(payload) : attribute(payload)
    addValue(into, metric, undefined, value)
    if (metric === 'unit_of_measurement') setUnit(into, value)
    requireSome(into)
    return into
  },
}

/** @param {Buffer} payload  @throws {PayloadError} */
function state(payload) {
  const value = readPlain(payload)
  if (typeof value !== 'string' || !NO_STATES.has(value)) return value
  throw new PayloadError('value', `nothing was measured: the state is ${value}`)
}

/** @param {Buffer} payload  @throws {PayloadError} */
function attribute(payload) {
  try {
    return jsonOf(payload)
  } catch {
    // last_changed and last_updated are published without quotes.
    return readPlain(payload)
  }
}

/** @param {DecodedPayload} into  @param {unknown} unit */
function setUnit(into, unit) {
  if (typeof unit !== 'string' || unit === '' || unit.length > UNIT_LENGTH_MAX) return
  into.units = new Map([['state', UNITS.get(unit) ?? unit]])
}
