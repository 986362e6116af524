// Each limit of the broker, attacked as cheaply as it goes, while an honest client goes on.
import { connect as connectTcp } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { generate } from 'mqtt-packet'
import { WebSocket } from 'ws'
import { createIdentity } from './support/identity.js'
import { pause, publish, RawClient, startIngest, until } from './support/ingest.js'

const KIB = 1_024

/** @type {Awaited<ReturnType<typeof startIngest>>} */
let ingest
/** @type {{ destroy: () => unknown }[]} */
let sockets = []

/** @param {object} [limits]  @param {Parameters<typeof startIngest>[1]} [more] */
async function start(limits, more) {
  ingest = await startIngest(limits, more)
}

function client() {
  const one = new RawClient(ingest.port)
  sockets.push(one.socket)
  return one
}

/** @param {string} clientId  @param {object} [fields] */
const connected = (clientId, fields) => client().connect({ clientId, ...fields })

afterEach(async () => {
  for (const socket of sockets) socket.destroy()
  sockets = []
  await ingest.stop()
})

/** Numbers from 1. @param {number} count */
const numbers = (count) => Array.from({ length: count }, (_, at) => at + 1)

/** @param {RawClient} one  @param {number} messageId  @param {string[]} topics */
function subscribe(one, messageId, topics, qos = 0) {
  const subscriptions = topics.map((topic) => ({ topic, qos }))
  one.send(/** @type {any} */ ({ cmd: 'subscribe', messageId, subscriptions }))
}

/** An honest client publishes, and is acknowledged. @param {RawClient} one  @param {number} id */
async function publishes(one, id) {
  one.publish(id, { payload: `{"t":${1767225600000 + id},"v":1}` })
  await until(() => one.ids('puback').includes(id))
}

/** What was heard. @param {RawClient} one  @returns {string[]} */
const heard = (one) =>
  one.packets.flatMap((it) => (it.cmd === 'publish' ? [String(it.payload)] : []))

