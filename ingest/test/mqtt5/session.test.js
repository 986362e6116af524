// MQTT 5: sessions that outlive their connections, what waits for them, and wills.

import { pause, RawClient, startIngest, until } from '../support/ingest.js'
import { endAll, RawClient5 } from '../support/raw-client-5.js'

/** @type {Awaited<ReturnType<typeof startIngest>>} */
let ingest
let aheadMs = 0

/** @param {Parameters<RawClient5['connect']>[0]} [fields] */
async function client(fields) {
  const one = new RawClient5(ingest.port)
  return { one, connack: await one.connect(fields) }
}

/** @param {number} [seconds]  @param {object} [more] */
const kept = (seconds = 600, more) => ({
  clientId: 'kept',
  clean: false,
  properties: { sessionExpiryInterval: seconds, ...more },
})

/** Somebody who publishes. */
async function publisher() {
  const { one } = await client({ clientId: 'publisher' })
  return async (/** @type {string} */ payload, /** @type {object} */ more = {}) => {
    one.publish(1, { topic: 'room/a', payload, ...more })
    await one.next('puback')
  }
}

beforeEach(async () => {
  aheadMs = 0
  const clock = { wallMs: () => Date.now() + aheadMs, clockMs: () => performance.now() + aheadMs }
  ingest = await startIngest({}, { clock })
})
afterEach(async () => {
  endAll()
  await ingest.stop()
})

describe('a session', () => {
  test('is there again, with its subscriptions and what waits [MQTT-3.1.2-5, 3.2.2-3, 4.1.0-1]', async () => {
    const first = await client(kept())
    expect(first.connack.sessionPresent).toBe(false)
    await first.one.subscribe('room/#')
    await first.one.vanish()
    const tell = await publisher()
    for (const payload of ['1', '2']) await tell(payload)
    const { one, connack } = await client(kept())
    expect(connack.sessionPresent).toBe(true)
    await tell('3')
    await until(() => one.heard.length === 3)
    expect(one.heard).toEqual(['1', '2', '3'])
  })

  test('is new with clean start, and what waited is gone [MQTT-3.1.2-4, 3.2.2-2]', async () => {
    const first = await client(kept())
    await first.one.subscribe('room/#')
    await first.one.vanish()
    const tell = await publisher()
    await tell('1')
    const { one, connack } = await client({ ...kept(), clean: true })
    expect(connack.sessionPresent).toBe(false)
    await tell('2')
    await pause(50)
    expect(one.heard).toEqual([])
    expect(ingest.memory.shares.queues.bytes).toBe(0)
  })

  test.each([
    ['is over when it has expired [MQTT-4.1.0-2]', 10, 11_000, false],
    ['waits until it expires [MQTT-3.1.2-23]', 10, 8_000, true],
    ['without an expiry ends with its connection', 0, 0, false],
  ])('%s', async (_name, seconds, goneMs, isThere) => {
    const first = await client(kept(seconds))
    await first.one.subscribe('room/#')
    await first.one.vanish()
    await until(() => ingest.server.connectionCount === 0)
    aheadMs += goneMs
    const tell = await publisher()
    const { one, connack } = await client(kept(seconds))
    expect(connack.sessionPresent).toBe(isThere)
    await tell('1')
    await pause(50)
    expect(one.heard).toEqual(isThere ? ['1'] : [])
  })

  test('ends at its expiry without anybody coming, and gives its memory back', async () => {
    const { sessions, queues } = ingest.memory.shares
    const before = sessions.bytes
    const { one } = await client(kept(2))
    await one.subscribe('room/#')
    await one.vanish()
    const tell = await publisher()
    await tell('1')
    expect(queues.bytes).toBeGreaterThan(0)
    aheadMs += 5_000
    await until(() => queues.bytes === 0)
    await until(() => sessions.bytes <= before + 1_000)
  })

  test('expires when its client says so as it leaves', async () => {
    const { one } = await client(kept())
    await one.leave({ reasonCode: 0, properties: { sessionExpiryInterval: 0 } })
    const again = await client(kept())
    expect(again.connack.sessionPresent).toBe(false)
    await again.one.leave({ reasonCode: 0 })
    const third = await client(kept(0))
    expect(third.connack.sessionPresent).toBe(true)
    third.one.send({
      cmd: 'disconnect',
      reasonCode: 0,
      properties: { sessionExpiryInterval: 10 },
    })
    expect(await third.one.reason()).toBe(0x82)
  })

  test('of another version of the protocol is another one', async () => {
    const { one } = await client(kept())
    await one.subscribe('room/#')
    await one.vanish()
    const old = await new RawClient(ingest.port).connect({ clientId: 'kept', clean: false })
    const tell = await publisher()
    await tell('1')
    await pause(50)
    expect(old.packets).toEqual([])
    old.end()
    const again = await client(kept())
    expect(again.connack.sessionPresent).toBe(false)
    expect(ingest.memory.shares.queues.bytes).toBe(0)
  })
})

