import { generate, writeToStream } from 'mqtt-packet'
import { CLUSTER_LIMITS } from '../src/write/batcher.js'
import { pause, publish, RawClient, startIngest, until } from './support/ingest.js'

/** @type {Awaited<ReturnType<typeof startIngest>>} */
let ingest
/** @type {RawClient[]} */
let clients = []

/** @param {Parameters<typeof startIngest>[0]} [limits] */
async function start(limits) {
  ingest = await startIngest(limits)
}

function client() {
  const one = new RawClient(ingest.port)
  clients.push(one)
  return one
}

afterEach(async () => {
  for (const one of clients) one.end()
  clients = []
  await ingest.stop()
})

/** Numbers from 1. @param {number} count */
const numbers = (count) => Array.from({ length: count }, (_, at) => at + 1)

describe('acknowledgements', () => {
  test('writes that finish in reverse order are acknowledged in order of arrival', async () => {
    await start()
    ingest.batcher.limits = { ...CLUSTER_LIMITS, onePartition: false, rowsMax: 1, requestsMax: 100 }
    const one = await client().connect()
    one.publish(100)
    await until(() => one.ids('puback').length === 1)
    ingest.storage.isManual = true
    for (const id of numbers(20)) one.publish(id, { qos: id % 2 === 0 ? 1 : 2 })
    await until(() => ingest.storage.requests.length === 20)

    for (const request of ingest.storage.requests.reverse()) {
      expect(one.packets).toHaveLength(1)
      await pause(2)
      request.end()
    }

    await until(() => one.packets.length === 21)
    expect(one.packets.slice(1).map(({ messageId }) => messageId)).toEqual(numbers(20))
    expect(one.ids('puback').slice(1)).toEqual(numbers(20).filter((id) => id % 2 === 0))
  })

  test('nothing is acknowledged before it is durable; PINGREQ is meanwhile', async () => {
    await start()
    ingest.storage.isDown = true
    const one = await client().connect()
    for (const id of numbers(50)) one.publish(id)
    one.send({ cmd: 'pingreq' })
    await until(() => one.packets.some(({ cmd }) => cmd === 'pingresp'))
    expect(one.ids('puback')).toEqual([])

    ingest.storage.isDown = false
    await until(() => one.ids('puback').length === 50)
    expect(ingest.storage.rowsOf('measurement_30d')).toHaveLength(50)
  })

  test('a DISCONNECT waits for what was published before it', async () => {
    await start()
    ingest.storage.isDown = true
    const one = await client().connect()
    one.publish(1)
    one.send({ cmd: 'disconnect' })
    await pause(50)
    expect(one.isClosed).toBe(false)
    ingest.storage.isDown = false
    await until(() => one.isClosed)
    expect(one.ids('puback')).toEqual([1])
  })

  test('a client that closes its half is acknowledged before the connection ends', async () => {
    await start()
    ingest.storage.isDown = true
    const one = await client().connect()
    one.socket.end(generate(publish(1)))
    await pause(50)
    ingest.storage.isDown = false
    await until(() => one.isClosed)
    expect(one.ids('puback')).toEqual([1])
  })

  test('poison messages become dead letters, in order, and block nothing', async () => {
    await start()
    const one = await client().connect()
    for (const id of numbers(30)) one.publish(id, id % 3 === 0 ? { payload: 'poison' } : {})
    await until(() => one.ids('puback').length === 30)
    expect(one.ids('puback')).toEqual(numbers(30))
    expect(ingest.storage.rowsOf('dead_letter')).toHaveLength(10)
    expect(ingest.storage.rowsOf('measurement_30d')).toHaveLength(20)
    expect(one.isClosed).toBe(false)
  })
})

