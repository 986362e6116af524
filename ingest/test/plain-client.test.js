// Clients that begin anew and have no will are let in without the router, which comes to know them
// by what they ask for first. Nobody should see a difference.
import { generate } from 'mqtt-packet'
import { pause, publish, RawClient, startIngest, until } from './support/ingest.js'

/** @type {Awaited<ReturnType<typeof startIngest>>} */
let ingest
/** @type {RawClient[]} */
let clients = []

function client() {
  const one = new RawClient(ingest.port)
  clients.push(one)
  return one
}

/** @param {string} topic  @returns {import('mqtt-packet').ISubscribePacket} */
const subscribe = (topic, messageId = 100) => ({
  cmd: 'subscribe',
  messageId,
  subscriptions: [{ topic, qos: 1 }],
})

/** What a client got, in order. @param {RawClient} one */
const commands = (one) => one.packets.map(({ cmd }) => cmd)

beforeEach(async () => {
  ingest = await startIngest()
})

afterEach(async () => {
  for (const one of clients) one.end()
  clients = []
  await ingest.stop()
})

test('what comes behind the first SUBSCRIBE is taken, and there is one CONNACK', async () => {
  const one = client()
  const connect = generate({ cmd: 'connect', clientId: 'x', protocolVersion: 4, clean: true })
  const packets = [connect, generate(subscribe('room/#')), generate(subscribe('hall/#', 101))]
  const published = [1, 2].map((id) => generate(publish(id, { topic: 'room/light' })))
  one.socket.write(Buffer.concat([...packets, ...published, generate({ cmd: 'pingreq' })]))
  await until(() => one.packets.length === 8)
  await pause(20)
  expect(commands(one).sort()).toEqual(
    ['connack', 'pingresp', 'puback', 'puback', 'publish', 'publish', 'suback', 'suback'].sort(),
  )
  expect(commands(one)[0]).toBe('connack')
  expect(one.ids('puback')).toEqual([1, 2])
})

test('a SUBSCRIBE that is split over several reads is answered once', async () => {
  const one = await client().connect({ clientId: 'x' })
  const bytes = generate(subscribe('room/#'))
  for (const byte of bytes) {
    one.socket.write(Buffer.from([byte]))
    await pause(1)
  }
  await until(() => one.ids('suback').length === 1)
  await pause(20)
  expect(commands(one)).toEqual(['suback'])
})

test('a PUBLISH that is split over two reads is acknowledged once, wherever it is cut', async () => {
  const one = await client().connect({ clientId: 'x' })
  const bytes = generate(publish(7))
  for (let at = 1; at < bytes.length; at++) {
    one.socket.write(bytes.subarray(0, at))
    await pause(1)
    one.socket.write(bytes.subarray(at))
    await until(() => one.ids('puback').length === at)
  }
  await pause(20)
  expect(one.ids('puback')).toHaveLength(bytes.length - 1)
})

test.each([
  ['one that has not subscribed', false],
  ['one that has', true],
])('it takes over from %s', async (_name, hasSubscribed) => {
  const old = await client().connect({ clientId: 'twice' })
  if (hasSubscribed) {
    old.send(subscribe('room/#'))
    await until(() => old.ids('suback').length === 1)
  }
  const young = await client().connect({ clientId: 'twice' })
  await until(() => old.isClosed)
  young.send(subscribe('hall/#'))
  await until(() => young.ids('suback').length === 1)
  young.publish(1, { topic: 'room/light' })
  young.publish(2, { topic: 'hall/light' })
  await until(() => young.ids('puback').length === 2 && young.ids('publish').length === 1)
  expect(young.packets.at(-1)).toMatchObject({ topic: 'hall/light' })
  expect(ingest.server.connectionCount).toBe(1)
})

test('one with a will takes over from it', async () => {
  const old = await client().connect({ clientId: 'twice' })
  const will = { topic: 'gone', payload: Buffer.from('x'), qos: /** @type {0} */ (0) }
  const young = await client().connect({ clientId: 'twice', will: { ...will, retain: false } })
  await until(() => old.isClosed)
  young.publish(1)
  await until(() => young.ids('puback').length === 1)
})

test('it ends the session that was kept of its client, and what waited for that', async () => {
  const kept = await client().connect({ clientId: 'x', clean: false })
  kept.send(subscribe('room/#'))
  await until(() => kept.ids('suback').length === 1)
  kept.end()
  await until(() => ingest.server.connectionCount === 0)
  const other = await client().connect({ clientId: 'other' })
  other.publish(1, { topic: 'room/light' })
  const { queues } = ingest.memory.shares
  await until(() => queues.bytes > 0)

  const plain = await client().connect({ clientId: 'x' })
  other.publish(2, { topic: 'room/light' })
  await until(() => other.ids('puback').length === 2)
  await pause(20)
  expect(queues.bytes).toBe(0)
  plain.send(subscribe('hall/#'))
  await until(() => plain.ids('suback').length === 1)
  expect(commands(plain)).toEqual(['suback'])
  plain.end()
  await until(() => plain.isClosed && ingest.server.connectionCount === 1)
  const again = client()
  again.send({ cmd: 'connect', clientId: 'x', protocolVersion: 4, clean: false })
  await until(() => again.packets.length > 0)
  expect(again.packets).toMatchObject([{ cmd: 'connack', sessionPresent: false }])
})

test('a DISCONNECT closes it', async () => {
  const one = await client().connect({ clientId: 'x' })
  one.publish(1)
  one.send({ cmd: 'disconnect' })
  await until(() => one.isClosed)
  expect(one.ids('puback')).toEqual([1])
})

test('a packet that no client sends costs the connection', async () => {
  const one = await client().connect({ clientId: 'x' })
  one.send({ cmd: 'suback', messageId: 1, granted: [0] })
  await until(() => one.isClosed)
})