describe('before anything is said in MQTT', () => {
  const identity = createIdentity()
  const listen = { host: '127.0.0.1', port: 0 }
  const kinds = /** @type {const} */ (['mqtt', 'mqtts', 'ws', 'wss'])
  const listens = kinds.map((kind) => ({ kind, listen }))

  /** Bytes that begin something, and end nothing. @type {[string, number, string][]} */
  const halves = [
    ['half a handshake of TLS for MQTT', 1, '\x16\x03\x01\x02\x00\x01\x00'],
    ['nothing at all where TLS is expected', 1, ''],
    ['half a handshake of TLS for WebSocket', 3, '\x16\x03\x01\x02\x00\x01\x00'],
    ['half a line of HTTP', 2, 'GET /mqtt HT'],
    ['headers without an end', 2, 'GET / HTTP/1.1\r\nHost: localhost\r\nA: b\r\n'],
    ['nothing at all where HTTP is expected', 2, ''],
  ]

  test.each(halves)('%s is waited for no longer than allowed', async (_name, at, bytes) => {
    await start({ handshakeMsMax: 300, connectionsMax: 20 }, { listens, identity })
    const slow = numbers(10).map(() => connectTcp(ingest.ports[at], '127.0.0.1'))
    sockets.push(...slow)
    let closed = 0
    for (const one of slow) {
      one.on('error', () => {})
      one.on('close', () => closed++)
      one.on('data', () => {})
      one.write(bytes, 'latin1')
    }
    await until(() => closed === 10)
    expect(ingest.server.handshakesFailed).toBe(10)
    await publishes(await connected('honest'), 1)
  })

  test('headers that come drop by drop are waited for no longer', async () => {
    await start({ handshakeMsMax: 300 }, { listens, identity })
    const slow = connectTcp(ingest.ports[2], '127.0.0.1')
    sockets.push(slow)
    let isClosed = false
    slow.on('error', () => {})
    slow.on('data', () => {})
    slow.on('close', () => {
      isClosed = true
    })
    slow.write('GET / HTTP/1.1\r\n')
    const timer = setInterval(() => slow.write('x-a: b\r\n'), 50)
    await until(() => isClosed)
    clearInterval(timer)
  })

  test('rubbish in the place of TLS is closed and counted', async () => {
    await start({}, { listens, identity })
    for (const at of [1, 3]) {
      const one = connectTcp(ingest.ports[at], '127.0.0.1')
      sockets.push(one)
      let isClosed = false
      one.on('error', () => {})
      one.on('data', () => {})
      one.on('close', () => {
        isClosed = true
      })
      one.write('GET / HTTP/1.1\r\n\r\n')
      await until(() => isClosed)
    }
    expect(ingest.server.handshakesFailed).toBe(2)
  })

  test('who has said nothing counts as a connection, wherever it listens', async () => {
    await start({ connectionsMax: 8 }, { listens, identity })
    const honest = await connected('honest')
    const slow = numbers(7).map((n) => connectTcp(ingest.ports[n % 4], '127.0.0.1'))
    sockets.push(...slow)
    for (const one of slow) one.on('error', () => {})
    await until(() => slow.every((one) => !one.connecting))
    await pause(50)
    const late = client()
    await until(() => late.isClosed)
    expect(ingest.server.refused).toBe(1)
    for (const one of slow) one.destroy()
    await publishes(honest, 1)
    const secure = connectTls({ port: ingest.ports[1], host: '127.0.0.1', ca: identity.cert })
    sockets.push(secure)
    await until(() => secure.authorized)
    secure.destroy()
  })

  test('a WebSocket frame that does not end counts as the packet that it is', async () => {
    await start({ memoryBytesMax: 4_096 * KIB }, { listens, identity })
    const { packets } = ingest.memory.shares
    const opened = numbers(8).map(() => {
      const one = new WebSocket(`ws://127.0.0.1:${ingest.ports[2]}`, 'mqtt')
      one.on('error', () => {})
      return one
    })
    await until(() => opened.every(({ readyState }) => readyState === WebSocket.OPEN))
    // The header of a frame of 200 KB, of which a half comes.
    const header = Buffer.from([0x82, 0xff, 0, 0, 0, 0, 0, 3, 0x0d, 0x40, 0, 0, 0, 0])
    for (const one of opened) {
      const { _socket: socket } = /** @type {any} */ (one)
      sockets.push(socket)
      socket.write(Buffer.concat([header, Buffer.alloc(100_000)]))
    }
    await until(() => ingest.server.cutOff > 0)
    await until(() => opened.filter(({ readyState }) => readyState === WebSocket.OPEN).length <= 4)
    expect(packets.bytes).toBeLessThanOrEqual(packets.bytesMax)
    expect(packets.bytes).toBeGreaterThan(100_000)
    await publishes(await connected('honest'), 1)
  })
})

describe('memory of packets', () => {
  test('one byte of the next packet does not keep the chunk of those before it', async () => {
    await start()
    const one = await connected('pings')
    const pings = Buffer.alloc(60_000, Buffer.from([0xc0, 0]))
    one.socket.write(Buffer.concat([pings, Buffer.from([0x30])]))
    await until(() => one.packets.length === 30_000)
    expect(ingest.memory.shares.packets.bytes).toBe(1)
  })

  test('a small message in flight does not keep the chunk that it came in', async () => {
    await start()
    ingest.storage.isDown = true
    const one = await connected('small')
    const pings = Buffer.alloc(60_000, Buffer.from([0xc0, 0]))
    one.socket.write(Buffer.concat([pings, generate(publish(1))]))
    await until(() => ingest.inFlight.count === 1)
    const [message] = ingest.inFlight.all()
    expect(message.payload.toString()).toBe('1')
    expect(message.payload.buffer.byteLength).toBe(1)

    // Where they are dense their chunk is what they cost, and nothing is copied.
    for (const id of numbers(50)) one.publish(id + 1, { payload: `"${'x'.repeat(500)}"` })
    await until(() => ingest.inFlight.count === 51)
    const last = [...ingest.inFlight.all()].at(-1)
    expect(last?.payload.buffer.byteLength).toBeGreaterThan(502)
  })

  test('packets that do not end cost the connection that has most of them', async () => {
    await start({ memoryBytesMax: 4_096 * KIB })
    const { packets } = ingest.memory.shares
    const all = await Promise.all(numbers(10).map((n) => connected(`c${n}`)))
    const half = generate(publish(1, { payload: Buffer.alloc(200_000) })).subarray(0, 100_000)
    for (const one of all) one.socket.write(half)
    await until(() => all.some(({ isClosed }) => isClosed))
    await pause(50)
    expect(packets.bytes).toBeLessThanOrEqual(packets.bytesMax)
    expect(all.some(({ isClosed }) => !isClosed)).toBe(true)
    for (const one of all) one.end()
    await until(() => packets.bytes === 0)
  })
})

