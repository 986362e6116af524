// A sensor whose measurements go from one class and bucket width to others: nothing is hidden, and
// `latest` is made good from wherever the newest row lies. Topics of one's own go the same way.
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { sensorId } from '@sandglass/common/sensor'
import { Publisher } from '../support/publisher.js'
import { publishAll } from '../support/rest.js'
import { startStack, UNSPOOLED } from '../support/stack.js'
import { getJson, readMeasurements } from '../support/stored.js'
import { until } from '../support/until.js'

const SENSOR = 'kiln'
const HOUR_MS = 3_600_000
const NOW = Math.floor(Date.now() / HOUR_MS) * HOUR_MS
const TEMPLATES = 'plant/{line}/{unit}/{metric} as {line}.{unit}'

/** From when on which class and width held. */
const LAYOUTS = [
  { from: 0, retention: '30d', bucketS: 86_400 },
  { from: NOW - 30 * HOUR_MS, retention: '7d', bucketS: 3_600 },
  { from: NOW - 20 * HOUR_MS, retention: '30d', bucketS: 900 },
  { from: NOW - 10 * HOUR_MS, retention: '30d', bucketS: 86_400 },
  { from: NOW - HOUR_MS, retention: '400d', bucketS: 604_800 },
]

/** The newest value of each metric; one is of each kind. @type {Record<string, unknown>} */
const NEWEST = { heat: 21.5, open: true, state: 'on', place: { lat: 1, lon: 2 } }

/** @type {import('../support/stack.js').Stack} */
let stack

beforeAll(async () => {
  stack = await startStack({
    ingestEnv: { ...UNSPOOLED, TOPIC_TEMPLATES: TEMPLATES },
    apiEnv: { TOPIC_TEMPLATES: TEMPLATES },
  })
  const client = await stack.client()
  for (const { from, retention, bucketS } of LAYOUTS) {
    const query = `INSERT INTO ${stack.keyspace}.layout (sensor_id, from_ts, class, bucket_s)
                   VALUES (?, ?, ?, ?)`
    const params = [sensorId(SENSOR), from, retention, bucketS]
    await client.execute(query, params, { prepare: true })
  }
})
afterAll(() => stack?.end())

test('rows of all layouts are read in both directions, and summed up', async () => {
  const items = []
  for (let t = NOW - 60 * HOUR_MS; t < NOW; t += 420_000) {
    items.push({ sensor: SENSOR, metric: 'heat', t, v: items.length })
  }
  // In whatever order they come.
  await publishAll(
    stack.apiUrl,
    items.toSorted((a, b) => ((a.v * 7_919) % 1_000) - ((b.v * 7_919) % 1_000)),
  )
  const values = items.map(({ v }) => v)
  for (const order of ['asc', 'desc']) {
    const read = await readMeasurements(stack.apiUrl, SENSOR, { order, limit: 97 })
    const expected = order === 'asc' ? values : values.toReversed()
    expect(read.items.map(({ value }) => value)).toEqual(expected)
  }
  const query = `metric=heat&from=${NOW - 60 * HOUR_MS}&to=${NOW}&step=5h&agg=count,min,max`
  const series = await getJson(`${stack.apiUrl}/v1/sensors/${SENSOR}/series?${query}`)
  const counts = series.items.map((/** @type {{ count: number }} */ { count }) => count)
  expect(counts.reduce((/** @type {number} */ a, /** @type {number} */ b) => a + b)).toBe(
    items.length,
  )
  const client = await stack.client()
  for (const [className, least] of [
    ['30d', 200],
    ['7d', 80],
    ['400d', 5],
  ]) {
    const [{ count }] = (
      await client.execute(`SELECT count(*) FROM ${stack.keyspace}.measurement_${className}`)
    ).rows
    expect(Number(count)).toBeGreaterThan(Number(least))
  }
})

test('another class is asked for, and told from when on', async () => {
  const url = `${stack.apiUrl}/v1/sensors/${SENSOR}`
  const before = await getJson(url)
  expect(before).toMatchObject({ retention: '400d', layouts: LAYOUTS })
  const response = await fetch(url, {
    method: 'PATCH',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ retention: '90d' }),
  })
  const changed = /** @type {any} */ (await response.json())
  expect(changed).toMatchObject({ retention: '400d' })
  expect(changed.layouts.at(-1)).toMatchObject({ retention: '90d', bucketS: 86_400 })
  expect(await getJson(url)).toEqual(changed)
})

test('what latest lost is there again after a start, whatever kind it is', async () => {
  const t = Date.now() - 30_000
  const items = Object.entries(NEWEST).map(([metric, v]) => ({ sensor: SENSOR, metric, t, v }))
  await publishAll(stack.apiUrl, items)
  await stack.part('ingest').stop()
  const client = await stack.client()
  await client.execute(`TRUNCATE ${stack.keyspace}.latest`)
  await stack.part('ingest').start()
  const latest = async () => {
    const read = await getJson(`${stack.apiUrl}/v1/sensors/${SENSOR}/latest`)
    return read.items
  }
  await until('latest is repaired', async () => (await latest()).length === items.length)
  const repaired = Object.fromEntries(
    (await latest()).map((/** @type {any} */ one) => [one.metric, one]),
  )
  for (const [metric, v] of Object.entries(NEWEST)) {
    expect(repaired[metric]).toMatchObject({ metric, t, v })
    expect(repaired[metric].received).toBeGreaterThanOrEqual(t)
  }
})

test('a message on a topic of one’s own is stored before it is acknowledged', async () => {
  const publisher = new Publisher({ ...stack.mqtt, clientId: 'press' })
  await publisher.open()
  const t = Date.now()
  await publisher.publish('plant/a/press/force', JSON.stringify({ t, v: 7 }))
  await publisher.close()
  const { items } = await readMeasurements(stack.apiUrl, 'a.press')
  expect(items).toMatchObject([{ metric: 'force', timeMs: t, value: 7 }])
  const decoded = await fetch(`${stack.apiUrl}/v1/decode?topic=plant/a/press/force`, {
    method: 'POST',
    body: '7',
  })
  expect(await decoded.json()).toMatchObject({ items: [{ sensor: 'a.press', metric: 'force' }] })
})
