// Edge nodes that wait for a primary host hear whether ingest listens: from the broker inside, and
// from one that exists already, which says so also when ingest cannot.
import { Topics } from '@sandglass/common/topics'
import pino from 'pino'
import { buildIngest } from '../src/ingest.js'
import { outside } from '../src/source.js'
import { HostState, hostId } from '../src/sparkplug/host-state.js'
import { FakeStorage } from './support/fake-storage.js'
import { KEYSPACE, LIMITS, RawClient, startIngest, until } from './support/ingest.js'
import { RawBroker } from './support/raw-broker.js'

const TOPIC = 'spBv1.0/STATE/sandglass'

/** @param {{ payload: Buffer | string }} packet */
const said = ({ payload }) => JSON.parse(payload.toString())

describe('the state of a host', () => {
  test('has the time of its connection, online and offline', () => {
    const state = new HostState('sandglass')
    state.begin(5)
    expect(state.online).toMatchObject({ topic: TOPIC, qos: 1, retain: true })
    expect([said(state.online), said(state.offline)]).toEqual([
      { online: true, timestamp: 5 },
      { online: false, timestamp: 5 },
    ])
  })

  test.each([
    [TOPIC, '{"online":false,"timestamp":1}', true],
    [TOPIC, '{ "timestamp": 1, "online" : false }', true],
    [TOPIC, '{"online":true,"timestamp":1}', false],
    [TOPIC, '', false],
    ['spBv1.0/STATE/other', '{"online":false}', false],
  ])('%s %s contradicts it: %p', (topic, payload, isContradicted) => {
    const state = new HostState('sandglass')
    expect(state.isContradicted(topic, Buffer.from(payload))).toBe(isContradicted)
  })

  test('is of a name that is one level of a topic', () => {
    expect(hostId('plant 1')).toBe('plant 1')
    for (const text of ['', 'a/b', 'a+', '#', 'a\n', 'x'.repeat(129)]) {
      expect(() => hostId(text)).toThrow('Give 1 to 128 characters')
    }
  })
})

test('at the broker inside it is retained', async () => {
  const ingest = await startIngest({}, { host: 'sandglass' })
  const client = await new RawClient(ingest.port).connect({ clientId: 'edge' })
  client.send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: TOPIC, qos: 1 }] })
  const heard = () => /** @type {any[]} */ (client.packets.filter(({ cmd }) => cmd === 'publish'))
  await until(() => heard().length === 1)
  expect([heard()[0].retain, said(heard()[0]).online]).toEqual([true, true])
  expect(said(heard()[0]).timestamp).toBeGreaterThan(Date.now() - 60_000)
  client.end()
  await ingest.stop()
})

test('without an id nothing is said', async () => {
  const ingest = await startIngest()
  const client = await new RawClient(ingest.port).connect({ clientId: 'edge' })
  client.send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: 'spBv1.0/#', qos: 1 }] })
  await until(() => client.ids('suback').length === 1)
  await ingest.stop()
  await until(() => client.isClosed)
  expect(client.packets.filter(({ cmd }) => cmd === 'publish')).toEqual([])
})

describe('at a broker that exists already', () => {
  /** @type {RawBroker} */
  let broker
  /** @type {ReturnType<typeof buildIngest>} */
  let parts
  /** @type {ReturnType<typeof outside>} */
  let source

  beforeEach(async () => {
    broker = new RawBroker()
    await broker.start()
    const logger = pino({ level: 'silent' })
    const storage = new FakeStorage()
    parts = buildIngest({ storage, keyspace: KEYSPACE, limits: LIMITS, logger })
    const client = broker.clientOptions
    const options = { share: 'group', topics: new Topics(), lineTopic: 'telegraf' }
    const { pipeline: sink, memory, edgeNodes } = parts
    source = outside({ sink, memory, client, options, edgeNodes, host: 'sandglass', logger })
    await source.start()
  })
  afterEach(async () => {
    parts.writer.stop()
    parts.registry.stop()
    await source.stop(0)
    broker.stop()
  })

  /** @param {Awaited<ReturnType<RawBroker['subscribed']>>} connection */
  const stateOf = (connection) =>
    connection.of('publish').map((packet) => ({ ...said(packet), retain: packet.retain }))

  test('it is told once ingest listens, and the will takes it back', async () => {
    const connection = await broker.subscribed()
    await until(() => stateOf(connection).length === 1)
    const [{ will }] = connection.of('connect')
    const [{ timestamp }] = stateOf(connection)
    expect(stateOf(connection)).toEqual([{ online: true, timestamp, retain: true }])
    expect([will.topic, will.qos, will.retain]).toEqual([TOPIC, 1, true])
    expect(said(will)).toEqual({ online: false, timestamp })
    // The next connection says so anew.
    connection.socket.destroy()
    const next = await broker.subscribed(2)
    await until(() => stateOf(next).length === 1)
    const [{ timestamp: later }] = stateOf(next)
    expect(later).toBeGreaterThan(timestamp)
    expect(said(next.of('connect')[0].will)).toEqual({ online: false, timestamp: later })
  })

  test('another process that is gone does not make us offline', async () => {
    const connection = await broker.subscribed()
    const filters = connection.of('subscribe')[0].subscriptions
    expect(filters.map((/** @type {any} */ { topic }) => topic)).toContain(TOPIC)
    await until(() => stateOf(connection).length === 1)
    connection.publish(1, { topic: TOPIC, payload: '{"online":true,"timestamp":9}' })
    connection.publish(2, { topic: TOPIC, payload: '{"online":false,"timestamp":9}' })
    await until(() => stateOf(connection).length === 2)
    expect(stateOf(connection).map(({ online }) => online)).toEqual([true, true])
    await until(() => connection.acknowledged.length === 2)
    expect(parts.counts.passed).toBe(2)
  })

  test('nothing is said before ingest listens, whoever says that it does not', async () => {
    // Another connection, whose subscriptions are refused.
    broker.granted = 128
    const first = await broker.subscribed()
    first.socket.destroy()
    const connection = await broker.subscribed(2)
    connection.publish(1, { topic: TOPIC, payload: '{"online":false,"timestamp":9}' })
    await until(() => connection.acknowledged.length === 1)
    expect(stateOf(connection)).toEqual([])
  })

  test('ingest stops soon also where nobody acknowledges what it says', async () => {
    broker.acknowledges = false
    const connection = await broker.subscribed()
    await until(() => stateOf(connection).length === 1)
    const fromMs = performance.now()
    await source.stop(0)
    expect(performance.now() - fromMs).toBeLessThan(5_000)
    await until(() => connection.isClosed)
  })

  test('it is offline when ingest stops in order', async () => {
    const connection = await broker.subscribed()
    await until(() => stateOf(connection).length === 1)
    await source.stop(0)
    expect(stateOf(connection).map(({ online }) => online)).toEqual([true, false])
  })
})
