// What alert rules cost ingest: the same load with a rule about each of its sensors, and with none.
import { setTimeout as delay } from 'node:timers/promises'
import { underLoad } from '../measure/underload.js'
import { cpuUs } from '../measure/usage.js'
import { figuresOf } from '../report/figure.js'

/** @typedef {import('../../support/stack.js').Stack} Stack */

const figure = figuresOf('rules')

const LOAD = { connections: 500, sensors: 10_000, rate: 4_000 }

/** What a rule may cost, in microseconds of ingest's CPU for a message. */
const RULE_US_MAX = 2

/** Turns with the rule, and without. */
const TURNS = 5

/** How long a rule takes until it is known and has looked at the newest values, in ms. */
const KNOWN_MS = 9_000

/**
 * @param {Stack} stack
 * @param {number} seconds
 * @returns {Promise<number>}  Microseconds of ingest's CPU for a message.
 */
async function costOf(stack, seconds) {
  const { pid } = stack.part('ingest')
  const before = { us: cpuUs(pid), stored: (await stack.stats()).stored }
  await delay(seconds * 1000)
  const after = { us: cpuUs(pid), stored: (await stack.stats()).stored }
  return (after.us - before.us) / (after.stored - before.stored)
}

/** @param {number[]} values */
const medianOf = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)]

/**
 * By turns, so that what else the machine does meets both.
 *
 * @param {import('../benchmarks.js').Context} context
 * @returns {Promise<import('../report/figure.js').Figure[]>}
 */
export async function rules({ seconds, progress }) {
  const turnS = Math.max(1, seconds / (2 * TURNS))
  const totalS = Math.ceil(2 * TURNS * (turnS + KNOWN_MS / 1000) + 5)
  const costs = { with: /** @type {number[]} */ ([]), without: /** @type {number[]} */ ([]) }
  await underLoad({
    load: { ...LOAD, seconds: totalS },
    async during(stack) {
      const url = `${stack.apiUrl}/v1/rules`
      const headers = { 'content-type': 'application/json' }
      for (let turn = 0; turn < TURNS; turn++) {
        await delay(KNOWN_MS)
        costs.without.push(await costOf(stack, turnS))
        // Of all sensors and metrics, and never wrong: it is asked for each value.
        const rule = { name: 'bench', kind: 'threshold', metric: 'value', above: 1e9 }
        const body = JSON.stringify(rule)
        const response = await fetch(url, { method: 'POST', headers, body })
        const { id } = /** @type {any} */ (await response.json())
        await delay(KNOWN_MS)
        costs.with.push(await costOf(stack, turnS))
        await fetch(`${url}/${id}`, { method: 'DELETE' })
        progress(
          `without ${costs.without.at(-1)?.toFixed(2)}, with ${costs.with.at(-1)?.toFixed(2)}`,
        )
      }
    },
    progress,
  })
  const differences = costs.with.map((us, at) => us - costs.without[at])
  return [
    figure('ingest without a rule', medianOf(costs.without), 'us a message'),
    figure('ingest with a rule about 10,000 sensors', medianOf(costs.with), 'us a message'),
    figure('the rule', medianOf(differences), 'us a message', { atMost: RULE_US_MAX }),
  ]
}
