// The proof: what a publisher was told is stored, is stored, once, whatever happens to the
// database.
//
// Two hundred clients publish a hundred thousand messages at QoS 1 and keep their own ledger. Twice
// meanwhile the database goes without warning: our engine by kill -9, a given one by a cut link.
// Then everything that is stored is compared with the ledger, over CQL and over REST.
import { sensorId } from '@sandglass/common/sensor'
import { Ledger } from '../support/ledger.js'
import { openPublishers } from '../support/publisher.js'
import { startStack } from '../support/stack.js'
import { readMeasurements, scanMeasurements } from '../support/stored.js'
import { until } from '../support/until.js'

const CLIENTS = 200
const MESSAGES_PER_CLIENT = 500
/** Shares of all messages at whose acknowledgement the database goes. */
const KILLS_AT = [0.25, 0.6]
/** Every so many messages one has the same time as the message before it, and another value. */
const SAME_TIME_EVERY = 10
const METRIC = 'proof'
const START_MS = Date.UTC(2024, 0, 1)

const clean = {
  lost: [],
  doubled: [],
  foreign: [],
  counts: { stored: CLIENTS * MESSAGES_PER_CLIENT, lost: 0, doubled: 0, foreign: 0 },
}

describe(`${CLIENTS * MESSAGES_PER_CLIENT} messages of ${CLIENTS} clients, the database killed twice`, () => {
  const ledger = new Ledger()
  /** @type {import('../support/stack.js').Stack} */
  let stack

  beforeAll(async () => {
    stack = await startStack()
  })
  afterAll(() => stack?.end())

  test('every message is acknowledged in the end, and no client is thrown out', async () => {
    const publishers = await openPublishers(CLIENTS, 'proof', stack.mqtt)
    const published = publishers.map((publisher, client) => publishAll(publisher, client))
    for (const share of KILLS_AT) {
      const count = share * CLIENTS * MESSAGES_PER_CLIENT
      await until(`${count} acknowledgements`, () => ledger.acknowledged >= count, {
        deadlineMs: 120_000,
        everyMs: 5,
      })
      await stack.databaseAway()
      expect(publishers.some(({ pending }) => pending > 0)).toBe(true)
      await stack.databaseBack()
    }
    await Promise.all(published.flat())
    expect(ledger.acknowledged).toBe(CLIENTS * MESSAGES_PER_CLIENT)
    expect(publishers.reduce((sum, { disconnects }) => sum + disconnects, 0)).toBe(0)
    await Promise.all(publishers.map((publisher) => publisher.close()))
    await stack.emptied()
  }, 400_000)

  test('a scan over CQL finds each of them once, and nothing else', async () => {
    const client = await stack.client()
    expect(ledger.compare(await scanMeasurements(client, stack.keyspace))).toEqual(clean)
  })

  test('the same is found once more after another kill', async () => {
    await stack.databaseAway()
    await stack.databaseBack()
    const client = await stack.client()
    const rows = await until('the database answers', () => scanMeasurements(client, stack.keyspace))
    expect(ledger.compare(rows)).toEqual(clean)
  }, 240_000)

  test('the pages of the api hold the same', async () => {
    await stack.readable()
    const rows = []
    for (let client = 0; client < CLIENTS; client++) {
      const { items } = await readMeasurements(stack.apiUrl, sensorName(client), { limit: 100 })
      rows.push(...items)
    }
    expect(ledger.compare(rows)).toEqual(clean)
  }, 240_000)

  test('what ingest counts adds up', async () => {
    expect(await stack.stats()).toMatchObject({
      received: CLIENTS * MESSAGES_PER_CLIENT,
      stored: CLIENTS * MESSAGES_PER_CLIENT,
      recovered: 0,
      deadLettered: 0,
      spooled: 0,
      held: 0,
      droppedQos0: 0,
      lost: 0,
    })
  })

  /**
   * @param {import('../support/publisher.js').Publisher} publisher
   * @param {number} client
   * @returns {Promise<void>[]}
   */
  function publishAll(publisher, client) {
    return Array.from({ length: MESSAGES_PER_CLIENT }, async (_, index) => {
      const timeMs = START_MS + index - (index % SAME_TIME_EVERY === 1 ? 1 : 0)
      const value = client * MESSAGES_PER_CLIENT + index
      const acknowledged = ledger.note(sensorId(sensorName(client)), METRIC, timeMs, value)
      const payload = JSON.stringify({ t: timeMs, v: value })
      await publisher.publish(`sensors/${sensorName(client)}/${METRIC}`, payload)
      acknowledged()
    })
  }
})

/** @param {number} client */
function sensorName(client) {
  return `proof-${client}`
}
