// What is desired of a device is retained for it alone, whatever is restarted or killed in between,
// and what it reports is shown beside it.
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { KeyStore } from '@sandglass/common/key-store'
import { sensorId } from '@sandglass/common/sensor'
import mqtt from 'mqtt'
import { openMosquitto } from '../support/mosquitto.js'
import { describeWith, missingPrograms } from '../support/requirement.js'
import { startStack } from '../support/stack.js'
import { until } from '../support/until.js'

/** @type {import('../support/stack.js').Stack} */
let stack
/** @type {Record<string, string>} */
const keys = {}
/** @type {mqtt.MqttClient[]} */
const clients = []

beforeAll(async () => {
  const env = { REQUIRE_KEYS: 'true', RATE_LIMIT: '0' }
  const ingestEnv = { ...env, INGEST_PROCESSES: '2', REWRITE_WAIT_S: '3' }
  stack = await startStack({ ingestEnv, apiEnv: env })
  const database = { client: await stack.client(), keyspace: stack.keyspace, isUp: true }
  const store = new KeyStore({ database: /** @type {any} */ (database) })
  for (const [name, scopes, sensor] of /** @type {const} */ ([
    ['person', ['read', 'write', 'manage'], undefined],
    ['boiler', ['read', 'write'], 'boiler'],
    ['pump', ['read', 'write'], 'pump'],
  ])) {
    const id = sensor && sensorId(sensor)
    const about = { name, scopes: new Set(scopes), sensorId: id, expiresMs: undefined }
    keys[name] = (await store.create(about)).text
  }
  for (const name of ['boiler', 'pump']) {
    expect((await ask('POST', '/v1/sensors', { name })).status).toBe(201)
  }
})
afterAll(async () => {
  await Promise.all(clients.map((client) => client.endAsync(true)))
  await stack?.end()
})

