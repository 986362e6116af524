// Messages in formats of people's own: decoded once, when they are received, and the same wherever
// they go from there. What a decoder refuses is a dead letter, until it is mended.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from '@jest/globals'
import { EXPRESSION_FORMAT, ownItem, readEnvelope } from '@sandglass/common/expressions/envelope'
import { createRegistry } from '@sandglass/common/metrics'
import { sensorId } from '@sandglass/common/sensor'
import { parseTopics, Topics } from '@sandglass/common/topics'
import pino from 'pino'
import { FILE, KnownDecoders } from '../src/decoders/known.js'
import { letterSensors } from '../src/deletion/letters.js'
import { carriesTime } from '../src/external/retained.js'
import { buildHttp } from '../src/http/app.js'
import { replay } from '../src/http/replay.js'
import { openSpool } from '../src/ingest.js'
import { Rights } from '../src/message/rights.js'
import { realDisk } from '../src/spool/disk.js'
import { FakeStorage } from './support/fake-storage.js'
import { until } from './support/ingest.js'
import { build as buildAlone } from './support/pipeline.js'

const T = Date.UTC(2026, 0, 1)
const logger = pino({ level: 'silent' })

/** @typedef {ReturnType<typeof buildAlone>} Ingest */

/** @type {Ingest[]} */
const built = []
afterEach(() => {
  for (const { evaluator } of built.splice(0)) evaluator.stop()
})

/**
 * @param {string} name
 * @param {string} template
 * @param {string} expression
 * @param {number} [version]
 */
const decoder = (name, template, expression, version = 1) => ({
  name,
  template,
  expression,
  version,
  reads: /** @type {const} */ ('json'),
  changedMs: T,
})

const PLANT = decoder(
  'plant',
  'plant/{area}/{sensor}',
  '{"t": at, "heat": temp / 10, "load": load}',
)

/**
 * @param {Parameters<typeof buildAlone>[0]} [limits]
 * @param {FakeStorage} [storage]
 * @param {ReturnType<typeof decoder>[]} [set]
 */
function build(limits = {}, storage = new FakeStorage(), set = [PLANT]) {
  const ingest = buildAlone({ topicTemplates: new Topics(), ...limits }, storage)
  built.push(ingest)
  ingest.knownDecoders.take({ revision: 1, set })
  return ingest
}

/** @param {FakeStorage} storage */
const stored = (storage) =>
  storage
    .rowsOf('measurement_30d')
    .map(({ sensor_id: id, metric, ts, v }) => [String(id), metric, Number(ts), v])

/** @param {FakeStorage} storage */
const letters = (storage) => storage.rowsOf('dead_letter')

/** @param {Ingest} ingest */
const replayAll = (ingest) =>
  replay(
    letters(ingest.storage)
      .filter(({ replayed }) => replayed === undefined)
      .map(({ id }) => String(id)),
    { ...ingest, reader: ingest.storage, accept: (message) => ingest.pipeline.accept(message) },
  )

const BOILER = sensorId('boiler')

