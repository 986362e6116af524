// A sensor that is deleted for good is gone, by every door and from every table of which answers
// are made; whoever sends next is a new sensor. Two processes of ingest, one does not delete.
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { sensorId } from '@sandglass/common/sensor'
import mqtt from 'mqtt'
import { publishAll } from '../support/rest.js'
import { startStack } from '../support/stack.js'
import { getJson } from '../support/stored.js'
import { until } from '../support/until.js'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const OLD = Date.now() - 3 * DAY_MS

/** A process that was killed counts as alive for half a minute. */
const WAIT = { deadlineMs: 100_000 }

/** @type {import('../support/stack.js').Stack} */
let stack
/** One in each process, most likely: their ids decide. @type {mqtt.MqttClient[]} */
let clients = []

beforeAll(async () => {
  stack = await startStack({
    ingestEnv: { INGEST_PROCESSES: '2', REWRITE_WAIT_S: '6', SPOOL_AFTER_MS: '4000' },
  })
  clients = await Promise.all(
    Array.from({ length: 4 }, (_, n) => mqtt.connectAsync(stack.mqttUrl, { clientId: `c${n}` })),
  )
})
afterAll(async () => {
  await Promise.all(clients.map((client) => client.endAsync(true)))
  await stack?.end()
})

/** By every process. @param {string} name  @param {Record<string, unknown>} what */
async function publish(name, what) {
  await Promise.all(
    clients.map((client, n) =>
      client.publishAsync(
        `sensors/${name}`,
        JSON.stringify(n === 0 ? what : { ...what, t: Number(what.t) + n }),
        { qos: 1 },
      ),
    ),
  )
}

/** @param {string} path  @param {RequestInit} [init] */
async function ask(path, init) {
  const response = await fetch(`${stack.apiUrl}${path}`, init)
  const text = await response.text()
  const body = text === '' ? undefined : JSON.parse(text)
  return { status: response.status, location: response.headers.get('location'), body }
}

/** @param {string} name */
async function remove(name) {
  const { status, location } = await ask(`/v1/sensors/${name}?measurements=true`, {
    method: 'DELETE',
  })
  expect(status).toBe(202)
  return String(location)
}

/** @param {string} location  @param {'gone' | 'done'} what */
async function waitFor(location, what) {
  const is = async () => {
    const { gone, state } = await getJson(`${stack.apiUrl}${location}`)
    return what === 'gone' ? gone !== null : state === 'done'
  }
  await until(`it is ${what}`, is, WAIT)
}

/** @param {string} name */
async function shown(name) {
  const { items: latest } = await getJson(`${stack.apiUrl}/v1/sensors/${name}/latest`)
  const { items } = await getJson(
    `${stack.apiUrl}/v1/sensors/${name}/measurements?order=asc&limit=1000`,
  )
  const of = (/** @type {any[]} */ rows) => rows.map(({ metric, t }) => `${metric} ${t}`).sort()
  return { latest: of(latest), rows: of(items) }
}

/** Rows that name a sensor, in every table where a part of the key does. @param {string} name */
async function rowsOf(name) {
  const client = await stack.client()
  /** @type {Record<string, number>} */
  const found = {}
  for (const table of ['sensor', 'latest', 'measurement_30d', 'rollup_1h', 'status']) {
    const query = `SELECT sensor_id FROM ${stack.keyspace}.${table}`
    const { rows } = await client.execute(query)
    found[table] = rows.filter((row) => String(row.sensor_id) === sensorId(name)).length
  }
  return found
}

const NOTHING = { sensor: 0, latest: 0, measurement_30d: 0, rollup_1h: 0, status: 0 }

/** Of both sensors: one that is over, today and long ago, and one that is not. */
async function putAlerts() {
  const client = await stack.client()
  const now = Date.now()
  for (const name of ['pump', 'other']) {
    for (const [at, resolved] of [
      [now - 60_000, now],
      [now - 50 * DAY_MS, now],
      [now - 50_000, null],
    ]) {
      await client.execute(
        `INSERT INTO ${stack.keyspace}.alert (day, at, id, sensor_id, metric, resolved)
         VALUES (?, ?, uuid(), ?, 'heat', ?)`,
        [Math.floor(Number(at) / DAY_MS), at, sensorId(name), resolved],
        { prepare: true },
      )
    }
  }
}

