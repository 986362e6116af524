// MQTT 3.1.1: what clients publish, and what is retained.

import { Topics } from '@sandglass/common/topics'
import { Access } from '../../src/broker/entrance/access.js'
import { pause, startIngest, until } from '../support/ingest.js'
import { endAll, RawClient4 } from '../support/raw-client-4.js'

/** @type {Awaited<ReturnType<typeof startIngest>>} */
let ingest
let count = 0

/** @param {Parameters<RawClient4['connect']>[0]} [fields] */
async function client(fields) {
  const one = new RawClient4(ingest.port)
  await one.connect({ clientId: `c${count++}`, ...fields })
  return one
}

/**
 * @param {RawClient4} one
 * @param {string} topic
 * @param {string} payload
 * @param {object} [more]
 */
async function tell(one, topic, payload, more) {
  one.publish(1, { topic, payload, ...more })
  await one.next('puback')
}

/** After which all that was on its way has come. @param {RawClient4} one */
async function settle(one) {
  await one.subscribe('settled/#')
  await tell(one, 'settled/x', 'settled')
  await until(() => one.heard.includes('settled'))
  return one.heard.filter((payload) => payload !== 'settled')
}

const rows = () => ingest.storage.rowsOf('measurement_30d')

beforeEach(async () => {
  ingest = await startIngest()
})
afterEach(async () => {
  endAll()
  await ingest.stop()
})

describe('a message', () => {
  test('is answered by its QoS, with its packet id, when it is durable [MQTT-3.3.4-1, 2.3.1-6, 4.3.2-2]', async () => {
    const one = await client()
    ingest.storage.isDown = true
    one.publish(0, { qos: 0, messageId: undefined })
    one.publish(7)
    one.publish(8, { qos: 2 })
    await pause(50)
    expect(one.packets).toEqual([])
    ingest.storage.isDown = false
    expect(await one.next('puback')).toMatchObject({ messageId: 7 })
    expect(await one.next('pubrec')).toMatchObject({ messageId: 8 })
    one.send({ cmd: 'pubrel', messageId: 8 })
    expect(await one.next('pubcomp')).toMatchObject({ messageId: 8 })
    expect([rows().length, one.packets]).toEqual([3, []])
  })

  test('of a packet id that was acknowledged is a new one, whatever its flag says [MQTT-4.3.2-2]', async () => {
    const one = await client()
    await one.subscribe('room/#')
    for (const payload of ['1', '2']) await tell(one, 'room/a', payload, { dup: true })
    await until(() => one.heard.length === 2)
  })

  test('of QoS 2 is the same one until its PUBREL, and then a new one [MQTT-4.3.3-2]', async () => {
    const [one, other] = [await client(), await client()]
    await other.subscribe('sensors/#')
    one.publish(5, { qos: 2, payload: '1' })
    await one.next('pubrec')
    one.publish(5, { qos: 2, payload: '1', dup: true })
    expect(await one.next('pubrec')).toMatchObject({ messageId: 5 })
    one.send({ cmd: 'pubrel', messageId: 5 })
    await one.next('pubcomp')
    one.publish(5, { qos: 2, payload: '2' })
    await one.next('pubrec')
    await until(() => other.heard.length === 2)
    await pause(20)
    expect([other.heard, rows().length]).toEqual([['1', '2'], 2])
  })

  test('that is a duplicate goes on as none [MQTT-3.3.1-3, 4.3.1-1]', async () => {
    const one = await client()
    for (const qos of [0, 1]) {
      await one.subscribe([{ topic: `room/${qos}`, qos }])
      await tell(one, `room/${qos}`, 'x', { dup: true })
      expect(await one.next('publish')).toMatchObject({ qos, dup: false })
    }
  })

  test('of QoS 0 has no packet id [MQTT-2.3.1-5]', async () => {
    const one = await client()
    await one.subscribe('room/#')
    one.bytes([0x30, 9, 0, 6, ...Buffer.from('room/a'), 0x31])
    expect(await one.next('publish')).toMatchObject({ qos: 0, payload: Buffer.from('1') })
  })

  test('with a byte order mark in its topic keeps it [MQTT-1.5.3-3]', async () => {
    const one = await client()
    await one.subscribe('\ufeffroom')
    await tell(one, 'room', 'without')
    await tell(one, '\ufeffroom', 'with')
    const got = await one.next('publish')
    expect([got.topic, `${got.payload}`]).toEqual(['\ufeffroom', 'with'])
  })

  test('on a topic that looks the same is another one [MQTT-4.7.3-4]', async () => {
    const one = await client()
    await one.subscribe(['caf\u00e9', 'end'])
    await tell(one, 'cafe\u0301', 'other')
    await tell(one, 'end', 'end')
    await until(() => one.heard.length > 0)
    expect(one.heard).toEqual(['end'])
  })

  test('that its client may not publish is acknowledged, and nobody has it [MQTT-3.3.5-2]', async () => {
    await ingest.stop()
    const topics = new Topics()
    const grant = { keyId: 'k', name: 'n', scopes: new Set(['read']) }
    const keys = { find: async () => grant, confirm: async () => [], unasked: 0 }
    const access = new Access({ keys: /** @type {any} */ (keys), topics })
    ingest = await startIngest({}, { topics, access })
    const one = await client()
    await one.subscribe('#')
    one.publish(3)
    expect(await one.next('puback')).toMatchObject({ messageId: 3 })
    await pause(50)
    expect([one.heard, rows()]).toEqual([[], []])
  })
})

