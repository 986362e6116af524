/** Which measurements are believed, before anything is written. */

import { EVENT_AHEAD_MS_MAX, EVENT_MS_MIN } from '@sandglass/common/measurement'
import { Refusal } from './refusal.js'

/** Most metrics of one sensor. */
const SENSOR_METRICS_MAX = 1_000

/** @typedef {import('./message.js').Message} Message */
/** @typedef {import('../sensors/series.js').Sensor} Sensor */
/** @typedef {import('@sandglass/common/measurement').Measurement} Measurement */

/**
 * Why a message cannot be stored, as far as its measurements tell.
 *
 * @param {Message} message
 * @param {Sensor} sensor
 * @param {Measurement[]} measurements
 */
export function validate(message, sensor, measurements) {
  if (sensor.isHidden) return new Refusal('hidden', 'the sensor was deleted')
  /** @type {Set<string> | undefined} */
  let metricsNew
  for (const { metric, timeMs } of measurements) {
    if (timeMs !== undefined && timeMs < EVENT_MS_MIN) {
      return new Refusal('time', `t is ${timeMs}, before the year 2000: t is milliseconds`)
    }
    if (timeMs !== undefined && timeMs > message.receivedMs + EVENT_AHEAD_MS_MAX) {
      return new Refusal('time', `t is ${timeMs}, more than 24 hours ahead: t is milliseconds`)
    }
    if (!sensor.series.has(metric)) {
      metricsNew ??= new Set()
      metricsNew.add(metric)
    }
  }
  if (metricsNew && sensor.series.size + metricsNew.size > SENSOR_METRICS_MAX) {
    return new Refusal('value', `a sensor has at most ${SENSOR_METRICS_MAX} metrics`)
  }
  return undefined
}

/**
 * The latest time of a message's measurements, in milliseconds since the Unix epoch.
 *
 * @param {Message} message
 * @param {Measurement[]} measurements
 */
export function newestOf({ firstReceivedMs }, measurements) {
  let newestMs = Number.NEGATIVE_INFINITY
  for (const { timeMs = firstReceivedMs } of measurements) newestMs = Math.max(newestMs, timeMs)
  return newestMs
}
