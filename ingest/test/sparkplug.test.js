// Edge nodes of Sparkplug are followed: data by alias are stored under the names of their births,
// wherever they wait meanwhile, and what nobody can name is a dead letter.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readPayload } from '@sandglass/common/formats/sparkplug/payload'
import { writePayload } from '@sandglass/common/formats/sparkplug/write'
import { sensorId } from '@sandglass/common/sensor'
import { parseTopics } from '@sandglass/common/topics'
import pino from 'pino'
import { carriesTime } from '../src/external/retained.js'
import { replay } from '../src/http/replay.js'
import { buildIngest, openSpool } from '../src/ingest.js'
import { MESSAGE_BYTES } from '../src/message/message.js'
import { Rights } from '../src/message/rights.js'
import { outside } from '../src/source.js'
import { REBIRTHS_AT_ONCE } from '../src/sparkplug/rebirth-pace.js'
import { FakeStorage } from './support/fake-storage.js'
import { KEYSPACE, LIMITS, RawClient, startIngest, until } from './support/ingest.js'
import { build } from './support/pipeline.js'
import { RawBroker } from './support/raw-broker.js'

const T = Date.UTC(2026, 0, 1)
const FORMAT = 30
const [INT64, DOUBLE] = [4, 10]
const TOPICS = parseTopics('spBv1.0/{group}/{type}/{node}[/{device}] in sparkplug-b')
const LIMIT = { topicTemplates: TOPICS }

/** @typedef {import('@sandglass/common/formats/sparkplug/write').Written} Written */

/** @param {number} seq  @param {Written[]} metrics */
const bytes = (seq, ...metrics) => writePayload({ timeMs: T + seq, seq, metrics })

/** @param {string} name  @param {number} alias  @param {number} double */
const born = (name, alias, double) => ({ name, alias, datatype: DOUBLE, double })

const BD_SEQ = { name: 'bdSeq', datatype: INT64, long: 7n }

/** An edge node with the metrics `temp` (1), and `flow` (2) of its device `d`. */
const NBIRTH = bytes(0, BD_SEQ, born('temp', 1, 20))
const DBIRTH = bytes(1, born('flow', 2, 5))

/** @param {string} type  @param {string} [device] */
const topic = (type, device) => ['spBv1.0/g', type, 'n', ...(device ? [device] : [])].join('/')

/** Payloads arrive as they are. @param {Buffer} payload */
const by = (payload, parts = {}) => ({ payload, qos: /** @type {const} */ (0), ...parts })

/** @param {FakeStorage} storage */
const stored = (storage) =>
  storage
    .rowsOf('measurement_30d')
    .map(({ sensor_id: id, metric, ts, v }) => [String(id), metric, Number(ts) - T, v])

/** @param {FakeStorage} storage */
const letters = (storage) => storage.rowsOf('dead_letter')

/** @param {ReturnType<typeof build>} ingest */
const replayAll = (ingest) =>
  replay(
    letters(ingest.storage).map(({ id }) => String(id)),
    { ...ingest, reader: ingest.storage, accept: (message) => ingest.pipeline.accept(message) },
  )

/** @param {Parameters<typeof build>[0]} [limits]  @param {FakeStorage} [storage] */
function follow(limits, storage) {
  const ingest = build({ ...LIMIT, ...limits }, storage)
  /** @type {string[]} */
  const asked = []
  ingest.edgeNodes.askRebirth = (commands) => asked.push(commands)
  /**
   * @param {string} type
   * @param {Buffer} payload
   * @param {object} [own]
   * @param {string} [device]
   */
  const send = (type, payload, own, device) =>
    ingest.settle(topic(type, device), '', by(payload, own))
  return { ...ingest, asked, send }
}

const [NODE, DEVICE] = ['g∕n', 'g∕n∕d'].map(sensorId)

