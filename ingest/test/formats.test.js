// A message keeps the format that it had when it was received; a strange field of it is lost alone,
// and is a dead letter.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { encode as encodeMessagePack } from '@msgpack/msgpack'
import { createRegistry } from '@sandglass/common/metrics'
import { sensorId } from '@sandglass/common/sensor'
import { parseTopics, Topics } from '@sandglass/common/topics'
import { encode as encodeCbor } from 'cborg'
import { carriesTime } from '../src/external/retained.js'
import { buildHttp } from '../src/http/app.js'
import { replay } from '../src/http/replay.js'
import { openSpool } from '../src/ingest.js'
import { NO_SENSOR, Rights } from '../src/message/rights.js'
import { FakeStorage } from './support/fake-storage.js'
import { RawClient, startIngest, until } from './support/ingest.js'
import { build } from './support/pipeline.js'

const T = Date.UTC(2026, 0, 1)
/** A format of a later version. */
const UNKNOWN = 200
/** As the column of dead letters has it. */
const UNKNOWN_STORED = UNKNOWN - 256

const TOPICS = parseTopics(
  'gateway/up in json-object,site/{area}/{sensor} in json-object,pack/{sensor} in senml-json',
)

/** @param {FakeStorage} storage */
const stored = (storage) =>
  storage
    .rowsOf('measurement_30d')
    .map(({ sensor_id: id, metric, ts, v }) => [String(id), metric, Number(ts), v])

/** @param {FakeStorage} storage */
const letters = (storage) => storage.rowsOf('dead_letter')

/** Resolves once messages are in the spool. */
/** @param {ReturnType<typeof build>} ingest  @param {{ isSettled: boolean }[]} messages */
const diverted = ({ diversion, inFlight }, messages) =>
  until(() => {
    diversion?.look(inFlight, performance.now())
    return messages.every(({ isSettled }) => isSettled)
  })

/** @param {Omit<ReturnType<typeof build>, 'accept' | 'settle' | 'settled' | 'session'>} ingest */
const replayAll = (ingest) =>
  replay(
    letters(ingest.storage).map(({ id }) => String(id)),
    { ...ingest, reader: ingest.storage, accept: (message) => ingest.pipeline.accept(message) },
  )