describe('packets', () => {
  test('drip-fed byte by byte, they are the same packets', async () => {
    await start()
    const one = await client().connect()
    const bytes = Buffer.concat([
      ...numbers(3).map((id) => generate(publish(id, { payload: '"é"' }))),
      generate({ cmd: 'pingreq' }),
    ])
    for (const byte of bytes) {
      one.socket.write(Buffer.from([byte]))
      await pause(0)
    }
    await until(() => one.packets.length === 4)
    expect(one.ids('puback')).toEqual([1, 2, 3])
  })

  test.each(['CONNECT', 'PUBLISH'])('a %s of 250 MB is refused at its header', async (name) => {
    await start()
    const one = name === 'CONNECT' ? client() : await client().connect()
    const before = process.memoryUsage().arrayBuffers
    one.socket.write(Buffer.from([name === 'CONNECT' ? 0x10 : 0x32, 0x80, 0xe1, 0x9a, 0x77]))
    const megabyte = Buffer.alloc(2 ** 20)
    for (let sent = 0; sent < 250 && !one.isClosed; sent++) {
      one.socket.write(megabyte)
      await pause(1)
    }
    await until(() => one.isClosed)
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(64 * 2 ** 20)
  })

  test('a packet of exactly the limit is taken, one byte more closes the connection', async () => {
    await start({ packetBytesMax: 2_048 })
    const one = await client().connect()
    const overhead = generate(publish(1, { payload: Buffer.alloc(1_000) })).length - 1_000
    one.publish(1, { payload: Buffer.alloc(2_048 - overhead, 0x20) })
    await until(() => one.ids('puback').length === 1)
    one.publish(2, { payload: Buffer.alloc(2_049 - overhead, 0x20) })
    await until(() => one.isClosed)
  })

  test.each([
    ['a length of five bytes', Buffer.from([0x30, 0xff, 0xff, 0xff, 0xff, 0x01])],
    ['QoS 3', Buffer.from([0x36, 5, 0, 1, 0x61, 0, 1])],
    ['packet id 0', Buffer.from([0x32, 5, 0, 1, 0x61, 0, 0])],
    ['a topic with a wildcard', Buffer.from([0x30, 3, 0, 1, 0x23])],
    ['a topic longer than the packet', Buffer.from([0x30, 3, 0, 9, 0x61])],
    ['a topic that is not UTF-8', Buffer.from([0x30, 3, 0, 1, 0xff])],
    ['an empty topic', Buffer.from([0x30, 2, 0, 0])],
    ['a malformed PUBREL', Buffer.from([0x60, 2, 0, 1])],
    [
      'a second CONNECT',
      generate({ cmd: 'connect', clientId: 'x', protocolVersion: 4, clean: true }),
    ],
  ])('%s costs its own connection and no other', async (_name, bytes) => {
    await start()
    const [bad, good] = [await client().connect({ clientId: 'bad' }), await client().connect()]
    bad.socket.write(bytes)
    await until(() => bad.isClosed)
    good.publish(1)
    await until(() => good.ids('puback').length === 1)
  })

  test('the first packet must be CONNECT', async () => {
    await start()
    const one = client()
    one.send({ cmd: 'pingreq' })
    await until(() => one.isClosed)
  })

  test('what follows CONNECT in the same segment is not lost', async () => {
    await start()
    const one = client()
    const connect = generate({ cmd: 'connect', clientId: 'x', protocolVersion: 4, clean: true })
    one.socket.write(Buffer.concat([connect, generate(publish(7)), generate({ cmd: 'pingreq' })]))
    await until(() => one.packets.length === 3)
    expect(one.ids('puback')).toEqual([7])
  })
})

describe('connections', () => {
  /** @param {string} clientId */
  const connectOf = (clientId) =>
    generate({ cmd: 'connect', clientId, protocolVersion: 4, clean: true })

  test('what a client sends in one go before it leaves is taken', async () => {
    await start()
    const one = client()
    const messages = numbers(3).map((id) => generate(publish(id, { qos: id === 3 ? 1 : 0 })))
    one.socket.end(Buffer.concat([connectOf('brief'), ...messages]))
    await until(() => one.isClosed)
    expect(ingest.counts.received).toBe(3)
    expect(one.ids('puback')).toEqual([3])
  })

  test('one that was closed before its CONNECT is read is not let in', async () => {
    await start()
    const one = client()
    one.socket.end(connectOf('gone'))
    await until(() => one.isClosed)
    expect(one.packets).toEqual([])
    expect(ingest.server.connectionCount).toBe(0)
  })

  test('a newer one of a client takes over from the older [MQTT-3.1.4-2]', async () => {
    await start()
    const [old, another] = [
      await client().connect({ clientId: 'twice' }),
      await client().connect({ clientId: 'another' }),
    ]
    const young = await client().connect({ clientId: 'twice' })
    await until(() => old.isClosed)
    young.publish(1)
    await until(() => young.ids('puback').length === 1)
    expect(another.isClosed).toBe(false)
    expect(ingest.server.connectionCount).toBe(2)
  })

  test('one that its client has given up does not take over from the one it has now', async () => {
    await start()
    const now = await client().connect({ clientId: 'twice' })
    const late = client()
    late.socket.write(connectOf('twice'))
    await until(() => ingest.server.connectionCount === 2)
    await pause(5)
    late.socket.end()
    await until(() => ingest.server.connectionCount === 1)
    now.publish(1)
    await until(() => now.ids('puback').length === 1)
    expect(now.isClosed).toBe(false)
    expect(late.packets).toEqual([])
  })
})

