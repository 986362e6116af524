// MQTT 3.1.1: sessions that outlive their connections, what waits for them, and wills.

import { pause, startIngest, until } from '../support/ingest.js'
import { endAll, RawClient4 } from '../support/raw-client-4.js'

/** @type {Awaited<ReturnType<typeof startIngest>>} */
let ingest

/** @param {Parameters<RawClient4['connect']>[0]} [fields] */
async function client(fields) {
  const one = new RawClient4(ingest.port)
  return { one, connack: await one.connect(fields) }
}

const KEPT = { clientId: 'kept', clean: false }

/** Somebody who publishes. */
async function publisher() {
  const { one } = await client({ clientId: 'publisher' })
  return async (/** @type {string} */ payload, /** @type {object} */ more = {}) => {
    one.publish(1, { topic: 'room/a', payload, ...more })
    await one.next('puback')
  }
}

/** @param {string} payload  @param {0 | 1 | 2} qos */
const give = (payload, qos) =>
  ingest.broker?.publish({
    topic: 'room/a',
    payload: Buffer.from(payload),
    qos,
    retain: false,
    bytes: 1,
  })

beforeEach(async () => {
  ingest = await startIngest()
})
afterEach(async () => {
  endAll()
  await ingest.stop()
})

describe('a session', () => {
  test('that is kept is there again, with what was published at QoS 1 and 2 [MQTT-3.1.2-4, 3.1.2-5, 3.2.2-2, 4.1.0-1]', async () => {
    const first = await client(KEPT)
    expect(first.connack).toMatchObject({ returnCode: 0, sessionPresent: false })
    await first.one.subscribe('room/#')
    await first.one.vanish()
    await until(() => ingest.server.connectionCount === 0)
    const tell = await publisher()
    for (const payload of ['1', '2']) await tell(payload)
    give('3', 2)
    const { one, connack } = await client(KEPT)
    expect(connack).toMatchObject({ returnCode: 0, sessionPresent: true })
    await until(() => one.heard.length === 3)
    await tell('4')
    await until(() => one.heard.length === 4)
    expect(one.heard).toEqual(['1', '2', '3', '4'])
  })

  test('that is kept without a subscription is present, too [MQTT-3.2.2-2]', async () => {
    const first = await client(KEPT)
    await first.one.leave()
    expect((await client(KEPT)).connack.sessionPresent).toBe(true)
  })

  test('that there is none of is not present [MQTT-3.2.2-3]', async () => {
    expect((await client(KEPT)).connack.sessionPresent).toBe(false)
  })

  test('begins anew if it is clean, and nothing of it is used again [MQTT-3.1.2-6, 3.1.4-3, 3.2.2-1]', async () => {
    const first = await client(KEPT)
    await first.one.subscribe('room/#')
    await first.one.vanish()
    await until(() => ingest.server.connectionCount === 0)
    const tell = await publisher()
    await tell('1')
    const clean = await client({ clientId: 'kept' })
    expect(clean.connack.sessionPresent).toBe(false)
    await tell('2')
    await pause(30)
    expect(clean.one.heard).toEqual([])
    await clean.one.subscribe('room/#')
    await clean.one.leave()
    const third = await client(KEPT)
    expect(third.connack.sessionPresent).toBe(false)
    await tell('3')
    await pause(30)
    expect(third.one.heard).toEqual([])
    expect(ingest.memory.shares.queues.bytes).toBe(0)
  })

  test('is of its client id, and lasts as long as the connection at least [MQTT-3.1.3-2, 4.1.0-2]', async () => {
    const [first, second] = [
      await client({ ...KEPT, clientId: 'a' }),
      await client({ clientId: 'b' }),
    ]
    await first.one.subscribe('room/a')
    await second.one.subscribe('room/b')
    const tell = await publisher()
    await tell('for a')
    await tell('for b', { topic: 'room/b' })
    await until(() => first.one.heard.length + second.one.heard.length === 2)
    expect([first.one.heard, second.one.heard]).toEqual([['for a'], ['for b']])
  })

  test('knows which messages of QoS 2 its client has not released [MQTT-4.1.0-1]', async () => {
    const first = await client(KEPT)
    first.one.publish(5, { qos: 2 })
    await first.one.next('pubrec')
    await first.one.vanish()
    const { one } = await client(KEPT)
    one.publish(5, { qos: 2, dup: true })
    await one.next('pubrec')
    expect(ingest.storage.rowsOf('measurement_30d')).toHaveLength(1)
  })
})

