// The database is away, and clients are acknowledged all the same: what they sent is in the spool.
// It survives whatever happens to ingest, and is stored once when the database is back.
import { sensorId } from '@sandglass/common/sensor'
import mqtt from 'mqtt'
import { unaccounted } from '../support/accounts.js'
import { Ledger } from '../support/ledger.js'
import { openPublishers } from '../support/publisher.js'
import { startStack } from '../support/stack.js'
import { scanMeasurements } from '../support/stored.js'
import { until } from '../support/until.js'

const CLIENTS = 20
const MESSAGES_PER_CLIENT = 200
const ALL = CLIENTS * MESSAGES_PER_CLIENT
const START_MS = Date.UTC(2024, 0, 1)
const SPOOL_BYTES_MAX = 2 * 2 ** 20

/** @typedef {import('../support/publisher.js').Publisher} Publisher */

describe('while the database is away', () => {
  /** @type {import('../support/stack.js').Stack} */
  let stack

  beforeAll(async () => {
    stack = await startStack({
      parts: ['engine', 'ingest'],
      ingestEnv: { SPOOL_BYTES_MAX: String(SPOOL_BYTES_MAX) },
    })
  })
  afterAll(() => stack?.end())

  test('clients are acknowledged, and everything is stored once when it is back', async () => {
    const round = await open('spooled')
    await round.publish(0, 10)
    await stack.databaseAway()
    await round.publish(10, MESSAGES_PER_CLIENT)
    const stats = await stack.stats()
    expect(stats.spooled).toBeGreaterThanOrEqual(ALL - 10 * CLIENTS)
    expect([stats.held, unaccounted(stats)]).toEqual([0, 0])
    expect(stats.spoolBytes).toBeGreaterThan(0)

    await stack.databaseBack()
    await round.expectStored()
    const after = await stack.stats()
    expect(after).toMatchObject({ spooled: 0, held: 0, spoolBytes: 0 })
    expect(unaccounted(after)).toBe(0)
  })

  test('what is no measurement becomes one dead letter, and a clockless one keeps its time', async () => {
    const before = await stack.stats()
    await stack.databaseAway()
    const client = await mqtt.connectAsync(stack.mqttUrl, { reconnectPeriod: 0 })
    await client.publishAsync('sensors/clockless/m', '5', { qos: 1 })
    const fromMs = Date.now() - 60_000
    await client.publishAsync('sensors/clockless/m', '{broken', { qos: 2 })
    await client.endAsync()
    const acknowledgedMs = Date.now()
    await stack.databaseBack()
    await stack.emptied()

    const [row] = (await scanned()).filter(({ sensorId: id }) => id === sensorId('clockless'))
    expect(row.value).toBe(5)
    expect(row.timeMs).toBeGreaterThan(fromMs)
    expect(row.timeMs).toBeLessThan(acknowledgedMs)
    const after = await stack.stats()
    expect(after.deadLettered - before.deadLettered).toBe(1)
    const database = await stack.client()
    const { rows } = await database.execute(
      `SELECT topic, payload FROM ${stack.keyspace}.dead_letter`,
    )
    expect(rows.map(({ topic, payload }) => [topic, String(payload)])).toEqual([
      ['sensors/clockless/m', '{broken'],
    ])
  })

  test('ingest is killed, twice, and starts without the database', async () => {
    const round = await open('killed')
    await round.publish(0, 10)
    await stack.databaseAway()
    await round.publish(10, 80)
    await killIngest()
    await round.publish(80, 140)
    await killIngest()
    await round.publish(140, MESSAGES_PER_CLIENT)
    const stats = await stack.stats()
    expect(stats.recovered).toBeGreaterThanOrEqual(130 * CLIENTS)
    expect(unaccounted(stats)).toBe(0)

    await stack.databaseBack()
    await round.expectStored()
    expect(unaccounted(await stack.stats())).toBe(0)
  })

  test('ingest and the database are killed while the spool is emptied', async () => {
    const round = await open('emptied')
    await stack.databaseAway()
    await round.publish(0, 150)
    await stack.databaseBack()
    for (const isDatabaseKilled of [false, true, false]) {
      await until(
        'some are stored',
        async () => {
          const { stored, spooled } = await stack.stats()
          return stored > 0 || spooled === 0
        },
        { everyMs: 1 },
      )
      if (isDatabaseKilled) await stack.databaseAway()
      await killIngest()
      if (isDatabaseKilled) {
        await round.publish(150, MESSAGES_PER_CLIENT)
        await stack.databaseBack()
      }
    }
    await round.expectStored()
    expect(unaccounted(await stack.stats())).toBe(0)
  })

  test('a full spool holds clients, and drops nothing', async () => {
    const round = await open('full', 'x'.repeat(2_000))
    await stack.databaseAway()
    const published = round.publish(0, MESSAGES_PER_CLIENT)
    const stats = await until('it is full', async () => {
      const now = await stack.stats()
      return now.spoolBytes > 0.9 * SPOOL_BYTES_MAX && now.held > 0 && now
    })
    expect(stats.spooled).toBeGreaterThan(0)
    expect(stats.spoolBytes).toBeLessThan(1.5 * SPOOL_BYTES_MAX)
    expect(round.ledger.acknowledged).toBeLessThan(ALL)
    await stack.databaseBack()
    await published
    await round.expectStored()
    const after = await stack.stats()
    expect([after.droppedQos0, unaccounted(after)]).toEqual([0, 0])
  })

  async function killIngest() {
    await stack.part('ingest').kill9()
    stack.part('ingest').spawn()
    await until('ingest answers', () => stack.stats())
  }

  async function scanned() {
    const client = await stack.client()
    return until('the database answers', () => scanMeasurements(client, stack.keyspace))
  }

  /**
   * Clients that publish to sensors of their own, and what they published.
   *
   * @param {string} name
   * @param {string} [filler]  A text that each message carries besides, and is not compared.
   */
  async function open(name, filler) {
    const ledger = new Ledger()
    const publishers = await openPublishers(CLIENTS, name, { ...stack.mqtt, inFlightMax: 20 })
    const sensors = publishers.map((_, client) => `${name}-${client}`)
    return {
      ledger,
      /** Resolves when all is acknowledged. @param {number} from  @param {number} to */
      async publish(from, to) {
        await Promise.all(
          publishers.flatMap((publisher, client) =>
            Array.from({ length: to - from }, async (_, index) => {
              // Two values of one millisecond now and then.
              const timeMs = START_MS + from + index - (index % 7 === 1 ? 1 : 0)
              const value = from + index
              const acknowledged = ledger.note(sensorId(sensors[client]), 'm', timeMs, value)
              const payload = JSON.stringify({ t: timeMs, m: value, filler: filler ?? null })
              await publisher.publish(`sensors/${sensors[client]}`, payload)
              acknowledged()
            }),
          ),
        )
      },
      async expectStored() {
        await stack.emptied()
        const ids = new Set(sensors.map((sensor) => sensorId(sensor)))
        const rows = await scanned()
        const ours = rows.filter(({ sensorId: id, metric }) => ids.has(id) && metric === 'm')
        expect(ledger.acknowledged).toBe(ledger.published)
        expect(ledger.compare(ours)).toMatchObject({ lost: [], doubled: [], foreign: [] })
        await Promise.all(publishers.map((publisher) => publisher.close()))
      },
    }
  }
})
