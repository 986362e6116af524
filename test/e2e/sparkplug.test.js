// Edge nodes of Sparkplug with a real MQTT client, while ingest, the engine and they themselves are
// killed: each value that is stored has its name and is there once, and what was sent while nothing
// that takes it was killed is stored.
import { writePayload } from '@sandglass/common/formats/sparkplug/write'
import { unaccounted } from '../support/accounts.js'
import { areFollowed, EdgeClient, metricOf, publishData, storedOf } from '../support/edge-client.js'
import { Ledger } from '../support/ledger.js'
import { startStack } from '../support/stack.js'
import { getJson } from '../support/stored.js'
import { until } from '../support/until.js'

const SEED = Number(process.env.SEED ?? Date.now() % 1_000_000)
const TEMPLATE = 'spBv1.0/{group}/{type}/{node}[/{device}] in sparkplug-b'
const ENV = { TOPIC_TEMPLATES: TEMPLATE }

/** Numbers from 0 to 1 that a seed repeats. @param {number} seed */
function seeded(seed) {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

/** @typedef {import('../support/stack.js').Stack} Stack */

/** @param {Stack} stack  @param {Ledger} ledger */
async function expectStored(stack, ledger) {
  await stack.emptied()
  const report = await storedOf(await stack.client(), stack.keyspace, ledger)
  expect({ SEED, ...report }).toMatchObject({ SEED, lost: [], doubled: [], foreign: [] })
  expect(unaccounted(await stack.stats())).toBe(0)
}

describe('edge nodes', () => {
  /** @type {Stack} */
  let stack
  /** @type {EdgeClient[]} */
  let nodes
  const ledger = new Ledger()
  const random = seeded(SEED)

  beforeAll(async () => {
    stack = await startStack({ ingestEnv: ENV, apiEnv: ENV })
    nodes = ['line1', 'line2', 'line3'].map(
      (name, at) =>
        new EdgeClient({
          url: stack.mqttUrl,
          name,
          devices: ['press', 'oven'].slice(0, at),
          ledger,
          random,
        }),
    )
    await areFollowed(stack.ingestUrl, 3)
  })
  afterAll(async () => {
    await Promise.all(nodes.map((node) => node.end()))
    await stack?.end()
  })

  test('are stored by name, through kill -9 of ingest, of the engine, and of themselves', async () => {
    await publishData(nodes, 50, true)
    // The database is away, and messages wait in the spool; ingest dies with them there.
    await stack.databaseAway()
    await publishData(nodes, 30, true)
    await until('all is in the spool', async () => {
      const { held, spooled } = await stack.stats()
      return held === 0 && spooled > 0
    })
    await stack.part('ingest').kill9()
    await publishData(nodes, 20, false)
    stack.part('ingest').spawn()
    await stack.databaseBack()
    await stack.part('ingest').healthy()
    await areFollowed(stack.ingestUrl, 3)
    await publishData(nodes, 50, true)
    // They lose their connections, now and then in the midst of what they send.
    for (let round = 0; round < 6; round++) {
      await publishData(nodes, 5, false)
      const node = nodes[Math.floor(random() * nodes.length)]
      const { connects } = node
      node.cut()
      await until('it is back', () => node.isConnected && node.connects > connects)
    }
    await publishData(nodes, 20, true)
    await expectStored(stack, ledger)
    expect(await metricOf(stack.ingestUrl, 'sparkplug_rebirths_total')).toBe(0)
  })

  test('are asked for their births when a message is lost; what has no name is a dead letter', async () => {
    const [node] = nodes
    node.lose()
    // One alone may have no metric.
    for (let count = 0; count < 5; count++) node.data(false)
    await until('it is asked', () => node.rebirths === 1)
    await areFollowed(stack.ingestUrl, 3)
    await publishData(nodes, 20, true)
    await expectStored(stack, ledger)
    expect(await metricOf(stack.ingestUrl, 'sparkplug_gaps_total')).toBe(1)
    const { items } = await getJson(`${stack.apiUrl}/v1/dead-letters`)
    expect(items.length).toBeGreaterThan(0)
    for (const { topic, format, reason } of items) {
      expect([topic, format]).toEqual(['spBv1.0/plant/NDATA/line1', 'sparkplug-b'])
      expect(reason).toMatch(/^alias \d+: no birth that was received tells its name/)
    }
    const answer = await fetch(`${stack.apiUrl}/v1/dead-letters/replay`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ ids: items.map((/** @type {any} */ { id }) => id) }),
    })
    expect(await answer.json()).toMatchObject({
      replayed: 0,
      refused: items.map((/** @type {any} */ { id, reason }) => ({ id, reason })),
    })
    await expectStored(stack, ledger)
  })

  test('are decoded by /v1/decode as ingest does before it hears a birth', async () => {
    /** @param {string} topic  @param {Parameters<typeof writePayload>[0]} payload */
    const decode = async (topic, payload) => {
      const url = `${stack.apiUrl}/v1/decode?topic=${encodeURIComponent(topic)}`
      const headers = { 'content-type': 'application/octet-stream' }
      const body = new Uint8Array(writePayload(payload))
      return (await fetch(url, { method: 'POST', headers, body })).json()
    }
    const timeMs = Date.now()
    const born = { name: 'temp', alias: 1, datatype: 10, timeMs, double: 21.5 }
    const data = [{ alias: 1, timeMs, double: 22 }]
    expect(await decode('spBv1.0/g/DBIRTH/n/d', { seq: 1, metrics: [born] })).toMatchObject({
      items: [{ sensor: 'g∕n∕d', metric: 'temp', t: timeMs, kind: 'number', v: 21.5 }],
      refused: [],
    })
    expect(await decode('spBv1.0/g/NDATA/n', { seq: 1, metrics: data })).toMatchObject({
      items: [],
      refused: [{ item: 0, reason: 'alias 1: no birth that was received tells its name' }],
    })
    expect(await decode('spBv1.0/g/NDEATH/n', { metrics: [] })).toMatchObject({
      items: [],
      refused: [],
      refused_fields: [],
    })
  })
})

test('edge nodes of several processes are each asked by way of the broker of all', async () => {
  const stack = await startStack({ ingestEnv: { ...ENV, INGEST_PROCESSES: '2' }, apiEnv: ENV })
  const ledger = new Ledger()
  const random = seeded(SEED)
  const nodes = ['a', 'b', 'c', 'd', 'e', 'f'].map(
    (name) => new EdgeClient({ url: stack.mqttUrl, name, ledger, random, isBornLate: true }),
  )
  try {
    await until('all are connected', () => nodes.every(({ connects }) => connects === 1))
    // Some data have no metric, and ask for nothing less.
    await publishData(nodes, 5, false)
    await until('all are asked', () => nodes.every(({ rebirths }) => rebirths === 1))
    await areFollowed(stack.ingestUrl, nodes.length)
    await publishData(nodes, 20, true)
    await expectStored(stack, ledger)
    expect(nodes.map(({ rebirths }) => rebirths)).toEqual(nodes.map(() => 1))
  } finally {
    await Promise.all(nodes.map((node) => node.end()))
    await stack.end()
  }
})
