/**
 * What the machines of a factory measure. Two shifts on five days a week decide when they run; how
 * hard they run moves all of a machine's metrics together; wear grows for weeks until the next
 * service takes it away; and now and then one has a fault.
 */

import { clamp, DAY_MS, drift, HOUR_MS, hash, MINUTE_MS, rounded } from './signals.js'

const SHIFT_FROM_HOUR = 6
const SHIFT_TO_HOUR = 22
/** Between two services of a machine, in milliseconds. */
const SERVICE_MS = 21 * DAY_MS
/** What a furnace or an oil sump remembers of its load, in steps of so many milliseconds. */
const WARM_STEP_MS = 10 * MINUTE_MS
const WARM_STEPS = 6

/** @typedef {import('./signals.js').Signal} Signal */

/** @param {number} seed  @param {number} timeMs  @returns {'running' | 'idle' | 'fault'} */
function state(seed, timeMs) {
  const date = new Date(timeMs)
  const hour = date.getUTCHours()
  const isWeekend = date.getUTCDay() % 6 === 0
  if (isWeekend || hour < SHIFT_FROM_HOUR || hour >= SHIFT_TO_HOUR) return 'idle'
  if (drift(seed + 21, timeMs, 40 * MINUTE_MS) > 0.95) return 'fault'
  return drift(seed + 22, timeMs, 25 * MINUTE_MS) < -0.85 ? 'idle' : 'running'
}

/** How hard it runs: 0, or 0.5 to 1. */
/** @param {number} seed  @param {number} timeMs */
function load(seed, timeMs) {
  if (state(seed, timeMs) !== 'running') return 0
  return 0.75 + 0.25 * drift(seed + 23, timeMs, 12 * MINUTE_MS)
}

/** What a thing that warms up slowly knows of the load: its mean over the last hour. */
/** @param {number} seed  @param {number} timeMs */
function warmth(seed, timeMs) {
  let sum = 0
  for (let step = 0; step < WARM_STEPS; step++) sum += load(seed, timeMs - step * WARM_STEP_MS)
  return sum / WARM_STEPS
}

/** 0 after a service, 1 just before the next; every machine has its own day. */
/** @param {number} seed  @param {number} timeMs */
function wear(seed, timeMs) {
  const position = timeMs / SERVICE_MS + hash(seed, 24)
  return position - Math.floor(position)
}

/**
 * A number that follows how hard the machine works.
 *
 * @param {object} shape
 * @param {(seed: number, timeMs: number) => number} shape.by  What it follows, 0 to 1.
 * @param {number} shape.rest  While that is 0.
 * @param {number} shape.full  While it is 1.
 * @param {number} shape.noise  How far two readings in a row may differ by chance.
 * @param {number} [shape.worn]  What full wear adds while the machine runs.
 * @param {number} shape.decimals
 * @returns {Signal}
 */
function working({ by, rest, full, noise, worn = 0, decimals }) {
  return (seed, timeMs) => {
    const work = by(seed, timeMs)
    const own = 0.9 + 0.2 * hash(seed, 25)
    const value =
      rest +
      (full - rest) * own * work +
      (work > 0 ? worn * wear(seed, timeMs) : 0) +
      noise * (2 * hash(seed + 27 + Math.round(full), timeMs) - 1)
    return rounded(clamp(value, 0, Number.POSITIVE_INFINITY), decimals)
  }
}

/** Sound machines tremble more when they are worn, and most of all in a fault. @type {Signal} */
function vibration(seed, timeMs) {
  const fault = state(seed, timeMs) === 'fault' ? 6 : 0
  const base = Number(
    working({ by: load, rest: 0.1, full: 2.6, noise: 0.25, worn: 1.8, decimals: 3 })(seed, timeMs),
  )
  return rounded(base + fault, 3)
}

/** How fast air is used up: it leaks even at night. @param {number} seed  @param {number} timeMs */
const demand = (seed, timeMs) => 0.5 + 0.5 * drift(seed + 26, timeMs, HOUR_MS / 4)

/** @type {Record<string, Record<string, Signal>>} */
export const FACTORY = {
  press: {
    state,
    force: working({ by: load, rest: 0, full: 850, noise: 25, decimals: 1 }),
    vibration,
    oil_temperature: working({ by: warmth, rest: 22, full: 58, noise: 0.3, worn: 4, decimals: 1 }),
    power: working({ by: load, rest: 1.2, full: 46, noise: 1.5, decimals: 2 }),
  },
  furnace: {
    state,
    temperature: working({ by: warmth, rest: 420, full: 910, noise: 2.5, decimals: 1 }),
    oxygen: working({ by: load, rest: 20.6, full: 3.1, noise: 0.15, decimals: 2 }),
    power: working({ by: warmth, rest: 18, full: 240, noise: 4, worn: 12, decimals: 1 }),
  },
  compressor: {
    state,
    pressure: (seed, timeMs) => rounded(7.6 - 0.9 * demand(seed, timeMs), 2),
    temperature: working({ by: warmth, rest: 24, full: 82, noise: 0.5, worn: 6, decimals: 1 }),
    vibration,
  },
  conveyor: {
    state,
    speed: working({ by: load, rest: 0, full: 1.4, noise: 0.01, decimals: 3 }),
    current: working({ by: load, rest: 0.3, full: 11, noise: 0.4, worn: 1.5, decimals: 2 }),
    jammed: (seed, timeMs) => state(seed, timeMs) === 'fault',
  },
}