describe('a decoder of your own', () => {
  test('makes measurements of the messages of its topics, and subscribers hear these as they came', async () => {
    const { settle, storage, counts } = build()
    const message = await settle('plant/hall/boiler', { at: T, temp: 215 })
    expect(stored(storage)).toEqual([[BOILER, 'heat', T, 21.5]])
    expect(message.arrivedPayload.toString()).toBe(JSON.stringify({ at: T, temp: 215 }))
    await settle('plant/other', { at: T, temp: 1 })
    await settle('sensors/a/b', 1)
    expect([counts.received, counts.passed]).toEqual([2, 1])
  })

  test('is another one from the moment it is changed, and none once it is deleted', async () => {
    const { settle, storage, knownDecoders, counts } = build()
    await settle('plant/hall/boiler', { at: T, temp: 1 })
    const set = [decoder('plant', 'factory/{sensor}', '{"t": at, "heat": temp}', 2)]
    knownDecoders.take({ revision: 2, set })
    await settle('plant/hall/boiler', { at: T + 1, temp: 2 })
    await settle('factory/boiler', { at: T + 2, temp: 3 })
    knownDecoders.take({ revision: 3, set: [] })
    await settle('factory/boiler', { at: T + 3, temp: 4 })
    expect(stored(storage).map(([, , time, v]) => [time, v])).toEqual([
      [T, 0.1],
      [T + 2, 3],
    ])
    expect([counts.passed, letters(storage)]).toEqual([2, []])
  })

  test('decodes what it was given by what it was then, whatever has become of it since', async () => {
    const { accept, storage, knownDecoders } = build()
    const messages = Array.from({ length: 100 }, (_, at) =>
      accept('plant/hall/boiler', { at: T + at, temp: 10 }),
    )
    knownDecoders.take({ revision: 2, set: [{ ...PLANT, expression: '{"heat": 0}', version: 2 }] })
    knownDecoders.take({ revision: 3, set: [] })
    await until(() => messages.every(({ isSettled }) => isSettled))
    expect(stored(storage).map(([id, , time, v]) => [id, time, v])).toEqual(
      messages.map((_, at) => [BOILER, T + at, 1]),
    )
  })

  test('gives a redelivery the same rows', async () => {
    const { settle, storage } = build()
    const parts = { packetId: 7 }
    await settle('plant/hall/boiler', { temp: 215 }, parts)
    await settle('plant/hall/boiler', { temp: 215 }, { ...parts, dup: true })
    expect(stored(storage)).toHaveLength(1)
  })

  test('loses a strange field, and not the message; mended, it makes the same rows and the rest', async () => {
    const ingest = build()
    const { settle, storage, knownDecoders } = ingest
    await settle('plant/hall/boiler', { at: T, temp: 215, load: [1, 2] })
    expect(stored(storage)).toEqual([[BOILER, 'heat', T, 21.5]])
    expect(letters(storage)[0].reason).toContain('load')
    const expression = '{"t": at, "heat": temp / 10, "load": $max(load)}'
    knownDecoders.take({ revision: 2, set: [{ ...PLANT, expression, version: 2 }] })
    expect(await replayAll(ingest)).toMatchObject({ replayed: 1, refused: [] })
    expect(stored(storage)).toEqual([
      [BOILER, 'heat', T, 21.5],
      [BOILER, 'load', T, 2],
    ])
  })

  test('that fails makes a dead letter, which says why and is stored once it is mended', async () => {
    const ingest = build()
    const { settle, storage, knownDecoders } = ingest
    const receivedMs = Date.now() - 60_000
    const refused = await settle('plant/hall/boiler', { temp: 'hot' }, { receivedMs })
    expect(refused.refusal).toMatchObject({ kind: 'expression' })
    const [letter] = letters(storage)
    expect(letter.format).toBe(EXPRESSION_FORMAT)
    expect(letter.reason).toMatch(/^decoder plant, version 1: the expression fails/)
    expect(readEnvelope(letter.payload)).toMatchObject({
      decoder: 'plant',
      version: 1,
      sensor: 'boiler',
      original: Buffer.from('{"temp":"hot"}'),
    })
    expect(await replayAll(ingest)).toMatchObject({
      replayed: 0,
      refused: [{ id: String(letter.id) }],
    })
    knownDecoders.take({ revision: 2, set: [] })
    const gone = await replayAll(ingest)
    expect(gone.refused[0].reason).toContain('there is no decoder plant: make one of this name')
    // It may have other topics by now: what the message's topic meant is in its letter.
    const mended = decoder('plant', 'elsewhere/{sensor}', '{"hot": temp = "hot"}', 3)
    knownDecoders.take({ revision: 3, set: [mended] })
    expect(await replayAll(ingest)).toMatchObject({ replayed: 1, refused: [] })
    expect(storage.rowsOf('measurement_30d')).toMatchObject([{ metric: 'hot', b: true }])
    expect(Number(storage.rowsOf('measurement_30d')[0].ts)).toBe(receivedMs)
  })

  test('keeps a dead letter whole that has room for its payload alone', async () => {
    const expression = '{"text": text & text, "list": []}'
    const { settle, storage } = build({}, undefined, [{ ...PLANT, expression }])
    const payload = JSON.stringify({ text: 'x'.repeat(32_000) })
    await settle('plant/hall/boiler', payload)
    const [letter] = letters(storage)
    expect(letter.payload.length).toBeLessThan(64 * 1024)
    expect(readEnvelope(letter.payload).original.toString()).toBe(payload)
  })

  test('gives nobody a right that they have not', async () => {
    const set = [PLANT, decoder('gateway', 'gateway/up', '{"sensor": id, "x": 1}')]
    const { settle, storage, evaluator } = build({}, undefined, set)
    const rights = new Rights('one', BOILER)
    await settle('plant/hall/boiler', { at: T, temp: 10 }, { rights })
    await settle('gateway/up', { id: 'boiler' }, { rights })
    const { evaluated } = evaluator.counts
    await settle('plant/hall/other', { at: T, temp: 10 }, { rights })
    // It is not even asked.
    expect(evaluator.counts.evaluated).toBe(evaluated)
    await settle('gateway/up', { id: 'other' }, { rights })
    expect(stored(storage).map(([id]) => id)).toEqual([BOILER, BOILER])
    expect(letters(storage).map(({ reason }) => reason)).toEqual(
      Array.from({ length: 2 }, () => 'c may not publish here'),
    )
  })

  test('says by null that a message is none, which is acknowledged', async () => {
    const { settle, storage, counts } = build({}, undefined, [{ ...PLANT, expression: 'null' }])
    await settle('plant/hall/boiler', { temp: 1 })
    expect([stored(storage), letters(storage), counts.storedMessages]).toEqual([[], [], 1])
  })

  test('whose topics somebody else has is not followed; configured ones come first', () => {
    const set = [decoder('a', 'a/{sensor}', '1'), decoder('b', 'a/b', '{"sensor": "x"}')]
    const topics = parseTopics('plant/{sensor}/{metric}')
    const { knownDecoders } = build({ topicTemplates: topics }, undefined, [...set, PLANT])
    expect([...knownDecoders.refused.keys()]).toEqual(['b', 'plant'])
    expect(topics.decoderOf('a/b')?.name).toBe('a')
    expect([topics.formatOf('plant/x/y'), topics.decoderOf('plant/x/y')]).toEqual([0, undefined])
  })
})

