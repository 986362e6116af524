// What is stored is rewritten into another retention class over the real engine, while rows come
// and are read, and ingest dies in the middle of it.
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { sensorId } from '@sandglass/common/sensor'
import { publishAll } from '../support/rest.js'
import { startStack, UNSPOOLED } from '../support/stack.js'
import { getJson, readMeasurements } from '../support/stored.js'
import { until } from '../support/until.js'

const SENSOR = 'kiln'
const MINUTE_MS = 60_000
const DAY_MS = 86_400_000
const NOW = Math.floor(Date.now() / 1000) * 1000

/** A value of each kind, by what it is of. @type {((n: number) => unknown)[]} */
const VALUES = [
  (n) => n / 2,
  (n) => n % 2 === 0,
  (n) => `text ${n}`,
  (n) => ({ lat: n % 90, lon: n % 180 }),
]

/** @type {import('../support/stack.js').Stack} */
let stack

/** What was acknowledged. @type {{ metric: string, t: number, v: unknown }[]} */
const record = []

beforeAll(async () => {
  stack = await startStack({
    ingestEnv: { ...UNSPOOLED, REWRITE_WAIT_S: '1', RETENTION_CLASS: '7d' },
  })
})
afterAll(() => stack?.end())

/** @param {number[]} times */
async function publish(times) {
  const items = times.map((t) => {
    const n = record.length
    const metric = `m${n % VALUES.length}`
    const v = VALUES[n % VALUES.length](n)
    record.push({ metric, t, v })
    return { sensor: SENSOR, metric, t, v }
  })
  await publishAll(stack.apiUrl, items)
}

/** @param {Record<string, unknown>} body */
async function patch(body) {
  const response = await fetch(`${stack.apiUrl}/v1/sensors/${SENSOR}`, {
    method: 'PATCH',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  expect(response.status).toBe(200)
  return /** @type {any} */ (await response.json())
}

async function rewrite() {
  return (await getJson(`${stack.apiUrl}/v1/sensors/${SENSOR}`)).rewrite
}

async function expectAll() {
  const known = record.slice()
  const { items } = await readMeasurements(stack.apiUrl, SENSOR, { order: 'asc', limit: 997 })
  const key = (/** @type {any} */ { metric, timeMs, t = timeMs, value, v = value }) =>
    `${metric} ${t} ${JSON.stringify(v)}`
  const found = items.map(key)
  expect(found.length).toBe(new Set(found).size)
  expect(found.sort()).toEqual(known.map(key).sort())
}

/** By class: how many rows there are, and when each was written. @param {string} className */
async function stored(className) {
  const client = await stack.client()
  const query = `SELECT metric, ts, bucket, writetime(v) AS wv, writetime(b) AS wb,
    writetime(s) AS ws, writetime(lat) AS wlat, ttl(v) AS left
    FROM ${stack.keyspace}.measurement_${className}`
  const { rows } = await client.execute(query, [], { prepare: true, fetchSize: 20_000 })
  return rows.map(({ metric, ts, bucket, wv, wb, ws, wlat, left }) => ({
    key: `${metric} ${ts.getTime()}`,
    written: String(wv ?? wb ?? ws ?? wlat),
    bucket: Number(bucket),
    left,
  }))
}

test('nothing is lost, twice or another while it is rewritten, and it is kept', async () => {
  const times = Array.from({ length: 1_500 }, (_, n) => NOW - 20 * DAY_MS + n * 18 * MINUTE_MS)
  // As if imported: far in the past, and two of one millisecond.
  await publish([...times, NOW - 150 * DAY_MS, NOW - 150 * DAY_MS + 1, times[0]])
  const before = new Map((await stored('7d')).map(({ key, written }) => [key, written]))
  expect(before.size).toBeGreaterThan(1_450)
  expect((await patch({ retention: 'keep', rewrite: true })).rewrite).toMatchObject({
    state: 'asked',
    retention: 'keep',
  })

  let late = 0
  const publishLate = async () => {
    late += 1
    await publish([NOW - late * 7 * 3_600_000 - 12_345, NOW - late * 1_000, Date.now()])
  }
  await until('it is copied', async () => {
    await publishLate()
    await expectAll()
    const { state } = await rewrite()
    return state === 'copying' || state === 'cleaning'
  })
  // Whoever does it dies, and another one goes on.
  const ingest = stack.part('ingest')
  await ingest.kill9()
  await expectAll()
  await ingest.start()
  await until(
    'it waits for the newest',
    async () => {
      await publishLate()
      await expectAll()
      return (await rewrite()).state === 'waiting'
    },
    { deadlineMs: 120_000 },
  )
  const { rows, expired, until: untilMs } = await rewrite()
  expect(rows).toBeGreaterThan(1_000)
  expect(expired).toBe(0)
  expect(untilMs).toBeLessThanOrEqual(NOW)
  expect(untilMs).toBeGreaterThan(NOW - 3 * 3_600_000)

  // What was left is deleted; what there is was written when it was, and lives for ever.
  const left = (await stored('7d')).filter(({ key }) => Number(key.split(' ')[1]) < untilMs)
  expect(left).toEqual([])
  const kept = await stored('keep')
  const isPast = (/** @type {{ t: number }} */ { t }) => t < untilMs
  expect(kept.length).toBe(record.filter(isPast).length)
  for (const { key, written, left: ttl } of kept) {
    expect(ttl).toBeNull()
    const writtenBefore = before.get(key)
    if (writtenBefore !== undefined) expect([key, written]).toEqual([key, writtenBefore])
  }
  await expectAll()
}, 240_000)

test('it is called off, and what is rewritten goes back again', async () => {
  await patch({ rewrite: false })
  await until('it is called off', async () => (await rewrite()).state === 'cancelled', {
    deadlineMs: 90_000,
  })
  await patch({ retention: '400d', rewrite: true })
  await until(
    'it is rewritten',
    async () => {
      await publish([NOW - DAY_MS - record.length * 1_000])
      await expectAll()
      return (await rewrite()).state === 'waiting'
    },
    { deadlineMs: 120_000 },
  )
  const inClass = await stored('400d')
  expect(inClass.length).toBeGreaterThan(1_450)
  for (const { left } of inClass.filter(({ left: ttl }) => ttl !== null)) {
    expect(left).toBeLessThanOrEqual(400 * 86_400)
    expect(left).toBeGreaterThan(400 * 86_400 - 3_600)
  }
  expect(await stored('keep')).toEqual([])
  await expectAll()
  const client = await stack.client()
  const { rows } = await client.execute(
    `SELECT from_ts, class FROM ${stack.keyspace}.layout WHERE sensor_id = ?`,
    [sensorId(SENSOR)],
    { prepare: true },
  )
  expect(rows.at(0)?.class).toBe('400d')
}, 240_000)
