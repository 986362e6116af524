import { SettingError } from '@sandglass/common/options'
import { parseTopics } from '@sandglass/common/topics'
import pino from 'pino'
import { Sessions } from '../src/broker/sessions.js'
import { Acknowledgements } from '../src/external/acknowledgements.js'
import { External } from '../src/external/external.js'
import { carriesTime } from '../src/external/retained.js'
import { clientOptionsOf } from '../src/external/settings.js'
import { buildIngest } from '../src/ingest.js'
import { MemoryBudget } from '../src/memory.js'
import { Message } from '../src/message/message.js'
import { STATE } from '../src/message/state.js'
import { options } from '../src/options.js'
import { outside } from '../src/source.js'
import { FakeStorage } from './support/fake-storage.js'
import { KEYSPACE, LIMITS, pause, until } from './support/ingest.js'
import { RawBroker } from './support/raw-broker.js'

const OPTIONS = {
  mqttUrl: 'mqtt://b:1883',
  mqttShare: 'g',
  mqttSessionS: 60,
  clientMessagesMax: 10,
  packetBytesMax: 1_000,
  spoolDir: '/a/spool',
  spoolBytesMax: 1,
}

/** Numbers from 1. @param {number} count */
const numbers = (count) => Array.from({ length: count }, (_, at) => at + 1)

/** Settles messages when it is told to. */
class Sink {
  /** @type {Message[]} */
  messages = []
  isFull = false
  senderBytesMax = 1e6
  onRoom = () => {}
  idled = 0

  /** @param {Message} message */
  accept(message) {
    this.messages.push(message)
  }

  async idle() {
    this.idled++
    for (const message of this.messages) if (!message.isSettled) this.settle(message)
  }

  /** @param {Message} message */
  settle(message) {
    message.move(STATE.settled)
    message.origin.settled(message)
  }

  get payloads() {
    return this.messages.map(({ payload }) => Number(payload))
  }
}

const MESSAGE = {
  clientId: 'b',
  session: undefined,
  visit: 1,
  topic: 'sensors/s',
  dup: false,
  retain: false,
  payload: Buffer.from('1'),
  receivedMs: 0,
  arrivedMs: 0,
}

describe('the acknowledgements of a connection', () => {
  /** @type {Buffer[]} */
  let writes = []
  /** @type {Acknowledgements} */
  let acknowledgements
  const turn = () => new Promise((resolve) => setImmediate(() => setImmediate(resolve)))

  beforeEach(() => {
    writes = []
    acknowledgements = new Acknowledgements({ write: (bytes) => writes.push(bytes) })
  })

  /** @param {number} packetId */
  function arrive(packetId) {
    const message = new Message({ ...MESSAGE, origin: acknowledgements, qos: 1, packetId })
    acknowledgements.add(message)
    return message
  }

  /** @param {Message} message */
  function settle(message) {
    message.move(STATE.settled)
    message.origin.settled(message)
  }

  test('that become due in one turn leave in one write, in order of arrival', async () => {
    const messages = [1, 300, 65_535].map(arrive)
    for (const message of messages.reverse()) settle(message)
    expect(writes).toEqual([])
    await turn()
    expect(writes).toEqual([Buffer.from([0x40, 2, 0, 1, 0x40, 2, 1, 44, 0x40, 2, 255, 255])])
    expect(acknowledgements.count).toBe(0)
  })

  test('wait for those of earlier messages', async () => {
    const [first, second, third] = [1, 2, 3].map(arrive)
    settle(second)
    await turn()
    expect([writes.length, acknowledgements.count]).toEqual([0, 3])
    settle(first)
    await turn()
    expect(writes).toEqual([Buffer.from([0x40, 2, 0, 1, 0x40, 2, 0, 2])])
    settle(third)
    await turn()
    expect(writes[1]).toEqual(Buffer.from([0x40, 2, 0, 3]))
  })

  test('are as many as the messages, however many there were', async () => {
    const messages = numbers(1_000).map(arrive)
    for (const message of messages) {
      settle(message)
      if (message.packetId % 7 === 0) await turn()
    }
    await turn()
    const ids = Buffer.concat(writes)
    expect(numbers(1_000).map((id) => ids.readUInt16BE(4 * id - 2))).toEqual(numbers(1_000))
    expect(ids).toHaveLength(4_000)
  })

  test('are not written once it is closed, nor to a stream that is gone', async () => {
    const [message] = [1].map(arrive)
    settle(message)
    acknowledgements.close()
    settle(arrive(2))
    await turn()
    const stream = { destroyed: true, write: () => writes.push(Buffer.alloc(0)) }
    acknowledgements = new Acknowledgements(stream)
    settle(arrive(3))
    await turn()
    expect(writes).toEqual([])
  })
})