describe('a format', () => {
  test('is that of the template, and the payload may name the sensor', async () => {
    const { settle, storage } = build({ topicTemplates: TOPICS })
    await settle('gateway/up', { sensor: 'a', t: T, x: 1 })
    await settle('gateway/up', { sensor: 'b', t: T, x: 2 })
    await settle('site/hall/c', { t: T, x: 3 })
    await settle('site/hall/c', { sensor: 'd', t: T, x: 4 })
    await settle('site/hall/c', { t: T + 1, x: 5 })
    expect(stored(storage)).toEqual([
      [sensorId('a'), 'x', T, 1],
      [sensorId('b'), 'x', T, 2],
      [sensorId('c'), 'x', T, 3],
      [sensorId('d'), 'x', T, 4],
      [sensorId('c'), 'x', T + 1, 5],
    ])
    await settle('gateway/up', { x: 1 })
    expect(letters(storage)).toMatchObject([{ topic: 'gateway/up', format: 1 }])
    expect(letters(storage)[0].reason).toContain('the sensor is missing')
  })

  test('that names another sensor does not make the topic that of the other one', async () => {
    const { settle, storage } = build({ topicTemplates: TOPICS })
    await settle('site/hall/e', { sensor: 'f', t: T, x: 1 })
    await settle('site/hall/e', { t: T, x: 2 })
    expect(stored(storage).map(([id, , , v]) => [id, v])).toEqual([
      [sensorId('f'), 1],
      [sensorId('e'), 2],
    ])
  })

  test('that names sensors lets a device write its own, whatever the topic is', async () => {
    const { settle, storage } = build({ topicTemplates: TOPICS })
    const rights = new Rights('one', sensorId('own'))
    await settle('gateway/up', { sensor: 'own', t: T, x: 1 }, { rights })
    await settle('site/hall/own', { sensor: 'own', t: T + 1, x: 1 }, { rights })
    const others = [
      ['gateway/up', { sensor: 'other', t: T, x: 1 }, { rights }],
      ['site/hall/own', { sensor: 'other', t: T, x: 1 }, { rights }],
      ['site/hall/other', { t: T, x: 1 }, { rights }],
      ['gateway/up', { sensor: 'own', t: T, x: 1 }, { rights: NO_SENSOR }],
    ]
    for (const other of others) await settle(.../** @type {[string, object, object]} */ (other))
    expect(stored(storage).map(([id]) => id)).toEqual([sensorId('own'), sensorId('own')])
    expect(letters(storage).map(({ reason }) => reason)).toEqual(
      others.map(() => 'c may not publish here'),
    )
  })

  test('is kept in the dead letter: another template changes nothing when it is replayed', async () => {
    const { settle, storage } = build({ topicTemplates: TOPICS })
    storage.refuses = ({ params }) => params.includes('refused')
    await settle('site/hall/c', { sensor: 'd', t: T, x: 'refused' })
    await settle('gateway/up', { sensor: 'e', t: T, x: 'refused' })
    expect(letters(storage).map(({ format }) => format)).toEqual([1, 1])
    storage.refuses = () => false
    const later = build({ topicTemplates: parseTopics('site/{area}/{sensor}') }, storage)
    expect(await replayAll(later)).toMatchObject({ replayed: 2, refused: [] })
    expect(stored(storage).map(([id]) => id)).toEqual([sensorId('d'), sensorId('e')])
  })

  test('is kept in the spool: a restart with other templates changes nothing', async () => {
    const spoolDir = mkdtempSync(join(tmpdir(), 'sandglass-formats-'))
    const limits = { spoolDir, spoolBytesMax: 2 ** 20, spoolAfterMs: 1, topicTemplates: TOPICS }
    const storage = new FakeStorage()
    storage.isDown = true
    const first = build(limits, storage)
    await first.spool?.open()
    const accepted = [
      first.accept('gateway/up', { sensor: 'a', t: T, x: 1, y: [] }),
      first.accept('site/hall/c', { sensor: 'd', t: T, x: 2 }),
      first.accept('gateway/up', { sensor: 'a', t: T, x: 3 }, { format: UNKNOWN }),
    ]
    await diverted(first, accepted)
    expect(first.counts.spooled).toBe(3)
    expect([first.counts.partialMessages.size, letters(storage)]).toEqual([0, []])
    await first.spool?.close()

    storage.isDown = false
    const next = build({ ...limits, topicTemplates: new Topics() }, storage)
    if (next.spool) await openSpool(next.spool, next.counts)
    expect(next.counts.recovered).toBe(3)
    void next.drain?.run()
    await until(() => next.counts.spooled === 0)
    expect(stored(storage)).toEqual([
      [sensorId('a'), 'x', T, 1],
      [sensorId('d'), 'x', T, 2],
    ])
    expect(
      letters(storage)
        .map(({ format, reason }) => [format, reason])
        .sort(),
    ).toEqual([
      [UNKNOWN_STORED, expect.stringContaining('the number 200, which this version does not know')],
      [1, expect.stringContaining('the value of y')],
    ])
    expect(next.counts.deadLetters.format).toBe(1)
    expect(next.counts.refusedFields).toEqual(new Map([[1, 1]]))
    expect(await replayAll(next)).toMatchObject({
      replayed: 0,
      refused: [{ reason: expect.any(String) }, { reason: expect.any(String) }],
    })
    expect(
      letters(storage)
        .map(({ format }) => format)
        .sort(),
    ).toEqual([UNKNOWN_STORED, 1])
    await next.spool?.close()
    rmSync(spoolDir, { recursive: true })
  })

  test('tells whether a retained message has its own time', () => {
    const carries = (/** @type {object} */ payload) =>
      carriesTime(TOPICS, 'gateway/up', Buffer.from(JSON.stringify(payload)))
    expect(carries({ sensor: 'a', t: T, x: 1 })).toBe(true)
    expect(carries({ sensor: 'a', x: 1 })).toBe(false)
    expect(carries({ t: T, x: 1 })).toBe(false)
    const ofPack = (/** @type {number} */ t) =>
      carriesTime(TOPICS, 'pack/s', Buffer.from(JSON.stringify([{ n: 'a', t, v: 1 }])))
    expect([ofPack(T / 1000), ofPack(-5), ofPack(0)]).toEqual([true, false, false])
  })
})