describe('the spool', () => {
  test('has what a decoder said: after a restart nobody is asked again', async () => {
    const spoolDir = mkdtempSync(join(tmpdir(), 'sandglass-decoders-'))
    const limits = { spoolDir, spoolBytesMax: 2 ** 20, spoolAfterMs: 1 }
    const storage = new FakeStorage()
    storage.isDown = true
    const rights = new Rights('one', BOILER)
    const first = build(limits, storage)
    await first.spool?.open()
    const messages = [
      first.accept('plant/hall/boiler', { at: T, temp: 215, load: [1] }, { rights }),
      first.accept('plant/hall/boiler', { at: T, temp: 'hot' }),
    ]
    await until(() => {
      first.diversion?.look(first.inFlight, performance.now())
      return messages.every(({ isSettled }) => isSettled)
    })
    expect(first.counts.spooled).toBe(2)
    await first.spool?.close()

    storage.isDown = false
    // Now the topic names another sensor: what it named then counts, for rights, too.
    const other = { ...PLANT, template: 'plant/{sensor}/{x}', expression: '{"other": 1}' }
    const next = build(limits, storage, [other])
    if (next.spool) await openSpool(next.spool, next.counts)
    void next.drain?.run()
    await until(() => next.counts.spooled === 0)
    expect(stored(storage)).toEqual([[BOILER, 'heat', T, 21.5]])
    expect(letters(storage).map(({ reason }) => reason.slice(0, 30))).toEqual(
      expect.arrayContaining(['decoder plant, version 1: the ', 'the other fields are stored, n']),
    )
    expect(next.evaluator.counts.starts).toBe(0)
    // As it is replayed: by the decoder that there is then.
    next.knownDecoders.take({ revision: 9, set: [{ ...PLANT, expression: '{"t": at, "ok": 1}' }] })
    expect(await replayAll(next)).toMatchObject({ replayed: 2 })
    await next.spool?.close()
    rmSync(spoolDir, { recursive: true })
  })

  test('is not opened by messages that wait for their expression', async () => {
    const spoolDir = mkdtempSync(join(tmpdir(), 'sandglass-decoders-'))
    const limits = { spoolDir, spoolBytesMax: 2 ** 20, spoolAfterMs: 1 }
    const slow = { ...PLANT, expression: '{"n": $count($distinct(a))}' }
    const { accept, diversion, inFlight, decoders, spool } = build(limits, undefined, [slow])
    await spool?.open()
    const a = Array.from({ length: 5_000 }, (_, at) => at)
    const message = accept('plant/hall/boiler', { a })
    await new Promise((resolve) => setTimeout(resolve, 20))
    expect([decoders.waiting, inFlight.count]).toEqual([1, 0])
    expect(inFlight.bytes).toBeGreaterThan(20_000)
    diversion?.look(inFlight, performance.now())
    expect(diversion?.isOpen).toBe(false)
    await until(() => message.isSettled)
    expect(inFlight.bytes).toBe(0)
    await spool?.close()
  })
})