describe('what is not acknowledged', () => {
  test.each(/** @type {const} */ ([1, 2]))(
    'at QoS %i comes again in its order, as a duplicate, before what is new [MQTT-4.4.0-1, 3.3.1-1, 4.6.0-5]',
    async (qos) => {
      const first = await client(kept())
      first.one.acknowledges = false
      await first.one.subscribe('room/#')
      const tell = await publisher()
      for (const payload of ['1', '2']) {
        ingest.broker?.publish({
          topic: 'room/a',
          payload: Buffer.from(payload),
          qos,
          retain: false,
          bytes: 1,
        })
      }
      await until(() => first.one.heard.length === 2)
      const ids = first.one.packets.map(({ messageId }) => messageId)
      await first.one.vanish()
      await until(() => ingest.server.connectionCount === 1)
      await tell('3')
      const { one } = await client(kept())
      await until(() => one.heard.length === 3)
      const got = one.packets.filter(({ cmd }) => cmd === 'publish')
      expect(got.map(({ payload }) => `${payload}`)).toEqual(['1', '2', '3'])
      expect(got.map(({ dup }) => dup)).toEqual([true, true, false])
      expect(got.slice(0, 2).map(({ messageId }) => messageId)).toEqual(ids)
    },
  )

  test('is not sent again once it was received: its PUBREL is [MQTT-4.3.3-4]', async () => {
    const first = await client(kept())
    first.one.acknowledges = false
    await first.one.subscribe('room/#')
    ingest.broker?.publish({
      topic: 'room/a',
      payload: Buffer.from('1'),
      qos: 2,
      retain: false,
      bytes: 1,
    })
    const { messageId } = await first.one.next('publish')
    first.one.send({ cmd: 'pubrec', messageId })
    await first.one.next('pubrel')
    await first.one.vanish()
    const { one } = await client(kept())
    expect(await one.next('pubrel')).toMatchObject({ messageId })
    await pause(20)
    expect(one.heard).toEqual([])
    expect(ingest.memory.shares.queues.bytes).toBe(0)
  })

  test('that the client refuses is done with, and a PUBREC of nothing is answered so', async () => {
    const { one } = await client(kept())
    one.acknowledges = false
    await one.subscribe('room/#')
    const tell = await publisher()
    await tell('1')
    const { messageId } = await one.next('publish')
    one.send({ cmd: 'puback', messageId, reasonCode: 0x97 })
    await until(() => ingest.memory.shares.queues.bytes === 0)
    one.send({ cmd: 'pubrec', messageId: 77 })
    expect(await one.next('pubrel')).toMatchObject({ messageId: 77, reasonCode: 0x92 })
  })

  test('is no more than the client takes; the rest waits for room [MQTT-3.3.4-9, 4.9.0-1]', async () => {
    const { one } = await client(kept(600, { receiveMaximum: 2 }))
    one.acknowledges = false
    await one.subscribe('room/#')
    const tell = await publisher()
    for (let number = 0; number < 5; number++) await tell(`${number}`)
    await tell('at once', { qos: 1, topic: 'room/zero' })
    await pause(50)
    expect(one.heard).toEqual(['0', '1'])
    one.send({ cmd: 'pingreq' })
    await one.next('pingresp')
    one.acknowledges = true
    for (const { cmd, messageId } of one.packets)
      if (cmd === 'publish') one.send({ cmd: 'puback', messageId })
    await until(() => one.heard.length === 6)
    expect(one.heard).toEqual(['0', '1', '2', '3', '4', 'at once'])
  })
})