describe('an edge node', () => {
  test('is a sensor, and each of its devices is one; data have the names of the births', async () => {
    const { send, storage, counts, asked, edgeNodes } = follow()
    await send('NBIRTH', NBIRTH)
    await send('DBIRTH', DBIRTH, {}, 'd')
    await send('NDATA', bytes(2, { alias: 1, double: 21 }))
    await send('DDATA', bytes(3, { alias: 2, double: 6 }), {}, 'd')
    expect(stored(storage)).toEqual([
      [NODE, 'temp', 0, 20],
      [DEVICE, 'flow', 1, 5],
      [NODE, 'temp', 2, 21],
      [DEVICE, 'flow', 3, 6],
    ])
    expect([letters(storage), asked]).toEqual([[], []])
    expect([counts.received, counts.storedMessages]).toEqual([4, 4])
    expect(edgeNodes.counts).toEqual({ births: 2, gaps: 0, unnamed: 0, rebirths: 0 })
    expect(edgeNodes.countOf('online')).toBe(1)
  })

  test('that says nothing to be stored is no dead letter: births without values, and deaths', async () => {
    const { send, storage, counts, edgeNodes } = follow()
    await send('NBIRTH', bytes(0, BD_SEQ))
    await send('DBIRTH', bytes(1, { ...born('flow', 2, 5), isNull: true }), {}, 'd')
    await send('DDEATH', bytes(2), {}, 'd')
    await send('NDEATH', writePayload({ metrics: [BD_SEQ] }))
    expect([stored(storage), letters(storage)]).toEqual([[], []])
    expect([counts.received, counts.storedMessages, counts.deadLettered]).toEqual([4, 4, 0])
    expect(edgeNodes.countOf('offline')).toBe(1)
  })

  test('has topics of commands and of hosts beside it, which are no measurements', async () => {
    const { settle, counts } = follow()
    for (const other of [topic('NCMD'), topic('DCMD', 'd'), 'spBv1.0/STATE/host']) {
      await settle(other, '', by(NBIRTH))
    }
    expect([counts.received, counts.passed]).toEqual([0, 3])
  })

  test('is asked for its births where they are missed; until then its data are dead letters', async () => {
    const { send, storage, asked, edgeNodes, counts } = follow()
    await send('NDATA', bytes(9, { alias: 1, double: 21 }))
    await send('NDATA', bytes(10, { alias: 1, double: 22 }))
    expect(asked).toEqual(['spBv1.0/g/NCMD/n'])
    expect(letters(storage).map(({ format, reason }) => [format, reason])).toEqual([
      [FORMAT, 'alias 1: no birth that was received tells its name'],
      [FORMAT, 'alias 1: no birth that was received tells its name'],
    ])
    await send('NBIRTH', NBIRTH)
    await send('NDATA', bytes(1, { alias: 1, double: 23 }))
    expect(stored(storage).map(([, metric, , v]) => [metric, v])).toEqual([
      ['temp', 20],
      ['temp', 23],
    ])
    expect(edgeNodes.counts).toEqual({ births: 1, gaps: 0, unnamed: 2, rebirths: 1 })
    // A later birth may mean something else by the alias: what was refused stays so.
    const { replayed, refused } = await replayAll({ ...edgeParts(storage) })
    expect([replayed, refused.length]).toEqual([0, 2])
    expect(counts.deadLetters.value).toBe(2)
  })

  /** @param {FakeStorage} storage */
  const edgeParts = (storage) => follow({}, storage)

  test('whose message is missed is asked once, and the gap is counted', async () => {
    const { send, asked, edgeNodes, storage } = follow()
    await send('NBIRTH', NBIRTH)
    for (const seq of [2, 3, 4]) await send('NDATA', bytes(seq, { alias: 1, double: seq }))
    expect([asked.length, edgeNodes.counts.gaps, edgeNodes.counts.unnamed]).toEqual([1, 1, 3])
    expect([stored(storage).length, letters(storage).length]).toEqual([1, 3])
    expect(edgeNodes.countOf('unknown')).toBe(1)
  })

  test('that sends what cannot be read, or of another shape, is asked: it may have been a birth', async () => {
    for (const [type, device, payload, reason] of /** @type {const} */ ([
      ['NBIRTH', undefined, Buffer.from('ff'), 'this is not Sparkplug B'],
      ['DBIRTH', undefined, DBIRTH, 'a topic of DBIRTH names none'],
      ['NDATA', 'd', bytes(1, { alias: 1, double: 1 }), 'is of an edge node, but names a device'],
    ])) {
      const { send, asked, storage } = follow()
      await send('NBIRTH', NBIRTH)
      await send(type, payload, {}, device)
      expect(letters(storage).map((one) => one.reason)).toEqual([expect.stringContaining(reason)])
      await send('NDATA', bytes(1, { alias: 1, double: 1 }))
      await send('NDATA', bytes(1, { alias: 2, double: 1 }))
      expect([type, stored(storage).length, asked.length]).toEqual([type, 1, 1])
    }
  })

  test('has no device without a name: its birth says nothing of the edge node', async () => {
    const { send, settle, storage, asked } = follow()
    await send('NBIRTH', NBIRTH)
    await settle('spBv1.0/g/DBIRTH/n/', '', by(bytes(1, born('false', 1, 1))))
    await send('NDATA', bytes(2, { alias: 1, double: 21 }))
    expect([stored(storage).length, letters(storage).length, asked.length]).toEqual([1, 2, 1])
  })

  test('has a device whose name no sensor can have, and is followed all the same', async () => {
    const { send, asked, storage } = follow()
    await send('NBIRTH', NBIRTH)
    await send('DBIRTH', DBIRTH, {}, 'x'.repeat(130))
    await send('NDATA', bytes(2, { alias: 1, double: 21 }))
    expect([stored(storage).length, letters(storage).length, asked]).toEqual([2, 1, []])
  })
})