describe('QoS 2', () => {
  test('a duplicate before PUBREL is answered and stored once', async () => {
    await start()
    const one = await client().connect()
    one.publish(5, { qos: 2 })
    await until(() => one.ids('pubrec').length === 1)
    one.publish(5, { qos: 2, dup: true })
    one.publish(5, { qos: 2 })
    await until(() => one.ids('pubrec').length === 3)
    one.send({ cmd: 'pubrel', messageId: 5 })
    await until(() => one.ids('pubcomp').length === 1)
    expect(ingest.storage.rowsOf('measurement_30d')).toHaveLength(1)
    expect(ingest.counts.received).toBe(1)
    expect(ingest.server.duplicates).toBe(2)

    // After its release the id is free for a message of its own.
    one.publish(5, { qos: 2, payload: '6' })
    await until(() => one.ids('pubrec').length === 4)
    expect(ingest.storage.rowsOf('measurement_30d')).toHaveLength(2)
  })

  test('a duplicate of a message that is held is the same row, across a reconnection', async () => {
    await start()
    ingest.storage.isDown = true
    const first = await client().connect({ clean: false })
    first.publish(5, { qos: 2 })
    await until(() => ingest.inFlight.count === 1)
    first.end()
    await pause(20)
    const second = await client().connect({ clean: false })
    second.publish(5, { qos: 2, dup: true })
    await until(() => ingest.inFlight.count === 2)
    ingest.storage.isDown = false
    await until(() => second.ids('pubrec').length === 1)
    expect(ingest.storage.rowsOf('measurement_30d')).toHaveLength(1)
    expect(ingest.counts.duplicates).toBe(1)
  })

  test('a new session may use the packet ids of the old one', async () => {
    await start()
    const first = await client().connect()
    first.publish(1, { qos: 2, payload: '{"t":1767225600000,"v":1}' })
    await until(() => first.ids('pubrec').length === 1)
    first.end()
    const second = await client().connect()
    second.publish(1, { qos: 2, payload: '{"t":1767225600001,"v":2}' })
    await until(() => second.ids('pubrec').length === 1)
    expect(ingest.storage.rowsOf('measurement_30d')).toHaveLength(2)
  })
})

describe('limits', () => {
  test('a client is read up to its limit, and on as soon as it is below', async () => {
    await start({ clientMessagesMax: 10 })
    ingest.storage.isDown = true
    const one = await client().connect({ keepalive: 1 })
    for (const id of numbers(25)) one.publish(id)
    await until(() => ingest.inFlight.count === 10)
    // It is we who do not listen: its keep-alive must not run out.
    await pause(2_700)
    expect(ingest.inFlight.count).toBe(10)
    expect(one.isClosed).toBe(false)
    ingest.storage.isDown = false
    await until(() => one.ids('puback').length === 25)
    expect(one.ids('puback')).toEqual(numbers(25))
  })

  test('a client whose message was cut by the limit is not taken for silent afterwards', async () => {
    await start({ clientMessagesMax: 10 })
    ingest.storage.isDown = true
    const one = await client().connect({ keepalive: 2 })
    for (const id of numbers(10)) one.publish(id)
    const last = generate(publish(11))
    one.socket.write(last.subarray(0, 5))
    await until(() => ingest.inFlight.count === 10)
    // Longer than its keep-alive, and over when the next look for silent clients is still to come.
    await pause(3_700)
    ingest.storage.isDown = false
    await until(() => one.ids('puback').length === 10)
    await pause(1_050)
    expect(one.isClosed).toBe(false)
    one.socket.write(last.subarray(5))
    await until(() => one.ids('puback').length === 11)
  })

  test('a silent client is closed by its keep-alive, and its will published', async () => {
    await start()
    const watcher = await client().connect({ clientId: 'watcher' })
    watcher.send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: '#', qos: 0 }] })
    await until(() => watcher.packets.length === 1)
    const will = {
      topic: 'sensors/s/m',
      payload: Buffer.from('5'),
      qos: /** @type {0} */ (0),
      retain: false,
    }
    const one = await client().connect({ keepalive: 1, will })
    await until(() => one.isClosed)
    await until(() => watcher.packets.length === 2)
    expect(watcher.packets[1]).toMatchObject({ topic: 'sensors/s/m' })
    // A will is no measurement.
    expect(ingest.counts.received).toBe(0)
  })

  test('messages keep a client alive as PINGREQ does', async () => {
    await start()
    const one = await client().connect({ keepalive: 2 })
    for (const id of numbers(9)) {
      one.publish(id)
      await pause(500)
    }
    expect(one.ids('puback')).toEqual(numbers(9))
    expect(one.isClosed).toBe(false)
  })

  test('at the limit of all, nobody is read; when there is room, everybody is', async () => {
    await start({ heldBytesMax: 5_000 })
    ingest.storage.isDown = true
    const all = await Promise.all(numbers(8).map((n) => client().connect({ clientId: `c${n}` })))
    for (const one of all) for (const id of numbers(50)) one.publish(id)
    await until(() => ingest.pipeline.isFull)
    await pause(50)
    expect(ingest.inFlight.bytes).toBeLessThan(5_000 + 1_500)
    all[0].publish(51, { qos: 0, topic: 'sensors/q/m' })
    ingest.storage.isDown = false
    await until(() => all.every((one) => one.ids('puback').length === 50))
    expect(ingest.inFlight.bytes).toBe(0)
  })

  test('QoS 0 is never held up: over its limit it is dropped and counted', async () => {
    await start({ qos0BytesMax: 20_000 })
    ingest.storage.isDown = true
    const watcher = await client().connect({ clientId: 'watcher' })
    watcher.send({
      cmd: 'subscribe',
      messageId: 1,
      subscriptions: [{ topic: 'sensors/#', qos: 0 }],
    })
    await until(() => watcher.packets.length === 1)
    const one = await client().connect()
    for (const _ of numbers(100)) one.publish(0, { qos: 0, messageId: undefined })
    one.send({ cmd: 'pingreq' })
    await until(() => one.packets.length === 1)
    // Subscribers get it at once, database or not.
    await until(() => watcher.packets.length === 101)
    const { received, droppedQos0 } = ingest.counts
    const held = ingest.inFlight.count
    expect(received).toBe(100)
    expect(held).toBeGreaterThan(10)
    expect(held + droppedQos0).toBe(100)
    ingest.storage.isDown = false
    await until(() => ingest.inFlight.count === 0)
    expect(ingest.counts.storedMessages).toBe(held)
  })

  test('a subscriber that does not read is cut off, and costs the others nothing', async () => {
    await start()
    const slow = await client().connect({ clientId: 'slow' })
    slow.send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: '#', qos: 0 }] })
    await until(() => slow.packets.length === 1)
    slow.socket.pause()
    const one = await client().connect()
    const payload = Buffer.alloc(200 * 1024)
    for (let id = 1; id <= 200 && ingest.server.connectionCount > 1; id++) {
      one.publish(id, { topic: 'other', payload })
      await until(() => one.ids('puback').length === id)
    }
    await until(() => ingest.server.connectionCount === 1)
    expect(one.isClosed).toBe(false)
  })
})