const topics = parseTopics('plant/{area}/{sensor}/{metric...}')

describe('a broker that exists already', () => {
  /** @type {RawBroker} */
  let broker
  /** @type {Sink} */
  let sink
  /** @type {External} */
  let external

  beforeEach(async () => {
    broker = new RawBroker()
    await broker.start()
    sink = new Sink()
  })
  afterEach(async () => {
    await external.stop(0)
    broker.stop()
  })

  /** What was said of the broker. @type {string[]} */
  let reasons = []

  /**
   * @param {Partial<import('../src/external/client.js').ClientOptions>} [client]
   * @param {string} [share]
   * @param {() => void} [onEmpty]
   */
  function start(client = {}, share = 'group', onEmpty = undefined) {
    reasons = []
    external = new External({
      sink,
      session: new Sessions({ share: new MemoryBudget().shares.sessions }).create(
        undefined,
        'broker',
        0,
      ),
      client: {
        ...broker.clientOptions,
        clientId: 'one',
        sessionS: 600,
        receiveMax: 200,
        username: 'u',
        password: 'p',
        ...client,
      },
      options: { share, topics, lineTopic: 'lines', onEmpty, resubscribeMs: 20, emptyMs: 100 },
      logger: pino({ level: 'warn' }, { write: (line) => reasons.push(JSON.parse(line).reason) }),
    })
    external.start()
  }

  test('is asked for a session that stays, and for a shared subscription', async () => {
    start()
    const connection = await broker.subscribed()
    await until(() => external.isConnected)
    expect(connection.of('connect')).toMatchObject([
      {
        clientId: 'one',
        clean: false,
        protocolVersion: 5,
        username: 'u',
        properties: {
          sessionExpiryInterval: 600,
          receiveMaximum: 200,
          maximumPacketSize: 100_000,
        },
      },
    ])
    expect(connection.of('subscribe')[0].subscriptions).toMatchObject([
      { topic: '$share/group/sensors/#', qos: 1, rap: false },
      { topic: '$share/group/plant/+/+/#', qos: 1, rap: false },
      { topic: '$share/group/lines/#', qos: 1, rap: false },
    ])
  })

  test('is acknowledged what is settled, and gives more meanwhile', async () => {
    start()
    const connection = await broker.subscribed()
    for (const id of numbers(150)) connection.publish(id)
    connection.publish(0, { qos: 0, payload: '0' })
    await until(() => sink.messages.length === 151)
    connection.send({ cmd: 'pingresp' })
    await pause(30)
    expect([connection.acknowledged, external.unacknowledged]).toEqual([[], 150])
    for (const message of sink.messages.toReversed()) sink.settle(message)
    await until(() => connection.acknowledged.length === 150)
    expect(connection.acknowledged).toEqual(numbers(150))
    expect(external.unacknowledged).toBe(0)
  })

  test('is read no further while there is no room, and hears of us all the same', async () => {
    start({ keepAliveS: 1 })
    const connection = await broker.subscribed()
    sink.isFull = true
    for (const id of numbers(20)) connection.publish(id)
    // Longer than the one and a half seconds after which either side would give up.
    const untilMs = performance.now() + 2_200
    await until(() => performance.now() > untilMs)
    expect(sink.payloads).toEqual([1])
    expect(connection.of('pingreq').length).toBeGreaterThan(3)
    expect([connection.isClosed, external.isConnected]).toEqual([false, true])
    sink.isFull = false
    sink.onRoom()
    await until(() => sink.messages.length === 20)
  })

  test('gives again what was not acknowledged, and only that connection is acknowledged', async () => {
    start()
    const first = await broker.subscribed()
    for (const id of numbers(3)) first.publish(id)
    await until(() => sink.messages.length === 3)
    broker.hasSession = true
    first.socket.destroy()
    const second = await broker.subscribed(2)
    for (const message of sink.messages) sink.settle(message)
    await pause(30)
    expect(second.acknowledged).toEqual([])
    expect(external).toMatchObject({ reconnects: 1, redeliveries: 0 })

    for (const id of numbers(3)) second.publish(id, { dup: true })
    await until(() => sink.messages.length === 6)
    expect(external.redeliveries).toBe(3)
    expect(sink.messages[5]).toMatchObject({ dup: true, visit: 2, packetId: 3 })
    for (const message of sink.messages.slice(3)) sink.settle(message)
    await until(() => second.acknowledged.length === 3)
    expect(second.acknowledged).toEqual(numbers(3))
  })

  test('that stops being there is not connected, until it is back', async () => {
    start()
    const first = await broker.subscribed()
    await until(() => external.isConnected)
    sink.isFull = true
    first.publish(1)
    await until(() => sink.messages.length === 1)
    first.socket.destroy()
    await until(() => !external.isConnected)
    expect(external.unacknowledged).toBe(0)
    sink.isFull = false
    await broker.subscribed(2)
    await until(() => external.isConnected)
  })

  test('that sends retained messages is acknowledged those that say nothing about now', async () => {
    start({}, '')
    const connection = await broker.subscribed()
    expect(connection.of('subscribe')[0].subscriptions[0].topic).toBe('sensors/#')
    const payloads = ['7', '{"t":1767225600000,"v":8}', '{"t":1767225600000,"v":9}']
    connection.publish(1, { retain: true, payload: payloads[0] })
    connection.publish(2, { retain: true, payload: payloads[1] })
    connection.publish(3, { payload: payloads[2] })
    await until(() => sink.messages.length === 2)
    expect(sink.messages.map(({ payload }) => String(payload))).toEqual(payloads.slice(1))
    await until(() => connection.acknowledged.length === 1)
    expect(external.retainedIgnored).toBe(1)
  })

  test.each([0x87, 0])('that grants %d instead of QoS 1 is asked again', async (granted) => {
    broker.granted = granted
    start()
    const connection = await broker.subscribed()
    await until(() => connection.of('subscribe').length >= 2)
    expect(external.isConnected).toBe(false)
    broker.granted = 1
    await until(() => external.isConnected)
  })

  test('that ends the connection is heard to say why', async () => {
    start()
    const connection = await broker.subscribed()
    connection.send({ cmd: 'disconnect', reasonCode: 0x8e })
    connection.socket.end()
    await until(() => reasons.length > 0)
    expect(reasons[0]).toBe(
      'the broker ends the connection: another process has the same client id',
    )
  })

  test('that sends more than it may is read when it was acknowledged some', async () => {
    start({ receiveMax: 5 })
    const connection = await broker.subscribed()
    for (const id of numbers(12)) connection.publish(id)
    await until(() => sink.messages.length === 5)
    await pause(30)
    expect([sink.messages.length, external.unacknowledged]).toEqual([5, 5])
    sink.settle(sink.messages[0])
    sink.settle(sink.messages[1])
    await until(() => sink.messages.length === 7)
    for (const id of numbers(12)) {
      await until(() => sink.messages.length >= id)
      if (id > 2) sink.settle(sink.messages[id - 1])
    }
    await until(() => connection.acknowledged.length === 12)
  })

  test('is acknowledged what is settled while we stop, and nothing that comes then', async () => {
    start()
    const connection = await broker.subscribed()
    for (const id of numbers(3)) connection.publish(id)
    await until(() => sink.messages.length === 3)
    const idle = sink.idle.bind(sink)
    sink.idle = async () => {
      connection.publish(4)
      await pause(30)
      await idle()
    }
    await external.stop(1_000)
    await until(() => connection.isClosed)
    expect(connection.acknowledged).toEqual(numbers(3))
    expect(connection.of('disconnect')).toMatchObject([{ reasonCode: 0 }])
    expect(connection.of('disconnect')[0].properties).toBeUndefined()
    expect(sink.payloads).toEqual(numbers(3))
  })

  test('that we leave for good is left when it has nothing more, and forgets us', async () => {
    let isEmpty = false
    start({}, 'group', () => {
      isEmpty = true
    })
    await until(() => broker.connections[0]?.of('unsubscribe').length)
    const [connection] = broker.connections
    expect(connection.of('unsubscribe')[0].unsubscriptions).toEqual([
      ...['$share/group/sensors/#', '$share/group/plant/+/+/#', '$share/group/lines/#'],
    ])
    connection.publish(1)
    await until(() => sink.messages.length === 1)
    await pause(300)
    expect(isEmpty).toBe(false)
    sink.settle(sink.messages[0])
    await until(() => isEmpty)
    await external.stop(0)
    await until(() => connection.isClosed)
    expect(connection.acknowledged).toEqual([1])
    expect(connection.of('subscribe')).toEqual([])
    const [{ properties }] = connection.of('disconnect')
    expect(properties).toMatchObject({ sessionExpiryInterval: 0 })
  })
})