describe('a device whose messages take too long', () => {
  test('does not keep others waiting, and hears why', async () => {
    // Seconds on any machine.
    const sum = Array(20).fill('$count($distinct(a))').join(' + ')
    const slow = decoder('slow', 'slow/{sensor}', `{"n": ${sum}}`)
    const { accept, storage, evaluator } = build({}, undefined, [PLANT, slow])
    const a = Array.from({ length: 40_000 }, (_, at) => at)
    const sender = { bytesInFlight: 0 }
    const bad = Array.from({ length: 6 }, () =>
      accept('slow/attacker', { a }, { clientId: 'attacker', sender, session: undefined }),
    )
    const good = Array.from({ length: 50 }, (_, at) =>
      accept('plant/hall/boiler', { at: T + at, temp: 1 }, { sender: { bytesInFlight: 0 } }),
    )
    const plain = accept('sensors/a/b', 1)
    await until(() => plain.isSettled)
    expect(bad.some(({ isSettled }) => isSettled)).toBe(false)
    await until(() => [...bad, ...good].every(({ isSettled }) => isSettled), 60_000)
    expect(stored(storage)).toHaveLength(51)
    const reasons = letters(storage).map(({ reason }) => reason)
    expect(reasons.filter((reason) => reason.includes('ms of the processor'))).toHaveLength(3)
    expect(reasons.filter((reason) => reason.includes('was not evaluated'))).toHaveLength(3)
    expect([evaluator.counts.slow, sender.bytesInFlight]).toEqual([3, 0])
  })

  test('fills no more than the memory there is for messages', async () => {
    const { accept, inFlight, counts, settled } = build({ qos0BytesMax: 10_000 })
    for (let at = 0; at < 50; at++) accept('plant/hall/boiler', { at: T + at, temp: 1 }, { qos: 0 })
    expect(inFlight.bytes).toBeLessThanOrEqual(10_000)
    expect(counts.droppedQos0).toBeGreaterThan(10)
    await until(() => settled.length === 50)
    expect([inFlight.bytes, counts.received]).toEqual([0, 50])
  })
})