describe('what the broker behind does', () => {
  test('subscribers get what is published, retained messages later ones too', async () => {
    await start()
    const one = await client().connect()
    one.publish(1, { topic: 'room/light', payload: 'on', retain: true, qos: 1 })
    await until(() => one.ids('puback').length === 1)
    const other = await client().connect({ clientId: 'other' })
    other.send({ cmd: 'subscribe', messageId: 2, subscriptions: [{ topic: 'room/+', qos: 1 }] })
    await until(() => other.packets.length === 2)
    one.publish(2, { topic: 'room/heat', payload: '5', qos: 2 })
    await until(() => other.packets.length === 3)
    const topics = other.packets.flatMap((packet) =>
      'topic' in packet ? (packet.topic ?? []) : [],
    )
    expect(topics).toEqual(['room/light', 'room/heat'])
    expect(ingest.counts).toMatchObject({ received: 0, passed: 2 })
  })

  test('MQTT 6 is refused with the return code of an unacceptable protocol', async () => {
    await start()
    const one = client()
    const bytes = generate({ cmd: 'connect', clientId: 'x', protocolVersion: 4, clean: true })
    bytes[bytes.indexOf('MQTT') + 4] = 6
    one.socket.write(bytes)
    await until(() => one.isClosed)
    expect(one.packets).toMatchObject([{ cmd: 'connack', returnCode: 1 }])
  })

  test('a kept session needs a client id', async () => {
    await start()
    const one = client()
    const bytes = generate({ cmd: 'connect', clientId: 'x', protocolVersion: 4, clean: false })
    const anonymous = Buffer.concat([bytes.subarray(0, bytes.length - 3), Buffer.from([0, 0])])
    anonymous[1] -= 1
    one.socket.write(anonymous)
    await until(() => one.isClosed)
    expect(one.packets).toMatchObject([{ cmd: 'connack', returnCode: 2 }])
  })

  test('a second connection of the same client replaces the first', async () => {
    await start()
    const first = await client().connect()
    const second = await client().connect()
    await until(() => first.isClosed)
    second.publish(1)
    await until(() => second.ids('puback').length === 1)
  })
})

test('no buffers are kept for numbers that nobody sends', async () => {
  await start()
  expect(writeToStream.cacheNumbers).toBe(false)
})
