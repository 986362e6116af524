// MQTT 5: what clients publish, what they hear of it, and what subscribers get with it.

import { KeyStore } from '@sandglass/common/key-store'
import { createKey } from '@sandglass/common/keys'
import { sensorId } from '@sandglass/common/sensor'
import { Topics } from '@sandglass/common/topics'
import { Access } from '../../src/broker/entrance/access.js'
import { ALIAS_BYTES_MAX, ALIASES_MAX } from '../../src/broker/v5/topic-aliases.js'
import { pause, RawClient, startIngest, until } from '../support/ingest.js'
import { endAll, RawClient5 } from '../support/raw-client-5.js'

/** @type {Awaited<ReturnType<typeof startIngest>>} */
let ingest

/** @param {Parameters<typeof startIngest>[0]} [limits]  @param {object} [more] */
const start = async (limits, more) => {
  ingest = await startIngest(limits, more)
}

/** @param {Parameters<RawClient5['connect']>[0]} [fields] */
async function client(fields) {
  const one = new RawClient5(ingest.port)
  await one.connect(fields)
  return one
}

afterEach(async () => {
  endAll()
  await ingest.stop()
})

describe('a PUBACK', () => {
  test('comes when the message is durable, and not before', async () => {
    await start()
    ingest.storage.isDown = true
    const one = await client()
    for (const qos of /** @type {const} */ ([1, 2])) one.publish(qos, { qos })
    await pause(100)
    expect(one.packets).toEqual([])
    ingest.storage.isDown = false
    expect(await one.next('puback')).toMatchObject({ messageId: 1, reasonCode: 0 })
    expect(await one.next('pubrec')).toMatchObject({ messageId: 2, reasonCode: 0 })
  })

  test.each(
    /** @type {[string, number, RegExp, object][]} */ ([
      ['no number', 0x99, /./, { payload: 'not a number' }],
      ['a topic of no sensor', 0x90, /./, { topic: 'sensors/s/m/more', payload: '1' }],
      ['a topic of the broker', 0x90, /\$/, { topic: '$SYS/x', payload: '1' }],
    ]),
  )('says that it is %s, once the dead letter is durable', async (_name, code, reason, fields) => {
    await start()
    const one = await client()
    one.publish(1, { qos: 1, ...fields })
    const puback = await one.next('puback')
    expect(puback.reasonCode).toBe(code)
    expect(puback.properties.reasonString).toMatch(reason)
  })

  test('says that a field is lost, of a message that is stored without it', async () => {
    await start()
    const one = await client()
    one.publish(1, { topic: 'sensors/s', payload: '{"a": 1, "b": {"c": "é"}, "": []}' })
    const puback = await one.next('puback')
    expect(puback.reasonCode).toBe(0)
    expect(ingest.counts.received).toBe(1)
  })

  test('says that there are too many sensors', async () => {
    await start({ sensorsMax: 1 })
    const one = await client()
    one.publish(1, { topic: 'sensors/a/m' })
    expect(await one.next('puback')).toMatchObject({ reasonCode: 0 })
    one.publish(2, { topic: 'sensors/b/m' })
    expect(await one.next('puback')).toMatchObject({ reasonCode: 0x97 })
  })

  test('has no reason for a client that wants none, nor one that it cannot take [MQTT-3.1.2-29, 3.4.2-2]', async () => {
    await start()
    const terse = await client({ clientId: 'a', properties: { requestProblemInformation: false } })
    const small = await client({ clientId: 'b', properties: { maximumPacketSize: 60 } })
    for (const one of [terse, small]) {
      one.publish(1, { payload: 'x'.repeat(30) })
      const { reasonCode, properties } = await one.next('puback')
      expect([reasonCode, properties]).toEqual([0x99, undefined])
    }
  })

  test('of 3.1.1 stays what it was', async () => {
    await start()
    const one = await new RawClient(ingest.port).connect()
    one.publish(1, { payload: 'not a number' })
    await until(() => one.packets.length === 1)
    expect(one.packets[0]).toMatchObject({ cmd: 'puback', messageId: 1, length: 2 })
    one.end()
  })
})

