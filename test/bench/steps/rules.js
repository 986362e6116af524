// What alert rules cost ingest: the same load with a rule about each of its sensors, and with none.
// What else a machine does is many times as much as a rule, so its parts are measured alone, too.
import { setTimeout as delay } from 'node:timers/promises'
import { ruleOfRow } from '@sandglass/common/rules/rule'
import { sensorId } from '@sandglass/common/sensor'
import { RuleWatch } from '../../../ingest/src/rules/watch.js'
import { Sensor, Series } from '../../../ingest/src/sensors/series.js'
import { startStack } from '../../support/stack.js'
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

/** Of all sensors and metrics, and never wrong: it is asked for each value. */
const RULE = { name: 'bench', kind: 'threshold', metric: 'value', above: 1e9 }

/** Values of each series that are looked at in this process. */
const ROUNDS = 200

/** How long ingest is watched while nothing comes, in milliseconds. */
const IDLE_MS = 20_000

/** @param {Stack} stack  @returns {Promise<string>}  The id of the rule. */
async function makeRule({ apiUrl }) {
  const headers = { 'content-type': 'application/json' }
  const how = { method: 'POST', headers, body: JSON.stringify(RULE) }
  const response = await fetch(`${apiUrl}/v1/rules`, how)
  return /** @type {any} */ (await response.json()).id
}

/** Microseconds of CPU to look at a value. @param {number} rules  How many watch its series. */
async function lookUs(rules) {
  const watch = new RuleWatch(/** @type {any} */ ({}))
  const rule = ruleOfRow({ rule_id: 'bench', changed: new Date(1), body: JSON.stringify(RULE) })
  const known = {
    rules: async () => Array(rules).fill(rule),
    versions: async () => new Map(),
    active: async () => [],
    typeMetrics: async () => [],
  }
  await watch.poll(/** @type {any} */ (known))
  const series = Array.from({ length: LOAD.sensors }, (_, at) => {
    const name = `sensor-${at}`
    return new Series(new Sensor(sensorId(name), name), 'value')
  })
  const nowMs = Date.now()
  const message = /** @type {any} */ ({ arrival: 'live', writtenMs: nowMs, marks: undefined })
  const round = (/** @type {number} */ at) => {
    for (const one of series) watch.note(one, at, nowMs, message)
  }
  round(0)
  const before = process.cpuUsage()
  for (let at = 0; at < ROUNDS; at++) round(at)
  const { user, system } = process.cpuUsage(before)
  if (message.marks) throw new Error('a value was marked, though none is wrong')
  return (user + system) / (ROUNDS * series.length)
}

/** CPU of ingest while nothing comes, without a rule and with one, in microseconds a second. */
async function idleUs() {
  const stack = await startStack()
  const { pid } = stack.part('ingest')
  const watched = async () => {
    await delay(KNOWN_MS)
    const beforeUs = cpuUs(pid)
    await delay(IDLE_MS)
    return ((cpuUs(pid) - beforeUs) * 1000) / IDLE_MS
  }
  try {
    const without = await watched()
    await makeRule(stack)
    return { without, with: await watched() }
  } finally {
    await stack.end()
  }
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
      for (let turn = 0; turn < TURNS; turn++) {
        await delay(KNOWN_MS)
        costs.without.push(await costOf(stack, turnS))
        const id = await makeRule(stack)
        await delay(KNOWN_MS)
        costs.with.push(await costOf(stack, turnS))
        await fetch(`${stack.apiUrl}/v1/rules/${id}`, { method: 'DELETE' })
        progress(
          `without ${costs.without.at(-1)?.toFixed(2)}, with ${costs.with.at(-1)?.toFixed(2)}`,
        )
      }
    },
    progress,
  })
  progress('its parts alone')
  const look = (await lookUs(1)) - (await lookUs(0))
  const idle = await idleUs()
  const worker = idle.with - idle.without
  const differences = costs.with.map((us, at) => us - costs.without[at])
  return [
    figure('ingest without a rule', medianOf(costs.without), 'us a message'),
    figure('ingest with a rule about 10,000 sensors', medianOf(costs.with), 'us a message'),
    figure('the difference, by turns', medianOf(differences), 'us a message'),
    figure('looking at a value, alone', look, 'us a message', { atMost: RULE_US_MAX }),
    figure('the rule, while nothing comes', worker, 'us a second'),
  ]
}
