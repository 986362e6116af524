// How fast what is stored can be read, while more comes in.
import { setTimeout as delay } from 'node:timers/promises'
import { SLOT_GRACE_MS, SLOT_MS } from '@sandglass/common/rollup'
import { sensorId } from '@sandglass/common/sensor'
import mqtt from 'mqtt'
import { Histogram } from '../load/histogram.js'
import { fetchBody } from '../measure/fetch-body.js'
import { underLoad } from '../measure/underload.js'
import { figuresOf } from '../report/figure.js'

/** @typedef {import('../report/figure.js').Figure} Figure */
/** @typedef {import('../benchmarks.js').Context} Context */
/** @typedef {import('../../support/stack.js').Stack} Stack */

const figure = figuresOf('reads')

const LOAD = { connections: 500, sensors: 500, rate: 2000 }
/** Readings of the sensor whose pages are read, one a second. */
const STORED_READINGS = 20_000
const STORED_FROM_MS = Date.UTC(2024, 0, 1)
const PAGE_ROWS = 1000
/** A day at one reading a second that ends now, summed up to so many points. */
const DAY_READINGS = 86_400
const DAY_POINTS = 800
/** How much longer than it is measured the load lasts. */
const WARM_UP = 1.25
/** Of a p99 that is to be believed. */
const READS_MIN = 2000

/**
 * @typedef {object} Kind  What is read, and how often.
 * @property {string} name
 * @property {number} perSecond
 * @property {number} [p99MsMax]
 * @property {number} [readsMin]
 * @property {(round: number) => string} path
 * @property {(body: Buffer) => void} [check]  Throws if the answer is not whole.
 */

/** @type {Kind[]} */
const KINDS = [
  {
    name: 'page of 1,000 rows',
    perSecond: 50,
    p99MsMax: 8,
    readsMin: READS_MIN,
    path: (round) => {
      const toMs =
        STORED_FROM_MS + (PAGE_ROWS + ((round * 997) % (STORED_READINGS - PAGE_ROWS))) * 1000
      const id = sensorId('pages')
      return `/v1/sensors/${id}/measurements?metric=m&to=${toMs}&limit=${PAGE_ROWS}`
    },
    check: (body) => {
      if (rowsOf(body) !== PAGE_ROWS) throw new Error('a page is not full')
    },
  },
  {
    name: 'latest',
    perSecond: 50,
    p99MsMax: 3,
    readsMin: READS_MIN,
    path: (round) => `/v1/sensors/${sensorId(`bench-${(round * 7) % LOAD.sensors}`)}/latest`,
  },
  {
    name: 'a day at 1 Hz to 800 points',
    perSecond: 5,
    p99MsMax: 25,
    path: () => {
      const from = Date.now() - DAY_READINGS * 1000
      return `/v1/sensors/day/series?metric=m&points=${DAY_POINTS}&from=${from}`
    },
  },
  { name: 'a request that asks nothing (/health)', perSecond: 50, path: () => '/health' },
]

/** @param {Stack} stack */
async function storeReadings(stack) {
  const client = await mqtt.connectAsync(stack.mqttUrl)
  await store(client, 'pages', STORED_READINGS, STORED_FROM_MS)
  await store(client, 'day', DAY_READINGS, Date.now() - DAY_READINGS * 1000)
  await client.endAsync()
  // The hours that were late are summed up when their minute is over.
  await delay(2 * SLOT_MS + SLOT_GRACE_MS - (Date.now() % SLOT_MS))
}

/**
 * Stores one reading a second.
 *
 * @param {mqtt.MqttClient} client
 * @param {string} sensor
 * @param {number} readings
 * @param {number} fromMs
 */
async function store(client, sensor, readings, fromMs) {
  const perMessage = 100
  for (let at = 0; at < readings; at += perMessage) {
    const values = Array.from({ length: perMessage }, (_, index) => ({
      t: fromMs + (at + index) * 1000,
      v: (at + index) / 10,
    }))
    await client.publishAsync(`sensors/${sensor}/m`, JSON.stringify(values), { qos: 1 })
  }
}

/**
 * All kinds at once, each at random moments: some reads come alone, others while several are being
 * answered.
 *
 * @param {Context} context
 * @returns {Promise<Figure[]>}
 */
export async function reads({ seconds, progress }) {
  const kinds = KINDS.map((kind) => ({ kind, times: new Histogram() }))
  const allSeconds = seconds * WARM_UP
  /** @param {Stack} stack */
  const during = async (stack) => {
    const begunMs = performance.now()
    // What is read while the api's code is still being compiled is not timed.
    const warmMs = begunMs + (allSeconds - seconds) * 1000
    const read = async (
      /** @type {typeof kinds[0]} */ { kind, times },
      /** @type {number} */ n,
    ) => {
      const sentMs = performance.now()
      const body = await fetchBody(stack.apiUrl + kind.path(n))
      if (sentMs >= warmMs) times.add((performance.now() - sentMs) * 1000)
      kind.check?.(body)
    }
    const endMs = begunMs + allSeconds * 1000
    await Promise.all(kinds.map((one) => atRandom(one.kind.perSecond, endMs, (n) => read(one, n))))
  }
  const load = { ...LOAD, seconds: allSeconds }
  const { load: loaded, usage } = await underLoad({ load, before: storeReadings, during, progress })
  return [
    ...kinds.flatMap(({ kind, times }) => percentiles(kind, times)),
    figure('load meanwhile', loaded.acknowledged / loaded.seconds, 'messages/s'),
    figure('kept busy by other programs (and by the reader)', usage.otherCores, 'cores'),
  ]
}

/**
 * Calls `act` at random moments, whether or not earlier calls are done; resolves when all are.
 *
 * @param {number} perSecond  On average.
 * @param {number} endMs  Of performance.now().
 * @param {(number: number) => Promise<void>} act
 */
async function atRandom(perSecond, endMs, act) {
  /** @type {Set<Promise<void>>} */
  const inFlight = new Set()
  /** @type {unknown[]} */
  const errors = []
  let dueMs = performance.now()
  for (let number = 0; errors.length === 0; number++) {
    dueMs -= (Math.log(1 - Math.random()) / perSecond) * 1000
    if (dueMs >= endMs) break
    await delay(dueMs - performance.now())
    const one = act(number)
      .catch((error) => void errors.push(error))
      .finally(() => inFlight.delete(one))
    inFlight.add(one)
  }
  await Promise.all(inFlight)
  if (errors.length > 0) throw errors[0]
}

/**
 * How many rows a page has. It is not parsed: clearing up a thousand objects would be counted as
 * part of the read that comes next.
 *
 * @param {Buffer} page
 */
function rowsOf(page) {
  let rows = 0
  for (let at = page.indexOf('"t":'); at >= 0; at = page.indexOf('"t":', at + 1)) rows++
  return rows
}

/** @param {Kind} kind  @param {Histogram} times */
function percentiles({ name, p99MsMax, readsMin }, times) {
  return [
    figure(`${name}, p99`, times.percentile(0.99) / 1000, 'ms', { atMost: p99MsMax }),
    figure(`${name}, median`, times.percentile(0.5) / 1000, 'ms'),
    figure(`${name}, reads timed`, times.count, '', { atLeast: readsMin }),
  ]
}
