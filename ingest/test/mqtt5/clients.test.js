// MQTT 5 as a client library speaks it.

import mqtt from 'mqtt'
import { startIngest, until } from '../support/ingest.js'

/** @type {Awaited<ReturnType<typeof startIngest>>} */
let ingest
/** @type {import('mqtt').MqttClient[]} */
let clients = []

beforeEach(async () => {
  ingest = await startIngest()
})
afterEach(async () => {
  for (const one of clients) one.end(true)
  clients = []
  await ingest.stop()
})

/** @param {import('mqtt').IClientOptions} [options] */
async function open(options) {
  const one = await mqtt.connectAsync(`mqtt://127.0.0.1:${ingest.port}`, {
    protocolVersion: 5,
    reconnectPeriod: 0,
    ...options,
  })
  clients.push(one)
  return one
}

test('a publish resolves when it is stored, and rejects with the reason when it is refused', async () => {
  const one = await open()
  await one.publishAsync('sensors/s/m', '21.5', { qos: 1 })
  await one.publishAsync('sensors/s/m', '22.5', { qos: 2 })
  await until(() => ingest.counts.received === 2)
  for (const qos of /** @type {const} */ ([1, 2])) {
    const refused = one.publishAsync('sensors/s/m', 'no number', { qos })
    await expect(refused).rejects.toMatchObject({ code: 0x99 })
  }
})

test('aliases that the library assigns are understood, and properties arrive', async () => {
  const listener = await open()
  /** @type {import('mqtt').IPublishPacket[]} */
  const heard = []
  listener.on('message', (_topic, _payload, packet) => heard.push(packet))
  await listener.subscribeAsync('room/#', { qos: 2, properties: { subscriptionIdentifier: 9 } })
  const one = await open({ autoAssignTopicAlias: true })
  for (let number = 0; number < 200; number++) {
    const properties = { userProperties: { number: `${number}` } }
    const qos = /** @type {0 | 1 | 2} */ (number % 3)
    await one.publishAsync(`room/${number % 80}`, `${number}`, { qos, properties })
  }
  await until(() => heard.length === 200)
  expect(new Set(heard.map(({ topic }) => topic)).size).toBe(80)
  for (const { topic, payload, properties } of heard) {
    expect(topic).toBe(`room/${Number(`${payload}`) % 80}`)
    expect(properties?.userProperties).toMatchObject({ number: `${payload}` })
    expect(properties?.subscriptionIdentifier).toBe(9)
  }
})

test('workers share what is published, at a receive maximum of one, and none is lost', async () => {
  /** @type {string[]} */
  const heard = []
  for (let number = 0; number < 3; number++) {
    const worker = await open({ properties: { receiveMaximum: 1 } })
    worker.on('message', (_topic, payload) => heard.push(`${payload}`))
    await worker.subscribeAsync('$share/workers/jobs/#', { qos: 1 })
  }
  const one = await open()
  const numbers = Array.from({ length: 200 }, (_, number) => `${number}`)
  await Promise.all(numbers.map((number) => one.publishAsync('jobs/a', number, { qos: 1 })))
  await until(() => heard.length === numbers.length)
  expect([...heard].sort()).toEqual([...numbers].sort())
})

test('a client that comes back to its session hears what it missed', async () => {
  const kept = { clientId: 'kept', clean: false, properties: { sessionExpiryInterval: 60 } }
  const first = await open(kept)
  await first.subscribeAsync('room/#', { qos: 1 })
  first.stream.destroy()
  await until(() => ingest.server.connectionCount === 0)
  const one = await open()
  await one.publishAsync('room/a', 'missed', { qos: 1 })
  /** @type {string[]} */
  const heard = []
  const again = mqtt.connect(`mqtt://127.0.0.1:${ingest.port}`, { protocolVersion: 5, ...kept })
  clients.push(again)
  again.on('message', (_topic, payload) => heard.push(`${payload}`))
  await until(() => heard.length === 1)
})

test('a library hears why it is disconnected', async () => {
  const one = await open({ clientId: 'same' })
  const reason = new Promise((resolve) => {
    one.on('disconnect', ({ reasonCode }) => resolve(reasonCode))
  })
  await open({ clientId: 'same' })
  expect(await reason).toBe(0x8e)
})
