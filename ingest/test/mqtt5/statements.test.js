// MQTT 5, statement by statement: what the other tests of this folder leave out.

import { WebSocket } from 'ws'
import { pause, startIngest, until } from '../support/ingest.js'
import { endAll, RawClient5 } from '../support/raw-client-5.js'

/** @type {Awaited<ReturnType<typeof startIngest>>} */
let ingest
let count = 0
let aheadMs = 0

const listen = { host: '127.0.0.1', port: 0 }
const listens = [
  { kind: /** @type {const} */ ('mqtt'), listen },
  { kind: /** @type {const} */ ('ws'), listen },
]

beforeEach(async () => {
  aheadMs = 0
  const clock = { wallMs: () => Date.now() + aheadMs, clockMs: () => performance.now() + aheadMs }
  ingest = await startIngest({}, { clock, listens })
})
afterEach(async () => {
  endAll()
  await ingest.stop()
})

/** @param {Parameters<RawClient5['connect']>[0]} [fields] */
async function client(fields) {
  const one = new RawClient5(ingest.port)
  await one.connect({ clientId: `c${count++}`, ...fields })
  return one
}

/**
 * @param {RawClient5} one
 * @param {string} topic
 * @param {string} payload
 * @param {object} [more]
 */
async function tell(one, topic, payload, more) {
  one.publish(1, { topic, payload, ...more })
  await one.next('puback')
}

/** @param {string} text */
const string = (text) => [0, Buffer.byteLength(text), ...Buffer.from(text)]
const NO_UTF8 = [0, 1, 0xff]
const ID = string('x')

/**
 * @param {number} flags
 * @param {number[]} fields
 * @param {{ name?: string, level?: number, properties?: number[] }} [more]
 */
function connectBytes(flags, fields, { name = 'MQTT', level = 5, properties = [] } = {}) {
  const body = [...string(name), level, flags, 0, 0, properties.length, ...properties, ...fields]
  return [0x10, body.length, ...body]
}

describe('a connection that begins wrong is closed, without a word of MQTT 5', () => {
  test.each([
    ['a first packet that is no CONNECT', [0xc0, 0]],
    ['another name of the protocol', connectBytes(2, ID, { name: 'MQTX' })],
    ['another version', connectBytes(2, ID, { level: 6 })],
    ['a will without a payload', connectBytes(6, [...ID, 0, ...string('t')])],
    ['a will that has a QoS and is none', connectBytes(0x0a, ID)],
    ['a user name without its flag', connectBytes(2, [...ID, ...string('u')])],
    ['no user name with its flag', connectBytes(0x82, ID)],
    ['no password with its flag', connectBytes(0x42, ID)],
    ['bytes behind its fields', connectBytes(2, [...ID, 0])],
    ['no client id at all', connectBytes(2, [])],
    ['a client id that is no UTF-8', connectBytes(2, NO_UTF8)],
    ['a will on a topic that is no UTF-8', connectBytes(6, [...ID, 0, ...NO_UTF8, ...string('p')])],
    ['a user name that is no UTF-8', connectBytes(0x82, [...ID, ...NO_UTF8])],
  ])('%s', async (_name, bytes) => {
    const one = new RawClient5(ingest.port)
    /** @type {Buffer[]} */
    const heard = []
    one.socket.on('data', (chunk) => heard.push(chunk))
    one.bytes(bytes)
    await until(() => one.isClosed)
    // What no version is known of is refused in the words of 3.1.1, or not at all.
    expect([[], [0x20, 2, 0, 1]]).toContainEqual([...Buffer.concat(heard)])
    expect(ingest.counts.received).toBe(0)
  })
})

describe('a connection is closed as malformed by', () => {
  test.each([
    ['a user property that is no UTF-8', [0x30, 11, 0, 1, 0x61, 7, 0x26, ...NO_UTF8, 0, 1, 0x61]],
    ['a response topic that is no UTF-8', [0x30, 8, 0, 1, 0x61, 4, 8, ...NO_UTF8]],
    ['a content type that is no UTF-8', [0x30, 8, 0, 1, 0x61, 4, 3, ...NO_UTF8]],
    ['a filter that is no UTF-8', [0x82, 7, 0, 1, 0, ...NO_UTF8, 0]],
    ['a filter to unsubscribe that is no UTF-8', [0xa2, 6, 0, 1, 0, ...NO_UTF8]],
    ['a filter with + inside of a level', [0x82, 8, 0, 1, 0, 0, 2, 0x61, 0x2b, 0]],
    ['an empty filter', [0x82, 6, 0, 1, 0, 0, 0, 0]],
  ])('%s', async (_name, bytes) => {
    const one = await client()
    one.bytes(bytes)
    expect(await one.reason()).toBe(0x81)
  })
})

