/**
 * What simulated values are made of: a daily curve, slow drift and noise. Every value is a pure
 * function of the sensor's seed and of time, so a run can be repeated to the last digit, and it
 * does not matter when, or in which order, the values are asked for.
 */

export const MINUTE_MS = 60_000
export const HOUR_MS = 60 * MINUTE_MS
export const DAY_MS = 24 * HOUR_MS

/** @typedef {import('@sandglass/common/measurement').Location} Location */
/** @typedef {number | boolean | string | Location} Value */
/** @typedef {(seed: number, timeMs: number) => Value} Signal */

/**
 * A number in [0, 1) that looks random and depends on its arguments alone.
 *
 * @param {number} seed   Any integer.
 * @param {number} index  Any integer below 2^53.
 */
export function hash(seed, index) {
  let h = Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) ^ Math.imul(index | 0, 0xc2b2ae35)
  h ^= Math.imul(Math.floor(index / 2 ** 32) | 0, 0x27d4eb2f)
  h = Math.imul(h ^ (h >>> 16), 0x7feb352d)
  h = Math.imul(h ^ (h >>> 15), 0x846ca68b)
  return ((h ^ (h >>> 16)) >>> 0) / 2 ** 32
}

/**
 * Smooth noise in [-1, 1): random points a period apart, joined without corners.
 *
 * @param {number} seed
 * @param {number} timeMs
 * @param {number} periodMs  Between two independent points.
 */
export function drift(seed, timeMs, periodMs) {
  const position = timeMs / periodMs
  const index = Math.floor(position)
  const fraction = position - index
  const weight = fraction * fraction * (3 - 2 * fraction)
  const before = hash(seed, index)
  return 2 * (before + (hash(seed, index + 1) - before) * weight) - 1
}

/**
 * A wave in [-1, 1] with one crest a day.
 *
 * @param {number} timeMs
 * @param {number} crestHour  In UTC.
 */
export function daily(timeMs, crestHour) {
  return Math.cos((2 * Math.PI * (timeMs - crestHour * HOUR_MS)) / DAY_MS)
}

/**
 * A number that follows the day, drifts over hours and trembles from one reading to the next.
 *
 * @param {object} shape
 * @param {number} shape.mean
 * @param {number} shape.day  Half the difference between the day's crest and trough.
 * @param {number} shape.drift  How far the weather of the hours moves it.
 * @param {number} shape.noise  How far two readings in a row may differ by chance.
 * @param {number} shape.crestHour
 * @param {number} shape.decimals
 * @param {number} [shape.min]
 * @param {number} [shape.max]
 * @returns {Signal}
 */
export function analogue({ mean, day, drift: wander, noise, crestHour, decimals, min, max }) {
  return (seed, timeMs) => {
    const offset = wander * (hash(seed, 1) - 0.5)
    const value =
      mean +
      offset +
      day * daily(timeMs, crestHour + hash(seed, 2)) +
      wander * drift(seed, timeMs, 3 * HOUR_MS) +
      noise * (2 * hash(seed, timeMs) - 1)
    return rounded(clamp(value, min ?? -Infinity, max ?? Infinity), decimals)
  }
}

/**
 * @param {number} value
 * @param {number} decimals
 */
export function rounded(value, decimals) {
  const scale = 10 ** decimals
  return Math.round(value * scale) / scale
}

/** @param {number} value  @param {number} min  @param {number} max */
export function clamp(value, min, max) {
  return Math.min(max, Math.max(min, value))
}
