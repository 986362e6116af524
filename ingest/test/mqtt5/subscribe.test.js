// MQTT 5: subscriptions, with options and identifiers, alone or shared; and what is retained.

import { RawClient, startIngest, until } from '../support/ingest.js'
import { endAll, RawClient5 } from '../support/raw-client-5.js'

/** @type {Awaited<ReturnType<typeof startIngest>>} */
let ingest
let count = 0

/** @param {Parameters<RawClient5['connect']>[0]} [fields] */
async function client(fields) {
  const one = new RawClient5(ingest.port)
  await one.connect({ clientId: `c${count++}`, ...fields })
  return one
}

/**
 * Publishes, and waits until it is acknowledged.
 *
 * @param {RawClient5} one
 * @param {string} topic
 * @param {string} payload
 * @param {object} [more]
 */
async function tell(one, topic, payload, more) {
  one.publish(1, { topic, payload, ...more })
  await one.next('puback')
}

/** After which all that was on its way has come. @param {RawClient5} one */
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

describe('a SUBACK', () => {
  test('answers each filter in its order [MQTT-3.8.4-6, 3.9.3-1]', async () => {
    const one = await client()
    const filters = [0, 1, 2].map((qos) => ({ topic: `room/${qos}`, qos }))
    expect(await one.subscribe(filters)).toEqual([0, 1, 2])
  })

  test('refuses what takes too much memory, and takes the rest', async () => {
    const one = await client()
    const long = `room/${'x/'.repeat(6_000)}`
    expect(await one.subscribe(['room/a', long, 'room/b'])).toEqual([2, 0x97, 2])
    await tell(one, 'room/b', 'b')
    await until(() => one.heard.length === 1)
  })

  test('of an UNSUBSCRIBE says which there were [MQTT-3.10.4-4, 3.11.3-1]', async () => {
    const one = await client()
    await one.subscribe(['room/a', '$share/g/room/b'])
    const unsubscriptions = ['room/a', 'room/none', '$share/g/room/b']
    one.send({ cmd: 'unsubscribe', messageId: 7, unsubscriptions })
    expect(await one.next('unsuback')).toMatchObject({ messageId: 7, granted: [0, 0x11, 0] })
    for (const topic of ['room/a', 'room/b']) await tell(one, topic, 'x')
    expect(await settle(one)).toEqual([])
  })
})

