/** What the numbers of each kind of sensor mean: what a person would say of them over REST. */

/** @typedef {import('@sandglass/common/metadata').Metadata} Metadata */

/**
 * @param {string} unit  As UCUM spells it.
 * @param {string} label
 * @param {number} decimals
 * @param {number} [min]  From where values are expected.
 * @param {number} [max]
 * @returns {Metadata}
 */
function number(unit, label, decimals, min, max) {
  return { unit, label, decimals, expected_min: min, expected_max: max }
}

/** @param {string} label  @returns {Metadata} */
const named = (label) => ({ label })

const STATE = named('State')
const VIBRATION = number('mm/s', 'Vibration', 2, 0, 7)

/**
 * By kind and metric: the kinds of `kinds.js`, with all of their metrics.
 *
 * @type {Record<string, Record<string, Metadata>>}
 */
export const MEANINGS = {
  climate: {
    temperature: number('Cel', 'Temperature', 1, -20, 40),
    humidity: number('%RH', 'Relative humidity', 0, 10, 95),
    pressure: number('hPa', 'Air pressure', 1, 970, 1_050),
  },
  machine: {
    vibration: VIBRATION,
    temperature: number('Cel', 'Temperature', 1, 0, 80),
    state: STATE,
  },
  meter: {
    power: number('W', 'Power', 0, 0, 2_500),
    voltage: number('V', 'Voltage', 1, 207, 253),
    energy: number('kW.h', 'Energy', 1, 0),
  },
  tank: {
    level: number('%', 'Level', 1, 15, 98),
    pump: named('Pump'),
  },
  collar: {
    location: named('Place'),
    temperature: number('Cel', 'Body temperature', 1, 37.5, 39.8),
    pulse: number('{beats}/min', 'Pulse', 0, 60, 180),
    respiration: number('{breaths}/min', 'Respiration', 0, 10, 50),
  },
  press: {
    state: STATE,
    force: number('kN', 'Press force', 0, 0, 1_000),
    vibration: VIBRATION,
    oil_temperature: number('Cel', 'Oil temperature', 1, 10, 70),
    power: number('kW', 'Power', 1, 0, 60),
  },
  furnace: {
    state: STATE,
    temperature: number('Cel', 'Furnace temperature', 0, 300, 1_050),
    oxygen: number('%', 'Oxygen', 1, 0, 21),
    power: number('kW', 'Power', 0, 0, 300),
  },
  compressor: {
    state: STATE,
    pressure: number('bar', 'Pressure', 2, 6, 8),
    temperature: number('Cel', 'Temperature', 1, 10, 95),
    vibration: VIBRATION,
  },
  conveyor: {
    state: STATE,
    speed: number('m/s', 'Belt speed', 2, 0, 2),
    current: number('A', 'Motor current', 1, 0, 16),
    jammed: named('Jammed'),
  },
}