/** @param {string} name */
async function alertsOf(name) {
  const client = await stack.client()
  const { rows } = await client.execute(`SELECT sensor_id FROM ${stack.keyspace}.alert`)
  return rows.filter((row) => String(row.sensor_id) === sensorId(name)).length
}

/** @param {string} text */
async function lettersWith(text) {
  const { items } = await getJson(`${stack.apiUrl}/v1/dead-letters?limit=200`)
  return items.filter((/** @type {any} */ item) => JSON.stringify(item).includes(text)).length
}

test('all it had is gone, and another sensor is as it was', async () => {
  for (const name of ['pump', 'other']) {
    await publish(name, { t: OLD, heat: 1, load: 2 })
    await publish(name, { heat: 3, t: Date.now() - 1_000 })
    await publish(name, { nonsense: {}, t: 5 })
    await publishAll(stack.apiUrl, [{ sensor: name, metric: 'heat', t: OLD + HOUR_MS, v: 9 }])
    await fetch(`${stack.apiUrl}/v1/measurements`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ sensor: name, metric: 'heat', t: 'not a time', v: 1 }),
    })
    const put = await ask(`/v1/sensors/${name}/metrics/planned`, {
      method: 'PUT',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ label: 'Planned' }),
    })
    expect(put.status).toBeLessThan(300)
    const device = await mqtt.connectAsync(stack.mqttUrl, {
      clientId: name,
      will: {
        topic: `sensors/${name}/state`,
        payload: Buffer.from('"off"'),
        qos: 1,
        retain: false,
      },
    })
    await device.endAsync()
    await ask(`/v1/sensors/${name}`, {
      method: 'PATCH',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ type: 'secret', tags: { a: 'b' } }),
    })
  }
  await putAlerts()
  await until('letters are kept', async () => (await lettersWith('pump')) === 5)
  const { body: dry } = await ask('/v1/sensors/pump?measurements=true&dry_run=true', {
    method: 'DELETE',
  })
  expect(dry).toMatchObject({ dry_run: true, complete: true, rows: 13 })
  const before = await rowsOf('other')
  expect(before.status).toBeGreaterThan(0)
  const location = await remove('pump')
  await waitFor(location, 'gone')
  expect((await ask('/v1/sensors/pump')).status).toBe(404)
  expect(await rowsOf('pump')).toEqual(NOTHING)
  expect(await lettersWith('pump')).toBe(0)
  expect(await alertsOf('pump')).toBe(1)
  await waitFor(location, 'done')
  expect(await rowsOf('pump')).toEqual(NOTHING)
  expect([await alertsOf('pump'), await alertsOf('other')]).toEqual([0, 3])
  const { items: sensors } = await getJson(`${stack.apiUrl}/v1/sensors`)
  expect(sensors.map((/** @type {any} */ { name }) => name)).toEqual(['other'])
  // Its rollups may be made meanwhile.
  const { rollup_1h: _, ...kept } = before
  expect(await rowsOf('other')).toMatchObject(kept)
  expect(await lettersWith('other')).toBe(5)
}, 120_000)

test('registered again it is empty, and what is stored is the first', async () => {
  const { status, body } = await ask('/v1/sensors', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'pump', retention: '90d' }),
  })
  expect(status).toBe(201)
  expect(body).toMatchObject({ type: null, tags: {} })
  expect(body.layouts.at(-1).retention).toBe('90d')
  const { items: metrics } = await getJson(`${stack.apiUrl}/v1/sensors/pump/metrics`)
  expect(metrics).toEqual([])
  expect(await shown('pump')).toEqual({ latest: [], rows: [] })
  // Earlier than what was deleted, as an import does: it is the newest all the same.
  await publishAll(stack.apiUrl, [{ sensor: 'pump', metric: 'heat', t: OLD - DAY_MS, v: 5 }])
  const one = [`heat ${OLD - DAY_MS}`]
  await until('latest is right', async () => (await shown('pump')).latest.length === 1)
  expect(await shown('pump')).toEqual({ latest: one, rows: one })
})

