// MQTT 3.1.1: how a client is let in, and what a connection is closed for. Statements are those of
// the specification (docs/mqtt-3.1.1-conformance.md).

import { Topics } from '@sandglass/common/topics'
import { WebSocket } from 'ws'
import { Access } from '../../src/broker/entrance/access.js'
import { startIngest, until } from '../support/ingest.js'
import { endAll, RawClient4 } from '../support/raw-client-4.js'

/** @type {Awaited<ReturnType<typeof startIngest>>} */
let ingest

const listen = { host: '127.0.0.1', port: 0 }
const listens = [
  { kind: /** @type {const} */ ('mqtt'), listen },
  { kind: /** @type {const} */ ('ws'), listen },
]

/** @param {Partial<Parameters<typeof startIngest>[1]>} [more] */
const start = async (more) => {
  ingest = await startIngest({}, { listens, ...more })
}
const client = () => new RawClient4(ingest.port)

afterEach(async () => {
  endAll()
  await ingest.stop()
})

/** @param {string} text */
const string = (text) => [0, Buffer.byteLength(text), ...Buffer.from(text)]
const NO_UTF8 = [0, 1, 0xff]
/** U+D800, as UTF-8 must not have it. */
const SURROGATE = [0, 3, 0xed, 0xa0, 0x80]
const ID = string('x')
const WILL = [...string('t'), ...string('p')]

/**
 * @param {number} flags
 * @param {number[]} fields
 * @param {{ name?: string, level?: number, header?: number }} [more]
 */
function connectBytes(flags, fields, { name = 'MQTT', level = 4, header = 0x10 } = {}) {
  const body = [...string(name), level, flags, 0, 0, ...fields]
  return [header, body.length, ...body]
}

/** All that a client hears, as bytes. @param {RawClient4} one */
function bytesOf(one) {
  /** @type {Buffer[]} */
  const heard = []
  one.socket.on('data', (chunk) => heard.push(chunk))
  return () => [...Buffer.concat(heard)]
}

describe('a CONNECT closes the connection without a word', () => {
  test.each([
    ['that is no CONNECT [MQTT-3.1.0-1]', [0xc0, 0]],
    ['of another protocol [MQTT-3.1.2-1]', connectBytes(2, ID, { name: 'MQTX' })],
    ['with reserved flags in its header [MQTT-2.2.2-2]', connectBytes(2, ID, { header: 0x11 })],
    ['with its reserved flag [MQTT-3.1.2-3]', connectBytes(3, ID)],
    ['with a will without a payload [MQTT-3.1.2-9]', connectBytes(6, [...ID, ...string('t')])],
    ['with a will and not its flag [MQTT-3.1.2-11]', connectBytes(2, [...ID, ...WILL])],
    ['with a QoS of no will [MQTT-3.1.2-13]', connectBytes(0x0a, ID)],
    ['with a will of QoS 3 [MQTT-3.1.2-14]', connectBytes(0x1e, [...ID, ...WILL])],
    ['with a retained will that is none [MQTT-3.1.2-15]', connectBytes(0x22, ID)],
    ['with a user name and not its flag [MQTT-3.1.2-18]', connectBytes(2, [...ID, ...string('u')])],
    ['without the user name of its flag [MQTT-3.1.2-19]', connectBytes(0x82, ID)],
    [
      'with a password and not its flag [MQTT-3.1.2-20]',
      connectBytes(0x82, [...ID, ...string('u'), ...string('p')]),
    ],
    [
      'without the password of its flag [MQTT-3.1.2-21]',
      connectBytes(0xc2, [...ID, ...string('u')]),
    ],
    [
      'with a password and no user name [MQTT-3.1.2-22]',
      connectBytes(0x42, [...ID, ...string('p')]),
    ],
    ['with bytes behind its fields [MQTT-3.1.3-1]', connectBytes(2, [...ID, 0])],
    ['without a client id [MQTT-3.1.3-3]', connectBytes(2, [])],
    ['with a client id that is no UTF-8 [MQTT-3.1.3-4]', connectBytes(2, NO_UTF8)],
    ['with half of a surrogate pair [MQTT-1.5.3-1]', connectBytes(2, SURROGATE)],
    ['with U+0000 [MQTT-1.5.3-2]', connectBytes(2, string('a\0'))],
    [
      'with a will on a topic that is no UTF-8 [MQTT-3.1.3-10]',
      connectBytes(6, [...ID, ...NO_UTF8, ...string('p')]),
    ],
    ['with a user name that is no UTF-8 [MQTT-3.1.3-11]', connectBytes(0x82, [...ID, ...NO_UTF8])],
  ])('%s', async (_name, bytes) => {
    await start()
    const one = client()
    const heard = bytesOf(one)
    one.bytes(bytes)
    await until(() => one.isClosed)
    expect(heard()).toEqual([])
  })
})