test('a device hears that a topic is not its own, at QoS 1 and 2', async () => {
  const { keyId, text, hash } = createKey()
  const owner = { scopes: ['write'], sensor_id: sensorId('a'), expires: null }
  const row = { key_id: keyId, hash, name: 'n', ...owner }
  const database = {
    keyspace: 'k',
    isUp: true,
    client: { execute: async () => ({ rows: [row] }) },
  }
  const keys = new KeyStore({ database: /** @type {any} */ (database) })
  const topics = new Topics()
  await start({}, { access: new Access({ keys, topics }), topics })
  const one = new RawClient5(ingest.port)
  expect(await one.connect({ username: 'u', password: Buffer.from(text) })).toMatchObject({
    reasonCode: 0,
  })
  one.publish(1, { topic: 'sensors/a/m' })
  one.publish(2, { topic: 'sensors/b/m' })
  one.publish(3, { topic: 'elsewhere', qos: 2 })
  const codes = [await one.next('puback'), await one.next('puback'), await one.next('pubrec')]
  expect(codes.map(({ reasonCode }) => reasonCode)).toEqual([0, 0x87, 0x87])
  // The packet id is free again [MQTT-4.3.3-9].
  one.publish(3, { topic: 'sensors/a/m', qos: 2 })
  expect((await one.next('pubrec')).reasonCode).toBe(0)
  const bad = new RawClient5(ingest.port)
  expect(await bad.connect({ username: 'u', password: Buffer.from('no') })).toMatchObject({
    reasonCode: 0x86,
  })
})

describe('QoS 2', () => {
  test('a duplicate is answered, and not stored again [MQTT-4.3.3-10]', async () => {
    await start()
    const one = await client()
    one.publish(5, { qos: 2 })
    await one.next('pubrec')
    one.publish(5, { qos: 2, dup: true })
    expect(await one.next('pubrec')).toMatchObject({ reasonCode: 0 })
    expect(ingest.counts.received).toBe(1)
    one.send({ cmd: 'pubrel', messageId: 5 })
    expect(await one.next('pubcomp')).toMatchObject({ messageId: 5, reasonCode: 0 })
  })

  test('a PUBREL of what is not known is answered so', async () => {
    await start()
    const one = await client()
    one.send({ cmd: 'pubrel', messageId: 6 })
    expect(await one.next('pubcomp')).toMatchObject({ messageId: 6, reasonCode: 0x92 })
  })
})

describe('a topic alias', () => {
  /** @param {number} alias  @param {string} [topic] */
  const aliased = (alias, topic = '') => ({ topic, properties: { topicAlias: alias } })

  test('stands for the topic that it was given with last [MQTT-3.3.2-12]', async () => {
    await start()
    const one = await client()
    one.publish(1, aliased(1, 'sensors/a/m'))
    one.publish(2, aliased(1))
    one.publish(3, aliased(1, 'sensors/b/m'))
    one.publish(4, aliased(1))
    for (let id = 1; id <= 4; id++) expect((await one.next('puback')).reasonCode).toBe(0)
    const sensors = [...ingest.storage.stored.keys()].join()
    expect(sensors).toMatch(/a.*b/s)
  })

  test('is of one connection alone [MQTT-3.3.2-7]', async () => {
    await start()
    const one = await client({ clean: false, properties: { sessionExpiryInterval: 60 } })
    one.publish(1, aliased(1, 'sensors/a/m'))
    await one.next('puback')
    await one.vanish()
    const again = await client({ clean: false, properties: { sessionExpiryInterval: 60 } })
    again.publish(2, aliased(1))
    expect(await again.reason()).toBe(0x82)
  })

  test.each([
    ['0 [MQTT-3.3.2-8]', 0x94, 0, 'a'],
    ['over the limit [MQTT-3.3.2-9]', 0x94, ALIASES_MAX + 1, 'a'],
    ['that is unknown', 0x82, 3, ''],
  ])('%s closes the connection', async (_name, code, alias, topic) => {
    await start()
    const one = await client()
    const head = [0x30, topic.length + 6, 0, topic.length, ...Buffer.from(topic)]
    one.bytes([...head, 3, 0x23, 0, alias, 0x78])
    expect(await one.reason()).toBe(code)
  })

  test('no topic and no alias close the connection', async () => {
    await start()
    const one = await client()
    one.bytes([0x30, 4, 0, 0, 0, 0x78])
    expect(await one.reason()).toBe(0x82)
  })

  test('counts in the memory of clients, up to a limit of bytes, and is given back', async () => {
    await start()
    const { sessions } = ingest.memory.shares
    const before = sessions.bytes
    const one = await client()
    one.publish(1, aliased(1, `sensors/a/${'m'.repeat(1_000)}`))
    await one.next('puback')
    const bytes = sessions.bytes - before
    expect(bytes).toBeGreaterThan(2_000)
    one.publish(2, aliased(1, 'sensors/a/m'))
    await one.next('puback')
    expect(sessions.bytes - before).toBeLessThan(bytes)
    await one.leave()
    const two = await client()
    for (let alias = 1; alias * 60_000 < 2 * ALIAS_BYTES_MAX; alias++) {
      two.publish(alias, aliased(alias, `x/${'y'.repeat(30_000)}`))
    }
    expect(await two.reason()).toBe(0x97)
    await until(() => ingest.server.connectionCount === 0)
    ingest.server.sessions.age(Number.MAX_SAFE_INTEGER)
    expect(sessions.bytes).toBe(before)
  })
})

