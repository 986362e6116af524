/**
 * One reading of a simulated sensor as an MQTT message, in one of the shapes that Sandglass takes,
 * or the rubbish that real devices send.
 */

import { faultyValue } from './faults.js'
import { KINDS } from './kinds.js'
import { hash } from './signals.js'

/** @typedef {import('./fleet.js').Sensor} Sensor */
/** @typedef {import('./signals.js').Value} Value */

/**
 * @typedef {object} Message
 * @property {string} topic
 * @property {string} payload
 * @property {number} [timeMs]  That it carries; undefined: the time of receipt counts.
 * @property {Record<string, Value>} [values]  By metric; undefined: it is malformed.
 */

/**
 * How readings are laid out: all metrics of a moment in one message; one metric a message; one
 * metric a message without a time, so that the time of receipt counts.
 */
export const SHAPES = /** @type {const} */ (['object', 'single', 'plain'])

/** @typedef {typeof SHAPES[number]} Shape */

/** Faults seen in the field. Each must become a dead letter; none is one of our shapes. */
const MALFORMED = [
  '{"t":1767225600000,"v":',
  '21,5',
  '{"t":"yesterday","v":21.5}',
  '{"t":4102444800000,"v":21.5}',
  'NaN',
  '{"v":{"value":{"nested":21.5}}}',
]

/**
 * A reading.
 *
 * @param {Sensor} sensor
 * @param {number} round   How many readings it has had before; chooses the metric.
 * @param {number} timeMs  When it is measured, in milliseconds since the Unix epoch.
 * @param {{ shape: Shape, faultPercent: number }} options
 * @returns {Message}
 */
export function buildMessage(sensor, round, timeMs, { shape, faultPercent }) {
  const base = `sensors/${sensor.name}`
  const signals = KINDS[sensor.kind]
  const hasTime = carriesTime(sensor, shape)
  const measure = (/** @type {number} */ metric) => {
    const signal = signals[sensor.metrics[metric]]
    return faultyValue(signal, sensor.seed, timeMs, faultPercent, metric)
  }
  if (shape === 'object') {
    /** @type {Record<string, Value>} */
    const values = {}
    for (const [metric, name] of sensor.metrics.entries()) values[name] = measure(metric)
    if (!hasTime) return { topic: base, payload: JSON.stringify(values), values }
    return { topic: base, payload: JSON.stringify({ t: timeMs, ...values }), timeMs, values }
  }
  const metric = round % sensor.metrics.length
  const name = sensor.metrics[metric]
  const topic = `${base}/${name}`
  const value = measure(metric)
  const values = { [name]: value }
  if (!hasTime) return { topic, payload: JSON.stringify(value), values }
  return { topic, payload: JSON.stringify({ t: timeMs, v: value }), timeMs, values }
}

/**
 * What comes of a reading that a device spoils.
 *
 * @param {Sensor} sensor
 * @param {number} round
 * @returns {Message}
 */
export function buildRubbish(sensor, round) {
  const metric = sensor.metrics[round % sensor.metrics.length]
  const choice = Math.floor(hash(sensor.seed + 2, round) * MALFORMED.length)
  return { topic: `sensors/${sensor.name}/${metric}`, payload: MALFORMED[choice] }
}

/**
 * Whether the messages of a sensor say when they were measured.
 *
 * @param {Sensor} sensor
 * @param {Shape} shape
 */
export function carriesTime(sensor, shape) {
  return sensor.hasClock && shape !== 'plain'
}