describe('a CONNECT is refused', () => {
  test.each([
    ['of another version [MQTT-3.1.2-2]', 1, connectBytes(2, ID, { level: 6 })],
    ['to keep a session without a client id [MQTT-3.1.3-8]', 2, connectBytes(0, string(''))],
    [
      'with a client id that is too long [MQTT-3.1.3-9]',
      2,
      [0x10, 0x8d, 8, ...string('MQTT'), 4, 2, 0, 0, 4, 1, ...Array(1_025).fill(0x78)],
    ],
  ])('%s', async (_name, code, bytes) => {
    await start()
    const one = client()
    const heard = bytesOf(one)
    one.bytes(bytes)
    await until(() => one.isClosed)
    // [MQTT-3.2.2-4], [MQTT-3.2.2-5]
    expect(heard()).toEqual([0x20, 2, 0, code])
  })

  test('and what is behind it is not read [MQTT-3.1.4-5]', async () => {
    await start()
    const one = client()
    const refused = connectBytes(2, ID, { level: 6 })
    one.bytes([...refused, 0x32, 18, ...string('sensors/s/m'), 0, 1, 0x31, 0x31, 0x31])
    await until(() => one.isClosed)
    expect(one.packets).toMatchObject([{ cmd: 'connack', returnCode: 1, sessionPresent: false }])
    expect(ingest.counts.received).toBe(0)
  })

  test('when its key cannot be looked up for now [MQTT-4.8.0-2]', async () => {
    const find = () => Promise.reject(new Error('the database is away'))
    const keys = { find, confirm: async () => [], unasked: 0 }
    await start({ access: new Access({ keys: /** @type {any} */ (keys), topics: new Topics() }) })
    const one = client()
    expect(await one.connect()).toMatchObject({ returnCode: 3 })
    await until(() => one.isClosed)
  })
})

describe('a client', () => {
  test('is let in with a CONNACK, which is first and alone [MQTT-3.1.4-4, 3.2.0-1]', async () => {
    await start()
    const one = client()
    const heard = bytesOf(one)
    one.bytes([...connectBytes(2, ID), 0xc0, 0])
    await one.next('pingresp')
    expect(heard()).toEqual([0x20, 2, 0, 0, 0xd0, 0])
  })

  test('may have an id of 23 letters and digits [MQTT-3.1.3-5]', async () => {
    await start()
    const clientId = '0123456789abcdefXYZABCD'
    expect(await client().connect({ clientId })).toMatchObject({ returnCode: 0 })
  })

  test('without an id gets one that nobody else has [MQTT-3.1.3-6]', async () => {
    await start()
    const all = [client(), client()]
    for (const one of all)
      expect(await one.connect({ clientId: '' })).toMatchObject({ returnCode: 0 })
    for (const one of all) {
      one.send({ cmd: 'pingreq' })
      await one.next('pingresp')
    }
  })

  test('that connects twice is disconnected [MQTT-3.1.0-2]', async () => {
    await start()
    const one = client()
    await one.connect({ clientId: 'x' })
    one.bytes(connectBytes(2, ID))
    await until(() => one.isClosed)
    expect(one.packets).toEqual([])
  })

  test('that comes again takes the place of the one there is [MQTT-3.1.4-2]', async () => {
    await start()
    const [old, young, other] = [client(), client(), client()]
    await old.connect({ clientId: 'twice' })
    await other.connect({ clientId: 'other' })
    await young.connect({ clientId: 'twice' })
    await until(() => old.isClosed)
    for (const one of [young, other]) {
      one.send({ cmd: 'pingreq' })
      await one.next('pingresp')
    }
  })

  test('that is silent for longer than one and a half times its keep alive is lost [MQTT-3.1.2-24]', async () => {
    await start()
    const one = client()
    await one.connect({ keepalive: 1 })
    const fromMs = performance.now()
    await until(() => one.isClosed)
    expect(performance.now() - fromMs).toBeGreaterThan(1_400)
  })

  test('is answered when it asks for a sign of life [MQTT-3.12.4-1]', async () => {
    await start()
    const one = client()
    await one.connect()
    one.send({ cmd: 'pingreq' })
    await one.next('pingresp')
  })
})

