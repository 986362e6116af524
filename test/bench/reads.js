// How fast what is stored can be read, while more comes in.
import { Agent, get } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import { SLOT_GRACE_MS, SLOT_MS } from '@sandglass/common/rollup'
import { sensorId } from '@sandglass/common/sensor'
import mqtt from 'mqtt'
import { Publisher } from '../support/publisher.js'
import { Histogram } from './histogram.js'
import { underLoad } from './underload.js'

/** @typedef {import('./figure.js').Figure} Figure */
/** @typedef {import('./benchmarks.js').Context} Context */
/** @typedef {import('../support/stack.js').Stack} Stack */

const agent = new Agent({ keepAlive: true, maxSockets: 4 })

/**
 * @param {string} url
 * @returns {Promise<Buffer>}  The body; an error unless the status is 200.
 */
function fetchBody(url) {
  return new Promise((resolve, reject) => {
    const request = get(url, { agent, timeout: 10_000 }, (response) => {
      /** @type {Buffer[]} */
      const chunks = []
      response.on('data', (chunk) => chunks.push(chunk))
      response.on('end', () => {
        const body = Buffer.concat(chunks)
        if (response.statusCode === 200) resolve(body)
        else reject(new Error(`${url}: ${response.statusCode} ${body}`))
      })
    })
    request.on('error', reject)
    request.on('timeout', () => request.destroy(new Error(`${url}: no answer in 10 s`)))
  })
}

/** Half of the ingest floor, on the same connections. */
const QUERYABLE_LOAD = { connections: 500, sensors: 500, rate: 10_000 }
const QUERYABLE_MS_MAX = 250
/** Pause between two readings whose way is timed, in milliseconds. */
const QUERYABLE_EVERY_MS = 20

/**
 * Publishes a reading and asks for it until it is there; again and again. The time is from the call
 * that publishes to the end of the answer that holds the reading.
 *
 * @param {Context} context
 * @returns {Promise<Figure[]>}
 */
export async function queryable({ seconds, progress }) {
  const times = new Histogram()
  /** @param {Stack} stack */
  const during = async (stack) => {
    const publisher = new Publisher({ ...stack.mqtt, clientId: 'probe' })
    await publisher.open()
    const url = `${stack.apiUrl}/v1/sensors/${sensorId('probe')}/measurements?metric=m&limit=1`
    await publisher.publish('sensors/probe/m', '-1')
    const end = performance.now() + seconds * 1000
    for (let value = 0; performance.now() < end; value++) {
      const published = performance.now()
      const acknowledged = publisher.publish('sensors/probe/m', String(value))
      while (JSON.parse(String(await fetchBody(url))).items[0]?.v !== value) {
        if (performance.now() > end + 10_000) throw new Error(`reading ${value} never came`)
      }
      times.add((performance.now() - published) * 1000)
      await acknowledged
      await delay(QUERYABLE_EVERY_MS)
    }
    await publisher.close()
  }
  const { load, usage } = await underLoad({
    load: { ...QUERYABLE_LOAD, seconds },
    during,
    progress,
  })
  const benchmark = 'queryable'
  const plain = { benchmark, bound: /** @type {const} */ (''), floor: /** @type {const} */ ('') }
  return [
    {
      benchmark,
      name: 'published to queryable, p99',
      value: times.percentile(0.99) / 1000,
      unit: 'ms',
      bound: 'at most',
      floor: QUERYABLE_MS_MAX,
    },
    { ...plain, name: 'the same, median', value: times.percentile(0.5) / 1000, unit: 'ms' },
    { ...plain, name: 'readings timed', value: times.count, unit: '' },
    {
      ...plain,
      name: 'load meanwhile',
      value: load.acknowledged / load.seconds,
      unit: 'messages/s',
    },
    {
      ...plain,
      name: 'kept busy by other programs (and by the reader)',
      value: usage.otherCores,
      unit: 'cores',
    },
  ]
}

