// MQTT 5: how a client is let in, and how a connection ends. Statements are those of the
// specification (docs/mqtt-conformance.md).

import { generate } from 'mqtt-packet'
import { RawClient, startIngest, until } from '../support/ingest.js'
import { endAll, RawClient5 } from '../support/raw-client-5.js'

/** @type {Awaited<ReturnType<typeof startIngest>>} */
let ingest

/** @param {Parameters<typeof startIngest>[0]} [limits] */
const start = async (limits) => {
  ingest = await startIngest(limits)
}
const client = () => new RawClient5(ingest.port)

afterEach(async () => {
  endAll()
  await ingest.stop()
})

/** The bytes of a CONNECT. @param {Partial<import('mqtt-packet').IConnectPacket>} [fields] */
const connectBytes = (fields) =>
  generate(
    /** @type {any} */ ({
      cmd: 'connect',
      protocolId: 'MQTT',
      protocolVersion: 5,
      clean: true,
      clientId: 'x',
      keepalive: 0,
      ...fields,
    }),
  )

/** A CONNECT of MQTT 5 with properties that are given as bytes. @param {number[]} properties */
const withProperties = (properties, flags = 2) => {
  const body = [0, 4, 0x4d, 0x51, 0x54, 0x54, 5, flags, 0, 0, properties.length, ...properties]
  return [0x10, body.length + 3, ...body, 0, 1, 0x78]
}

describe('a CONNACK', () => {
  test('says what the server takes', async () => {
    await start({ clientMessagesMax: 7, packetBytesMax: 5_000 })
    const connack = await client().connect()
    expect(connack).toMatchObject({ reasonCode: 0, sessionPresent: false })
    expect(connack.properties).toMatchObject({
      receiveMaximum: 7,
      maximumPacketSize: 5_000,
      topicAliasMaximum: 64,
      retainAvailable: true,
      wildcardSubscriptionAvailable: true,
      subscriptionIdentifiersAvailable: true,
      sharedSubscriptionAvailable: true,
    })
  })

  test('tells the client id that was chosen, also of a kept session [MQTT-3.1.3-6, 3.1.3-7]', async () => {
    await start()
    for (const clean of [true, false]) {
      const one = client()
      const bytes = connectBytes({ clientId: '' })
      if (!clean) bytes[bytes.indexOf('MQTT') + 5] &= ~2
      one.socket.write(bytes)
      const { properties, reasonCode } = await one.next('connack')
      expect(reasonCode).toBe(0)
      expect(properties.assignedClientIdentifier).toMatch(/^auto-/)
    }
    const { properties } = await client().connect({ clientId: 'mine' })
    expect(properties.assignedClientIdentifier).toBeUndefined()
  })

  test('tells an expiry that is shorter than was asked for, and no other', async () => {
    await start()
    const forever = { properties: { sessionExpiryInterval: 0xffffffff } }
    const long = await client().connect({ clientId: 'a', ...forever })
    expect(long.properties.sessionExpiryInterval).toBe(7 * 24 * 3_600)
    const short = await client().connect({
      clientId: 'b',
      properties: { sessionExpiryInterval: 60 },
    })
    expect(short.properties.sessionExpiryInterval).toBeUndefined()
  })

  test('is the first packet, and larger than none that the client takes [MQTT-3.2.0-1, 3.1.2-24]', async () => {
    await start()
    const one = client()
    one.socket.write(connectBytes({ properties: { maximumPacketSize: 10 } }))
    expect(await one.reason()).toBeUndefined()
    expect(one.packets).toEqual([])
  })
})

describe('a CONNECT is refused', () => {
  test.each([
    ['with an authentication method [MQTT-4.12.0-1]', 0x8c, withProperties([0x15, 0, 1, 0x61])],
    ['with authentication data and no method', 0x82, withProperties([0x16, 0, 1, 0x61])],
    ['with a receive maximum of 0', 0x82, withProperties([0x21, 0, 0])],
    ['with a maximum packet size of 0', 0x82, withProperties([0x27, 0, 0, 0, 0])],
    ['with a property twice', 0x82, withProperties([0x11, 0, 0, 0, 1, 0x11, 0, 0, 0, 1])],
    ['with request problem information of 2', 0x82, withProperties([0x17, 2])],
  ])('%s', async (_name, code, bytes) => {
    await start()
    const one = client()
    one.bytes(bytes)
    expect((await one.next('connack')).reasonCode).toBe(code)
    await until(() => one.isClosed)
  })

  test('with a client id that is too long [MQTT-3.1.3-8]', async () => {
    await start()
    const one = client()
    expect(await one.connect({ clientId: 'x'.repeat(1_025) })).toMatchObject({ reasonCode: 0x85 })
    await until(() => one.isClosed)
  })

  test.each([['a/#'], ['$SYS/x']])('with a will on %s', async (topic) => {
    await start()
    const will = { topic, payload: Buffer.from('x'), qos: /** @type {const} */ (0), retain: false }
    expect(await client().connect({ will })).toMatchObject({ reasonCode: 0x90 })
  })
})

