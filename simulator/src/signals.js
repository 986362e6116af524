/**
 * What a simulated sensor measures: a daily curve, slow drift and noise. Every value is a pure
 * function of the sensor's seed and of time, so a run can be repeated to the last digit, and it
 * does not matter when, or in which order, the values are asked for.
 */

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/** @typedef {number | boolean | string} Value */
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
function daily(timeMs, crestHour) {
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
function analogue({ mean, day, drift: wander, noise, crestHour, decimals, min, max }) {
  const scale = 10 ** decimals
  return (seed, timeMs) => {
    const offset = wander * (hash(seed, 1) - 0.5)
    const value =
      mean +
      offset +
      day * daily(timeMs, crestHour + hash(seed, 2)) +
      wander * drift(seed, timeMs, 3 * HOUR_MS) +
      noise * (2 * hash(seed, timeMs) - 1)
    const bounded = Math.min(max ?? Number.POSITIVE_INFINITY, Math.max(min ?? -Infinity, value))
    return Math.round(bounded * scale) / scale
  }
}

/** @type {Signal}  Mostly running; idle at night; a fault now and then, for some minutes. */
function state(seed, timeMs) {
  if (drift(seed, timeMs, 20 * 60_000) > 0.97) return 'fault'
  return daily(timeMs, 12) + 0.5 * drift(seed, timeMs, HOUR_MS) > -0.4 ? 'running' : 'idle'
}

/** @type {Signal}  Runs while the level is being restored: about a third of the time. */
function pump(seed, timeMs) {
  return drift(seed, timeMs, 30 * 60_000) > 0.3
}

/**
 * Kilowatt hours since 2020: the integral of a daily curve, so it never falls.
 *
 * @type {Signal}
 */
function energy(seed, timeMs) {
  const meanKw = 0.4 + hash(seed, 3)
  const sinceMs = timeMs - Date.UTC(2020)
  const wave = (DAY_MS / (2 * Math.PI)) * Math.sin((2 * Math.PI * (timeMs - 19 * HOUR_MS)) / DAY_MS)
  return Math.round(((meanKw * (sinceMs + 0.6 * wave)) / HOUR_MS) * 1000) / 1000
}

const temperature = analogue({
  mean: 16,
  day: 5,
  drift: 3,
  noise: 0.15,
  crestHour: 15,
  decimals: 2,
})

/**
 * The kinds of sensor and the metrics of each.
 *
 * @type {Record<string, Record<string, Signal>>}
 */
export const KINDS = {
  climate: {
    temperature,
    humidity: analogue({
      mean: 58,
      day: -14,
      drift: 12,
      noise: 0.8,
      crestHour: 15,
      decimals: 1,
      min: 5,
      max: 100,
    }),
    pressure: analogue({
      mean: 1013,
      day: 0.8,
      drift: 9,
      noise: 0.1,
      crestHour: 10,
      decimals: 1,
    }),
  },
  machine: {
    vibration: analogue({
      mean: 2.4,
      day: 0.9,
      drift: 1.1,
      noise: 0.5,
      crestHour: 12,
      decimals: 3,
      min: 0,
    }),
    temperature: analogue({
      mean: 55,
      day: 9,
      drift: 6,
      noise: 0.4,
      crestHour: 13,
      decimals: 1,
    }),
    state,
  },
  meter: {
    power: analogue({
      mean: 900,
      day: 500,
      drift: 350,
      noise: 60,
      crestHour: 19,
      decimals: 0,
      min: 0,
    }),
    voltage: analogue({
      mean: 230,
      day: -2,
      drift: 3,
      noise: 0.6,
      crestHour: 19,
      decimals: 1,
    }),
    energy,
  },
  tank: {
    level: analogue({
      mean: 62,
      day: -8,
      drift: 22,
      noise: 0.2,
      crestHour: 8,
      decimals: 1,
      min: 0,
      max: 100,
    }),
    pump,
  },
}
