// MQTT 3.1.1: subscriptions, and which messages they bring.

import { generate } from 'mqtt-packet'
import { startIngest, until } from '../support/ingest.js'
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

beforeEach(async () => {
  ingest = await startIngest()
})
afterEach(async () => {
  endAll()
  await ingest.stop()
})

describe('a SUBSCRIBE', () => {
  test('is answered with its packet id and a code for each filter, in order [MQTT-3.8.4-1, 3.8.4-2, 3.8.4-5, 3.9.3-1]', async () => {
    const one = await client()
    const subscriptions = [2, 0, 1].map((qos) => ({
      topic: `room/${qos}`,
      qos: /** @type {0 | 1 | 2} */ (qos),
    }))
    one.send({ cmd: 'subscribe', messageId: 321, subscriptions })
    expect(await one.next('suback')).toMatchObject({ messageId: 321, granted: [2, 0, 1] })
  })

  test('that takes too much memory is answered with 0x80, filter by filter [MQTT-3.9.3-2]', async () => {
    const one = await client()
    const long = `room/${'x/'.repeat(6_000)}`
    expect(await one.subscribe(['room/a', long, 'room/b'])).toEqual([2, 0x80, 2])
    await tell(one, 'room/b', 'b')
    await until(() => one.heard.length === 1)
  })

  test('of several filters is as several [MQTT-3.8.4-4]', async () => {
    const one = await client()
    await tell(one, 'room/a', 'a', { retain: true })
    await tell(one, 'hall/b', 'b', { retain: true })
    // The third takes the place of the first [MQTT-3.8.4-3], before that has given anything.
    expect(await one.subscribe(['room/+', 'hall/+', 'room/+'])).toEqual([2, 2, 2])
    expect((await settle(one)).sort()).toEqual(['a', 'b'])
  })

  test('of a filter that there is replaces it, with its retained messages again [MQTT-3.8.4-3]', async () => {
    const [one, other] = [await client(), await client()]
    await tell(other, 'room/kept', 'kept', { retain: true })
    await one.subscribe([{ topic: 'room/+', qos: 0 }])
    expect((await one.next('publish')).qos).toBe(0)
    await one.subscribe([{ topic: 'room/+', qos: 1 }])
    expect(await one.next('publish')).toMatchObject({ qos: 1, retain: true })
    await tell(other, 'room/a', 'x')
    expect(await one.next('publish')).toMatchObject({ qos: 1, retain: false })
    expect(await settle(one)).toEqual([])
  })
})

describe('an UNSUBSCRIBE', () => {
  test('is answered with its packet id, and nothing new comes [MQTT-3.10.4-2, 3.10.4-4, 2.3.1-7]', async () => {
    const one = await client()
    await one.subscribe(['room/a', 'room/b', 'room/c'])
    const unsubscriptions = ['room/a', 'room/b']
    one.send({ cmd: 'unsubscribe', messageId: 77, unsubscriptions })
    expect(await one.next('unsuback')).toMatchObject({ messageId: 77 })
    for (const topic of ['room/a', 'room/b', 'room/c']) await tell(one, topic, topic)
    expect(await settle(one)).toEqual(['room/c'])
  })

  test('stops what is retained, too, as far as it is not on its way [MQTT-3.10.4-2]', async () => {
    const one = await client()
    for (const name of ['a', 'b']) await tell(one, `room/${name}`, name, { retain: true })
    const packets = [
      { cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: 'room/+', qos: 0 }] },
      { cmd: 'unsubscribe', messageId: 2, unsubscriptions: ['room/+'] },
    ]
    const bytes = packets.map((packet) => generate(/** @type {any} */ (packet)))
    one.socket.write(Buffer.concat(bytes))
    await one.next('unsuback')
    expect(await settle(one)).toEqual([])
  })

  test('of what is not subscribed is answered, too, and takes nothing else [MQTT-3.10.4-1, 3.10.4-5]', async () => {
    const one = await client()
    await one.subscribe('room/+')
    one.send({ cmd: 'unsubscribe', messageId: 5, unsubscriptions: ['room/#', 'room/a'] })
    await one.next('unsuback')
    await tell(one, 'room/a', 'x')
    await until(() => one.heard.length === 1)
  })

  test('leaves what was begun to be completed [MQTT-3.10.4-3]', async () => {
    const kept = { clientId: 'k', clean: false }
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
})