describe('a will', () => {
  /** @param {object} [properties]  @param {object} [fields] */
  const withWill = (properties, fields) => ({
    clientId: 'mortal',
    will: {
      topic: 'room/will',
      payload: Buffer.from('gone'),
      qos: /** @type {const} */ (1),
      retain: false,
      properties,
    },
    ...fields,
  })

  /** Somebody who hears it. */
  async function listener() {
    const { one } = await client({ clientId: 'listener' })
    await one.subscribe('room/#')
    return one
  }

  test('is published with its properties when its client is lost [MQTT-3.1.2-8, 3.1.3-10]', async () => {
    const other = await listener()
    const old = await new RawClient(ingest.port).connect()
    old.send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: 'room/#', qos: 0 }] })
    await until(() => old.ids('suback').length === 1)
    const properties = {
      contentType: 'text/plain',
      userProperties: { a: '1' },
      messageExpiryInterval: 50,
    }
    const { one } = await client(withWill(properties))
    await one.vanish()
    const will = await other.next('publish')
    expect(will).toMatchObject({ topic: 'room/will', payload: Buffer.from('gone') })
    expect({ ...will.properties, userProperties: { ...will.properties.userProperties } }).toEqual(
      properties,
    )
    await until(() => old.ids('publish').length === 1)
    old.end()
  })

  test('of a client of 3.1.1 is heard by clients of 5', async () => {
    const other = await listener()
    const old = await new RawClient(ingest.port).connect(/** @type {any} */ (withWill()))
    old.end()
    expect((await other.next('publish')).topic).toBe('room/will')
  })

  test.each([
    ['dropped when its client leaves in order [MQTT-3.1.2-10, 3.14.4-3]', 0, []],
    ['published when its client leaves and says so', 4, ['gone']],
  ])('is %s', async (_name, reasonCode, heard) => {
    const other = await listener()
    const { one } = await client(withWill())
    await one.leave({ reasonCode })
    const tell = await publisher()
    await tell('after')
    await until(() => other.heard.includes('after'))
    expect(other.heard.filter((payload) => payload !== 'after')).toEqual(heard)
  })

  test('waits for its delay, and is dropped if its client is back before [MQTT-3.1.3-9]', async () => {
    const other = await listener()
    const fields = { clean: false, properties: { sessionExpiryInterval: 600 } }
    const first = await client(withWill({ willDelayInterval: 1 }, fields))
    await first.one.vanish()
    await pause(200)
    const second = await client(withWill({ willDelayInterval: 1 }, fields))
    await pause(1_200)
    expect(other.heard).toEqual([])
    await second.one.vanish()
    await pause(500)
    expect(other.heard).toEqual([])
    await until(() => other.heard.length === 1)
  })

  test.each([
    ['ends with its connection', { properties: undefined }],
    ['is begun anew', { properties: { sessionExpiryInterval: 600 } }],
  ])('does not wait longer than its session, which %s', async (_name, fields) => {
    const other = await listener()
    const { one } = await client(withWill({ willDelayInterval: 500 }, fields))
    await one.vanish()
    if (fields.properties) {
      await pause(50)
      expect(other.heard).toEqual([])
      await client({ clientId: 'mortal', clean: true })
    }
    await until(() => other.heard.length === 1)
  })

  test('is retained if it says so, with its properties [MQTT-3.1.2-15]', async () => {
    const will = { ...withWill({ contentType: 'x' }).will, retain: true }
    const { one } = await client({ clientId: 'mortal', will })
    await one.vanish()
    await until(() => ingest.memory.shares.retained.bytes > 0)
    const other = await listener()
    expect(await other.next('publish')).toMatchObject({
      retain: true,
      properties: { contentType: 'x' },
    })
  })

  test('counts in the memory of clients for as long as it may be published', async () => {
    const { sessions } = ingest.memory.shares
    const fields = { clean: false, properties: { sessionExpiryInterval: 600 } }
    const own = withWill({ willDelayInterval: 500 }, fields)
    const { one } = await client({ ...own, will: { ...own.will, payload: Buffer.alloc(50_000) } })
    await one.vanish()
    await pause(50)
    expect(sessions.bytes).toBeGreaterThan(50_000)
    await client({ clientId: 'mortal', clean: true })
    expect(sessions.bytes).toBeLessThan(50_000)
  })
})