describe('a CONNECT and its answer', () => {
  test('a client id of 23 letters and digits is allowed', async () => {
    const clientId = '0123456789abcdefXYZABCD'
    expect(await new RawClient5(ingest.port).connect({ clientId })).toMatchObject({ reasonCode: 0 })
  })

  test('what is behind a CONNECT that is refused is not read', async () => {
    const one = new RawClient5(ingest.port)
    const refused = connectBytes(2, ID, { properties: [0x15, ...string('m')] })
    one.bytes([...refused, 0x32, 19, ...string('sensors/s/m'), 0, 1, 0, 0x31, 0x31, 0x31])
    const connack = await one.next('connack')
    expect([connack.reasonCode, connack.sessionPresent]).toEqual([0x8c, false])
    await until(() => one.isClosed)
    expect([one.packets, ingest.counts.received]).toEqual([[], 0])
  })

  test('there is one CONNACK, whose reserved flags are 0', async () => {
    const one = new RawClient5(ingest.port)
    /** @type {Buffer[]} */
    const heard = []
    one.socket.on('data', (chunk) => heard.push(chunk))
    await one.connect()
    await one.subscribe('room/#')
    const [first] = heard
    expect([first[0], first[2]]).toEqual([0x20, 0])
    expect(one.packets.filter(({ cmd }) => cmd === 'connack')).toEqual([])
  })

  test('a will that is not retained is published so', async () => {
    const other = await client()
    await other.subscribe([{ topic: 'room/#', rap: true }])
    const will = { topic: 'room/w', payload: Buffer.from('w'), qos: /** @type {const} */ (0) }
    const one = await client({ will: { ...will, retain: false } })
    await one.vanish()
    expect((await other.next('publish')).retain).toBe(false)
    expect(ingest.memory.shares.retained.bytes).toBe(0)
  })
})

describe('messages', () => {
  test('a byte order mark is a character of a topic, and stays', async () => {
    const one = await client()
    await one.subscribe('\ufeffroom')
    await tell(one, 'room', 'without')
    await tell(one, '\ufeffroom', 'with')
    const got = await one.next('publish')
    expect([got.topic, `${got.payload}`]).toEqual(['\ufeffroom', 'with'])
  })

  test('a topic that looks the same is another one', async () => {
    const one = await client()
    await one.subscribe(['caf\u00e9', 'end'])
    await tell(one, 'cafe\u0301', 'other')
    await tell(one, 'end', 'end')
    await until(() => one.heard.length > 0)
    expect(one.heard).toEqual(['end'])
  })

  test('a duplicate goes on as none', async () => {
    const one = await client()
    for (const qos of [0, 1]) {
      await one.subscribe([{ topic: `room/${qos}`, qos }])
      await tell(one, `room/${qos}`, 'x', { dup: true })
      expect(await one.next('publish')).toMatchObject({ qos, dup: false })
    }
  })

  test('a packet id that was acknowledged is of a new message, whatever its flag says', async () => {
    const one = await client()
    await one.subscribe('room/#')
    for (const payload of ['1', '2']) await tell(one, 'room/a', payload, { dup: true })
    await until(() => one.heard.length === 2)
  })

  test('a message that is not retained leaves the one that is', async () => {
    const one = await client()
    await tell(one, 'room/a', 'kept', { retain: true })
    for (const payload of ['', 'other']) await tell(one, 'room/a', payload)
    await one.subscribe('room/#')
    expect(`${(await one.next('publish')).payload}`).toBe('kept')
  })

  test('what was sent does not expire', async () => {
    const kept = { clientId: 'k', clean: false, properties: { sessionExpiryInterval: 600 } }
    const first = await client(kept)
    first.acknowledges = false
    await first.subscribe('room/#')
    const other = await client()
    await tell(other, 'room/a', 'x', { properties: { messageExpiryInterval: 10 } })
    await until(() => first.heard.length === 1)
    await first.vanish()
    aheadMs = 30_000
    const again = await client(kept)
    expect(await again.next('publish')).toMatchObject({ dup: true, payload: Buffer.from('x') })
  })
})

describe('reasons', () => {
  test('a PUBREC has no reason string that is too large for its client', async () => {
    const one = await client({ properties: { maximumPacketSize: 60 } })
    one.publish(1, { qos: 2, payload: 'x'.repeat(30) })
    const { reasonCode, properties } = await one.next('pubrec')
    expect([reasonCode, properties]).toEqual([0x99, undefined])
  })

  test('a DISCONNECT has no reason string that is too large for its client', async () => {
    const one = await client({ properties: { maximumPacketSize: 30 } })
    one.bytes([0x90, 3, 0, 1, 0])
    const { reasonCode, properties } = await one.next('disconnect')
    expect([reasonCode, properties]).toEqual([0x82, undefined])
  })

  test('nothing comes behind our DISCONNECT', async () => {
    const one = await client()
    ingest.storage.isDown = true
    for (let id = 1; id <= 5; id++) one.publish(id)
    one.bytes([0xf0, 0])
    await until(() => one.packets.length > 0)
    ingest.storage.isDown = false
    await until(() => one.isClosed)
    expect(one.packets.map(({ cmd }) => cmd)).toEqual(['disconnect'])
  })
})