describe('what is not acknowledged', () => {
  test.each(/** @type {const} */ ([1, 2]))(
    'at QoS %i comes again in its order with its packet ids, as a duplicate, and then what is new [MQTT-4.4.0-1, 3.3.1-1, 4.6.0-1]',
    async (qos) => {
      const first = await client(KEPT)
      first.one.acknowledges = false
      await first.one.subscribe('room/#')
      for (const payload of ['1', '2']) give(payload, qos)
      await until(() => first.one.heard.length === 2)
      const sent = first.one.packets.filter(({ cmd }) => cmd === 'publish')
      expect(sent.map(({ dup }) => dup)).toEqual([false, false])
      const ids = sent.map(({ messageId }) => messageId)
      await first.one.vanish()
      await until(() => ingest.server.connectionCount === 0)
      give('3', qos)
      const { one } = await client(KEPT)
      await until(() => one.heard.length === 3)
      const got = one.packets.filter(({ cmd }) => cmd === 'publish')
      expect(got.map(({ payload }) => `${payload}`)).toEqual(['1', '2', '3'])
      expect(got.map(({ dup }) => dup)).toEqual([true, true, false])
      expect(got.slice(0, 2).map(({ messageId }) => messageId)).toEqual(ids)
      expect(ids).not.toContain(got[2].messageId)
    },
  )

  test('of retained messages comes again, too', async () => {
    const tell = await publisher()
    await tell('kept', { retain: true })
    const first = await client(KEPT)
    first.one.acknowledges = false
    await first.one.subscribe('room/#')
    await until(() => first.one.heard.length === 1)
    await first.one.vanish()
    const { one } = await client(KEPT)
    expect(await one.next('publish')).toMatchObject({ dup: true, retain: true })
  })

  test('is not sent again once it was received: its PUBREL is, with its packet id [MQTT-4.3.3-1]', async () => {
    const first = await client(KEPT)
    first.one.acknowledges = false
    await first.one.subscribe('room/#')
    give('1', 2)
    const { messageId, dup } = await first.one.next('publish')
    expect(dup).toBe(false)
    first.one.send({ cmd: 'pubrec', messageId })
    expect(await first.one.next('pubrel')).toMatchObject({ messageId })
    await first.one.vanish()
    const { one } = await client(KEPT)
    expect(await one.next('pubrel')).toMatchObject({ messageId })
    await pause(20)
    expect(one.heard).toEqual([])
    await until(() => ingest.memory.shares.queues.bytes === 0)
  })

  test('has a packet id of its own; one that is free again may be used [MQTT-4.3.2-1, 2.3.1-4]', async () => {
    const { one } = await client()
    one.acknowledges = false
    await one.subscribe('room/#')
    for (let number = 0; number < 300; number++) give(`${number}`, 1)
    await until(() => one.heard.length === 300)
    const ids = one.packets.map(({ messageId }) => messageId)
    expect(new Set(ids).size).toBe(300)
    expect(ids).not.toContain(0)
    one.send({ cmd: 'puback', messageId: ids[7] })
    one.send({ cmd: 'pingreq' })
    await one.next('pingresp')
    // Once around all numbers there are: of those in use none comes twice.
    one.acknowledges = true
    one.packets.length = 0
    for (let sent = 0; sent < 65_600; sent += 400) {
      for (let number = 0; number < 400; number++) give('x', 1)
      await until(() => one.heard.length === sent + 400)
    }
    const later = one.packets.map(({ messageId }) => messageId)
    const used = new Set(ids.filter((id) => id !== ids[7]))
    expect(later.filter((id) => used.has(id))).toEqual([])
    expect(later).toContain(ids[7])
  }, 60_000)

  test('does not keep other packets from being served', async () => {
    const { one } = await client()
    one.acknowledges = false
    await one.subscribe('room/#')
    give('1', 1)
    await until(() => one.heard.length === 1)
    one.publish(9)
    await one.next('puback')
  })
})

test('a message is for every session that subscribed, here or away [MQTT-4.5.0-1]', async () => {
  const away = await client(KEPT)
  await away.one.subscribe('room/+')
  await away.one.leave()
  const here = await client({ clientId: 'here' })
  await here.one.subscribe('#')
  const tell = await publisher()
  await tell('x')
  await until(() => here.one.heard.length === 1)
  const back = await client(KEPT)
  await until(() => back.one.heard.length === 1)
})

describe('a will', () => {
  /** @param {object} [fields] */
  const mortal = (fields) => ({
    clientId: 'mortal',
    will: {
      topic: 'room/will',
      payload: Buffer.from('gone'),
      qos: /** @type {const} */ (1),
      retain: false,
      ...fields,
    },
  })

  /** Somebody who hears it. */
  async function listener() {
    const { one } = await client({ clientId: 'listener' })
    await one.subscribe('room/#')
    return one
  }

  test('is published when its connection is lost, at its QoS, once [MQTT-3.1.2-8, 3.1.2-10]', async () => {
    const other = await listener()
    const { one } = await client(mortal())
    await one.vanish()
    expect(await other.next('publish')).toMatchObject({ topic: 'room/will', qos: 1, retain: false })
    const again = await client({ clientId: 'mortal' })
    await again.one.vanish()
    await pause(50)
    expect(other.heard).toEqual([])
  })

  test('is published when its client breaks the protocol [MQTT-3.1.2-8]', async () => {
    const other = await listener()
    const { one } = await client(mortal())
    one.bytes([0xf0, 0])
    await other.next('publish')
  })

  test('is none any more after a DISCONNECT [MQTT-3.14.4-3, 3.1.2-10]', async () => {
    const other = await listener()
    const { one } = await client(mortal())
    await one.leave()
    const tell = await publisher()
    await tell('after')
    await until(() => other.heard.includes('after'))
    expect(other.heard).toEqual(['after'])
  })

  test('that there is none of is not published [MQTT-3.1.2-12]', async () => {
    const other = await listener()
    const { one } = await client({ clientId: 'mortal' })
    await one.vanish()
    const tell = await publisher()
    await tell('after')
    await until(() => other.heard.includes('after'))
    expect(other.heard).toEqual(['after'])
  })

  test('that is not retained is published so [MQTT-3.1.2-16]', async () => {
    const other = await listener()
    const { one } = await client(mortal())
    await one.vanish()
    await other.next('publish')
    expect(ingest.memory.shares.retained.bytes).toBe(0)
  })

  test('that is retained is retained [MQTT-3.1.2-17]', async () => {
    const { one } = await client(mortal({ retain: true }))
    await one.vanish()
    await until(() => ingest.memory.shares.retained.bytes > 0)
    const other = await listener()
    expect(await other.next('publish')).toMatchObject({ retain: true, topic: 'room/will' })
  })
})