test('what comes after the moment is of a new sensor, whichever process takes it', async () => {
  await publish('fan', { t: OLD, heat: 1 })
  await publish('fan', { t: OLD + HOUR_MS, heat: 1 })
  const location = await remove('fan')
  // At once: no process has heard of it.
  await publish('fan', { t: OLD + HOUR_MS + 100, heat: 2 })
  await publish('fan', { t: OLD - DAY_MS, heat: 3 })
  const rows = [OLD - DAY_MS, OLD + HOUR_MS + 100]
    .flatMap((t) => [0, 1, 2, 3].map((n) => `heat ${t + n}`))
    .sort()
  await waitFor(location, 'gone')
  await until('it is found again', async () => {
    const { status } = await ask('/v1/sensors/fan')
    return status === 200 && (await shown('fan')).rows.length === rows.length
  })
  const right = { latest: [`heat ${OLD + HOUR_MS + 103}`], rows }
  await until('latest is right', async () => (await shown('fan')).latest[0] === right.latest[0])
  expect(await shown('fan')).toEqual(right)
  expect((await ask('/v1/sensors/fan')).body.name).toBe('fan')
  await waitFor(location, 'done')
  expect(await shown('fan')).toEqual(right)
  await publish('fan', { t: OLD - 2 * DAY_MS, heat: 4 })
  expect((await shown('fan')).rows).toHaveLength(rows.length + 4)
}, 120_000)

test('ingest is killed in the middle, and what was spooled before does not come back', async () => {
  await publish('valve', { t: OLD, heat: 1 })
  await stack.databaseAway()
  await publish('valve', { t: OLD - 40 * HOUR_MS, heat: 2 })
  // Before the sensor is asked about, it cannot be known what it is: a dead letter, later.
  await publish('valve', { nonsense: {} })
  expect((await stack.stats()).spooled).toBe(8)
  const ingest = stack.part('ingest')
  await ingest.kill9()
  await stack.databaseBack()
  await stack.readable()
  const location = await remove('valve')
  await ingest.start()
  await until(
    'it has begun',
    async () => (await getJson(`${stack.apiUrl}${location}`)).state !== 'asked',
    WAIT,
  )
  await ingest.kill9()
  await ingest.start()
  await waitFor(location, 'gone')
  await stack.emptied()
  await waitFor(location, 'done')
  expect(await rowsOf('valve')).toEqual(NOTHING)
  expect(await lettersWith('valve')).toBe(0)
  expect((await ask('/v1/sensors/valve')).status).toBe(404)
}, 240_000)

test('a metric of which all is deleted is no longer named, until it is measured again', async () => {
  await publishAll(stack.apiUrl, [
    { sensor: 'lamp', metric: 'watts', t: OLD, v: 1 },
    { sensor: 'lamp', metric: 'hours', t: OLD, v: 1 },
  ])
  const { location } = await ask('/v1/sensors/lamp/measurements?metric=watts&from=0', {
    method: 'DELETE',
  })
  const names = async () => {
    const { items } = await getJson(`${stack.apiUrl}/v1/sensors/lamp/metrics`)
    return items.map((/** @type {any} */ { metric }) => metric)
  }
  await waitFor(String(location), 'gone')
  await until('it is not named', async () => String(await names()) === 'hours')
  await publishAll(stack.apiUrl, [{ sensor: 'lamp', metric: 'watts', t: OLD - 5 * DAY_MS, v: 2 }])
  // At once, by the process that took it, or by the one that did the deletion.
  expect((await shown('lamp')).rows).toContain(`watts ${OLD - 5 * DAY_MS}`)
  await until('it is named', async () => String((await names()).sort()) === 'hours,watts')
  await waitFor(String(location), 'done')
  expect((await shown('lamp')).rows).toContain(`watts ${OLD - 5 * DAY_MS}`)
}, 120_000)
