// MQTT 5 where the broker is in another process: what one process hears reaches subscribers of the
// others as it came.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseTopics } from '@sandglass/common/topics'
import { generate } from 'mqtt-packet'
import { Broker } from '../../src/broker/broker.js'
import { MemoryBudget } from '../../src/memory.js'
import { Hub } from '../../src/processes/hub.js'
import { RemoteBroker } from '../../src/processes/remote-broker.js'
import { pause, startIngest, until } from '../support/ingest.js'
import { endAll, RawClient5 } from '../support/raw-client-5.js'

const topics = parseTopics('')

/** @type {Hub} */
let hub
/** @type {Awaited<ReturnType<typeof startIngest>>[]} */
let processes
/** @type {string} */
let directory
let count = 0

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'sandglass-hub-'))
  const path = join(directory, 'broker')
  hub = new Hub({ broker: new Broker({ shares: new MemoryBudget().shares }), topics })
  await hub.start(path)
  processes = []
  for (const broker of [new RemoteBroker(path), new RemoteBroker(path)]) {
    processes.push(await startIngest({}, { topics, broker }))
  }
})

afterEach(async () => {
  endAll()
  for (const one of processes) await one.stop()
  await hub.stop()
  rmSync(directory, { recursive: true, force: true })
})

/** @param {number} process  @param {Parameters<RawClient5['connect']>[0]} [fields] */
async function open(process, fields) {
  const one = new RawClient5(processes[process].port)
  await one.connect({ clientId: `c${count++}`, ...fields })
  return one
}

test('subscribers get properties, and their own messages only if they want them', async () => {
  const [one, two] = [await open(0), await open(1)]
  expect(await one.subscribe([{ topic: 'room/#', nl: true }])).toEqual([2])
  await two.subscribe([{ topic: 'room/#' }], { subscriptionIdentifier: 5 })
  const properties = { contentType: 'text/plain', messageExpiryInterval: 100 }
  one.publish(1, { topic: 'room/a', payload: 'of one', properties })
  const got = await two.next('publish')
  expect(got.properties).toMatchObject({ contentType: 'text/plain', subscriptionIdentifier: 5 })
  expect(got.properties.messageExpiryInterval).toBeGreaterThan(90)
  two.publish(1, { topic: 'room/a', payload: 'of two' })
  await until(() => one.heard.length === 1)
  expect(one.heard).toEqual(['of two'])
})

test('members of a shared subscription may be clients of different processes', async () => {
  const members = [await open(0), await open(1)]
  for (const one of members) await one.subscribe('$share/g/room/#')
  const other = await open(1)
  for (let id = 1; id <= 10; id++) other.publish(id, { topic: 'room/a' })
  await until(() => members.every(({ heard }) => heard.length === 5))
})

test('a session waits for its client, and is over when that says so', async () => {
  const kept = { clientId: 'kept', clean: false, properties: { sessionExpiryInterval: 600 } }
  const first = await open(0, kept)
  await first.subscribe('room/#')
  await first.vanish()
  const other = await open(1)
  other.publish(1, { topic: 'room/a', payload: 'waits' })
  const again = await open(0, kept)
  await until(() => again.heard.length === 1)
  await again.leave({ reasonCode: 0, properties: { sessionExpiryInterval: 0 } })
  const third = await open(0, kept)
  other.publish(2, { topic: 'room/a', payload: 'too late' })
  await other.next('puback')
  await pause(50)
  expect(third.heard).toEqual([])
})

test('a will waits for its delay, and is none any more when the key of its client is revoked', async () => {
  const other = await open(1)
  await other.subscribe('wills/#')
  /** @param {string} clientId  @param {number} willDelayInterval */
  const mortal = (clientId, willDelayInterval) => ({
    clientId,
    properties: { sessionExpiryInterval: 600 },
    will: {
      topic: `wills/${clientId}`,
      payload: Buffer.from('gone'),
      qos: /** @type {const} */ (1),
      retain: false,
      properties: { willDelayInterval },
    },
  })
  const [late, soon] = [await open(0, mortal('late', 2)), await open(1, mortal('soon', 1))]
  for (const one of [late, soon]) await one.vanish()
  await until(() => processes[0].server?.connectionCount === 0)
  const [owner] = [...(processes[0].server?.sessions.owners ?? [])]
  processes[0].server?.sessions.endAll(owner, 'its key was revoked')
  await until(() => other.heard.length > 0)
  expect((await other.next('publish')).topic).toBe('wills/soon')
  await pause(1_500)
  expect(other.heard).toEqual([])
})

