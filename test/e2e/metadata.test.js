// What numbers mean, through the whole platform: told by a device, said by a person, and carried
// through restarts, the spool and a move to another platform.
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { sensorId } from '@sandglass/common/sensor'
import mqtt from 'mqtt'
import { startStack } from '../support/stack.js'
import { getJson } from '../support/stored.js'
import { until } from '../support/until.js'

const ENV = { TOPIC_TEMPLATES: 'senml/{sensor} in senml-json' }
const T = 1_767_225_600

/** @type {import('../support/stack.js').Stack} */
let stack
/** @type {mqtt.MqttClient} */
let device

beforeAll(async () => {
  stack = await startStack({ ingestEnv: ENV, apiEnv: ENV })
  device = await mqtt.connectAsync(stack.mqttUrl, { clientId: 'device', reconnectPeriod: 100 })
})
afterAll(async () => {
  device?.end(true)
  await stack?.end()
})

let second = 0
/** @param {string} sensor  @param {string} unit */
async function publish(sensor, unit) {
  second += 1
  const pack = [{ n: 'heat', u: unit, v: second, t: T + second }]
  await device.publishAsync(`senml/${sensor}`, JSON.stringify(pack), { qos: 1 })
}

/** @param {string} path */
const get = (path) => getJson(`${stack.apiUrl}/v1/${path}`)

/** @param {string} method  @param {string} path  @param {unknown} [body] */
async function send(method, path, body) {
  const isText = typeof body === 'string'
  const response = await fetch(`${stack.apiUrl}/v1/${path}`, {
    method,
    headers: body === undefined ? {} : { 'content-type': isText ? 'text/csv' : 'application/json' },
    body: isText ? body : JSON.stringify(body),
  })
  return { status: response.status, text: await response.text() }
}

/** What a device told as it is stored, and when it was written. @param {string} sensor */
async function told(sensor) {
  const { rows } = await (await stack.client()).execute(
    `SELECT metric, told_unit, writetime(told_unit) AS us FROM ${stack.keyspace}.series
     WHERE sensor_id = ?`,
    [sensorId(sensor)],
    { prepare: true },
  )
  return rows.map((row) => [row.metric, row.told_unit, String(row.us)])
}

test('a unit that a device tells is stored once, also over a restart of ingest, and is told', async () => {
  await publish('boiler', 'Cel')
  const before = await told('boiler')
  expect(before).toEqual([['heat', 'Cel', expect.any(String)]])
  await publish('boiler', 'Cel')
  await stack.part('ingest').stop()
  await stack.part('ingest').start()
  await until('the device is back', () => device.connected)
  await publish('boiler', 'Cel')
  expect(await told('boiler')).toEqual(before)
  await until('the newest value is told with it', async () => {
    const { items } = await get('sensors/boiler/latest')
    return items[0].v === 3 && items[0].unit === 'Cel' && items[0].symbol === '°C'
  })
})

test('a unit that changed while the database was away is that which holds afterwards', async () => {
  await publish('away', 'Cel')
  await stack.databaseAway()
  await publish('away', 'K')
  await stack.databaseBack()
  await stack.emptied()
  await stack.readable()
  // The driver may take a moment until it connects again.
  const [row] = await until('the database answers', () => told('away'))
  expect(row.slice(0, 2)).toEqual(['heat', 'K'])
})

test('a person beats the device, a sensor its type, and CSV says it as well', async () => {
  const metric = 'sensors/boiler/metrics/heat'
  const type = 'types/heater/metrics/heat'
  await send('PATCH', 'sensors/boiler', { type: 'heater' })
  expect((await send('PUT', type, { unit: 'K', label: 'Heat', decimals: 1 })).status).toBe(200)
  expect((await send('PUT', metric, { label: 'Boiler', expected_max: 90.5 })).status).toBe(200)
  const known = { unit: 'K', label: 'Boiler', decimals: 1, expected_max: 90.5 }
  expect(await get(metric)).toMatchObject({ ...known, said: { device: { unit: 'Cel' } } })
  const range = `from=${T}&to=${T + 60}&step=1m`
  expect(await get(`sensors/boiler/series?metric=heat&${range}`)).toMatchObject(known)
  const { text } = await send('GET', 'metadata')
  expect(text.split('\n').slice(1)).toEqual([
    ',heater,heat,K,Heat,1,,',
    'boiler,,heat,,Boiler,,,90.5',
    '',
  ])
  expect((await send('DELETE', metric)).status).toBe(204)
  expect((await send('DELETE', type)).status).toBe(204)
  expect(await get(metric)).toMatchObject({ unit: 'Cel', said: { device: { unit: 'Cel' } } })
  expect(await send('POST', 'metadata', text)).toEqual({ status: 200, text: '{"stored":2}' })
  expect(await get(metric)).toMatchObject(known)
  expect((await send('GET', 'metadata')).text).toBe(text)
})

test('a sensor that was deleted leaves nothing to another one of its name', async () => {
  await publish('gone', 'Cel')
  await send('PUT', 'sensors/gone/metrics/heat', { label: 'Old' })
  await send('DELETE', 'sensors/gone')
  await send('POST', 'sensors', { name: 'gone' })
  expect(await get('sensors/gone/metrics/heat')).toEqual({ metric: 'heat', said: {} })
  // What ingest believed of the old one it asks again.
  await stack.part('ingest').stop()
  await stack.part('ingest').start()
  await until('the device is back', () => device.connected)
  await publish('gone', 'Cel')
  expect((await told('gone'))[0].slice(0, 2)).toEqual(['heat', 'Cel'])
})

test('what is known is moved with an export, and the device may tell another unit there', async () => {
  const lines = (await send('GET', 'export?format=ndjson&sensor=boiler&unit=true')).text
  expect(lines).toContain('"unit":"K"')
  const moved = lines.replaceAll('"sensor":"boiler"', '"sensor":"moved"')
  const answer = await send('POST', 'import?format=ndjson', moved)
  expect(JSON.parse(answer.text.trim().split('\n').at(-1) ?? '')).toMatchObject({ done: true })
  expect(await get('sensors/moved/metrics/heat')).toMatchObject({
    unit: 'K',
    said: { sensor: { label: 'Boiler' }, type: { unit: 'K' }, device: { unit: 'Cel' } },
  })
  expect(await told('moved')).toEqual([['heat', 'Cel', '1']])
  await publish('moved', '%')
  await until('it is told', async () => (await told('moved'))[0][1] === '%')
})
