// The database is away for a minute, and there is no spool. Clients with a keep-alive of five
// seconds stay connected, go on publishing, and lose nothing; what has no room is refused where the
// promise allows it.
import { setTimeout as delay } from 'node:timers/promises'
import { sensorId } from '@sandglass/common/sensor'
import mqtt from 'mqtt'
import { Ledger } from '../support/ledger.js'
import { openPublishers, Publisher } from '../support/publisher.js'
import { startStack } from '../support/stack.js'
import { scanMeasurements } from '../support/stored.js'
import { until } from '../support/until.js'

const OUTAGE_MS = 60_000
const KEEP_ALIVE_S = 5
const CLIENTS = 50
const START_MS = Date.UTC(2024, 0, 1)
/**
 * Messages of one client that ingest holds, and bytes of QoS 0: small, so that tests reach them.
 */
const CLIENT_MESSAGES_MAX = 100
const QOS0_BYTES_MAX = 16 * 1024

describe('the database is away', () => {
  /** @type {import('../support/stack.js').Stack} */
  let stack

  beforeAll(async () => {
    stack = await startStack({
      parts: ['engine', 'ingest'],
      ingestEnv: {
        CLIENT_MESSAGES_MAX: String(CLIENT_MESSAGES_MAX),
        QOS0_BYTES_MAX: String(QOS0_BYTES_MAX),
        SPOOL_BYTES_MAX: '0',
      },
    })
  })
  afterAll(() => stack?.end())

  test('for a minute: clients stay connected and nothing is lost', async () => {
    const ledger = new Ledger()
    const options = { ...stack.mqtt, keepAliveS: KEEP_ALIVE_S, inFlightMax: 1000 }
    const publishers = await openPublishers(CLIENTS, 'patient', options)
    /** @type {Promise<void>[]} */
    const published = []
    let second = 0
    /** Every client publishes one message, and need not wait for the one before. */
    const publishAll = () => {
      for (const [client, publisher] of publishers.entries()) {
        const sensor = `patient-${client}`
        const timeMs = START_MS + second * 1000
        const acknowledged = ledger.note(sensorId(sensor), 'm', timeMs, second)
        const payload = JSON.stringify({ t: timeMs, v: second })
        published.push(publisher.publish(`sensors/${sensor}/m`, payload).then(acknowledged))
      }
      second++
    }
    publishAll()
    await Promise.all(published)

    await stack.databaseAway()
    const back = performance.now() + OUTAGE_MS
    while (performance.now() < back) {
      publishAll()
      await delay(1000)
    }
    const pongs = publishers.map((publisher) => publisher.pongs)
    const { held } = await stack.stats()
    await stack.databaseBack()
    await Promise.all(published)

    expect(ledger.acknowledged).toBe(ledger.published)
    expect(held).toBeGreaterThanOrEqual(CLIENTS * (second - 2))
    expect(Math.min(...pongs)).toBeGreaterThanOrEqual(OUTAGE_MS / 1000 / KEEP_ALIVE_S)
    expect(publishers.map(({ disconnects }) => disconnects)).toEqual(publishers.map(() => 0))
    await expectStored(ledger)
    await Promise.all(publishers.map((publisher) => publisher.close()))
  }, 240_000)

  test('a client that publishes without limit is held to its own, others go on', async () => {
    const ledger = new Ledger()
    const flood = new Publisher({ ...stack.mqtt, clientId: 'flood', inFlightMax: 5000 })
    const modest = new Publisher({ ...stack.mqtt, clientId: 'modest', keepAliveS: 1 })
    await Promise.all([flood.open(), modest.open()])
    const before = await stack.stats()
    await stack.databaseAway()
    const published = Array.from({ length: 5000 }, async (_, index) => {
      const acknowledged = ledger.note(sensorId('flood'), 'm', START_MS + index, index)
      await flood.publish('sensors/flood/m', JSON.stringify({ t: START_MS + index, v: index }))
      acknowledged()
    })
    await until('the flood is held', async () => (await stack.stats()).held >= CLIENT_MESSAGES_MAX)
    const acknowledged = ledger.note(sensorId('modest'), 'm', START_MS, 1)
    published.push(modest.publish('sensors/modest/m', `{"t":${START_MS},"v":1}`).then(acknowledged))
    const held = await until('the modest one is heard', async () => {
      const stats = await stack.stats()
      return stats.held > CLIENT_MESSAGES_MAX && modest.pongs > 2 && stats.held
    })
    expect(held).toBe(CLIENT_MESSAGES_MAX + 1)
    expect(ledger.acknowledged).toBe(0)

    await stack.databaseBack()
    await Promise.all(published)
    const after = await stack.stats()
    expect(after.stored - before.stored).toBe(5001)
    expect([flood.disconnects, modest.disconnects]).toEqual([0, 0])
    await expectStored(ledger, new Set([sensorId('flood'), sensorId('modest')]))
    await Promise.all([flood.close(), modest.close()])
  })

  test('QoS 0 beyond its limit is dropped and counted, and the sum stays right', async () => {
    const client = await mqtt.connectAsync(stack.mqttUrl, { reconnectPeriod: 0 })
    const before = await stack.stats()
    await stack.databaseAway()
    const count = 1000
    for (let index = 0; index < count; index++) {
      const payload = JSON.stringify({ t: START_MS + index, note: 'x'.repeat(100) })
      await client.publishAsync('sensors/hasty', payload, { qos: 0 })
    }
    await until('all are received', async () => {
      return (await stack.stats()).received - before.received === count
    })
    await stack.databaseBack()
    const after = await until('nothing is held', async () => {
      const stats = await stack.stats()
      return stats.held === 0 && stats
    })
    const stored = after.stored - before.stored
    const dropped = after.droppedQos0 - before.droppedQos0
    expect(dropped).toBeGreaterThan(0)
    expect(stored).toBeGreaterThan(0)
    expect(stored + dropped).toBe(count)
    const rows = await scanned()
    expect(rows.filter((row) => row.sensorId === sensorId('hasty'))).toHaveLength(stored)
    await client.endAsync()
  })

  /** Every measurement, once the driver knows that the database is back. */
  async function scanned() {
    const client = await stack.client()
    return until('the database answers', () => scanMeasurements(client, stack.keyspace))
  }

  /**
   * @param {Ledger} ledger
   * @param {Set<string>} [sensors]  Those that the ledger is of; default: all that there are.
   */
  async function expectStored(ledger, sensors) {
    const rows = await scanned()
    const { counts, ...differences } = ledger.compare(
      rows.filter((row) => sensors?.has(row.sensorId) ?? true),
    )
    expect(differences).toEqual({ lost: [], doubled: [], foreign: [] })
    expect(counts).toMatchObject({ stored: ledger.published })
  }
})