describe('a CONNECT costs the connection, without a word', () => {
  test.each([
    ['a property that no CONNECT has', withProperties([0x23, 0, 1])],
    ['a property that is cut short', withProperties([0x11, 0, 0])],
    ['a property that there is not', withProperties([0x7f, 0])],
    ['a reserved flag [MQTT-3.1.2-3]', withProperties([], 3)],
    ['a will of QoS 3 [MQTT-3.1.2-12]', withProperties([], 0x1e)],
    ['a will that is retained and none [MQTT-3.1.2-13]', withProperties([], 0x22)],
    ['a length of more bytes than it needs [MQTT-1.5.5-1]', [0x10, 0x8e, 0x80, 0x80, 0x80, 0]],
  ])('%s', async (_name, bytes) => {
    await start()
    const one = client()
    one.bytes(bytes)
    expect(await one.reason()).toBeUndefined()
    expect(one.packets).toEqual([])
  })
})

describe('a connection ends with a reason', () => {
  test('a second CONNECT [MQTT-3.1.0-2]', async () => {
    await start()
    const one = client()
    await one.connect()
    one.socket.write(connectBytes())
    expect(await one.reason()).toBe(0x82)
  })

  test('a newer one of its client takes over [MQTT-3.1.4-3]', async () => {
    await start()
    const [one, two] = [client(), client()]
    await one.connect()
    await two.connect()
    expect(await one.reason()).toBe(0x8e)
    two.send({ cmd: 'pingreq' })
    await two.next('pingresp')
  })

  test('one of 3.1.1 takes over from one of 5, and hears no reason itself', async () => {
    await start()
    const one = client()
    await one.connect({ clientId: 'raw' })
    const two = await new RawClient(ingest.port).connect()
    expect(await one.reason()).toBe(0x8e)
    const three = client()
    await three.connect({ clientId: 'raw' })
    await until(() => two.isClosed)
    expect(two.packets).toEqual([])
  })

  test('the server stops [MQTT-3.14.0-1]', async () => {
    await start()
    const one = client()
    await one.connect()
    await ingest.stop()
    expect(await one.reason()).toBe(0x8b)
    await start()
  })

  test('silence for longer than one and a half times the keep alive [MQTT-3.1.2-22]', async () => {
    await start()
    const one = client()
    await one.connect({ keepalive: 1 })
    expect(await one.reason()).toBe(0x8d)
  })

  test.each([
    ['a packet over the limit [MQTT-3.2.2-15]', 0x95, [0x30, 0xff, 0xff, 0x7f]],
    ['an AUTH that nobody asked for [MQTT-4.12.0-7]', 0x82, [0xf0, 0]],
    ['a SUBACK', 0x82, [0x90, 3, 0, 1, 0]],
    ['reserved flags of a PINGREQ [MQTT-2.1.3-1]', 0x81, [0xc1, 0]],
    ['a PINGREQ with a body', 0x81, [0xc0, 1, 0]],
    ['reserved flags of a DISCONNECT [MQTT-3.14.1-1]', 0x81, [0xe1, 0]],
    ['reserved flags of a SUBSCRIBE [MQTT-3.8.1-1]', 0x81, [0x80, 7, 0, 1, 0, 0, 1, 0x61, 0]],
    ['reserved flags of an UNSUBSCRIBE [MQTT-3.10.1-1]', 0x81, [0xa0, 6, 0, 1, 0, 0, 1, 0x61]],
    ['reserved flags of a PUBREL [MQTT-3.6.1-1]', 0x81, [0x60, 2, 0, 1]],
    ['a SUBSCRIBE without a filter [MQTT-3.8.3-2]', 0x82, [0x82, 3, 0, 1, 0]],
    ['an UNSUBSCRIBE without a filter [MQTT-3.10.3-2]', 0x82, [0xa2, 3, 0, 1, 0]],
    ['packet id 0 [MQTT-2.2.1-3]', 0x82, [0x82, 7, 0, 0, 0, 0, 1, 0x61, 0]],
    ['a subscription of QoS 3', 0x81, [0x82, 7, 0, 1, 0, 0, 1, 0x61, 3]],
    ['reserved bits of an option [MQTT-3.8.3-5]', 0x81, [0x82, 7, 0, 1, 0, 0, 1, 0x61, 0x40]],
    ['a retain handling of 3', 0x82, [0x82, 7, 0, 1, 0, 0, 1, 0x61, 0x30]],
    ['subscription id 0', 0x82, [0x82, 9, 0, 1, 2, 0x0b, 0, 0, 1, 0x61, 0]],
    [
      'a filter with # before its end [MQTT-4.7.1-1]',
      0x81,
      [0x82, 9, 0, 1, 0, 0, 3, 0x23, 0x2f, 0x61, 0],
    ],
  ])('%s', async (_name, code, bytes) => {
    await start()
    const one = client()
    await one.connect()
    one.bytes(bytes)
    expect(await one.reason()).toBe(code)
  })

  test('of a client that leaves in order there is no reason, and no message is lost', async () => {
    await start()
    const one = client()
    await one.connect()
    one.publish(1)
    await one.leave()
    expect(one.packets).toMatchObject([{ cmd: 'puback', reasonCode: 0 }])
    expect(ingest.counts.received).toBe(1)
  })
})
