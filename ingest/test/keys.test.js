// Sessions and connections belong to the key that made them, and last no longer than it.

import { KeyStore } from '@sandglass/common/key-store'
import { createKey } from '@sandglass/common/keys'
import { sensorId } from '@sandglass/common/sensor'
import { Topics } from '@sandglass/common/topics'
import { Access } from '../src/broker/entrance/access.js'
import { RawClient, startIngest, until } from './support/ingest.js'

const topics = new Topics()

/** @type {Awaited<ReturnType<typeof startIngest>>} */
let ingest
/** @type {RawClient[]} */
let clients = []
/** What the clocks are ahead. */
let aheadMs = 0
/** Keys in the database, by id. @type {Map<string, any>} */
let rows = new Map()
const database = {
  keyspace: 'k',
  isUp: true,
  /** Ids that it was asked about, a list a question. @type {string[][]} */
  asked: /** @type {string[][]} */ ([]),
  client: {
    async execute(/** @type {string} */ _query, /** @type {any[]} */ [ids]) {
      if (!database.isUp) throw new Error('away')
      const list = [ids].flat()
      database.asked.push(list)
      return { rows: list.flatMap((/** @type {string} */ id) => rows.get(id) ?? []) }
    },
  },
}

beforeEach(async () => {
  clients = []
  aheadMs = 0
  rows = new Map()
  database.isUp = true
  database.asked = []
  const wallMs = () => Date.now() + aheadMs
  const clockMs = () => performance.now() + aheadMs
  const keys = new KeyStore({ database, now: wallMs, monotonicMs: clockMs })
  ingest = await startIngest(
    { connectionsMax: 1_000 },
    { access: new Access({ keys, topics }), topics, clock: { wallMs, clockMs } },
  )
})
afterEach(async () => {
  for (const one of clients) one.end()
  await ingest.stop()
})

/** A new key. @param {string[]} scopes  @param {string} [sensor]  @param {number} [expiresMs] */
function key(scopes, sensor, expiresMs) {
  const { keyId, text, hash } = createKey()
  rows.set(keyId, {
    key_id: keyId,
    hash,
    name: 'n',
    scopes,
    sensor_id: sensor === undefined ? null : sensorId(sensor),
    expires: expiresMs === undefined ? null : new Date(expiresMs),
  })
  return { keyId, text, revoke: () => rows.delete(keyId) }
}

/** @param {{ text: string }} of  @param {object} [fields] */
function connect({ text }, fields = {}) {
  const one = new RawClient(ingest.port)
  clients.push(one)
  one.send(
    /** @type {any} */ ({
      cmd: 'connect',
      protocolId: 'MQTT',
      protocolVersion: 4,
      clean: true,
      clientId: `c${clients.length}`,
      keepalive: 0,
      username: 'u',
      password: Buffer.from(text),
      ...fields,
    }),
  )
  return one
}

/** @param {RawClient} one  @returns {Promise<any>} */
async function connack(one) {
  await until(() => one.packets.some(({ cmd }) => cmd === 'connack'))
  return one.packets.find(({ cmd }) => cmd === 'connack')
}

/** @param {RawClient} one  @param {string[]} filters */
async function subscribe(one, ...filters) {
  const subscriptions = filters.map((topic) => ({ topic, qos: 1 }))
  one.send(/** @type {any} */ ({ cmd: 'subscribe', messageId: 1, subscriptions }))
  await until(() => one.ids('suback').length === 1)
  return /** @type {any} */ (one.packets.find(({ cmd }) => cmd === 'suback')).granted
}

/** @param {RawClient} one */
const heard = (one) => one.packets.flatMap((it) => (it.cmd === 'publish' ? [it.topic] : []))

/** Says goodbye. @param {RawClient} one */
async function leave(one) {
  one.send({ cmd: 'disconnect' })
  await until(() => one.isClosed)
}