describe('a connection', () => {
  test('that is another one may have missed a birth: nothing of before is believed', async () => {
    const { send, asked, storage, session } = follow()
    await send('NBIRTH', NBIRTH)
    await send('NDATA', bytes(1, { alias: 1, double: 21 }), { visit: session.visit + 1 })
    await send('NDATA', bytes(2, { alias: 1, double: 22 }), { sender: { bytesInFlight: 0 } })
    expect([stored(storage).length, letters(storage).length, asked.length]).toEqual([1, 2, 1])
    // It stays that of the newest birth.
    const sender = { bytesInFlight: 0 }
    await send('NBIRTH', NBIRTH, { sender })
    await send('NDATA', bytes(1, { alias: 1, double: 23 }), { sender })
    expect(stored(storage).at(-1)?.[3]).toBe(23)
  })

  test('that ended tells of the death by another one, which is not believed to have data', async () => {
    const { send, storage, edgeNodes } = follow()
    const sender = { bytesInFlight: 0 }
    await send('NBIRTH', NBIRTH, { sender })
    const death = (/** @type {bigint} */ bdSeq) =>
      writePayload({ metrics: [{ ...BD_SEQ, long: bdSeq }] })
    await send('NDEATH', death(6n))
    await send('NDATA', bytes(1, { alias: 1, double: 21 }), { sender })
    expect([stored(storage).length, letters(storage)]).toEqual([2, []])
    await send('NDEATH', death(7n))
    expect(edgeNodes.countOf('offline')).toBe(1)
    await send('NDATA', bytes(2, { alias: 1, double: 22 }), { sender })
    expect([stored(storage).length, letters(storage).length]).toEqual([2, 1])
  })

  test('that is gone takes with it what came by it, and nothing else', async () => {
    const { send, edgeNodes, memory, settle } = follow()
    const [one, other] = [{ bytesInFlight: 0 }, { bytesInFlight: 0 }]
    await send('NBIRTH', NBIRTH, { sender: one })
    const { bytes: held } = memory.shares.edgeNodes
    await settle('spBv1.0/g/NBIRTH/m', '', by(NBIRTH, { sender: one }))
    await send('NBIRTH', NBIRTH, { sender: other })
    edgeNodes.closed({}, 'offline')
    edgeNodes.closed(one, 'offline')
    expect([edgeNodes.countOf('online'), edgeNodes.countOf('offline')]).toEqual([1, 1])
    edgeNodes.closed(other, 'unknown')
    expect([edgeNodes.countOf('unknown'), edgeNodes.countOf('offline')]).toEqual([1, 1])
    edgeNodes.closed(one, 'unknown')
    expect(edgeNodes.countOf('offline')).toBe(1)
    expect(memory.shares.edgeNodes.bytes).toBeLessThan(2 * held)
  })

  test('is another one for each connection to a broker that exists already', async () => {
    const { session, send, asked } = follow()
    await send('NBIRTH', NBIRTH)
    session.opened({ close() {} })
    await send('NDATA', bytes(1, { alias: 1, double: 1 }), { visit: session.visit })
    expect(asked).toHaveLength(1)
  })
})