test('a message without a time that a broker sends again is one measurement', async () => {
  const broker = new RawBroker()
  await broker.start()
  const storage = new FakeStorage()
  const logger = pino({ level: 'silent' })
  const parts = buildIngest({ storage, keyspace: KEYSPACE, limits: LIMITS, logger })
  const { external, ...source } = outside({
    sink: parts.pipeline,
    memory: parts.memory,
    client: clientOptionsOf({ ...OPTIONS, mqttUrl: String(broker.url) }, {}, 'h'),
    options: { share: 'g', topics, lineTopic: 'telegraf' },
    logger,
  })
  expect(await source.start()).toBe(broker.url)
  const first = await broker.subscribed()
  storage.isDown = true
  first.publish(1, { payload: '21.5' })
  first.publish(2, { payload: '22.5' })
  await until(() => parts.inFlight.count === 2)
  first.socket.destroy()
  const second = await broker.subscribed(2)
  await pause(5)
  second.publish(1, { payload: '21.5', dup: true })
  second.publish(2, { payload: '22.5', dup: true })
  await until(() => parts.inFlight.count === 4)
  storage.isDown = false
  await until(() => second.acknowledged.length === 2)
  expect(storage.rowsOf('measurement_30d')).toHaveLength(2)
  expect([parts.counts.duplicates, external.redeliveries]).toEqual([2, 2])
  await source.stop(0)
  parts.writer.stop()
  parts.registry.stop()
  broker.stop()
})