describe('subscriptions', () => {
  test('a SUBACK has the packet id of its SUBSCRIBE', async () => {
    const one = await client()
    one.send({ cmd: 'subscribe', messageId: 321, subscriptions: [{ topic: 'a', qos: 1 }] })
    expect((await one.next('suback')).messageId).toBe(321)
  })

  test('a filter that means the same is not unsubscribed by another one', async () => {
    const one = await client()
    await one.subscribe('room/+')
    one.send({ cmd: 'unsubscribe', messageId: 5, unsubscriptions: ['room/#', 'room/a'] })
    expect((await one.next('unsuback')).granted).toEqual([0x11, 0x11])
    await tell(one, 'room/a', 'x')
    await until(() => one.heard.length === 1)
  })

  test('what was begun before UNSUBSCRIBE is completed', async () => {
    const kept = { clientId: 'k', clean: false, properties: { sessionExpiryInterval: 600 } }
    const first = await client(kept)
    first.acknowledges = false
    await first.subscribe('room/#')
    const other = await client()
    await tell(other, 'room/a', 'begun')
    await until(() => first.heard.length === 1)
    first.send({ cmd: 'unsubscribe', messageId: 5, unsubscriptions: ['room/#'] })
    await first.next('unsuback')
    await first.vanish()
    const again = await client(kept)
    expect((await again.next('publish')).dup).toBe(true)
  })

  test('a shared subscription of QoS 0 gets messages of QoS 0', async () => {
    const one = await client()
    await one.subscribe([{ topic: '$share/g/room/#', qos: 0 }])
    await tell(one, 'room/a', 'x')
    expect((await one.next('publish')).qos).toBe(0)
  })

  test.each([
    ['when it comes back', 600, ['x']],
    ['or with nobody if its session ends', 0, []],
  ])(
    'what was begun at QoS 2 with a member is completed with it, %s',
    async (_name, expiry, heard) => {
      const kept = { clientId: 'k', clean: false, properties: { sessionExpiryInterval: expiry } }
      const first = await client(kept)
      first.acknowledges = false
      await first.subscribe('$share/g/room/#')
      const other = await client()
      other.publish(1, { topic: 'room/a', payload: 'x', qos: 2 })
      await until(() => first.heard.length === 1)
      const second = await client()
      await second.subscribe('$share/g/room/#')
      await first.vanish()
      await pause(50)
      const again = await client(kept)
      await pause(50)
      expect([again.heard, second.heard]).toEqual([heard, []])
    },
  )

  test('what a member refuses goes to no other', async () => {
    const first = await client()
    first.acknowledges = false
    await first.subscribe('$share/g/room/#')
    const other = await client()
    await tell(other, 'room/a', 'x')
    const { messageId } = await first.next('publish')
    const second = await client()
    await second.subscribe('$share/g/room/#')
    first.send({ cmd: 'puback', messageId, reasonCode: 0x80 })
    await until(() => ingest.memory.shares.queues.bytes === 0)
    await first.vanish()
    await pause(50)
    expect(second.heard).toEqual([])
  })
})

describe('by WebSocket', () => {
  /** @returns {Promise<WebSocket>} */
  async function open() {
    const socket = new WebSocket(`ws://127.0.0.1:${ingest.ports[1]}`, ['mqtt'])
    await new Promise((resolve) => socket.once('open', resolve))
    return socket
  }

  test('packets and frames of a WebSocket need not be aligned, and its protocol is mqtt', async () => {
    const socket = await open()
    expect(socket.protocol).toBe('mqtt')
    /** @type {Buffer[]} */
    const heard = []
    socket.on('message', (chunk) => heard.push(/** @type {Buffer} */ (chunk)))
    const bytes = Buffer.from([...connectBytes(2, ID), 0xc0, 0, 0xc0, 0])
    for (const part of [bytes.subarray(0, 5), bytes.subarray(5)]) socket.send(part)
    await until(() => Buffer.concat(heard).toString('hex').endsWith('d000d000'))
    expect(Buffer.concat(heard)[0]).toBe(0x20)
    socket.terminate()
  })

  test('a text frame of a WebSocket closes it', async () => {
    const socket = await open()
    const isClosed = new Promise((resolve) => socket.once('close', resolve))
    socket.send('\u0010')
    await isClosed
    expect(ingest.server.connectionCount).toBe(0)
  })
})
