// How soon the first sensors of a large fleet are shown, alone and while messages come in.
import { setTimeout as delay } from 'node:timers/promises'
import { publishAll } from '../../support/rest.js'
import { startStack } from '../../support/stack.js'
import { Histogram } from '../load/histogram.js'
import { prepareLoad } from '../load/load.js'
import { fetchBody } from '../measure/fetch-body.js'
import { cpuUs } from '../measure/usage.js'
import { figuresOf } from '../report/figure.js'

/** @typedef {import('../../support/stack.js').Stack} Stack */
/** @typedef {import('../report/figure.js').Figure} Figure */

const figure = figuresOf('fleet')

const SENSORS = 100_000

/** What other devices send meanwhile; they have names of their own. */
const LOAD = { connections: 200, sensors: 400, rate: 2_000 }

/** Requests a second of each kind: a page that is open asks every three seconds. */
const PER_SECOND = 2

/** What the first rows may take. */
const FIRST_MS_MAX = 1_000

const KINDS = [
  { name: 'by name', query: 'limit=100' },
  { name: 'heard of last', query: 'limit=100&sort=heard&order=desc' },
  { name: 'silent for longest', query: 'limit=100&sort=heard' },
  { name: 'silent only', query: 'limit=100&silent_s=600' },
]

/** Half of them were heard of an hour ago, half a moment ago. @param {Stack} stack */
async function fill(stack) {
  const nowMs = Date.now()
  const items = Array.from({ length: SENSORS }, (_, index) => ({
    sensor: `unit-${index}`,
    metric: 'level',
    t: nowMs - (index % 2) * 3_600_000 - index,
    v: index,
  }))
  await publishAll(stack.apiUrl, items)
  await stack.emptied()
}

/**
 * Asks for the first page of each kind in turn, and waits for each.
 *
 * @param {Stack} stack
 * @param {number} seconds
 */
async function ask(stack, seconds) {
  const times = KINDS.map(() => new Histogram())
  let refused = 0
  const parts = /** @type {const} */ (['api', 'engine'])
  const used = () => parts.map((name) => cpuUs(stack.part(name).pid))
  const before = used()
  const endMs = performance.now() + seconds * 1_000
  let requests = 0
  while (performance.now() < endMs) {
    const turnMs = performance.now()
    for (const [index, { query }] of KINDS.entries()) {
      const sentMs = performance.now()
      await fetchBody(`${stack.apiUrl}/v1/sensors?${query}`).catch(() => {
        refused++
      })
      times[index].add((performance.now() - sentMs) * 1_000)
      requests++
    }
    await delay(Math.max(0, 1_000 / PER_SECOND - (performance.now() - turnMs)))
  }
  const after = used()
  return { times, refused, requests, usedUs: after.map((us, at) => us - before[at]) }
}

/** @param {string} when  @param {Awaited<ReturnType<typeof ask>>} asked */
function figures(when, { times, refused, requests, usedUs }) {
  const [api, engine] = usedUs
  return [
    ...KINDS.flatMap(({ name }, at) => [
      figure(`${when}: ${name}, median`, times[at].percentile(0.5) / 1_000, 'ms'),
      figure(`${when}: ${name}, p99`, times[at].percentile(0.99) / 1_000, 'ms', {
        atMost: FIRST_MS_MAX,
      }),
    ]),
    figure(`${when}: refused`, refused, 'requests', { atMost: 0 }),
    figure(`${when}: api`, api / requests, 'us of CPU a request'),
    figure(`${when}: engine, with what it stores`, engine / requests, 'us of CPU a request'),
  ]
}

/**
 * @param {import('../benchmarks.js').Context} context
 * @returns {Promise<Figure[]>}
 */
export async function fleet({ seconds, progress }) {
  const stack = await startStack({ ingestEnv: { SENSORS_MAX: `${2 * SENSORS}` } })
  try {
    await fill(stack)
    progress(`${SENSORS} sensors are registered`)
    const api = await stack.addApi('another api')
    await api.part.start()
    const begunMs = performance.now()
    while (!(await fetchBody(`${api.url}/v1/sensors?limit=100`).catch(() => undefined))) {
      await delay(50)
    }
    const firstMs = performance.now() - begunMs
    await api.part.stop()
    const alone = await ask(stack, seconds / 2)
    progress('the same while messages come in')
    const load = { ...stack.mqtt, ...LOAD, seconds: seconds / 2, prefix: 'other' }
    const generator = await prepareLoad(load)
    try {
      await generator.begin()
      const [, busy] = await Promise.all([generator.end(), ask(stack, seconds / 2)])
      return [
        figure('after an api has started, until they are there', firstMs, 'ms'),
        ...figures('alone', alone),
        ...figures('with 2,000 messages/s', busy),
      ]
    } finally {
      generator.kill()
    }
  } finally {
    await stack.end()
  }
}