test.each([
  ['sensors/s/m', '21.5', false],
  ['sensors/s/m', '{"t":1767225600000,"v":21.5}', true],
  ['sensors/s', '[{"t":1767225600000,"a":1},{"a":2}]', false],
  ['sensors/s', '{"t":1767225600000,"a":1,"b":2}', true],
  ['sensors/s/m', '{broken', false],
  ['sensors/s/m/more', '{"t":1767225600000,"v":21.5}', false],
  ['plant/a/s', '{"t":1767225600000,"v":21.5}', true],
  ['plant/a/s/m', '21.5', false],
  ['lines', 'a v=1 1767225600000000000\nb v=2', false],
  ['lines/x', 'a v=1 1767225600000000000\nb v=2 1767225600000000000', true],
])('of retained messages, %s with %s says its own time: %p', (topic, payload, expected) => {
  expect(carriesTime(topics, topic, Buffer.from(payload))).toBe(expected)
})

describe('an option', () => {
  /** @param {string} flag  @param {string} text */
  const parse = (flag, text) =>
    options.find((option) => option.flag.split(' ')[0] === flag)?.parse?.(text)

  test.each([
    ['--mqtt-url', 'http://b'],
    ['--topic-templates', 'plant/+/{sensor}'],
    ['--mqtt-url', 'mqtt://name:secret@b:1883'],
    ['--mqtt-url', 'mqtt://b:1883/path'],
    ['--mqtt-url', 'mqtt://b:1883?clientId=x'],
    ['--mqtt-share', 'a/b'],
    ['--mqtt-share', '+'],
    ['--mqtt-session-s', '0'],
    ['--mqtt-ca', '/nowhere/ca.pem'],
  ])('%s %s is refused', (flag, text) => {
    expect(() => parse(flag, text)).toThrow(SettingError)
  })

  test('names a broker, and a group or none', () => {
    expect(parse('--mqtt-url', 'mqtts://b')).toBe('mqtts://b')
    expect(parse('--mqtt-share', '')).toBe('')
  })
})

describe('the name by which a broker knows a process', () => {
  /** @param {object} options */
  const idOf = (options, host = 'h') =>
    clientOptionsOf({ ...OPTIONS, ...options }, {}, host).clientId

  test('is the same after a restart, and another one of any other process', () => {
    expect(idOf({})).toBe(idOf({ spoolDir: '/a/b/../spool' }))
    expect(idOf({})).toMatch(/^sandglass-[0-9a-f]{13}$/)
    const ids = [idOf({}), idOf({ spoolDir: '/b/spool' }), idOf({}, 'other')]
    expect(new Set(ids).size).toBe(3)
  })

  test('is the one that was given, which it must be without a spool', () => {
    expect(idOf({ mqttClientId: 'mine', spoolBytesMax: 0 })).toBe('mine')
    expect(() => idOf({ spoolBytesMax: 0 })).toThrow(/--mqtt-client-id/)
  })

  test('comes with certificates over TLS alone, and with both parts of one', () => {
    const cert = Buffer.from('c')
    const secure = { mqttUrl: 'mqtts://b' }
    expect(() => idOf({ mqttCa: cert })).toThrow(/mqtts/)
    expect(() => idOf({ ...secure, mqttClientCert: cert })).toThrow(/together/)
    const env = { MQTT_USERNAME: 'u', MQTT_PASSWORD: 'p' }
    expect(clientOptionsOf({ ...OPTIONS, ...secure, mqttCa: cert }, env, 'h')).toMatchObject({
      url: 'mqtts://b',
      username: 'u',
      password: 'p',
      ca: cert,
      sessionS: 60,
      receiveMax: 10,
    })
  })
})