describe('a message', () => {
  test('has its names in the dead letter, whatever births there are when it is replayed', async () => {
    const ingest = follow()
    const { send, storage } = ingest
    await send('NBIRTH', NBIRTH)
    storage.refuses = ({ params }) => params.includes(21)
    await send('NDATA', bytes(1, { alias: 1, double: 21 }))
    expect(letters(storage).map(({ format }) => format)).toEqual([FORMAT])
    storage.refuses = () => false
    const later = follow({}, storage)
    await later.send('NBIRTH', bytes(0, BD_SEQ, born('other', 1, 1)))
    expect(await replayAll(later)).toMatchObject({ replayed: 1, refused: [] })
    expect(stored(storage)).toContainEqual([NODE, 'temp', 1, 21])
    expect(later.edgeNodes.counts.births).toBe(1)
    // To be replayed changes nothing of what is known.
    await later.send('NDATA', bytes(1, { alias: 1, double: 22 }))
    expect([later.asked, stored(storage).at(-1)?.[1]]).toEqual([[], 'other'])
  })

  test('has them in the spool: it is stored by an ingest that never heard the birth', async () => {
    const spoolDir = mkdtempSync(join(tmpdir(), 'sandglass-sparkplug-'))
    const limits = { spoolDir, spoolBytesMax: 2 ** 20, spoolAfterMs: 1 }
    const storage = new FakeStorage()
    storage.isDown = true
    const first = follow(limits, storage)
    await first.spool?.open()
    const accepted = [
      first.accept(topic('NBIRTH'), '', by(NBIRTH)),
      first.accept(topic('DBIRTH', 'd'), '', by(DBIRTH)),
      first.accept(topic('NDATA'), '', by(bytes(2, { alias: 1, double: 21 }))),
      first.accept(topic('NDATA'), '', by(bytes(3, { alias: 9, double: 9 }))),
    ]
    await until(() => {
      first.diversion?.look(first.inFlight, performance.now())
      return accepted.every((message) => message.isSettled)
    })
    expect(first.counts.spooled).toBe(4)
    await first.spool?.close()
    storage.isDown = false
    const next = follow(limits, storage)
    if (next.spool) await openSpool(next.spool, next.counts)
    void next.drain?.run()
    await until(() => next.counts.spooled === 0)
    await next.spool?.close()
    rmSync(spoolDir, { recursive: true })
    expect(stored(storage).sort()).toEqual(
      [
        [NODE, 'temp', 0, 20],
        [DEVICE, 'flow', 1, 5],
        [NODE, 'temp', 2, 21],
      ].sort(),
    )
    expect([letters(storage).length, next.asked, next.edgeNodes.counts.births]).toEqual([1, [], 0])
  })

  test('is understood also where it is dropped: it may be a birth', async () => {
    const { send, storage, counts } = follow({ qos0BytesMax: 1 })
    await send('NBIRTH', NBIRTH)
    await send('NDATA', bytes(1, { alias: 1, double: 21 }), { qos: 1 })
    expect(counts.droppedQos0).toBe(1)
    expect(stored(storage)).toEqual([[NODE, 'temp', 1, 21]])
  })

  test('is counted with the bytes of its names, and gives all of them back', async () => {
    const { send, accept, memory, storage } = follow()
    await send('NBIRTH', NBIRTH)
    storage.isManual = true
    const payload = bytes(1, { alias: 1, double: 21 })
    const message = accept(topic('NDATA'), '', by(payload))
    expect(message.payload.length).toBeGreaterThan(payload.length)
    expect(message.original).toEqual(payload)
    expect(message.bytes).toBe(
      message.topic.length + payload.length + message.payload.length + MESSAGE_BYTES,
    )
    expect(memory.shares.qos0.bytes).toBeGreaterThanOrEqual(payload.length + message.payload.length)
    await until(() => {
      for (const request of storage.requests) request.end()
      return message.isSettled
    })
    expect(memory.shares.qos0.bytes).toBe(0)
  })

  test('that a broker kept is none of now', () => {
    expect(carriesTime(TOPICS, topic('NBIRTH'), NBIRTH)).toBe(false)
  })
})

