// Two processes that are one ingest: they share the ports and the sensors. Each is killed under
// load; what was acknowledged is stored once, and who subscribed hears of it, whichever process
// publisher and subscriber are in.
import { createHash } from 'node:crypto'
import { connect } from 'node:net'
import { sensorId } from '@sandglass/common/sensor'
import mqtt from 'mqtt'
import { unaccounted } from '../support/accounts.js'
import { openLoad } from '../support/load.js'
import { freePort } from '../support/ports.js'
import { openPublishers } from '../support/publisher.js'
import { startStack, UNSPOOLED } from '../support/stack.js'
import { scanMeasurements } from '../support/stored.js'
import { until } from '../support/until.js'
import * as wire from '../support/wire.js'

const COUNT = 2
const START_MS = Date.UTC(2024, 0, 1)
const DEVICES = 20
const PER_SECOND = 500

/** Which process a client belongs to, as the hash of its id says. @param {string} clientId */
const homeOf = (clientId) => createHash('sha1').update(clientId).digest().readUInt32LE(0) % COUNT

/** A client id that belongs to a process. @param {string} name  @param {number} process */
function idOf(name, process) {
  let number = 0
  while (homeOf(`${name}-${number}`) !== process) number++
  return `${name}-${number}`
}

describe('an ingest of two processes', () => {
  /** @type {import('../support/stack.js').Stack} */
  let stack
  /** @type {string} */
  let webSocketUrl
  /** @type {mqtt.MqttClient[]} */
  const clients = []

  beforeAll(async () => {
    const webSockets = `127.0.0.1:${await freePort('127.0.0.1')}`
    webSocketUrl = `ws://${webSockets}`
    const ingestEnv = {
      INGEST_PROCESSES: `${COUNT}`,
      MQTT_WS_LISTEN: webSockets,
      ...UNSPOOLED,
    }
    stack = await startStack({ parts: ['engine', 'ingest'], ingestEnv })
  })

  afterAll(async () => {
    await Promise.all(clients.map((client) => client.endAsync(true)))
    await stack?.end()
  })

  /** @param {mqtt.IClientOptions} options  @param {string} [url] */
  async function open(options, url = stack.mqttUrl) {
    const client = mqtt.connect(url, { reconnectPeriod: 100, ...options })
    clients.push(client)
    /** @type {string[]} */
    const heard = []
    client.on('message', (topic, payload) => heard.push(`${topic} ${payload}`))
    await until('it is let in', () => client.connected)
    return { client, heard }
  }

  /** The processes that store. @returns {Promise<Record<'pid' | 'connections', number>[]>} */
  const processes = async () => (await stack.stats()).processes

  /** Resolves once all processes serve. */
  async function healthy() {
    await until('all processes serve', async () => (await fetch(`${stack.ingestUrl}/health`)).ok)
  }

  test('whoever publishes is heard by whoever subscribed, and what is retained is kept', async () => {
    const listeners = await Promise.all(
      [0, 1].map((home) => open({ clientId: idOf('listener', home) })),
    )
    for (const { client } of listeners) await client.subscribeAsync('news/#', { qos: 1 })
    for (const home of [0, 1]) {
      const { client } = await open({ clientId: idOf('speaker', home) })
      await client.publishAsync(`news/${home}`, `from ${home}`, { qos: 1, retain: true })
    }
    const all = ['news/0 from 0', 'news/1 from 1']
    for (const { heard } of listeners) {
      await until('it hears both', () => heard.length === 2)
      expect(heard.sort()).toEqual(all)
    }
    const late = await Promise.all(
      [1, 2, 3, 4].map((number) => open({ clientId: idOf(`late-${number}`, 0) })),
    )
    for (const { client, heard } of late) {
      await client.subscribeAsync('news/#')
      await until('it hears what is retained', () => heard.length === 2)
      expect(heard.sort()).toEqual(all)
    }
    // Each is where it belongs: a listener and a speaker, and those that are late.
    expect((await processes()).map(({ connections }) => connections)).toEqual([6, 2])
  })

  test('a client id has one connection and one session, by whichever process it came', async () => {
    const clientId = idOf('one', 1)
    const settings = { clientId, clean: false }
    const first = await open({ ...settings, reconnectPeriod: 0 })
    await first.client.subscribeAsync('for-one', { qos: 1 })
    const closed = new Promise((resolve) => first.client.once('close', () => resolve(undefined)))
    const second = await open({ ...settings, reconnectPeriod: 0 })
    await closed
    await second.client.endAsync()
    const { client } = await open({ clientId: idOf('other', 0) })
    await client.publishAsync('for-one', 'while it was away', { qos: 1 })
    const third = await open(settings)
    await until('its queue is given', () => third.heard.length === 1)
    expect(third.heard).toEqual(['for-one while it was away'])
  })

  test('by WebSocket, too, a client is in the process that it belongs to', async () => {
    for (const home of [0, 1]) {
      const clientId = idOf('web', home)
      const web = await open({ clientId, reconnectPeriod: 0 }, webSocketUrl)
      await web.client.subscribeAsync(`web/${home}`, { qos: 1 })
      const { client } = await open({ clientId: idOf('plain', home) })
      await client.publishAsync(`web/${home}`, 'x'.repeat(100_000), { qos: 1 })
      await until('it hears all of it', () => web.heard.length === 1)
      expect(web.heard[0]).toHaveLength(100_006)
      await web.client.publishAsync(`sensors/web-${home}/m`, '1', { qos: 1 })
      const closed = new Promise((resolve) => web.client.once('close', () => resolve(undefined)))
      await open({ clientId, reconnectPeriod: 0 })
      await closed
    }
  })

  test('what comes right behind a CONNECT, in pieces, goes with its connection', async () => {
    const messages = 40
    const sockets = Array.from({ length: 30 }, (_, number) => {
      const clientId = `hasty-${number}`
      const socket = connect({ ...stack.mqtt, noDelay: true })
      const acknowledged = new Promise((resolve, reject) => {
        const framer = { bytes: 0 }
        socket.on('data', ({ length }) => {
          framer.bytes += length
          // A CONNACK and all PUBACKs, four bytes each.
          if (framer.bytes === 4 * (1 + messages)) resolve(undefined)
        })
        socket.on('close', () => reject(new Error(`${clientId} was thrown out`)))
        socket.on('error', () => {})
      })
      socket.write(wire.connect({ clientId, keepAliveS: 0, clean: true }))
      const send = (/** @type {number} */ id) => {
        const payload = JSON.stringify({ t: START_MS + id, v: id })
        const packet = wire.publish(`sensors/${clientId}/m`, payload, id, false)
        socket.write(packet.subarray(0, 5))
        setImmediate(() => {
          socket.write(packet.subarray(5))
          if (id < messages) setImmediate(() => send(id + 1))
        })
      }
      send(1)
      return { socket, acknowledged }
    })
    await Promise.all(sockets.map(({ acknowledged }) => acknowledged))
    for (const { socket } of sockets) socket.destroy()
  })

  test('two values of one millisecond that come to two processes are two rows', async () => {
    const count = 100
    await Promise.all(
      [0, 1].map(async (home) => {
        const { client } = await open({ clientId: idOf('twin', home) })
        for (let t = 0; t < count; t++) {
          const payload = JSON.stringify({ t: START_MS + t, v: 2 * t + home })
          void client.publishAsync('sensors/twins/m', payload, { qos: 1 })
        }
        await client.publishAsync('sensors/twins/end', '0', { qos: 1 })
      }),
    )
    const rows = await scanMeasurements(await stack.client(), stack.keyspace)
    const ours = rows.filter((row) => row.sensorId === sensorId('twins') && row.metric === 'm')
    const values = ours.map(({ value }) => Number(value)).sort((a, b) => a - b)
    expect(values).toEqual(Array.from({ length: 2 * count }, (_, value) => value))
  })

  test('a will is published when its client is gone without a word, and not after one', async () => {
    const { client, heard } = await open({ clientId: idOf('heir', 0) })
    await client.subscribeAsync('wills/#', { qos: 1 })
    const will = (/** @type {string} */ payload) => ({
      topic: 'wills/a',
      payload: Buffer.from(payload),
      qos: /** @type {const} */ (1),
    })
    const polite = await open({ clientId: idOf('polite', 1), will: will('polite') })
    await polite.client.endAsync()
    const dead = await open({ clientId: idOf('dead', 1), will: will('dead'), reconnectPeriod: 0 })
    dead.client.stream.destroy()
    await until('the will is heard', () => heard.length > 0)
    expect(heard).toEqual(['wills/a dead'])
  })

  test('killed one after the other under load, they lose and double nothing', async () => {
    const { client, heard } = await open({ clientId: idOf('watcher', 0) })
    const other = await open({ clientId: idOf('watcher', 1) })
    for (const one of [client, other.client]) await one.subscribeAsync('sensors/load-0', { qos: 1 })
    const load = await openLoad(stack.mqtt, {
      name: 'load',
      devices: DEVICES,
      perSecond: PER_SECOND,
    })
    load.start()
    await load.acknowledges(PER_SECOND)
    for (const { pid } of await processes()) {
      process.kill(pid, 'SIGKILL')
      await load.acknowledges(PER_SECOND)
      await healthy()
      await load.acknowledges(PER_SECOND)
    }
    const ingest = stack.part('ingest')
    await ingest.kill9()
    await ingest.start()
    await load.acknowledges(PER_SECOND)
    await until('both hear again', async () => {
      heard.length = 0
      other.heard.length = 0
      await load.acknowledges(DEVICES)
      return heard.length > 0 && other.heard.length > 0
    })
    await load.finish()
    await stack.emptied()
    const disconnects = load.publishers.map((publisher) => publisher.disconnects)
    expect(Math.max(...disconnects)).toBeGreaterThan(0)
    await load.close()
    const rows = await scanMeasurements(await stack.client(), stack.keyspace)
    expect(load.compare(rows)).toEqual(load.clean)
    expect(unaccounted(await stack.stats())).toBe(0)
  })

  test('one page tells of all of them', async () => {
    const publishers = await openPublishers(8, 'counted', stack.mqtt)
    await Promise.all(
      publishers.flatMap((publisher, index) =>
        Array.from({ length: 5 }, (_, t) => publisher.publish(`sensors/c-${index}/m`, `${t}`)),
      ),
    )
    const page = await (await fetch(`${stack.ingestUrl}/metrics`)).text()
    const received = [
      ...page.matchAll(/^sandglass_ingest_messages_received_total\{process="(\d)"\} (\d+)$/gm),
    ]
    expect(received.map(([, index]) => index)).toEqual(['0', '1'])
    const stats = await stack.stats()
    expect(received.reduce((sum, [, , count]) => sum + Number(count), 0)).toBe(stats.received)
    for (const { received: count } of stats.processes) expect(count).toBeGreaterThan(0)
    expect(page).toMatch(/^sandglass_ingest_memory_bytes\{kind="retained",process="broker"\} \d+$/m)
    await Promise.all(publishers.map((publisher) => publisher.close()))
  })
})

test('with fewer processes, what the others left in their spools is stored', async () => {
  const ingestEnv = { INGEST_PROCESSES: '3', SPOOL_AFTER_MS: '50' }
  const stack = await startStack({ parts: ['engine', 'ingest'], ingestEnv })
  try {
    const load = await openLoad(stack.mqtt, { name: 'left', devices: 12, perSecond: 300 })
    load.start()
    await load.acknowledges(12)
    await stack.databaseAway()
    await load.acknowledges(300)
    const [, { pid }] = (await stack.stats()).processes
    process.kill(pid, 'SIGKILL')
    await load.acknowledges(300)
    await load.finish()
    await load.close()
    const ingest = stack.part('ingest')
    await ingest.stop()
    ingest.options.env.INGEST_PROCESSES = '1'
    await stack.databaseBack()
    await ingest.start()
    await stack.emptied()
    const rows = await scanMeasurements(await stack.client(), stack.keyspace)
    expect(load.compare(rows)).toEqual(load.clean)
    const stats = await stack.stats()
    expect(stats.recovered).toBeGreaterThan(0)
    expect(unaccounted(stats)).toBe(0)
  } finally {
    await stack.end()
  }
})
