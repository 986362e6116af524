/** The kinds of sensor that the simulator knows, the metrics of each, and the fleets they make. */

import { COLLAR } from './collar.js'
import { FACTORY } from './factory.js'
import { analogue, DAY_MS, daily, drift, HOUR_MS, hash, MINUTE_MS } from './signals.js'

/** @typedef {import('./signals.js').Signal} Signal */

/** @type {Signal}  Mostly running; idle at night; a fault now and then, for some minutes. */
function state(seed, timeMs) {
  if (drift(seed, timeMs, 20 * MINUTE_MS) > 0.97) return 'fault'
  return daily(timeMs, 12) + 0.5 * drift(seed, timeMs, HOUR_MS) > -0.4 ? 'running' : 'idle'
}

/** @type {Signal}  Runs while the level is being restored: about a third of the time. */
function pump(seed, timeMs) {
  return drift(seed, timeMs, 30 * MINUTE_MS) > 0.3
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
  collar: COLLAR,
  ...FACTORY,
}

/**
 * The fleets: which kinds appear in turn.
 *
 * @type {Record<string, string[]>}
 */
export const FLEETS = {
  mixed: ['climate', 'machine', 'meter', 'tank'],
  collars: ['collar'],
  factory: [...Object.keys(FACTORY), 'meter'],
}