describe('a connection is closed for', () => {
  const filter = [0, 1, 0x61]
  test.each([
    ['a packet that no client sends [MQTT-4.8.0-1]', [0x90, 3, 0, 1, 0]],
    ['a packet of no type', [0x00, 0]],
    ['a packet of type 15', [0xf0, 0]],
    ['reserved flags of a PINGREQ [MQTT-2.2.2-1]', [0xc1, 0]],
    ['a PINGREQ with a body', [0xc0, 1, 0]],
    ['reserved flags of a DISCONNECT [MQTT-3.14.1-1]', [0xe1, 0]],
    ['a DISCONNECT with a body', [0xe0, 1, 0]],
    ['reserved flags of a PUBACK', [0x41, 2, 0, 1]],
    ['a PUBACK with more than its packet id', [0x40, 3, 0, 1, 0]],
    ['reserved flags of a PUBREL [MQTT-3.6.1-1]', [0x60, 2, 0, 1]],
    ['reserved flags of a SUBSCRIBE [MQTT-3.8.1-1]', [0x80, 6, 0, 1, ...filter, 0]],
    ['reserved flags of an UNSUBSCRIBE [MQTT-3.10.1-1]', [0xa0, 5, 0, 1, ...filter]],
    ['a SUBSCRIBE without a filter [MQTT-3.8.3-3]', [0x82, 2, 0, 1]],
    ['an UNSUBSCRIBE without a filter [MQTT-3.10.3-2]', [0xa2, 2, 0, 1]],
    ['a SUBSCRIBE with packet id 0 [MQTT-2.3.1-1]', [0x82, 6, 0, 0, ...filter, 0]],
    ['an UNSUBSCRIBE with packet id 0', [0xa2, 5, 0, 0, ...filter]],
    ['a PUBLISH with packet id 0', [0x32, 5, ...filter, 0, 0]],
    ['a subscription of QoS 3 [MQTT-3-8.3-4]', [0x82, 6, 0, 1, ...filter, 3]],
    ['reserved bits of a QoS [MQTT-3-8.3-4]', [0x82, 6, 0, 1, ...filter, 0x81]],
    ['a filter that is no UTF-8 [MQTT-3.8.3-1]', [0x82, 6, 0, 1, ...NO_UTF8, 0]],
    ['a filter to unsubscribe that is no UTF-8 [MQTT-3.10.3-1]', [0xa2, 5, 0, 1, ...NO_UTF8]],
    ['a filter with # before its end [MQTT-4.7.1-2]', [0x82, 8, 0, 1, ...string('#/a'), 0]],
    ['a filter with + inside of a level [MQTT-4.7.1-3]', [0x82, 7, 0, 1, ...string('a+'), 0]],
    ['an empty filter [MQTT-4.7.3-1]', [0x82, 5, 0, 1, 0, 0, 0]],
    ['an empty topic', [0x30, 2, 0, 0]],
    ['a topic that is no UTF-8 [MQTT-3.3.2-1]', [0x30, 3, ...NO_UTF8]],
    ['a topic with U+0000 [MQTT-4.7.3-2]', [0x30, 4, ...string('a\0')]],
    ['a topic with a wildcard [MQTT-3.3.2-2, 4.7.1-1]', [0x30, 4, ...string('a+')]],
    ['a PUBLISH of QoS 3 [MQTT-3.3.1-4]', [0x36, 5, ...filter, 0, 1]],
    ['a duplicate of QoS 0 [MQTT-3.3.1-2]', [0x38, 3, ...filter]],
  ])('%s', async (_name, bytes) => {
    await start()
    const [one, other] = [client(), client()]
    await one.connect({ clientId: 'bad' })
    await other.connect({ clientId: 'good' })
    one.bytes(bytes)
    await until(() => one.isClosed)
    expect(one.packets).toEqual([])
    other.send({ cmd: 'pingreq' })
    await other.next('pingresp')
  })
})

describe('by WebSocket', () => {
  /** @returns {Promise<WebSocket>} */
  async function open() {
    const socket = new WebSocket(`ws://127.0.0.1:${ingest.ports[1]}`, ['mqtt'])
    await new Promise((resolve) => socket.once('open', resolve))
    return socket
  }

  test('packets and frames need not be aligned [MQTT-6.0.0-2], and the protocol is mqtt [MQTT-6.0.0-4]', async () => {
    await start()
    const socket = await open()
    expect(socket.protocol).toBe('mqtt')
    /** @type {Buffer[]} */
    const heard = []
    socket.on('message', (chunk) => heard.push(/** @type {Buffer} */ (chunk)))
    const bytes = Buffer.from([...connectBytes(2, ID), 0xc0, 0, 0xc0, 0])
    for (const part of [bytes.subarray(0, 5), bytes.subarray(5)]) socket.send(part)
    await until(() => Buffer.concat(heard).toString('hex') === '20020000d000d000')
    socket.terminate()
  })

  test('a text frame closes it [MQTT-6.0.0-1]', async () => {
    await start()
    const socket = await open()
    const isClosed = new Promise((resolve) => socket.once('close', resolve))
    socket.send('\u0010')
    await isClosed
    expect(ingest.server.connectionCount).toBe(0)
  })
})