const READS_LOAD = { connections: 500, sensors: 500, rate: 2000 }
const PAGE_ROWS = 1000
const PAGE_MS_MAX = 10
const LATEST_MS_MAX = 3
/** A day at one reading a second that ends now, summed up to so many points. */
const DAY_READINGS = 86_400
const DAY_POINTS = 800
const DAY_MS_MAX = 25
/** Every so many pairs of reads, the day is read. */
const DAY_EVERY = 4
/** Readings of the sensor whose pages are read, one a second. */
const STORED_READINGS = 20_000
const STORED_FROM_MS = Date.UTC(2024, 0, 1)
/** How much longer than it is measured the load lasts. */
const WARM_UP = 1.25
/** Pause after each pair of reads, in milliseconds. */
const READS_EVERY_MS = 25

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

/** @param {Context} context  @returns {Promise<Figure[]>} */
export async function reads({ seconds, progress }) {
  const pages = new Histogram()
  const latest = new Histogram()
  const days = new Histogram()
  const nothing = new Histogram()
  const untimed = new Histogram()
  const allSeconds = seconds * WARM_UP
  /** @param {Stack} stack */
  const during = async (stack) => {
    const sensors = `${stack.apiUrl}/v1/sensors`
    const begun = performance.now()
    for (let round = 0; performance.now() < begun + allSeconds * 1000; round++) {
      // What is read while the api's code is still being compiled is not timed.
      const isWarm = performance.now() > begun + (allSeconds - seconds) * 1000
      const toMs =
        STORED_FROM_MS + (PAGE_ROWS + ((round * 997) % (STORED_READINGS - PAGE_ROWS))) * 1000
      const page = `${sensors}/${sensorId('pages')}/measurements?metric=m&to=${toMs}&limit=${PAGE_ROWS}`
      const body = await timed(isWarm ? pages : untimed, page)
      if (rowsOf(body) !== PAGE_ROWS) throw new Error('a page is not full')
      const newest = `${sensors}/${sensorId(`bench-${round % 500}`)}/latest`
      await timed(isWarm ? latest : untimed, newest)
      await timed(isWarm ? nothing : untimed, `${stack.apiUrl}/health`)
      if (round % DAY_EVERY === 0) {
        const from = `from=${Date.now() - DAY_READINGS * 1000}`
        const day = `${sensors}/day/series?metric=m&points=${DAY_POINTS}&${from}`
        await timed(isWarm ? days : untimed, day)
      }
      await delay(READS_EVERY_MS)
    }
  }
  const load = { ...READS_LOAD, seconds: allSeconds }
  const { load: loaded, usage } = await underLoad({ load, before: storeReadings, during, progress })
  return [
    ...percentiles('page of 1,000 rows', pages, PAGE_MS_MAX),
    ...percentiles('latest', latest, LATEST_MS_MAX),
    ...percentiles('a day at 1 Hz to 800 points', days, DAY_MS_MAX),
    {
      benchmark: 'reads',
      name: 'a request that asks nothing (/health), p99',
      value: nothing.percentile(0.99) / 1000,
      unit: 'ms',
      bound: '',
      floor: '',
    },
    {
      benchmark: 'reads',
      name: 'load meanwhile',
      value: loaded.acknowledged / loaded.seconds,
      unit: 'messages/s',
      bound: '',
      floor: '',
    },
    {
      benchmark: 'reads',
      name: 'kept busy by other programs (and by the reader)',
      value: usage.otherCores,
      unit: 'cores',
      bound: '',
      floor: '',
    },
  ]
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

/**
 * @param {Histogram} times
 * @param {string} url
 */
async function timed(times, url) {
  const begun = performance.now()
  const body = await fetchBody(url)
  times.add((performance.now() - begun) * 1000)
  return body
}

/**
 * @param {string} name
 * @param {Histogram} times
 * @param {number} floor
 * @returns {Figure[]}
 */
function percentiles(name, times, floor) {
  const benchmark = 'reads'
  const p99 = times.percentile(0.99) / 1000
  const p50 = times.percentile(0.5) / 1000
  return [
    { benchmark, name: `${name}, p99`, value: p99, unit: 'ms', bound: 'at most', floor },
    { benchmark, name: `${name}, median`, value: p50, unit: 'ms', bound: '', floor: '' },
    { benchmark, name: `${name}, reads timed`, value: times.count, unit: '', bound: '', floor: '' },
  ]
}