test('filters without number are answered in order, and those that are too much refused', async () => {
  const one = await open(0)
  const long = `room/${'x/'.repeat(6_000)}`
  const filters = Array.from({ length: 700 }, (_, at) => (at === 600 ? long : `room/${at}`))
  const expected = filters.map((filter) => (filter === long ? 0x97 : 2))
  expect(await one.subscribe(filters)).toEqual(expected)
  const other = await open(1)
  other.publish(1, { topic: 'room/699', payload: 'last' })
  await until(() => one.heard.includes('last'))
})

test('what is asked for at once is done in its order, and given back', async () => {
  const { sessions } = processes[0].memory.shares
  const empty = sessions.bytes
  const kept = { clientId: 'kept', clean: false, properties: { sessionExpiryInterval: 600 } }
  const one = await open(0, kept)
  /** @param {'subscribe' | 'unsubscribe'} cmd  @param {string[]} topics @returns {any} */
  const packet = (cmd, topics) => ({
    cmd,
    messageId: 1,
    subscriptions: topics.map((topic) => ({ topic, qos: 1 })),
    unsubscriptions: topics,
  })
  const many = Array.from({ length: 300 }, (_, at) => `hall/${at}`)
  const asked = [
    packet('subscribe', [...many, 'room/a']),
    packet('unsubscribe', many),
    packet('subscribe', ['room/b', 'room/c']),
    packet('unsubscribe', ['room/c']),
    { cmd: 'disconnect' },
  ].map((it) => generate(it, { protocolVersion: 5 }))
  one.socket.write(Buffer.concat(asked))
  await until(() => one.isClosed)
  const answers = one.packets.map(({ cmd, granted }) => [cmd, granted.length])
  expect(answers).toEqual([
    ['suback', 301],
    ['unsuback', 300],
    ['suback', 2],
    ['unsuback', 1],
  ])
  // Two subscriptions, and the session itself.
  expect(sessions.bytes - empty).toBeLessThan(8_000)
  const other = await open(1)
  for (const topic of ['room/a', 'room/b', 'room/c', 'hall/5']) {
    other.publish(1, { topic, payload: topic })
    await other.next('puback')
  }
  const back = await open(0, kept)
  await until(() => back.heard.length === 2)
  await pause(50)
  expect(back.heard).toEqual(['room/a', 'room/b'])
})

test.each([0, 1])(
  'a client that takes its time gets all that is retained, at QoS %i',
  async (qos) => {
    const other = await open(1)
    const payload = 'x'.repeat(200_000)
    const topics = Array.from({ length: 85 }, (_, at) => `room/${at}`)
    for (const topic of topics) {
      other.publish(1, { topic, payload, retain: true })
      await other.next('puback')
    }
    const slow = await open(0)
    slow.socket.pause()
    slow.send(
      /** @type {any} */ ({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: '#', qos }] }),
    )
    // What the kernel takes is not all of it.
    const { outgoing } = processes[0].memory.shares
    await until(() => outgoing.bytes > 0)
    let most = 0
    for (let count = 0; count < 40; count++) {
      slow.socket.once('data', () => slow.socket.pause())
      slow.socket.resume()
      await pause(10)
      most = Math.max(most, outgoing.bytes)
    }
    expect(most).toBeLessThan(2 * 2 ** 20)
    slow.socket.resume()
    await until(() => slow.heard.length === 85)
    expect(slow.isClosed).toBe(false)
  },
)

test('whether there is room for what is retained is told in order', async () => {
  const { retain } = processes[0]
  const told = await Promise.allSettled([
    retain('desired/a', Buffer.from('1')),
    retain('desired/b', Buffer.alloc(25 * 2 ** 20, 'x')),
    retain('desired/c', Buffer.from('3')),
  ])
  expect(told.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
  const late = await open(1)
  await late.subscribe('desired/#')
  await until(() => late.heard.length === 2)
  expect([...late.heard].sort()).toEqual(['1', '3'])
})