describe('memory of subscribers', () => {
  test('many that do not read are cut off together, before each has its own limit', async () => {
    // 3 MiB may wait for all.
    await start({ memoryBytesMax: 32 * 2 ** 20 })
    const { outgoing } = ingest.memory.shares
    const slow = await Promise.all(numbers(4).map((n) => connected(`slow${n}`)))
    for (const one of slow) subscribe(one, 1, ['other'])
    await until(() => slow.every((one) => one.packets.length === 1))
    for (const one of slow) one.socket.pause()
    const honest = await connected('honest')
    const payload = Buffer.alloc(200 * KIB)
    let most = 0
    for (let id = 1; id <= 400 && ingest.server.connectionCount > 1; id++) {
      honest.publish(id, { topic: 'other', payload })
      await until(() => honest.ids('puback').length === id)
      most = Math.max(most, outgoing.bytes)
    }
    await until(() => ingest.server.connectionCount === 1)
    expect(ingest.server.cutOff).toBeGreaterThan(0)
    expect(most).toBeLessThan(outgoing.bytesMax + 5 * payload.length)
    await until(() => outgoing.bytes === 0)
    expect(honest.isClosed).toBe(false)
  })

  test('messages of QoS 0 over the room of the fan-out are dropped for subscribers', async () => {
    await start({ memoryBytesMax: 1_024 * KIB })
    const { fanout } = ingest.memory.shares
    const watcher = await connected('watcher')
    subscribe(watcher, 1, ['other'])
    await until(() => watcher.packets.length === 1)
    let most = 0
    const { add, take } = fanout
    fanout.take = (bytes) => {
      const isTaken = take.call(fanout, bytes)
      most = Math.max(most, fanout.bytes)
      return isTaken
    }
    const flooder = await connected('flooder')
    const one = generate(publish(0, { qos: 0, topic: 'other', payload: 'x', messageId: undefined }))
    flooder.socket.write(Buffer.concat(Array(4_000).fill(one)))
    flooder.send({ cmd: 'pingreq' })
    await until(() => flooder.packets.length === 1)
    await until(() => fanout.bytes === 0)
    expect(most).toBeGreaterThan(0)
    expect(most).toBeLessThanOrEqual(fanout.bytesMax)
    expect(ingest.broker.dropped).toBeGreaterThan(0)
    await until(() => heard(watcher).length + ingest.broker.dropped === 4_000)

    // Those of QoS 1 are read no further instead, and all of them are heard.
    fanout.add = (bytes) => {
      add.call(fanout, bytes)
      most = Math.max(most, fanout.bytes)
    }
    most = 0
    watcher.packets.length = 0
    for (const id of numbers(5_000)) flooder.publish(id, { topic: 'other', payload: `${id}` })
    await until(() => heard(watcher).length === 5_000)
    expect(heard(watcher)).toEqual(numbers(5_000).map(String))
    // As many as one client may have in flight are given to it before that shows.
    expect(most).toBeLessThan(fanout.bytesMax + 2 * 1_000 * 1_100)
  })

  test('subscriptions that take too much are refused, the others stand', async () => {
    await start({ memoryBytesMax: 1_024 * KIB })
    const { sessions } = ingest.memory.shares
    const greedy = await connected('greedy')
    for (const id of numbers(20)) {
      subscribe(greedy, id, [`${id}${'/x'.repeat(99)}`, `${id}/${'y'.repeat(5_000)}`])
    }
    await until(() => greedy.ids('suback').length === 20)
    const granted = greedy.packets.flatMap((it) => /** @type {any} */ (it).granted ?? [])
    expect([...new Set(granted)].sort()).toEqual([0, 128])
    expect(sessions.bytes).toBeLessThanOrEqual((3 / 8) * sessions.bytesMax)
    expect(ingest.server.sessions.subscriptionsRefused).toBe(
      granted.filter((code) => code === 128).length,
    )
    greedy.send({ cmd: 'disconnect' })
    await until(() => sessions.bytes === 0)
  })

  test('wills that take too much are refused at CONNECT', async () => {
    await start({ memoryBytesMax: 1_024 * KIB })
    const will = {
      topic: 'w',
      payload: Buffer.alloc(40_000),
      qos: /** @type {0} */ (0),
      retain: false,
    }
    await connected('first', { will })
    const second = client()
    second.send({
      cmd: 'connect',
      protocolId: 'MQTT',
      protocolVersion: 4,
      clean: true,
      clientId: 'second',
      keepalive: 0,
      will,
    })
    await until(() => second.isClosed)
    expect(second.packets).toMatchObject([{ cmd: 'connack', returnCode: 3 }])
    await connected('third')
  })

  test('retained messages cost their topics; what there is no room for is not kept', async () => {
    await start({ memoryBytesMax: 32 * 2 ** 20 })
    const { retained } = ingest.memory.shares
    const one = await connected('retainer')
    for (const id of numbers(60)) {
      one.publish(id, { topic: `${id}/`.padEnd(65_000, 'x'), payload: 'x', retain: true })
    }
    await until(() => one.ids('puback').length === 60)
    await until(() => ingest.broker.dropped > 0 && ingest.memory.shares.fanout.bytes === 0)
    expect(retained.bytes).toBeLessThanOrEqual(retained.bytesMax)
    const watcher = await connected('watcher')
    subscribe(watcher, 1, ['#'])
    await until(() => heard(watcher).length === 60 - ingest.broker.dropped)
    expect(heard(watcher).length).toBeGreaterThan(5)
  })

  test.each([0, 1])('one that takes its time gets all that is retained, at QoS %i', async (qos) => {
    await start({ memoryBytesMax: 1_024 * 2 ** 20 })
    const { outgoing } = ingest.memory.shares
    const one = await connected('retainer')
    const payload = Buffer.alloc(200 * KIB, 'x')
    for (const id of numbers(80)) {
      one.publish(id, { topic: `kept/${id}`, payload, retain: true })
      await until(() => one.ids('puback').length === id)
    }
    const slow = await connected('slow')
    slow.socket.pause()
    subscribe(slow, 1, ['kept/#'], qos)
    await until(() => outgoing.bytes > 0)
    await pause(300)
    expect(outgoing.bytes).toBeLessThan(2 * 2 ** 20)
    slow.socket.resume()
    await until(() => heard(slow).length === 80)
    expect(slow.isClosed).toBe(false)
  })

  test('one that subscribes to very much, again and again, does not keep others waiting', async () => {
    await start({ memoryBytesMax: 1_024 * 2 ** 20 })
    const greedy = await connected('greedy')
    const honest = await connected('honest')
    const packet = generate({
      cmd: 'subscribe',
      messageId: 1,
      subscriptions: Array(10_000).fill({ topic: 'a', qos: 0 }),
    })
    greedy.socket.write(Buffer.concat(Array(20).fill(packet)))
    await until(() => greedy.ids('suback').length > 0)
    await publishes(honest, 1)
    expect(greedy.ids('suback').length).toBeLessThan(20)
    // What it said is read no further until it is answered.
    expect(ingest.server.blockedCount).toBe(1)
    await until(() => greedy.ids('suback').length === 20)
  })

  test('what waits for one that is away is bounded, and given when it is back', async () => {
    await start({ memoryBytesMax: 16 * 2 ** 20 })
    const { queues } = ingest.memory.shares
    const away = await connected('away', { clean: false })
    subscribe(away, 1, ['other'], 1)
    await until(() => away.packets.length === 1)
    away.send({ cmd: 'disconnect' })
    await until(() => away.isClosed)
    const one = await connected('publisher')
    const payload = Buffer.alloc(20_000, 'x')
    for (const id of numbers(100)) one.publish(id, { topic: 'other', payload })
    await until(() => one.ids('puback').length === 100)
    await until(() => ingest.broker.dropped > 0 && ingest.memory.shares.fanout.bytes === 0)
    expect(queues.bytes).toBeLessThanOrEqual(queues.bytesMax / 8)
    const back = client()
    back.send({
      cmd: 'connect',
      protocolId: 'MQTT',
      protocolVersion: 4,
      clean: false,
      clientId: 'away',
      keepalive: 0,
    })
    await until(() => heard(back).length === 100 - ingest.broker.dropped)
    for (const { messageId } of back.packets.filter(({ cmd }) => cmd === 'publish')) {
      back.send({ cmd: 'puback', messageId })
    }
    await until(() => queues.bytes === 0)
  })
})

