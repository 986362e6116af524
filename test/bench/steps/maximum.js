// The most messages a second that are acknowledged as fast as they are due: searched, not given.
import { startStack } from '../../support/stack.js'
import { prepareLoad } from '../load/load.js'
import { figuresOf } from '../report/figure.js'

/** @typedef {import('../report/figure.js').Figure} Figure */
/** @typedef {import('../benchmarks.js').Context} Context */

const figure = figuresOf('ingest-maximum')

const LOAD = { connections: 500, sensors: 500, prefix: 'bench' }

/** Where the search begins, in messages a second, and by how much it goes on. */
const FIRST_RATE = 50_000
const FACTOR = 1.5
/** How near the result is to the true maximum, as a share of it. */
const PRECISION = 0.05

/** What a rate that is kept up with has acknowledged of what was due, and how late the p99 is. */
const SHARE_MIN = 0.99
const ACK_P99_MS_MAX = 1_000

/** A trial takes this share of the measured time, and so many seconds at least. */
const TRIAL_SHARE = 1 / 6
const TRIAL_S_MIN = 5

/**
 * The largest number that holds, to a precision, if smaller ones than one that holds do, too.
 *
 * @param {(number: number) => Promise<boolean>} holds
 * @param {{ first: number, factor: number, precision: number }} search
 * @returns {Promise<number>}
 */
export async function largest(holds, { first, factor, precision }) {
  let low = 0
  let high = first
  while (await holds(high)) {
    low = high
    high *= factor
  }
  if (low === 0) low = await below(holds, { first, factor })
  while (high - low > precision * low) {
    const middle = (low + high) / 2
    if (await holds(middle)) low = middle
    else high = middle
  }
  return low
}

/**
 * The first that holds, going down.
 *
 * @param {(number: number) => Promise<boolean>} holds
 * @param {{ first: number, factor: number }} search
 */
async function below(holds, { first, factor }) {
  let number = first / factor
  while (number >= 1 && !(await holds(number))) number /= factor
  if (number < 1) throw new Error('not even one message a second is kept up with')
  return number
}

/** @param {Context} context  @returns {Promise<Figure[]>} */
export async function maximum({ seconds, progress }) {
  const trialS = Math.max(TRIAL_S_MIN, Math.round(seconds * TRIAL_SHARE))
  const stack = await startStack()
  try {
    let lost = 0
    let disconnects = 0
    const isKeptUpWith = async (/** @type {number} */ rate) => {
      const whole = Math.round(rate)
      progress(`${whole} messages/s for ${trialS} s`)
      const load = { ...stack.mqtt, ...LOAD, rate: whole, seconds: trialS }
      const generator = await prepareLoad(load)
      try {
        await generator.begin()
        const result = await generator.end()
        lost += result.unacknowledged
        disconnects += result.disconnects
        const share = result.acknowledged / result.seconds / whole
        return share >= SHARE_MIN && result.ackP99Ms <= ACK_P99_MS_MAX
      } finally {
        generator.kill()
      }
    }
    const search = { first: FIRST_RATE, factor: FACTOR, precision: PRECISION }
    const rate = await largest(isKeptUpWith, search)
    const name = 'most that is acknowledged as it is due, p99 within a second'
    return [
      figure(name, rate, 'messages/s', { atLeast: FIRST_RATE }),
      figure('never acknowledged, of all trials', lost, '', { atMost: 0 }),
      figure('connections lost', disconnects, '', { atMost: 0 }),
    ]
  } finally {
    await stack.end()
  }
}
