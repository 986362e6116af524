import { sensorId } from '@sandglass/common/sensor'
import { parseTopics } from '@sandglass/common/topics'
import mqtt from 'mqtt'
import { WebSocket } from 'ws'
import { Access, mayPublish, maySubscribe } from '../src/broker/entrance/access.js'
import { createIdentity } from './support/identity.js'
import { RawClient, startIngest, until } from './support/ingest.js'

/** @param {string[]} scopes  @param {string} [sensor] */
const grant = (scopes, sensor) => ({
  keyId: [...scopes, sensor].join(' '),
  name: 'n',
  scopes: new Set(scopes),
  expiresMs: undefined,
  sensorId: sensor === undefined ? undefined : sensorId(sensor),
})

const topics = parseTopics('plant/{area}/{sensor}/{metric}, line/{l}/{u}/{metric...} as {l}.{u}')

describe('who may do what', () => {
  const own = [
    ...['sensors/a/m', 'sensors/a', `sensors/${sensorId('a')}/m`, 'sensors/a/#', 'sensors/a/+'],
    ...['plant/x/a/m', 'plant/+/a/+', `plant/x/${sensorId('a')}/m`],
  ]
  const others = [
    ...['sensors/b/m', 'sensors/+/m', 'sensors/#', 'sensors/ab', 'telegraf/x', 'other', '#'],
    ...['$SYS/#', 'sensors', 'sensors//m', 'plant/x/b/m', 'plant/a/+/m', 'plant/x/#', 'plant/#'],
    ...['plant/x/a/m/more', 'line/a/a/m', 'line/+/a/m', 'line/a/#', 'line/#'],
  ]

  test.each([...own, ...others])('%s', (topic) => {
    const isOwn = own.includes(topic)
    expect(mayPublish(undefined, topic, topics)).toBe(true)
    expect(maySubscribe(undefined, topic, topics)).toBe(true)
    expect(mayPublish(grant(['write']), topic, topics)).toBe(true)
    expect(maySubscribe(grant(['write']), topic, topics)).toBe(false)
    expect(mayPublish(grant(['read', 'manage', 'admin']), topic, topics)).toBe(false)
    expect(maySubscribe(grant(['read']), topic, topics)).toBe(true)
    expect(mayPublish(grant(['write'], 'a'), topic, topics)).toBe(isOwn)
    expect(maySubscribe(grant(['write'], 'a'), topic, topics)).toBe(isOwn)
    expect(mayPublish(grant(['read'], 'a'), topic, topics)).toBe(false)
  })

  test.each(['line/a/b/m', 'line/a/b/m/n', 'line/a/b/#', 'line/a/b/+/n', 'sensors/a.b'])(
    '%s is of a sensor whose name a template makes of several levels',
    (topic) => {
      expect(mayPublish(grant(['write'], 'a.b'), topic, topics)).toBe(true)
      expect(maySubscribe(grant(['write'], 'a.b'), topic, topics)).toBe(true)
      expect(mayPublish(grant(['write'], 'a'), topic, topics)).toBe(false)
    },
  )
})

describe('the key of an edge node', () => {
  const edges = parseTopics('spBv1.0/{group}/{type}/{node}[/{device}] in sparkplug-b')
  const [own, ofDevice] = ['g∕n', 'g∕n∕d'].map((sensor) => grant(['write'], sensor))

  test.each([
    ...['spBv1.0/g/NBIRTH/n', 'spBv1.0/g/NDEATH/n', 'spBv1.0/g/NCMD/n', 'spBv1.0/g/NCMD/n/#'],
    ...['spBv1.0/g/DDATA/n/d', 'spBv1.0/g/DCMD/n/d', 'spBv1.0/g/DCMD/n/+', 'spBv1.0/g/+/n/#'],
  ])('is for %s', (topic) => {
    expect(mayPublish(own, topic, edges)).toBe(true)
    expect(maySubscribe(own, topic, edges)).toBe(true)
    expect(mayPublish(ofDevice, topic, edges)).toBe(topic.endsWith('/d'))
  })

  test.each([
    ...['spBv1.0/g/NBIRTH/m', 'spBv1.0/g/DDATA/m/n', 'spBv1.0/h/NCMD/n', 'spBv1.0/g/NCMD/+'],
    ...['spBv1.0/+/NCMD/n', 'spBv1.0/g/NCMD/#', 'spBv1.0/g/#', 'spBv1.0/#', 'spBv1.0/STATE/host'],
    ...['spBv1.0/g/NDATA/n/d/e', 'spBv1.0/g/+/+/n', 'sensors/g', 'sensors/g∕n∕d'],
  ])('is not for %s', (topic) => {
    expect(mayPublish(own, topic, edges)).toBe(false)
    expect(maySubscribe(own, topic, edges)).toBe(false)
  })
})