describe('the receive maximum', () => {
  test('is not to be passed: then the connection is closed', async () => {
    await start({ clientMessagesMax: 3 })
    ingest.storage.isDown = true
    const one = await client()
    for (let id = 1; id <= 3; id++) one.publish(id, { qos: id === 2 ? 2 : 1 })
    one.send({ cmd: 'pingreq' })
    await one.next('pingresp')
    one.publish(4)
    expect(await one.reason()).toBe(0x93)
  })

  test('counts a message of QoS 2 until its PUBCOMP, and one that was refused until then', async () => {
    await start({ clientMessagesMax: 2 })
    const one = await client()
    for (let round = 0; round < 5; round++) {
      one.publish(1, { qos: 2, topic: '$SYS/refused' })
      one.publish(2, { qos: 1 })
      await one.next('pubrec')
      await one.next('puback')
    }
    one.publish(1, { qos: 2 })
    one.publish(2, { qos: 2 })
    await one.next('pubrec')
    await one.next('pubrec')
    one.send({ cmd: 'pubrel', messageId: 1 })
    await one.next('pubcomp')
    one.publish(3, { qos: 2 })
    await one.next('pubrec')
    one.publish(4, { qos: 1 })
    expect(await one.reason()).toBe(0x93)
  })
})

describe('a PUBLISH that makes no sense closes the connection', () => {
  test.each([
    ['QoS 3 [MQTT-3.3.1-4]', 0x81, [0x36, 7, 0, 1, 0x61, 0, 1, 0, 0x78]],
    ['a duplicate of QoS 0 [MQTT-3.3.1-2]', 0x81, [0x38, 5, 0, 1, 0x61, 0, 0x78]],
    ['a wildcard in the topic [MQTT-3.3.2-2]', 0x90, [0x30, 5, 0, 1, 0x23, 0, 0x78]],
    ['a subscription id [MQTT-3.3.4-6]', 0x81, [0x30, 7, 0, 1, 0x61, 2, 0x0b, 1, 0x78]],
    ['a topic that is no UTF-8 [MQTT-1.5.4-1]', 0x81, [0x30, 5, 0, 1, 0xff, 0, 0x78]],
    ['a topic with U+0000 [MQTT-1.5.4-2]', 0x81, [0x30, 5, 0, 1, 0, 0, 0x78]],
    [
      'a response topic with a wildcard [MQTT-3.3.2-14]',
      0x82,
      [0x30, 9, 0, 1, 0x61, 4, 8, 0, 1, 0x2b, 0x78],
    ],
    ['a payload format of 2', 0x82, [0x30, 7, 0, 1, 0x61, 2, 1, 2, 0x78]],
    ['properties longer than the packet', 0x81, [0x30, 5, 0, 1, 0x61, 9, 0x78]],
  ])('%s', async (_name, code, bytes) => {
    await start()
    const one = await client()
    one.bytes(bytes)
    expect(await one.reason()).toBe(code)
  })
})

