// Parts of the platform die or are restarted while clients publish. Clients send again what was not
// acknowledged, and every measurement is stored once.
import { sensorId } from '@sandglass/common/sensor'
import { Ledger } from '../support/ledger.js'
import { openPublishers } from '../support/publisher.js'
import { startStack } from '../support/stack.js'
import { readMeasurements, scanMeasurements } from '../support/stored.js'
import { until } from '../support/until.js'

const CLIENTS = 20
const MESSAGES_PER_CLIENT = 500
const START_MS = Date.UTC(2024, 0, 1)

/** @typedef {import('../support/stack.js').Stack} Stack */

describe('while clients publish', () => {
  /** @type {Stack} */
  let stack

  beforeAll(async () => {
    stack = await startStack()
  })
  afterAll(() => stack?.end())

  test('ingest is killed: what it had not acknowledged is sent again and stored once', async () => {
    await publishThrough('killed', async () => {
      await stack.part('ingest').kill9()
      await stack.part('ingest').start()
    })
  })

  test('ingest is restarted in order, with the same result', async () => {
    await publishThrough('stopped', async () => {
      await stack.part('ingest').stop()
      await stack.part('ingest').start()
    })
  })

  test('ingest is killed while the database is away', async () => {
    await publishThrough('both', async () => {
      await stack.databaseAway()
      await stack.part('ingest').kill9()
      stack.part('ingest').spawn()
      await stack.databaseBack()
      await stack.part('ingest').healthy()
    })
  })

  test('the connections of all clients are cut, again and again', async () => {
    await publishThrough('cut', async (publishers) => {
      for (let round = 0; round < 5; round++) {
        for (const publisher of publishers) publisher.cut()
        await until('all are connected again', () =>
          publishers.every(({ connected, disconnects }) => connected && disconnects > round),
        )
      }
    })
  })

  test('a cursor goes on where it was after the api was restarted', async () => {
    const { items } = await readMeasurements(stack.apiUrl, 'killed-0', { limit: 1000 })
    const url = `${stack.apiUrl}/v1/sensors/${sensorId('killed-0')}/measurements?limit=200`
    const first = await (await fetch(url)).json()
    await stack.part('api').stop()
    await stack.part('api').start()
    const second = await (await fetch(`${url}&cursor=${encodeURIComponent(first.next)}`)).json()
    expect(second.items).toHaveLength(200)
    expect([...first.items, ...second.items].map(({ v }) => v)).toEqual(
      items.slice(0, 400).map(({ value }) => value),
    )
  })

  /**
   * Lets all clients publish, disturbs them when a third is acknowledged, and compares.
   *
   * @param {string} name
   * @param {(publishers: import('../support/publisher.js').Publisher[]) => Promise<void>} disturb
   */
  async function publishThrough(name, disturb) {
    const ledger = new Ledger()
    const publishers = await openPublishers(CLIENTS, name, { ...stack.mqtt, inFlightMax: 20 })
    const published = publishers.flatMap((publisher, client) => {
      const sensor = `${name}-${client}`
      return Array.from({ length: MESSAGES_PER_CLIENT }, async (_, index) => {
        // Now and then two values of one millisecond, which must stay two.
        const timeMs = START_MS + index - (index % 10 === 1 ? 1 : 0)
        const acknowledged = ledger.note(sensorId(sensor), 'm', timeMs, index)
        await publisher.publish(`sensors/${sensor}/m`, JSON.stringify({ t: timeMs, v: index }))
        acknowledged()
      })
    })
    await until('a third is acknowledged', () => 3 * ledger.acknowledged > ledger.published, {
      everyMs: 2,
      deadlineMs: 60_000,
    })
    await disturb(publishers)
    await Promise.all(published)
    expect(ledger.acknowledged).toBe(CLIENTS * MESSAGES_PER_CLIENT)
    await Promise.all(publishers.map((publisher) => publisher.close()))

    await stack.emptied()
    const client = await stack.client()
    const rows = await until('the database answers', () => scanMeasurements(client, stack.keyspace))
    const sensors = new Set(publishers.map((_, client) => sensorId(`${name}-${client}`)))
    expect(ledger.compare(rows.filter((row) => sensors.has(row.sensorId)))).toEqual({
      lost: [],
      doubled: [],
      foreign: [],
      counts: { stored: ledger.published, lost: 0, doubled: 0, foreign: 0 },
    })
  }
})