describe('a key', () => {
  const own = new Rights('one', NODE)
  const ofDevice = new Rights('one', DEVICE)
  const ofOther = new Rights('one', sensorId('g∕other'))

  test('of an edge node lets it speak for its devices', async () => {
    const { send, storage } = follow()
    await send('NBIRTH', NBIRTH, { rights: own })
    await send('DBIRTH', DBIRTH, { rights: own }, 'd')
    await send('DDATA', bytes(2, { alias: 2, double: 6 }), { rights: own }, 'd')
    expect([stored(storage).length, letters(storage)]).toEqual([3, []])
  })

  test('of somebody else changes nothing: neither values nor what aliases mean', async () => {
    const { send, storage, edgeNodes, asked } = follow()
    await send('NBIRTH', NBIRTH, { rights: own })
    const false_ = bytes(0, BD_SEQ, born('false', 1, 1))
    await send('NBIRTH', false_, { rights: ofOther })
    await send('NBIRTH', false_, { rights: ofDevice })
    await send('NDATA', bytes(1, { alias: 1, double: 21 }), { rights: own })
    expect(stored(storage).map(([, metric, , v]) => [metric, v])).toEqual([
      ['temp', 20],
      ['temp', 21],
    ])
    expect(letters(storage).map(({ reason }) => reason)).toEqual([
      'c may not publish here',
      'c may not publish here',
    ])
    expect([edgeNodes.counts.births, asked]).toEqual([1, []])
  })

  test('of a device lets it write by name, and it is no part of the edge node', async () => {
    const { send, storage, asked } = follow()
    await send('NBIRTH', NBIRTH, { rights: own })
    await send('DDATA', bytes(9, born('flow', 2, 6)), { rights: ofDevice }, 'd')
    await send('NDATA', bytes(1, { alias: 1, double: 21 }), { rights: own })
    expect([stored(storage).length, letters(storage), asked]).toEqual([3, [], []])
  })
})

describe('rebirths', () => {
  test('that had to wait are asked for with the next message', async () => {
    const { edgeNodes, accept } = follow()
    let asked = 0
    edgeNodes.askRebirth = () => asked++
    const names = Array.from({ length: REBIRTHS_AT_ONCE + 50 }, (_, at) => `n${at}`)
    const send = (/** @type {string} */ node) =>
      accept(`spBv1.0/g/NDATA/${node}`, '', by(bytes(1, { alias: 1, double: 1 })))
    for (const name of names) send(name)
    expect(asked).toBeGreaterThanOrEqual(REBIRTHS_AT_ONCE)
    expect(asked).toBeLessThan(names.length)
    await until(() => {
      for (const name of names) send(name)
      return asked === names.length
    })
  })
})

/** Whether a payload asks for a rebirth. @param {Buffer} payload */
function asksRebirth(payload) {
  const { metrics, seq } = readPayload(payload)
  const [{ name, datatype, value }] = metrics
  return name === 'Node Control/Rebirth' && datatype === 11 && value?.content && seq === undefined
}

