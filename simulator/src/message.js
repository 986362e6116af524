/**
 * One reading of a simulated sensor as an MQTT message, in one of the shapes that Sandglass takes,
 * or, for a share of them, as the rubbish that real devices send.
 */

import { hash, KINDS } from './signals.js'

/** @typedef {import('./fleet.js').Sensor} Sensor */
/** @typedef {{ topic: string, payload: string }} Message */

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
 * @param {Sensor} sensor
 * @param {number} round   How many readings it has sent before; chooses the metric.
 * @param {number} timeMs  When it is measured, in milliseconds since the Unix epoch.
 * @param {{ shape: Shape, malformedPercent: number }} options
 * @returns {Message}
 */
export function buildMessage(sensor, round, timeMs, { shape, malformedPercent }) {
  const base = `sensors/${sensor.name}`
  const metric = sensor.metrics[round % sensor.metrics.length]
  if (hash(sensor.seed + 1, round) * 100 < malformedPercent) {
    const choice = Math.floor(hash(sensor.seed + 2, round) * MALFORMED.length)
    return { topic: `${base}/${metric}`, payload: MALFORMED[choice] }
  }
  const signals = KINDS[sensor.kind]
  if (shape === 'object') {
    /** @type {Record<string, import('./signals.js').Value>} */
    const values = { t: timeMs }
    for (const name of sensor.metrics) values[name] = signals[name](sensor.seed, timeMs)
    return { topic: base, payload: JSON.stringify(values) }
  }
  const value = signals[metric](sensor.seed, timeMs)
  const payload = JSON.stringify(shape === 'single' ? { t: timeMs, v: value } : value)
  return { topic: `${base}/${metric}`, payload }
}