describe('a time that is relative to now', () => {
  const receivedMs = Date.now() - 60_000
  const PACK = [
    { n: 'a', t: -5, v: 1 },
    { n: 'b', t: 2, v: 2 },
    { n: 'c', v: 3 },
  ]
  const times = (/** @type {FakeStorage} */ storage) =>
    stored(storage).map(([, metric, ts]) => [metric, Number(ts) - receivedMs])
  const RIGHT = [
    ['a', -5_000],
    ['b', 2_000],
    ['c', 0],
  ]

  test('is counted from the first receipt, also of a redelivery', async () => {
    const { settle, storage } = build({ topicTemplates: TOPICS })
    await settle('pack/s', PACK, { packetId: 9, receivedMs })
    await settle('pack/s', PACK, { packetId: 9, dup: true })
    expect(times(storage)).toEqual(RIGHT)
  })

  test('is not believed where that would be more than a day ahead', async () => {
    const { settle, storage } = build({ topicTemplates: TOPICS })
    await settle('pack/s', [{ n: 'a', t: 90_000, v: 1 }])
    expect(stored(storage)).toEqual([])
    expect(letters(storage)[0].reason).toContain('more than 24 hours ahead')
  })

  test('is the same out of the spool, and of a dead letter that is replayed', async () => {
    const spoolDir = mkdtempSync(join(tmpdir(), 'sandglass-formats-'))
    const limits = { spoolDir, spoolBytesMax: 2 ** 20, spoolAfterMs: 1, topicTemplates: TOPICS }
    const storage = new FakeStorage()
    storage.isDown = true
    const first = build(limits, storage)
    await first.spool?.open()
    const message = first.accept('pack/s', PACK, { receivedMs })
    await diverted(first, [message])
    await first.spool?.close()

    storage.isDown = false
    storage.refuses = ({ params }) => params.includes(3)
    const next = build(limits, storage)
    if (next.spool) await openSpool(next.spool, next.counts)
    void next.drain?.run()
    await until(() => next.counts.spooled === 0)
    expect(letters(storage)).toHaveLength(1)
    storage.refuses = () => false
    expect(await replayAll(next)).toMatchObject({ replayed: 1, refused: [] })
    expect(new Map(/** @type {any} */ (times(storage)))).toEqual(
      new Map(/** @type {any} */ (RIGHT)),
    )
    await next.spool?.close()
    rmSync(spoolDir, { recursive: true })
  })

  test('stays as it is where its rows are made again in another place', async () => {
    const { accept, storage, registry } = build({ topicTemplates: TOPICS })
    let asked = 0
    const isPlacedTooLate = registry.isPlacedTooLate.bind(registry)
    registry.isPlacedTooLate = (message) => asked++ === 0 || isPlacedTooLate(message)
    const message = accept('pack/s', PACK, { receivedMs })
    await until(() => message.isSettled)
    expect(asked).toBeGreaterThan(1)
    expect(times(storage)).toEqual(RIGHT)
  })
})

