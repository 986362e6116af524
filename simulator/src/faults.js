/**
 * What is wrong with a sensor for some minutes now and then: it hangs, shows spikes, drifts away or
 * says nothing at all. Like values, faults are pure functions of seed and time.
 */

import { hash, MINUTE_MS, rounded } from './signals.js'

/** How long a fault lasts, in milliseconds. */
const FAULT_MS = 10 * MINUTE_MS
/** How long a sensor is silent, in milliseconds. */
const OUTAGE_MS = 5 * MINUTE_MS
/** Share of readings that are spikes while a sensor has them. */
const SPIKES = 0.2
/** How many times its own size a spike is off, and how much of it a drift adds by its end. */
const SPIKE_FACTOR = 4
const DRIFT_FACTOR = 0.3

/** @typedef {import('./signals.js').Signal} Signal */
/** @typedef {import('./signals.js').Value} Value */

/**
 * What a sensor says of a metric, faults and all.
 *
 * @param {Signal} signal  What it would say if it were sound.
 * @param {number} seed
 * @param {number} timeMs
 * @param {number} faultPercent  Share of time in which a metric is faulty.
 * @param {number} metric  Its number: each has faults of its own.
 * @returns {Value}
 */
export function faultyValue(signal, seed, timeMs, faultPercent, metric) {
  const value = signal(seed, timeMs)
  const fault = Math.floor(timeMs / FAULT_MS)
  const own = seed + 41 + 1000 * metric
  if (hash(own, fault) * 100 >= faultPercent) return value
  const kind = hash(own + 1, fault)
  if (kind < 1 / 3 || typeof value !== 'number') return signal(seed, fault * FAULT_MS)
  const size = Math.abs(value) + 1
  if (kind < 2 / 3) {
    const draw = hash(own + 2, timeMs)
    if (draw >= SPIKES) return value
    return rounded(value + (draw < SPIKES / 2 ? -1 : 1) * SPIKE_FACTOR * size, 3)
  }
  const elapsed = timeMs / FAULT_MS - fault
  return rounded(value + DRIFT_FACTOR * size * elapsed, 3)
}

/**
 * Whether a sensor says nothing at a time: its battery is being changed, or it is out of reach.
 *
 * @param {number} seed
 * @param {number} timeMs
 * @param {number} outagePercent  Share of time.
 */
export function isSilent(seed, timeMs, outagePercent) {
  return hash(seed + 51, Math.floor(timeMs / OUTAGE_MS)) * 100 < outagePercent
}