test('QoS 2 packet ids that are never released cost nobody else the connection', async () => {
  await start({ memoryBytesMax: 1_024 * KIB })
  const honest = await connected('honest', { clean: false })
  for (const id of numbers(50)) honest.publish(id, { qos: 2 })
  await until(() => honest.ids('pubrec').length === 50)
  const bad = await Promise.all(numbers(4).map((n) => connected(`bad${n}`, { clean: false })))
  for (const [n, one] of bad.entries()) {
    for (const id of numbers(300)) one.publish(id, { qos: 2, topic: `sensors/bad${n}/m` })
  }
  await until(() => bad.some(({ isClosed }) => isClosed))
  honest.publish(51, { qos: 2 })
  await until(() => honest.ids('pubrec').length === 51)
  for (const id of numbers(51)) honest.send({ cmd: 'pubrel', messageId: id })
  await until(() => honest.ids('pubcomp').length === 51)
  expect(honest.isClosed).toBe(false)
})

describe('a step of the wall clock', () => {
  let stepMs = 0
  let passedMs = 0
  const clock = {
    wallMs: () => Date.now() + stepMs + passedMs,
    clockMs: () => performance.now() + passedMs,
  }
  beforeEach(() => {
    stepMs = 0
    passedMs = 0
  })

  /** Lets time pass, a second at a time. @param {number} ms */
  async function pass(ms) {
    for (let ofMs = 0; ofMs < ms; ofMs += 1_000) {
      passedMs += 1_000
      ingest.server.sweep()
      await pause(1)
    }
  }

  test.each([86_400_000, -86_400_000])('by %i ms closes nobody', async (ms) => {
    await start({}, { clock })
    const one = await connected('c', { keepalive: 60 })
    stepMs = ms
    await pass(10_000)
    one.publish(1)
    await until(() => one.ids('puback').length === 1)
    expect(one.isClosed).toBe(false)
    // The time of receipt is that of the wall clock.
    const [{ ts }] = ingest.storage.rowsOf('measurement_30d')
    expect(Math.abs(ts - clock.wallMs())).toBeLessThan(60_000)
  })

  test.each([86_400_000, -86_400_000])('by %i ms keeps nobody who is silent', async (ms) => {
    await start({}, { clock })
    const [silent, mute] = [await connected('c', { keepalive: 60 }), client()]
    await until(() => ingest.server.connectionCount === 2)
    stepMs = ms
    await pass(31_000)
    await until(() => mute.isClosed)
    expect(silent.isClosed).toBe(false)
    await pass(60_000)
    await until(() => silent.isClosed)
  })
})