/** @param {string} method  @param {string} path  @param {unknown} [body] */
async function ask(method, path, body) {
  const response = await fetch(`${stack.apiUrl}${path}`, {
    method,
    headers: {
      authorization: `Bearer ${keys.person}`,
      ...(body !== undefined && { 'content-type': 'application/json' }),
    },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
  const text = await response.text()
  return { status: response.status, body: text === '' ? undefined : JSON.parse(text) }
}

/** @param {unknown} state  @param {string} [sensor] */
async function want(state, sensor = 'boiler') {
  const { status, body } = await ask('PUT', `/v1/sensors/${sensor}/desired`, state)
  expect([status, body]).toEqual([204, undefined])
}

/** @param {string} who  @param {mqtt.IClientOptions} [options] */
async function connect(who, options = {}) {
  const client = mqtt.connect(stack.mqttUrl, {
    username: 'x',
    password: keys[who],
    reconnectPeriod: 200,
    reconnectOnConnackError: true,
    ...options,
  })
  clients.push(client)
  // It tries again while ingest cannot look keys up.
  client.on('error', () => {})
  /** @type {{ state: any, retain: boolean, qos: number }[]} */
  const heard = []
  client.on('message', (_topic, payload, { retain, qos }) => {
    const text = payload.toString()
    heard.push({ state: text === '' ? '' : JSON.parse(text), retain, qos })
  })
  await until(`${who} is connected`, () => client.connected)
  return { client, heard }
}

/** A device that asks what is desired of it. @param {mqtt.IClientOptions} [options] */
async function device(options) {
  const one = await connect('boiler', options)
  await one.client.subscribeAsync('desired/boiler', { qos: 1 })
  return one
}

/** What a device hears that connects now. */
async function retained() {
  const { client, heard } = await device()
  // In order: what is retained comes before what is published after the subscription.
  await new Promise((resolve) => setTimeout(resolve, 500))
  await client.endAsync()
  return heard
}

test('a device that is there hears it, and one that comes later', async () => {
  const { heard, client } = await device()
  await want({ interval: 30 })
  await until('it is heard', () => heard.length === 1)
  expect(heard).toEqual([{ state: { interval: 30 }, retain: false, qos: 1 }])
  // When ingest starts it tells all once more, so that a device may hear the same again.
  const [first, ...again] = await retained()
  expect(first).toEqual({ state: { interval: 30 }, retain: true, qos: 1 })
  for (const { state } of again) expect(state).toEqual({ interval: 30 })
  await client.endAsync()
})

test('what the device reports is beside it', async () => {
  await want({ interval: 60, led: { on: true }, place: { lat: 1.5, lon: 2 }, list: [1, 2] })
  const { client } = await connect('boiler')
  const report = { interval: 60, led: { on: false }, place: { lat: 1.5, lon: 2 } }
  await client.publishAsync('sensors/boiler', JSON.stringify(report), { qos: 1 })
  const first = (await ask('GET', '/v1/sensors/boiler/desired')).body
  expect(first).toMatchObject({ topic: 'desired/boiler', reached: false })
  expect(first.desired).toEqual({
    ...report,
    led: { on: true },
    list: [1, 2],
  })
  const of = (/** @type {any} */ { metric, desired, reported, reached }) => [
    ...[metric, desired, reported, reached],
  ]
  expect(first.fields.map(of)).toEqual([
    ['interval', 60, 60, true],
    ['led.on', true, false, false],
    ['place', { lat: 1.5, lon: 2 }, { lat: 1.5, lon: 2 }, true],
    ['list', [1, 2], null, false],
  ])
  await want({ interval: 60, led: { on: true } })
  await client.publishAsync('sensors/boiler/led.on', 'true', { qos: 1 })
  const reached = async () => (await ask('GET', '/v1/sensors/boiler/desired')).body.reached
  await until('it is reached', reached)
  await client.endAsync()
})

test('another device neither hears it nor says it, nor does whoever may write', async () => {
  await want({ secret: 1 })
  const other = await connect('pump', { protocolVersion: 5 })
  for (const filter of [
    'desired/boiler',
    'desired/#',
    'desired/+',
    '#',
    '$share/g/desired/boiler',
  ]) {
    await expect(other.client.subscribeAsync(filter, { qos: 1 })).rejects.toThrow()
  }
  for (const who of ['pump', 'boiler', 'person']) {
    const { client } = await connect(who, { protocolVersion: 5 })
    const published = client.publishAsync('desired/boiler', '{"a":1}', { qos: 1, retain: true })
    await expect(published).rejects.toMatchObject({ code: 0x87 })
    await client.endAsync()
    const old = await connect(who)
    await old.client.publishAsync('desired/boiler', '{"a":1}', { qos: 1, retain: true })
    await old.client.endAsync()
  }
  expect(await retained()).toEqual([{ state: { secret: 1 }, retain: true, qos: 1 }])
  expect(other.heard).toEqual([])
  await other.client.endAsync()
})

test('it is there after ingest was killed, and after the database was', async () => {
  await want({ n: 1 })
  const { heard } = await device({ clientId: 'stays', clean: false })
  await until('it is heard', () => heard.length === 1)
  await stack.part('ingest').kill9()
  const late = await ask('PUT', '/v1/sensors/boiler/desired', { n: 2 })
  expect([late.status, late.body.type]).toEqual([503, expect.stringContaining('ingest-away')])
  await stack.part('ingest').start()
  await until('what was stored meanwhile is heard', () => heard.at(-1)?.state.n === 2)
  await until('it is retained', async () => (await retained())[0]?.state.n === 2)
  await stack.databaseAway()
  const away = await ask('PUT', '/v1/sensors/boiler/desired', { n: 3 })
  expect(away.status).toBe(503)
  await stack.databaseBack()
  await until(
    'it is taken again',
    async () => {
      const { status } = await ask('PUT', '/v1/sensors/boiler/desired', { n: 4 })
      return status === 204
    },
    { deadlineMs: 40_000 },
  )
  await until('it is heard', () => heard.at(-1)?.state.n === 4)
  expect((await retained())[0].state).toEqual({ n: 4 })
}, 90_000)

test('of many at once the one that is stored is retained', async () => {
  for (let round = 0; round < 5; round++) {
    await Promise.all(Array.from({ length: 20 }, (_, n) => want({ round, n })))
    const { desired } = (await ask('GET', '/v1/sensors/boiler/desired')).body
    expect((await retained()).map(({ state }) => state)).toEqual([desired])
  }
})

test('what is too large, too deep or no object is refused, and the one of before stays', async () => {
  await want({ n: 5 })
  const put = async (/** @type {unknown} */ state) =>
    (await ask('PUT', '/v1/sensors/boiler/desired', state)).status
  expect(await put({ text: 'x'.repeat(16_384) })).toBe(413)
  expect(await put([1])).toBe(400)
  expect(await put('"text"')).toBe(400)
  expect(await put(`{"a":${'['.repeat(5_000)}${']'.repeat(5_000)}}`)).toBe(400)
  expect((await ask('PUT', '/v1/sensors/nobody/desired', {})).status).toBe(404)
  expect((await retained())[0].state).toEqual({ n: 5 })
})

test('it is taken back, and goes with its sensor', async () => {
  await want({ n: 6 })
  expect((await ask('DELETE', '/v1/sensors/boiler/desired')).status).toBe(204)
  expect(await retained()).toEqual([])
  expect((await ask('GET', '/v1/sensors/boiler/desired')).body).toMatchObject({
    desired: null,
    fields: [],
  })
  await want({ n: 7 })
  const { status } = await ask('DELETE', '/v1/sensors/boiler?measurements=true')
  expect(status).toBe(202)
  const isGone = async () => (await retained()).length === 0
  await until('it is gone', isGone, { deadlineMs: 60_000 })
  expect((await ask('POST', '/v1/sensors', { name: 'boiler' })).status).toBe(201)
  expect((await ask('GET', '/v1/sensors/boiler/desired')).body.desired).toBeNull()
  await want({ n: 8 })
  expect((await retained())[0].state).toEqual({ n: 8 })
}, 90_000)

describeWith(missingPrograms(['mosquitto']), 'a broker that exists already', () => {
  /** @type {import('../support/stack.js').Stack} */
  let outside
  /** @type {import('../support/mosquitto.js').Mosquitto} */
  let broker

  beforeAll(async () => {
    outside = await startStack({
      ingestEnv: { REWRITE_WAIT_S: '3' },
      async prepare(one) {
        broker = await openMosquitto(one.directory)
        await broker.start()
        one.part('ingest').options.env.MQTT_URL = `mqtt://${broker.host}:${broker.port}`
      },
    })
    await fetch(`${outside.apiUrl}/v1/sensors`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"name": "fan"}',
    })
  })
  afterAll(async () => {
    await outside?.end()
    await broker?.stop()
  })

  /** @param {string} method  @param {unknown} [state] */
  const send = (method, state) =>
    fetch(`${outside.apiUrl}/v1/sensors/fan/desired`, {
      method,
      headers: state ? { 'content-type': 'application/json' } : {},
      body: state ? JSON.stringify(state) : undefined,
    })

  /** What a device hears that connects now. */
  async function heard() {
    const client = await mqtt.connectAsync(`mqtt://${broker.host}:${broker.port}`)
    /** @type {string[]} */
    const texts = []
    client.on('message', (_topic, payload) => texts.push(payload.toString()))
    await client.subscribeAsync('desired/#', { qos: 1 })
    await new Promise((resolve) => setTimeout(resolve, 300))
    await client.endAsync()
    return texts.join()
  }

  test('retains it, also after it has forgotten all', async () => {
    expect((await send('PUT', { n: 1 })).status).toBe(204)
    expect(await heard()).toBe('{"n":1}')
    // It was never saved: nothing is left of it.
    await broker.kill9()
    expect((await send('PUT', { n: 2 })).status).toBe(503)
    await broker.start()
    await until('it is told again', async () => (await heard()) === '{"n":2}')
    expect((await send('DELETE')).status).toBe(204)
    expect(await heard()).toBe('')
  }, 60_000)

  test('forgets it with the sensor', async () => {
    expect((await send('PUT', { n: 3 })).status).toBe(204)
    await fetch(`${outside.apiUrl}/v1/sensors/fan?measurements=true`, { method: 'DELETE' })
    await until('it is gone', async () => (await heard()) === '', { deadlineMs: 40_000 })
  }, 60_000)
})