describe('before it is known what decoders there are', () => {
  test('what could be for them waits, and what could not does not', async () => {
    const ingest = buildAlone({ topicTemplates: new Topics() })
    built.push(ingest)
    const { accept, settle, knownDecoders, storage, counts } = ingest
    await knownDecoders.load()
    const wrapped = ownItem('plant', Buffer.from(JSON.stringify({ at: T, temp: 20 })))
    const early = [
      accept('plant/hall/boiler', { at: T, temp: 10 }),
      accept('plant/a', 'hello'),
      accept('/v1/measurements', '', wrapped),
    ]
    await settle('sensors/a/b', 1)
    await settle('telegraf/x', 'weather,sensor=roof temperature=21.5')
    expect(early.map(({ isSettled }) => isSettled)).toEqual([false, false, false])
    knownDecoders.take({ revision: 1, set: [PLANT] })
    await until(() => early.every(({ isSettled }) => isSettled))
    expect(stored(storage)).toContainEqual([BOILER, 'heat', T, 1])
    expect([counts.passed, ingest.inFlight.bytes]).toEqual([1, 0])
    expect(early[2].refusal?.reason).toContain('names a sensor')
  })

  test('the file beside the spool tells, unless it is damaged', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'sandglass-decoders-'))
    const topics = new Topics()
    const make = () => new KnownDecoders({ topics, lineTopic: 'telegraf', directory, logger })
    const before = make()
    await before.load()
    expect(before.isKnown).toBe(false)
    const there = { revision: 4, set: [PLANT] }
    await before.look({ read: async () => there, revision: async () => 4 })
    const after = make()
    topics.own = []
    await after.load()
    expect([after.isKnown, after.size, topics.decoderOf('plant/a/b')?.name]).toEqual([
      ...[true, 1, 'plant'],
    ])
    const path = join(directory, FILE)
    const whole = readFileSync(path)
    for (const damaged of [
      whole.subarray(0, -1),
      Buffer.from(whole.toString().replace('temp', 'tmp')),
      Buffer.from(whole.toString().replace('decoders 1', 'decoders 2')),
      Buffer.alloc(0),
    ]) {
      writeFileSync(path, damaged)
      const unsure = make()
      await unsure.load()
      expect(unsure.isKnown).toBe(false)
    }
    rmSync(directory, { recursive: true })
  })

  test('the file is written until it has them, though the database is away meanwhile', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'sandglass-decoders-'))
    const topics = new Topics()
    let isFull = false
    const disk = {
      ...realDisk,
      /** @type {typeof realDisk.open} */
      async open(path, how) {
        if (isFull) throw new Error('no space left')
        return realDisk.open(path, how)
      },
    }
    /** @type {object[]} */
    const warnings = []
    const warn = (/** @type {object} */ what) => warnings.push(what)
    const parts = { topics, lineTopic: 't', directory, disk, logger: pino({ level: 'silent' }) }
    Object.assign(parts.logger, { warn })
    const known = new KnownDecoders(parts)
    await known.load()
    const away = async () => {
      throw new Error('away')
    }
    const reader = (/** @type {number} */ revision, /** @type {(typeof PLANT)[]} */ set) => ({
      revision: async () => revision,
      read: async () => ({ revision, set }),
    })
    await known.look(reader(1, []))
    isFull = true
    for (let looks = 0; looks < 2; looks++) await known.look(reader(2, [PLANT]))
    expect(known.failures).toBe(2)
    expect(warnings).toMatchObject([{ revision: 2, reason: 'no space left' }])
    isFull = false
    await expect(known.look({ revision: away, read: away })).rejects.toThrow('away')
    const next = new KnownDecoders(parts)
    await next.load()
    expect([next.isKnown, next.named('plant')]).toEqual([true, PLANT])
    rmSync(directory, { recursive: true })
  })

  test('is asked of the database each second, and again after it was away', async () => {
    const known = new KnownDecoders({ topics: new Topics(), lineTopic: 't', logger })
    await known.load()
    let isAway = true
    let revision = 1
    const reader = {
      async revision() {
        if (isAway) throw new Error('away')
        return revision
      },
      async read() {
        if (isAway) throw new Error('away')
        return { revision, set: revision === 1 ? [PLANT] : [] }
      },
    }
    void known.follow(reader)
    await until(() => known.failures > 0)
    isAway = false
    await until(() => known.size === 1)
    revision = 2
    await until(() => known.size === 0)
    known.stop()
  })
})

describe('other doors', () => {
  test('HTTP: a body is one payload for a decoder that is named', async () => {
    const expression = '{"sensor": id, "t": at, "heat": temp}'
    const { pipeline, memory, storage } = build({}, undefined, [{ ...PLANT, expression }])
    const app = buildHttp({
      sink: pipeline,
      registry: createRegistry('x_'),
      health: () => ({ ok: true }),
      stats: () => ({}),
      replay: async () => ({ replayed: 0, refused: [], unknown: [] }),
      bodies: memory.shares.bodies,
      bodyBytesMax: 1e6,
      isLoopback: true,
    })
    const post = (/** @type {string} */ name, /** @type {string} */ payload) =>
      app.inject({
        method: 'POST',
        url: `/v1/measurements?decoder=${name}`,
        payload,
        headers: { host: '127.0.0.1', 'content-type': 'application/octet-stream' },
      })
    const good = await post('plant', JSON.stringify({ id: 'boiler', at: T, temp: 5 }))
    expect([good.statusCode, good.json().stored]).toEqual([200, 1])
    const bad = await post('plant', '{')
    expect(bad.json().refused[0].reason).toContain('decoder plant, version 1: this is not JSON')
    expect((await post('nobody', '{}')).json().refused[0].reason).toContain('no decoder nobody')
    expect((await post('-', '{}')).statusCode).toBe(400)
    expect(stored(storage)).toEqual([[BOILER, 'heat', T, 5]])
    await app.close()
  })

  test('what a broker retained is of no known time', () => {
    const topics = new Topics()
    build({ topicTemplates: topics })
    expect(carriesTime(topics, 'plant/a/b', Buffer.from(JSON.stringify({ at: T })))).toBe(false)
  })

  test('a dead letter is of the sensor that its topic named then', async () => {
    const { settle, storage } = build()
    await settle('plant/hall/boiler', { temp: 'hot' })
    const [{ topic, payload, format }] = letters(storage)
    const letter = /** @type {any} */ ({ topic, payload, format })
    const sensorOf = letterSensors(new Topics())
    expect(await sensorOf(topic, async () => letter)).toBe(BOILER)
  })
})