describe('a message', () => {
  test('comes at the lower quality of the two, whichever is whose [MQTT-3.8.4-8]', async () => {
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

  test('comes once, with the ids of all subscriptions that it is for [MQTT-3.3.4-2, 3.3.4-3, 3.3.4-4]', async () => {
    const one = await client()
    await one.subscribe([{ topic: 'room/#', qos: 0 }], { subscriptionIdentifier: 7 })
    await one.subscribe([{ topic: 'room/+', qos: 1 }], { subscriptionIdentifier: 300_000 })
    await one.subscribe([{ topic: 'room/light', qos: 0 }])
    await tell(one, 'room/light', 'x')
    const got = await one.next('publish')
    expect([got.properties.subscriptionIdentifier].flat().sort()).toEqual([300_000, 7])
    expect(got.qos).toBe(1)
    expect(await settle(one)).toEqual([])
  })

  test('has the id of the subscription that replaced the one of its filter [MQTT-3.8.4-3]', async () => {
    const one = await client()
    await one.subscribe([{ topic: 'room/+' }], { subscriptionIdentifier: 7 })
    await one.subscribe([{ topic: 'room/+', qos: 0 }], { subscriptionIdentifier: 8 })
    await tell(one, 'room/light', 'x')
    const got = await one.next('publish')
    expect([got.properties.subscriptionIdentifier, got.qos]).toEqual([8, 0])
  })

  test('does not come back to its client without local [MQTT-3.8.3-3]', async () => {
    const [one, two] = [await client(), await client()]
    for (const each of [one, two]) await each.subscribe([{ topic: 'room/#', nl: true }])
    await tell(one, 'room/a', 'of one', { retain: true })
    await tell(two, 'room/b', 'of two')
    await until(() => one.heard.length + two.heard.length === 2)
    expect([one.heard, two.heard]).toEqual([['of two'], ['of one']])
    await one.subscribe([{ topic: 'room/a', nl: true }])
    expect(await settle(one)).toEqual(['of two'])
  })

  test('keeps its retain flag for who asked for it alone [MQTT-3.3.1-12, 3.3.1-13]', async () => {
    const [one, two] = [await client(), await client()]
    await one.subscribe([{ topic: 'room/#', rap: true }])
    await two.subscribe([{ topic: 'room/#', rap: false }])
    await tell(one, 'room/a', 'x', { retain: true })
    const got = await Promise.all([one, two].map((each) => each.next('publish')))
    expect(got.map(({ retain }) => retain)).toEqual([true, false])
  })
})

describe('retained messages', () => {
  /** @param {RawClient5} one  @param {number} rh */
  const subscribe = (one, rh) => one.subscribe([{ topic: 'room/#', qos: 1, rh }])

  test('come with each subscription, with new ones, or never [MQTT-3.3.1-9, 3.3.1-10, 3.3.1-11]', async () => {
    const one = await client()
    await tell(one, 'room/a', 'kept', { retain: true, properties: { contentType: 'x' } })
    for (const [rh, heard] of [
      [2, 0],
      [1, 0],
      [0, 1],
    ]) {
      await subscribe(one, rh)
      expect(await settle(one)).toHaveLength(heard)
      one.packets.length = 0
    }
    const two = await client()
    await subscribe(two, 1)
    const { retain, properties } = await two.next('publish')
    expect([retain, properties.contentType]).toEqual([true, 'x'])
  })

  test('go with one that is empty, and are replaced [MQTT-3.3.1-5, 3.3.1-6]', async () => {
    const one = await client()
    const before = ingest.memory.shares.retained.bytes
    for (const payload of ['old', 'new']) await tell(one, 'room/a', payload, { retain: true })
    const two = await client()
    await subscribe(two, 0)
    expect(await settle(two)).toEqual(['new'])
    await tell(one, 'room/a', '', { retain: true })
    const three = await client()
    await subscribe(three, 0)
    expect(await settle(three)).toEqual([])
    expect(ingest.memory.shares.retained.bytes).toBe(before)
  })

  test('come all, however many there are and however few a client takes at once', async () => {
    const one = await client()
    for (let number = 0; number < 300; number++) {
      await tell(one, `room/${number}`, `${number}`, { retain: true })
    }
    const two = await client({ properties: { receiveMaximum: 2 } })
    await subscribe(two, 0)
    await until(() => two.heard.length === 300)
    expect(new Set(two.heard).size).toBe(300)
  })
})

describe('a shared subscription', () => {
  test('gives each message to one of its members [MQTT-4.8.2-3]', async () => {
    const members = [await client(), await client(), await client()]
    for (const one of members) await one.subscribe('$share/g/room/#')
    const other = await client()
    await other.subscribe(['$share/h/room/#', 'room/#'])
    for (let number = 0; number < 30; number++) await tell(other, 'room/a', `${number}`)
    const heard = () => members.flatMap((one) => one.heard)
    await until(() => heard().length === 30 && other.heard.length === 60)
    expect(new Set(heard()).size).toBe(30)
    for (const one of members) expect(one.heard).toHaveLength(10)
  })

  test('passes by who has enough to do, and waits if all have [MQTT-3.3.4-7]', async () => {
    const [slow, quick] = [await client({ properties: { receiveMaximum: 1 } }), await client()]
    slow.acknowledges = false
    for (const one of [slow, quick]) await one.subscribe('$share/g/room/#')
    const other = await client()
    for (let number = 0; number < 20; number++) await tell(other, 'room/a', `${number}`)
    await until(() => slow.heard.length + quick.heard.length === 20)
    expect(slow.heard).toHaveLength(1)
  })

  test('gives what one did not acknowledge to another when its session ends', async () => {
    const one = await client()
    one.acknowledges = false
    await one.subscribe('$share/g/room/#')
    const other = await client()
    for (let number = 0; number < 5; number++) await tell(other, 'room/a', `${number}`)
    await until(() => one.heard.length === 5)
    const two = await client()
    await two.subscribe('$share/g/room/#')
    await one.vanish()
    await until(() => two.heard.length === 5)
    await until(() => ingest.memory.shares.queues.bytes === 0)
  })

  test('gets nothing that is retained, and none without local [MQTT-3.8.3-4]', async () => {
    const one = await client()
    await tell(one, 'room/a', 'kept', { retain: true })
    await one.subscribe('$share/g/room/#')
    expect(await settle(one)).toEqual([])
    one.send({
      cmd: 'subscribe',
      messageId: 1,
      subscriptions: [{ topic: '$share/g/room/#', qos: 1, nl: true }],
    })
    expect(await one.reason()).toBe(0x82)
  })

  test.each(['$share/g', '$share//a', '$share/g/', '$share/+/a', '$share/g/a/#/b'])(
    '%s is none [MQTT-4.8.2-1, 4.8.2-2]',
    async (topic) => {
      const one = await client()
      one.send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic, qos: 1 }] })
      expect(await one.reason()).toBe(0x81)
    },
  )
})

test('what a client may not subscribe to is not heard by it, shared or not', async () => {
  const old = await new RawClient(ingest.port).connect()
  const one = await client()
  await one.subscribe(['#', '+/x'])
  // Topics that begin with $ are not for wildcards, and not for clients to publish on.
  one.publish(1, { topic: '$SYS/x' })
  expect((await one.next('puback')).reasonCode).toBe(0x90)
  expect(await settle(one)).toEqual([])
  old.end()
})