/** @type {Record<string, ReturnType<typeof grant>>} */
const KEYS = {
  writer: grant(['write']),
  reader: grant(['read']),
  device: grant(['write'], 'boiler'),
  readonly: grant(['read'], 'boiler'),
}

const access = () =>
  new Access({
    topics,
    keys: {
      unasked: 0,
      async find(text) {
        if (text === 'away') throw new Error('away')
        return KEYS[text]
      },
      async confirm() {
        return new Map(Object.values(KEYS).map((one) => [one.keyId, one]))
      },
    },
  })

/** @type {Awaited<ReturnType<typeof startIngest>>} */
let ingest
/** @type {RawClient[]} */
let clients = []
afterEach(async () => {
  for (const one of clients) one.end()
  clients = []
  await ingest?.stop()
})

/** @param {string} [key]  @param {object} [fields] */
function connect(key, fields = {}) {
  const one = new RawClient(ingest.port)
  clients.push(one)
  const password = key === undefined ? {} : { username: 'u', password: Buffer.from(key) }
  one.send({
    cmd: 'connect',
    protocolId: 'MQTT',
    protocolVersion: 4,
    clean: true,
    clientId: `c${clients.length}`,
    keepalive: 0,
    ...password,
    ...fields,
  })
  return one
}

/** @param {RawClient} one */
async function codeOf(one) {
  await until(() => one.packets.some(({ cmd }) => cmd === 'connack'))
  return /** @type {any} */ (one.packets[0]).returnCode
}

describe('with keys', () => {
  test('who has none, a wrong one, or one that cannot be asked for is refused', async () => {
    ingest = await startIngest({}, { access: access() })
    expect(await codeOf(connect('writer'))).toBe(0)
    expect(await codeOf(connect())).toBe(4)
    expect(await codeOf(connect('wrong'))).toBe(4)
    expect(await codeOf(connect('away'))).toBe(3)
    const will = { topic: 'sensors/other/m', payload: Buffer.from('1'), qos: 0, retain: false }
    expect(await codeOf(connect('device', { will }))).toBe(5)
    expect(ingest.server?.access?.refused).toBe(4)
    await until(() => clients.slice(1).every(({ isClosed }) => isClosed))
    expect(ingest.server?.connectionCount).toBe(1)
  })

  test.each([
    ['writer', ['boiler', 'victim'], 0],
    ['device', ['boiler'], 1],
    ['reader', [], 2],
    ['readonly', [], 2],
  ])('lines of a %s are stored of %j', async (key, stored, forbidden) => {
    ingest = await startIngest({}, { access: access() })
    const one = connect(key)
    await codeOf(one)
    const payload = 'temp,sensor=victim value=666\ntemp,sensor=boiler value=1'
    one.publish(1, { topic: 'telegraf/x', payload })
    await until(() => one.ids('puback').length === 1)
    const rows = ingest.storage.rowsOf('measurement_30d')
    expect(rows.map((row) => String(row.sensor_id)).sort()).toEqual(stored.map(sensorId).sort())
    expect(ingest.counts.deadLetters.forbidden).toBe(forbidden)
  })

  test('what a client may not publish is a dead letter, and nobody hears it', async () => {
    ingest = await startIngest({}, { access: access() })
    const reader = connect('reader')
    await codeOf(reader)
    reader.send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: '#', qos: 0 }] })
    await until(() => reader.ids('suback').length === 1)
    const device = connect('device')
    await codeOf(device)
    device.publish(1, { topic: 'sensors/boiler/m' })
    device.publish(2, { topic: 'sensors/other/m' })
    device.publish(3, { topic: 'anything' })
    device.publish(4, { topic: 'sensors/boiler', payload: '{"m":5}' })
    await until(() => device.ids('puback').length === 4)
    expect(ingest.storage.rowsOf('dead_letter')).toMatchObject([
      { topic: 'sensors/other/m', reason: expect.stringContaining('may not publish here') },
    ])
    expect(ingest.counts.deadLetters.forbidden).toBe(1)
    await until(() => reader.packets.filter(({ cmd }) => cmd === 'publish').length === 2)
    const heard = reader.packets.flatMap((one) => (one.cmd === 'publish' ? [one.topic] : []))
    expect(heard).toEqual(['sensors/boiler/m', 'sensors/boiler'])
  })

  test('a subscription that is not allowed is refused, the others stand', async () => {
    ingest = await startIngest({}, { access: access() })
    const device = connect('device')
    await codeOf(device)
    const subscriptions = ['sensors/boiler/#', 'sensors/#'].map((topic) => ({ topic, qos: 0 }))
    device.send(/** @type {any} */ ({ cmd: 'subscribe', messageId: 1, subscriptions }))
    await until(() => device.ids('suback').length === 1)
    const [suback] = device.packets.filter(({ cmd }) => cmd === 'suback')
    expect(/** @type {any} */ (suback).granted).toEqual([0, 128])
  })
})