test('an edge node that is connected hears that a rebirth is asked for; hosts hear what it sent', async () => {
  const ingest = await startIngest({}, { topics: TOPICS })
  const client = await new RawClient(ingest.port).connect({ clientId: 'edge' })
  const host = await new RawClient(ingest.port).connect({ clientId: 'host' })
  for (const [one, filter] of /** @type {const} */ ([
    [client, 'spBv1.0/g/NCMD/n/#'],
    [host, 'spBv1.0/g/+/n'],
  ])) {
    one.send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: filter, qos: 0 }] })
    await until(() => one.ids('suback').length === 1)
  }
  const data = bytes(5, { alias: 1, double: 21 })
  const publish = (/** @type {string} */ type, /** @type {Buffer} */ payload, qos = 0) =>
    client.publish(1, { topic: topic(type), payload, qos: /** @type {0 | 1} */ (qos) })
  publish('NDATA', data)
  const heard = (/** @type {RawClient} */ one) =>
    /** @type {any[]} */ (one.packets.filter(({ cmd }) => cmd === 'publish'))
  await until(() => heard(client).length === 1)
  expect(heard(client)[0]).toMatchObject({ topic: 'spBv1.0/g/NCMD/n', qos: 0, retain: false })
  expect(asksRebirth(heard(client)[0].payload)).toBe(true)
  publish('NBIRTH', NBIRTH)
  const named = bytes(1, { alias: 1, double: 22 })
  publish('NDATA', named, 1)
  await until(() => client.ids('puback').length === 1)
  await until(() => heard(host).filter((one) => one.topic.includes('NDATA')).length === 2)
  const sent = heard(host).filter((one) => one.topic.includes('NDATA'))
  expect(sent.map(({ payload }) => payload)).toEqual([data, named])
  expect(stored(ingest.storage).map(([, metric, , v]) => [metric, v])).toEqual([
    ['temp', 20],
    ['temp', 22],
  ])
  expect(ingest.edgeNodes.countOf('online')).toBe(1)
  const { bytes: held } = ingest.memory.shares.edgeNodes
  client.end()
  await until(() => ingest.edgeNodes.countOf('offline') === 1)
  expect(ingest.memory.shares.edgeNodes.bytes).toBeLessThan(held)
  host.end()
  await ingest.stop()
})

test('behind a broker that exists already each process hears all edge nodes, and can ask them', async () => {
  const broker = new RawBroker()
  await broker.start()
  const logger = pino({ level: 'silent' })
  const storage = new FakeStorage()
  const limits = { ...LIMITS, ...LIMIT }
  const parts = buildIngest({ storage, keyspace: KEYSPACE, limits, logger })
  const client = broker.clientOptions
  const options = { share: 'group', topics: TOPICS, lineTopic: 'telegraf' }
  const { pipeline: sink, memory, edgeNodes } = parts
  const source = outside({ sink, memory, client, options, edgeNodes, logger })
  await source.start()
  const connection = await broker.subscribed()
  const filters = connection
    .of('subscribe')[0]
    .subscriptions.map((/** @type {any} */ one) => one.topic)
  expect(filters).toEqual([
    '$share/group/sensors/#',
    'spBv1.0/+/+/+',
    'spBv1.0/+/+/+/+',
    '$share/group/telegraf/#',
  ])
  const data = bytes(5, { alias: 1, double: 21 })
  connection.publish(0, { topic: topic('NDATA'), payload: data, qos: 0 })
  await until(() => connection.of('publish').length === 1)
  expect(connection.of('publish')[0]).toMatchObject({ topic: 'spBv1.0/g/NCMD/n', qos: 0 })
  expect(asksRebirth(connection.of('publish')[0].payload)).toBe(true)
  // What was kept for whoever comes is a birth of nobody knows when.
  connection.publish(0, { topic: topic('NBIRTH'), payload: NBIRTH, qos: 0, retain: true })
  connection.publish(0, { topic: topic('NDATA'), payload: data, qos: 0 })
  await until(() => letters(storage).length === 2)
  expect(stored(storage)).toEqual([])
  connection.publish(0, { topic: topic('NBIRTH'), payload: NBIRTH, qos: 0 })
  await until(() => edgeNodes.countOf('online') === 1)
  connection.socket.destroy()
  await until(() => edgeNodes.countOf('unknown') === 1)
  await source.stop(0)
  parts.writer.stop()
  parts.registry.stop()
  broker.stop()
})
