/**
 * What a pet's collar measures: location, temperature, pulse and respiration. One thing moves them
 * all, how lively the animal is, so that they agree with each other: at a run the pulse is high,
 * the breath is fast, and home is far.
 */

import { clamp, daily, drift, HOUR_MS, hash, MINUTE_MS, rounded } from './signals.js'

/** Largest distance from home, in degrees: about a kilometre. */
const ROAM_DEGREES = 0.009
/** What a receiver errs by, in degrees: about three metres. */
const GPS_DEGREES = 0.00003

/** 0: asleep; 1: at a run. Lively in the morning and the evening, by moods of a quarter hour. */
/** @param {number} seed  @param {number} timeMs */
function activity(seed, timeMs) {
  const hours = Math.max(daily(timeMs, 7.5), daily(timeMs, 17.5))
  const mood = drift(seed + 11, timeMs, 15 * MINUTE_MS)
  return clamp(0.15 + 0.45 * hours + 0.5 * mood, 0, 1)
}

/** A chance of one reading, in [-1, 1). */
/** @param {number} seed  @param {number} timeMs */
function chance(seed, timeMs) {
  return 2 * hash(seed, timeMs) - 1
}

/** @type {Record<string, import('./signals.js').Signal>} */
export const COLLAR = {
  location(seed, timeMs) {
    const away = ROAM_DEGREES * activity(seed, timeMs)
    const angle = 2 * Math.PI * drift(seed + 12, timeMs, HOUR_MS)
    const lat = 40 + 15 * hash(seed, 13)
    const lon = -10 + 35 * hash(seed, 14)
    return {
      lat: rounded(lat + away * Math.sin(angle) + GPS_DEGREES * chance(seed + 15, timeMs), 5),
      lon: rounded(lon + away * Math.cos(angle) + GPS_DEGREES * chance(seed + 16, timeMs), 5),
    }
  },
  temperature(seed, timeMs) {
    const warmth = 0.25 * daily(timeMs, 17) + 0.5 * activity(seed, timeMs)
    return rounded(38.2 + 0.4 * hash(seed, 17) + warmth + 0.05 * chance(seed + 17, timeMs), 1)
  },
  pulse(seed, timeMs) {
    const resting = 70 + 30 * hash(seed, 18)
    return Math.round(resting + 70 * activity(seed, timeMs) + 3 * chance(seed + 18, timeMs))
  },
  respiration(seed, timeMs) {
    const resting = 16 + 6 * hash(seed, 19)
    return Math.round(resting + 24 * activity(seed, timeMs) + 1.5 * chance(seed + 19, timeMs))
  },
}