describe('a retained message', () => {
  test('comes with each new subscription, as retained, with its QoS [MQTT-3.3.1-5, 3.3.1-6, 3.3.1-8]', async () => {
    const one = await client()
    await tell(one, 'room/a', 'x', { retain: true })
    const other = await client()
    await other.subscribe('room/+')
    expect(await other.next('publish')).toMatchObject({ retain: true, qos: 1, topic: 'room/a' })
  })

  test('of QoS 0 takes the place of the one before [MQTT-3.3.1-7]', async () => {
    const one = await client()
    await tell(one, 'room/a', 'old', { retain: true })
    one.publish(0, { topic: 'room/a', payload: 'new', qos: 0, retain: true, messageId: undefined })
    await tell(one, 'room/b', 'x')
    await one.subscribe('room/a')
    expect(`${(await one.next('publish')).payload}`).toBe('new')
    expect(await settle(one)).toEqual([])
  })

  test('comes as not retained to who had subscribed [MQTT-3.3.1-9]', async () => {
    const [one, other] = [await client(), await client()]
    await other.subscribe('room/#')
    await tell(one, 'room/a', 'x', { retain: true })
    expect((await other.next('publish')).retain).toBe(false)
  })

  test('goes with an empty one, which is passed on and not kept [MQTT-3.3.1-10, 3.3.1-11]', async () => {
    const [one, other] = [await client(), await client()]
    await tell(one, 'room/a', 'x', { retain: true })
    expect(ingest.memory.shares.retained.bytes).toBeGreaterThan(0)
    await other.subscribe('room/#')
    await other.next('publish')
    await tell(one, 'room/a', '', { retain: true })
    expect((await other.next('publish')).payload).toHaveLength(0)
    expect(ingest.memory.shares.retained.bytes).toBe(0)
    await one.subscribe('room/#')
    expect(await settle(one)).toEqual([])
  })

  test('is left alone by one that is not [MQTT-3.3.1-12]', async () => {
    const one = await client()
    await tell(one, 'room/a', 'kept', { retain: true })
    for (const payload of ['', 'other']) await tell(one, 'room/a', payload)
    await one.subscribe('room/#')
    expect(await settle(one)).toEqual(['kept'])
  })

  test('outlives the session of its client [MQTT-3.1.2-7]', async () => {
    const one = await client({ clientId: 'gone' })
    await tell(one, 'room/a', 'x', { retain: true })
    await one.leave()
    const other = await client()
    await other.subscribe('room/#')
    await until(() => other.heard.length === 1)
  })
})