describe('when devices come and go', () => {
  const states = () =>
    ingest.storage.rowsOf('status').map(({ sensor_id: id, state }) => `${id} ${state}`)

  // Of one millisecond there is one state.
  const laterMs = () => new Promise((resolve) => setTimeout(resolve, 3))

  test('is known of keys, wills and names, and is no measurement', async () => {
    ingest = await startIngest({}, { access: access(), topics })
    const device = connect('device')
    await codeOf(device)
    await until(() => states().length === 1)
    await laterMs()
    device.send({ cmd: 'disconnect' })
    await until(() => states().length === 2)
    expect(states()).toEqual([`${sensorId('boiler')} online`, `${sensorId('boiler')} offline`])

    const will = { topic: 'sensors/pump/temperature', payload: Buffer.from('-1') }
    const pump = connect('writer', { will: { ...will, qos: 1, retain: false } })
    await codeOf(pump)
    await until(() => states().length === 3)
    await laterMs()
    pump.socket.destroy()
    await until(() => states().length === 4)
    expect(states().slice(2)).toEqual([`${sensorId('pump')} online`, `${sensorId('pump')} lost`])

    const named = connect('writer', { clientId: 'fan' })
    await codeOf(named)
    named.publish(1, { topic: 'sensors/else/m' })
    named.publish(2, { topic: 'sensors/fan/m' })
    await until(() => states().length === 5)
    expect(states()[4]).toBe(`${sensorId('fan')} online`)
    const onItsOwnTopic = connect('writer', { clientId: 'press' })
    await codeOf(onItsOwnTopic)
    onItsOwnTopic.publish(1, { topic: 'plant/hall/press/force' })
    await until(() => states().length === 6)
    expect(states()[5]).toBe(`${sensorId('press')} online`)
    const measured = ingest.storage.rowsOf('measurement_30d').map(({ sensor_id: id }) => `${id}`)
    expect(measured.sort()).toEqual(['else', 'fan', 'press'].map(sensorId).sort())
  })
})

describe('TLS and WebSocket', () => {
  /** @type {{ cert: Buffer, key: Buffer }} */
  let identity
  beforeAll(() => {
    identity = createIdentity()
  })

  const kinds = /** @type {const} */ (['mqtt', 'mqtts', 'ws', 'wss'])

  test('a client publishes by each of them, and is acknowledged', async () => {
    const listen = { host: '127.0.0.1', port: 0 }
    const listens = kinds.map((kind) => ({ kind, listen }))
    ingest = await startIngest({}, { access: access(), listens, identity })
    for (const [at, kind] of kinds.entries()) {
      const client = await mqtt.connectAsync(`${kind}://127.0.0.1:${ingest.ports[at]}`, {
        clientId: kind,
        username: 'u',
        password: 'writer',
        ca: identity.cert,
      })
      await client.publishAsync(`sensors/${kind}/m`, '5', { qos: 1 })
      const large = JSON.stringify('y'.repeat(60_000))
      await client.publishAsync(`sensors/${kind}/text`, large, { qos: 2 })
      await client.endAsync()
    }
    expect(ingest.storage.rowsOf('measurement_30d')).toHaveLength(2 * kinds.length)
    await until(() => ingest.server?.connectionCount === 0)
  })

  test("a foreign page's WebSocket is refused, a local one's is not", async () => {
    const listens = [{ kind: /** @type {const} */ ('ws'), listen: { host: '127.0.0.1', port: 0 } }]
    ingest = await startIngest({}, { listens })
    /** @param {Record<string, string>} headers */
    const open = (headers) =>
      new Promise((resolve) => {
        const socket = new WebSocket(`ws://127.0.0.1:${ingest.port}`, 'mqtt', { headers })
        socket.on('open', () => {
          socket.close()
          resolve('open')
        })
        socket.on('error', ({ message }) => resolve(message))
      })
    expect(await open({})).toBe('open')
    expect(await open({ origin: 'http://localhost:8080' })).toBe('open')
    expect(await open({ origin: 'https://evil.example' })).toMatch('401')
    expect(await open({ host: 'evil.example' })).toMatch('401')
    expect(await open({ origin: 'null' })).toMatch('401')
    await ingest.stop()

    const everywhere = [{ ...listens[0], listen: { host: '0.0.0.0', port: 0 } }]
    ingest = await startIngest({}, { listens: everywhere })
    expect(await open({ host: 'a.example', origin: 'https://a.example' })).toBe('open')
    expect(await open({ origin: 'https://evil.example' })).toMatch('401')
    await ingest.stop()
    // Where keys are required, a page needs one, wherever it is from.
    ingest = await startIngest({}, { access: access(), listens: everywhere })
    expect(await open({ origin: 'https://other.example' })).toBe('open')
    const answer = await fetch(`http://127.0.0.1:${ingest.port}/`)
    expect(answer.status).toBe(426)
    await answer.text()
  })
})