describe('a strange field', () => {
  test('is lost alone: the others are stored, and it is a dead letter', async () => {
    const { settle, storage, counts } = build()
    const payload = { t: T, a: 1, b: [2], c: { d: 3, e: [] } }
    await settle('sensors/s', payload)
    expect(stored(storage)).toEqual([
      [sensorId('s'), 'a', T, 1],
      [sensorId('s'), 'c.d', T, 3],
    ])
    const [letter] = letters(storage)
    expect(letters(storage)).toHaveLength(1)
    expect(letter).toMatchObject({ topic: 'sensors/s', client: 'c', format: 0 })
    expect(JSON.parse(String(letter.payload))).toEqual(payload)
    expect(letter.reason).toMatch(/^the other fields are stored.*value of b is not.*value of c\.e/)
    expect([counts.storedMessages, counts.deadLettered, counts.received]).toEqual([1, 0, 1])
    expect(counts.partialMessages).toEqual(new Map([[0, 1]]))
    expect(counts.refusedFields).toEqual(new Map([[0, 2]]))
  })

  test('holds the acknowledgement back until its dead letter is durable', async () => {
    const { accept, storage, settle } = build()
    await settle('sensors/s', { t: T, a: 1 })
    storage.isManual = true
    const message = accept('sensors/s', { t: T, a: 2, b: [] })
    const ofLetter = () =>
      storage.requests.find(({ rows }) => rows.some(({ query }) => query.includes('dead_letter')))
    await until(ofLetter)
    const waiting = ofLetter()
    await until(() => {
      for (const request of storage.requests) if (request !== waiting) request.end()
      return storage.rowsOf('measurement_30d').length === 2
    })
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(message.isSettled).toBe(false)
    waiting?.end()
    await until(() => message.isSettled)
    expect(letters(storage)).toHaveLength(1)
  })

  test('is a dead letter once, though its rows are made again in another place', async () => {
    const { accept, storage, registry, counts } = build({ deadLettersMax: 1 })
    let asked = 0
    const isPlacedTooLate = registry.isPlacedTooLate.bind(registry)
    registry.isPlacedTooLate = (message) => asked++ === 0 || isPlacedTooLate(message)
    const message = accept('sensors/s', { t: T, a: 1, b: [] })
    await until(() => message.isSettled)
    expect(asked).toBeGreaterThan(1)
    expect([letters(storage).length, counts.refusedFields.get(0)]).toEqual([1, 1])
    expect(counts.unkeptLetters).toBe(0)
  })

  test('may be replayed: what is stored stays as it is, with the time of the first receipt', async () => {
    const ingest = build()
    const { settle, storage, counts } = ingest
    const firstMs = Date.now() - 60_000
    const payload = { a: 1, b: [] }
    await settle('sensors/s', payload, { packetId: 9, receivedMs: firstMs })
    await settle('sensors/s', payload, { packetId: 9, dup: true })
    expect(letters(storage).map(({ received }) => received)).toEqual([firstMs, firstMs])
    const before = stored(storage)
    expect(before).toEqual([[sensorId('s'), 'a', firstMs, 1]])

    const { replayed, refused } = await replayAll(ingest)
    expect([replayed, refused.map(({ reason }) => reason)]).toEqual([
      0,
      [expect.stringContaining('value of b'), expect.stringContaining('value of b')],
    ])
    expect(stored(storage)).toEqual(before)
    expect(counts.replayed).toBe(0)
    expect(letters(storage).map(({ replayed: mark }) => mark)).toEqual([undefined, undefined])

    // A version that understands the field.
    for (const letter of letters(storage)) letter.payload = Buffer.from('{"a":1,"b":2}')
    expect(await replayAll(ingest)).toMatchObject({ replayed: 2, refused: [] })
    expect(stored(storage)).toEqual([...before, [sensorId('s'), 'b', firstMs, 2]])
    expect(letters(storage).every(({ replayed: mark }) => mark > firstMs)).toBe(true)
  })

  test('is counted also where its client has too many dead letters', async () => {
    const { settle, storage, counts } = build({ deadLettersMax: 1 })
    for (const a of [1, 2]) await settle('sensors/s', { t: T, a, b: [] })
    expect(stored(storage)).toHaveLength(2)
    expect([letters(storage).length, counts.unkeptLetters]).toEqual([1, 1])
    expect(counts.refusedFields.get(0)).toBe(2)
  })

  test('makes the whole message a dead letter where the database refuses the rest', async () => {
    const { settle, storage, counts } = build()
    storage.refuses = ({ params }) => params.includes('refused')
    await settle('sensors/s', { t: T, a: 'refused', b: [] })
    expect(letters(storage).map(({ reason }) => reason)).toEqual([
      expect.stringContaining('the database refuses it'),
    ])
    expect([counts.deadLettered, counts.refusedFields.size]).toEqual([1, 0])
  })
})