describe('a message', () => {
  test('comes at the lower QoS of the two, whichever is whose [MQTT-3.8.4-6]', async () => {
    const one = await client()
    for (const qos of [0, 1, 2]) await one.subscribe([{ topic: `q/${qos}/+`, qos }])
    for (const wanted of [0, 1, 2]) {
      for (const qos of [0, 1, 2]) {
        one.publish(1 + 3 * wanted + qos, {
          topic: `q/${wanted}/${qos}`,
          qos: /** @type {any} */ (qos),
        })
        const got = await one.next('publish')
        expect([got.topic, got.qos]).toEqual([`q/${wanted}/${qos}`, Math.min(wanted, qos)])
      }
    }
  })

  test('that is retained comes at the lower QoS of the two, too', async () => {
    const one = await client()
    await tell(one, 'room/a', 'x', { retain: true })
    await one.subscribe([{ topic: 'room/+', qos: 0 }])
    expect(await one.next('publish')).toMatchObject({ qos: 0, retain: true })
  })

  test.each([
    ['lower first', [0, 2]],
    ['higher first', [2, 0]],
  ])(
    'of overlapping subscriptions comes at their highest QoS, once, %s [MQTT-3.3.5-1]',
    async (_name, order) => {
      const one = await client()
      const filters = ['room/#', 'room/+']
      for (const [at, qos] of order.entries()) await one.subscribe([{ topic: filters[at], qos }])
      one.publish(9, { topic: 'room/a', payload: 'x', qos: 2 })
      expect((await one.next('publish')).qos).toBe(2)
      expect(await settle(one)).toEqual([])
    },
  )

  test('comes to the subscriptions that match its topic, and no other [MQTT-3.3.2-3, 4.7.1-2, 4.7.1-3]', async () => {
    const one = await client()
    const publisher = await client()
    const matches = /** @type {const} */ ([
      ['#', 'a/b', true],
      ['a/#', 'a', true],
      ['a/#', 'ab', false],
      ['+', 'a', true],
      ['+', '/a', false],
      ['+/+', '/a', true],
      ['/+', '/a', true],
      ['a/+', 'a', false],
      ['a/+', 'a/', true],
      ['a/+/c', 'a//c', true],
      ['a/+/c', 'a/b/d', false],
      ['A', 'a', false],
    ])
    for (const [filter, topic, isMatch] of matches) {
      await one.subscribe(filter)
      await tell(publisher, topic, 'x')
      await tell(publisher, topic, 'y', { retain: true })
      one.send({ cmd: 'unsubscribe', messageId: 5, unsubscriptions: [filter] })
      await one.next('unsuback')
      const live = one.heard.length
      one.packets.length = 0
      await one.subscribe(filter)
      const retained = await settle(one)
      one.packets.length = 0
      one.send({ cmd: 'unsubscribe', messageId: 5, unsubscriptions: [filter, 'settled/#'] })
      await one.next('unsuback')
      await tell(publisher, topic, '', { retain: true })
      const wanted = [filter, topic, isMatch ? 2 : 0, isMatch ? ['y'] : []]
      expect([filter, topic, live, retained]).toEqual(wanted)
    }
  })

  test('on a topic with $ is for no filter that begins with a wildcard [MQTT-4.7.2-1]', async () => {
    const one = await client()
    await one.subscribe(['#', '+/x'])
    ingest.broker?.publish({
      topic: '$SYS/x',
      payload: Buffer.from('x'),
      qos: 1,
      retain: true,
      bytes: 1,
    })
    expect(await settle(one)).toEqual(['settled'].filter(() => false))
    await one.subscribe('#')
    expect(one.heard.includes('x')).toBe(false)
    await one.subscribe('$SYS/#')
    await until(() => one.heard.includes('x'))
  })

  test('comes in the order of its publisher, at every QoS [MQTT-4.6.0-5, 4.6.0-6]', async () => {
    const [one, other] = [await client(), await client()]
    await other.subscribe('room/#')
    const numbers = Array.from({ length: 60 }, (_, at) => at + 1)
    for (const id of numbers) {
      const qos = /** @type {0 | 1 | 2} */ (id % 3)
      one.publish(id, { topic: `room/${qos}`, qos, messageId: qos > 0 ? id : undefined })
    }
    await until(() => other.heard.length === 60)
    for (const qos of [0, 1, 2]) {
      const got = other.packets.filter((packet) => packet.topic === `room/${qos}`)
      expect(got.map(({ payload }) => Number(payload))).toEqual(
        numbers.filter((id) => id % 3 === qos),
      )
    }
  })
})
