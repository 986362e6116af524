/** What a sensor can take, before anything is written. */

import { metricsFault } from '@sandglass/common/measurement'
import { Refusal } from './refusal.js'

/** @typedef {import('./message.js').Message} Message */
/** @typedef {import('../sensors/series.js').Sensor} Sensor */
/** @typedef {import('@sandglass/common/measurement').Measurement} Measurement */

/**
 * Why a message cannot be stored, as far as its sensor tells.
 *
 * @param {Sensor} sensor
 * @param {Measurement[]} measurements
 */
export function validate(sensor, measurements) {
  if (sensor.isHidden) return new Refusal('hidden', 'the sensor was deleted')
  /** @type {Set<string> | undefined} */
  let metricsNew
  for (const { metric } of measurements) {
    if (!sensor.series.has(metric)) {
      metricsNew ??= new Set()
      metricsNew.add(metric)
    }
  }
  const many = metricsNew && metricsFault(sensor.series.size + metricsNew.size)
  return many === undefined ? undefined : new Refusal('value', many)
}

/**
 * The first and last time of a message's measurements, in milliseconds since the Unix epoch.
 *
 * @param {Message} message
 * @param {Measurement[]} measurements
 */
export function timesOf({ firstReceivedMs }, measurements) {
  let oldestMs = Number.POSITIVE_INFINITY
  let newestMs = Number.NEGATIVE_INFINITY
  for (const { timeMs = firstReceivedMs } of measurements) {
    oldestMs = Math.min(oldestMs, timeMs)
    newestMs = Math.max(newestMs, timeMs)
  }
  return { oldestMs, newestMs }
}