describe('by HTTP', () => {
  /** @type {Awaited<ReturnType<typeof startIngest>>} */
  let ingest
  /** @type {ReturnType<typeof buildHttp>} */
  let app
  beforeEach(async () => {
    ingest = await startIngest({}, { topics: TOPICS })
    app = buildHttp({
      bodies: ingest.memory.shares.bodies,
      bodyBytesMax: 100_000,
      sink: ingest.pipeline,
      registry: createRegistry('sandglass_test_'),
      health: () => ({ ok: true }),
      stats: () => ({}),
      replay: async () => ({ replayed: 0, refused: [], unknown: [] }),
      isLoopback: true,
    })
  })
  afterEach(async () => {
    await app.close()
    await ingest.stop()
  })

  /** @param {string} url  @param {string} type  @param {string | Buffer} payload */
  const post = (url, type, payload) =>
    app.inject({
      method: 'POST',
      url,
      headers: { host: '127.0.0.1', 'content-type': type },
      payload,
    })

  test('an item is stored without its strange fields, which the answer names', async () => {
    const items = [
      { sensor: 'a', t: T, x: 1, y: [] },
      { sensor: 'a', t: T, z: [] },
      { sensor: 'b', t: T, x: 1 },
      { sensor: 'c', t: T, x: 1, z: 'x'.repeat(70_000) },
    ]
    const some = await post('/v1/measurements', 'application/json', JSON.stringify(items))
    expect(some.statusCode).toBe(400)
    expect(some.json()).toMatchObject({
      received: 4,
      stored: 3,
      refused: [{ item: 1, reason: expect.stringContaining('value of z') }],
      refused_fields: [
        { item: 0, field: 'y', reason: expect.stringContaining('value of y') },
        { item: 3, field: 'z', reason: expect.stringContaining('65536 bytes') },
      ],
      refused_field_count: 2,
    })
    expect(letters(ingest.storage)).toHaveLength(3)
    const one = await post('/v1/measurements', 'application/json', JSON.stringify(items[0]))
    expect([one.statusCode, one.json().refused_fields.length]).toEqual([200, 1])
    const none = await post('/v1/measurements', 'application/json', JSON.stringify(items[2]))
    expect([none.statusCode, none.json()]).toEqual([200, { received: 1, stored: 1, refused: [] }])
  })

  test('a SenML pack is one item, in JSON and in CBOR', async () => {
    const sentMs = Date.now()
    const pack = [
      { bn: 'urn:dev:ow:10e2073a:', n: 'x', t: -5, v: 1 },
      { n: 'y', t: T / 1000, v: 2 },
      { n: 'z', t: T / 1000, vd: 'AA' },
    ]
    const some = await post('/v1/measurements', 'application/senml+json', JSON.stringify(pack))
    expect([some.statusCode, some.json()]).toMatchObject([
      200,
      { received: 1, stored: 1, refused_fields: [{ item: 0, field: '[2]' }] },
    ])
    const [x, y] = stored(ingest.storage)
    expect(y).toEqual([sensorId('urn:dev:ow:10e2073a'), 'y', T, 2])
    expect(x.slice(0, 2)).toEqual([y[0], 'x'])
    expect(Math.abs(Number(x[2]) - (sentMs - 5_000))).toBeLessThan(5_000)
    // [{-2: 'd:', 0: 'n', 2: 7}]
    const cbor = Buffer.from('81a32162643a00616e0207', 'hex')
    const same = await post('/v1/measurements', 'application/senml+cbor', cbor)
    expect(same.json()).toEqual({ received: 1, stored: 1, refused: [] })
    expect(stored(ingest.storage)[2]).toEqual([sensorId('d'), 'n', expect.any(Number), 7])
  })

  test('CBOR and MessagePack are taken apart as JSON is: stored, refused and replayed alike', async () => {
    const items = [
      { sensor: 'a', t: T, x: 1, y: [] },
      { sensor: 'a', t: T, z: [] },
      { sensor: 'b', t: T, x: 2 },
      { x: 3 },
    ]
    const json = (await post('/v1/measurements', 'application/json', JSON.stringify(items))).json()
    expect(json).toMatchObject({ received: 4, stored: 2, refused: [{ item: 1 }, { item: 3 }] })
    const rows = stored(ingest.storage)
    const reasons = letters(ingest.storage).map(({ reason }) => reason)
    for (const [type, encode, number] of /** @type {const} */ ([
      ['application/cbor', encodeCbor, 14],
      ['application/msgpack', encodeMessagePack, 15],
    ])) {
      const before = letters(ingest.storage).length
      const answer = await post('/v1/measurements', type, Buffer.from(encode(items)))
      expect([answer.statusCode, answer.json()]).toEqual([400, json])
      // The same rows: nothing is there twice.
      expect(new Set(stored(ingest.storage).map(String))).toEqual(new Set(rows.map(String)))
      const own = letters(ingest.storage).slice(before)
      expect(own.map(({ reason }) => reason).sort()).toEqual([...reasons].sort())
      expect(
        own.map(({ format, payload }) => `${format} ${payload.toString('hex')}`).sort(),
      ).toEqual(
        [items[0], items[1], items[3]]
          .map((item) => `${number} ${Buffer.from(encode(item)).toString('hex')}`)
          .sort(),
      )
    }
    // What was wrong still is.
    const again = await replayAll(ingest)
    expect([again.replayed, again.refused.map(({ reason }) => reason).sort()]).toEqual([
      0,
      [...reasons, ...reasons, ...reasons].sort(),
    ])
    const broken = await post('/v1/measurements', 'application/cbor', Buffer.from('8201', 'hex'))
    expect([broken.statusCode, broken.json().type]).toEqual([
      400,
      'urn:sandglass:problem:invalid-body',
    ])
  })

  test('a strange field of a line is told as InfluxDB tells it, and the others are stored', async () => {
    const answer = await post('/write', 'text/plain', `m,sensor=s v=1,w=x ${T}000000`)
    expect(answer.statusCode).toBe(400)
    expect(answer.json().error).toContain('partial write: 1 fields are refused; line 1')
    expect(stored(ingest.storage)).toEqual([[sensorId('s'), 'm.v', T, 1]])
  })

  test('and by MQTT, a message of a template is acknowledged when all of it is durable', async () => {
    const client = await new RawClient(ingest.port).connect()
    client.publish(1, { topic: 'gateway/up', payload: JSON.stringify({ sensor: 'g', t: T, x: 1 }) })
    client.publish(2, { topic: 'sensors/s', payload: JSON.stringify({ t: T, x: 1, y: [] }) })
    client.publish(3, { topic: 'telegraf/x', payload: `m,sensor=s v=1,w=x ${T}000000` })
    await until(() => client.ids('puback').length === 3)
    expect(stored(ingest.storage).map(([id, metric]) => [id, metric])).toEqual([
      [sensorId('g'), 'x'],
      [sensorId('s'), 'x'],
      [sensorId('s'), 'm.v'],
    ])
    expect(letters(ingest.storage).map(({ format }) => format)).toEqual([0, 2])
    client.end()
  })
})