describe('subscribers get', () => {
  test('properties as they came, user properties in their order [MQTT-3.3.2-4, 3.3.2-17, 3.3.2-18]', async () => {
    await start()
    const one = await client({ clientId: 'one' })
    await one.subscribe('room/#')
    const two = await client({ clientId: 'two' })
    const properties = {
      payloadFormatIndicator: true,
      contentType: 'text/plain',
      responseTopic: 'answers/1',
      correlationData: Buffer.from([1, 2, 3]),
      userProperties: { b: ['1', '2'], a: '3' },
    }
    for (const qos of /** @type {const} */ ([0, 1, 2])) {
      two.publish(qos + 1, {
        topic: 'room/light',
        qos,
        properties: { ...properties, topicAlias: 1 },
      })
      const got = await one.next('publish')
      expect(got).toMatchObject({ topic: 'room/light', qos, payload: Buffer.from(`${qos + 1}`) })
      // No alias of another connection is passed on [MQTT-3.3.2-11].
      expect({ ...got.properties }).toEqual(properties)
    }
  })

  test('of 3.1.1, the message without them; and those of 5 what clients of 3.1.1 publish', async () => {
    await start()
    const old = await new RawClient(ingest.port).connect({ clientId: 'old' })
    old.send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: 'room/#', qos: 1 }] })
    await until(() => old.ids('suback').length === 1)
    const one = await client({ clientId: 'new' })
    await one.subscribe('room/#')
    one.publish(1, { topic: 'room/a', properties: { contentType: 'x' } })
    await until(() => old.ids('publish').length === 1)
    old.publish(2, { topic: 'room/b' })
    await until(() => one.heard.length === 2)
    await until(() => old.ids('publish').length === 2)
    expect(one.heard).toEqual(['1', '2'])
    old.end()
  })

  test('how long a message has left, and none that has expired [MQTT-3.3.2-5, 3.3.2-6]', async () => {
    let aheadMs = 0
    const clock = { wallMs: () => Date.now(), clockMs: () => performance.now() + aheadMs }
    await start({}, { clock })
    const kept = { clientId: 'one', clean: false, properties: { sessionExpiryInterval: 600 } }
    const one = await client(kept)
    await one.subscribe('room/#')
    await one.vanish()
    const two = await client({ clientId: 'two' })
    two.publish(1, { topic: 'room/a', properties: { messageExpiryInterval: 10 } })
    two.publish(2, { topic: 'room/a', properties: { messageExpiryInterval: 100 } })
    two.publish(3, { topic: 'room/a', retain: true, properties: { messageExpiryInterval: 10 } })
    two.publish(4, { topic: 'room/b', retain: true, properties: { messageExpiryInterval: 100 } })
    for (let id = 1; id <= 4; id++) await two.next('puback')
    aheadMs = 30_000
    const again = await client(kept)
    await until(() => again.heard.length === 2)
    expect(again.heard).toEqual(['2', '4'])
    const left = again.packets.map(({ properties }) => properties?.messageExpiryInterval)
    for (const seconds of left) expect(seconds).toBeGreaterThanOrEqual(69)
    for (const seconds of left) expect(seconds).toBeLessThanOrEqual(70)
    await again.subscribe('room/#')
    const retained = await until(() => again.heard.length === 3).then(() => again.packets.at(-1))
    expect(retained).toMatchObject({ topic: 'room/b', retain: true })
    await pause(20)
    expect(again.heard).toHaveLength(3)
  })

  test('no packet that is larger than they take, and the ones behind it [MQTT-3.1.2-25]', async () => {
    await start()
    const one = await client({ clientId: 'one', properties: { maximumPacketSize: 100 } })
    await one.subscribe('room/#')
    const two = await client({ clientId: 'two' })
    for (const qos of /** @type {const} */ ([0, 1, 2])) {
      two.publish(qos + 1, { topic: 'room/a', qos, payload: 'x'.repeat(200) })
    }
    two.publish(9, { topic: 'room/a', payload: 'small' })
    await until(() => one.heard.length > 0)
    expect(one.heard).toEqual(['small'])
    expect(one.isClosed).toBe(false)
  })
})