/** Lets time pass, a second at a time. @param {number} ms  @param {() => boolean} [isEnough] */
async function pass(ms, isEnough = () => false) {
  for (let passedMs = 0; passedMs < ms && !isEnough(); passedMs += 1_000) {
    aheadMs += 1_000
    ingest.server.sweep()
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

const kept = { clientId: 'gateway', clean: false }

describe('the client id of another key', () => {
  test('has nothing of what is queued there, and what is queued stays', async () => {
    const [mine, others, writer] = [key(['read']), key(['read']), connect(key(['write']))]
    await connack(writer)
    const first = connect(mine, kept)
    await connack(first)
    expect(await subscribe(first, 'room/#')).toEqual([1])
    await leave(first)
    writer.publish(1, { topic: 'room/light', payload: 'secret' })
    await until(() => writer.ids('puback').length === 1)

    const thief = connect(others, kept)
    expect(await connack(thief)).toMatchObject({ returnCode: 0, sessionPresent: false })
    const mineAgain = connect(mine, kept)
    expect(await connack(mineAgain)).toMatchObject({ returnCode: 0, sessionPresent: true })
    await until(() => heard(mineAgain).length === 1)
    expect(heard(thief)).toEqual([])
  })

  test('throws nobody out, and is free to everybody', async () => {
    const [mine, others] = [key(['write']), key(['write'])]
    const first = connect(mine, { clientId: 'x' })
    await connack(first)
    const second = connect(others, { clientId: 'x' })
    expect(await connack(second)).toMatchObject({ returnCode: 0 })
    for (const one of [first, second]) one.publish(1)
    await until(() => [first, second].every((one) => one.ids('puback').length === 1))
    // With the same key it takes over [MQTT-3.1.4-2].
    await connack(connect(mine, { clientId: 'x' }))
    await until(() => first.isClosed)
    expect(second.isClosed).toBe(false)
  })
})

test('of a SUBSCRIBE that is allowed in part nothing else is queued', async () => {
  const boiler = key(['write'], 'boiler')
  const device = connect(boiler, kept)
  await connack(device)
  expect(await subscribe(device, 'sensors/boiler/#', 'sensors/#')).toEqual([1, 128])
  await leave(device)
  const writer = connect(key(['write']))
  await connack(writer)
  for (const [at, sensor] of ['boiler', 'other'].entries()) {
    writer.publish(at + 1, { topic: `sensors/${sensor}/m`, payload: '5' })
  }
  await until(() => writer.ids('puback').length === 2)
  const again = connect(boiler, kept)
  expect(await connack(again)).toMatchObject({ sessionPresent: true })
  await until(() => heard(again).length > 0)
  again.send({ cmd: 'pingreq' })
  await until(() => again.packets.some(({ cmd }) => cmd === 'pingresp'))
  expect(heard(again)).toEqual(['sensors/boiler/m'])
})

describe('a key that was revoked', () => {
  test('loses its connections within ten seconds, without their wills', async () => {
    const [bad, good] = [key(['write', 'read']), key(['write', 'read'])]
    const will = { topic: 'room/will', payload: Buffer.from('x'), qos: 0, retain: false }
    const [one, two, other] = [connect(bad, { will }), connect(bad), connect(good)]
    for (const each of [one, two, other]) await connack(each)
    await subscribe(other, '#')
    await pass(3_000)
    bad.revoke()
    await pass(10_000, () => one.isClosed && two.isClosed)
    await until(() => one.isClosed && two.isClosed)
    other.publish(1, { topic: 'room/x' })
    await until(() => heard(other).length === 1)
    expect(heard(other)).toEqual(['room/x'])
    expect(other.isClosed).toBe(false)
    expect(ingest.server.keysEnded).toBe(1)
    expect(await connack(connect(bad))).toMatchObject({ returnCode: 4 })
  })

  test('is not let in after ten seconds either', async () => {
    const bad = key(['write'])
    const one = connect(bad)
    await connack(one)
    await leave(one)
    await until(() => ingest.server.sessions.count === 0)
    bad.revoke()
    aheadMs += 10_000
    expect(await connack(connect(bad))).toMatchObject({ returnCode: 4 })
  })

  test('loses what is queued for it', async () => {
    const bad = key(['read'])
    const one = connect(bad, kept)
    await connack(one)
    await subscribe(one, 'room/#')
    await leave(one)
    const writer = connect(key(['write']))
    await connack(writer)
    writer.publish(1, { topic: 'room/x' })
    await until(() => ingest.memory.shares.queues.bytes > 0)
    bad.revoke()
    await pass(10_000)
    await until(() => ingest.memory.shares.queues.bytes === 0)
    expect(ingest.server.sessions.byName(`${bad.keyId}/gateway`)).toBeUndefined()
  })

  test('that was in use on an old belief loses the connection within the ten seconds', async () => {
    const bad = key(['write'])
    const first = connect(bad)
    await connack(first)
    await leave(first)
    await until(() => ingest.server.sessions.count === 0)
    bad.revoke()
    // What the database said before is believed still. The look of each second is not waited for.
    ingest.server.sweep = () => {}
    aheadMs += 8_500
    const one = connect(bad)
    expect(await connack(one)).toMatchObject({ returnCode: 0 })
    await until(() => one.isClosed)
  })
})

describe('a key', () => {
  test('that expires loses its connections at that moment, database or not', async () => {
    const one = connect(key(['write'], undefined, Date.now() + 3_600_000))
    await connack(one)
    await pass(2_000)
    database.isUp = false
    aheadMs += 3_590_000
    ingest.server.sweep()
    one.publish(1)
    await until(() => one.ids('puback').length === 1)
    await pass(10_000)
    await until(() => one.isClosed)
  })

  test('whose rights change loses its connections', async () => {
    const changed = key(['write', 'read'])
    const one = connect(changed)
    await connack(one)
    rows.set(changed.keyId, { ...rows.get(changed.keyId), scopes: ['read'] })
    await pass(10_000)
    await until(() => one.isClosed)
  })

  test('is believed for a day while the database is away, and no longer', async () => {
    const one = connect(key(['write']))
    await connack(one)
    await pass(2_000)
    database.isUp = false
    await pass(20_000)
    aheadMs += 23 * 3_600_000
    await pass(5_000)
    one.publish(1)
    await until(() => one.ids('puback').length === 1)
    aheadMs += 3_600_000
    await pass(2_000)
    await until(() => one.isClosed)
  })

  test('is asked for once, however many connections have it, and many at once', async () => {
    const shared = key(['write'])
    const others = Array.from({ length: 150 }, () => key(['write']))
    const all = [
      ...Array.from({ length: 50 }, () => connect(shared)),
      ...others.map((one) => connect(one)),
    ]
    for (const one of all) await connack(one)
    await pass(1_000)
    database.asked = []
    await pass(70_000)
    // Ten rounds of two questions each, and a few more, as not all came at the same time.
    expect(database.asked.length).toBeLessThanOrEqual(40)
    const timesOf = (/** @type {string} */ id) =>
      database.asked.flat().filter((it) => it === id).length
    for (const { keyId } of [shared, ...others]) {
      expect(timesOf(keyId)).toBeGreaterThanOrEqual(8)
      expect(timesOf(keyId)).toBeLessThanOrEqual(11)
    }
    expect(all.some(({ isClosed }) => isClosed)).toBe(false)
  })
})
