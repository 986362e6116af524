// The unit that a device tells of a metric: stored when it changes, whatever is restarted, spooled
// or replayed meanwhile, and whoever else receives messages of the same sensor.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { FORMAT } from '@sandglass/common/bodies'
import { senmlJson } from '@sandglass/common/formats/senml-json'
import { writePayload } from '@sandglass/common/formats/sparkplug/write'
import { sensorId } from '@sandglass/common/sensor'
import { parseTopics } from '@sandglass/common/topics'
import { replay } from '../src/http/replay.js'
import { openSpool } from '../src/ingest.js'
import { Rights } from '../src/message/rights.js'
import { FakeStorage } from './support/fake-storage.js'
import { until } from './support/ingest.js'
import { build } from './support/pipeline.js'

const T = Date.UTC(2026, 0, 1)
const TOPICS = { topicTemplates: parseTopics('senml/{sensor} in senml-json') }

/** @param {string} unit  @param {number} [v] */
const pack = (unit, v = 1) => [{ n: 'a', u: unit, v, t: T / 1000 + v }]

/** @type {FakeStorage} */
let storage
/** How many rows of units were written. */
let written = 0

beforeEach(() => {
  storage = new FakeStorage()
  written = 0
  const keep = storage.keep.bind(storage)
  storage.keep = (row) => {
    if (row.query.includes('told_unit')) written++
    keep(row)
  }
})

/** What the database has, by sensor and metric. */
const units = () =>
  storage
    .rowsOf('series')
    .filter((row) => 'told_unit' in row)
    .map((row) => [String(row.sensor_id), row.metric, row.told_unit])

/** @param {string} unit  @returns {any} */
const ofS = (unit) => [[sensorId('s'), 'a', unit]]

/** @param {Partial<import('../src/ingest.js').IngestLimits>} [more] */
const start = (more = {}) => build({ ...TOPICS, ...more }, storage)

describe('a unit that a device tells', () => {
  test('is stored with its first message, and again only when it changes', async () => {
    const { settle } = start()
    for (let v = 0; v < 10; v++) await settle('senml/s', pack('Cel', v))
    expect([units(), written]).toEqual([ofS('Cel'), 1])
    await settle('senml/s', pack('K', 11))
    await settle('senml/s', pack('K', 12))
    expect([units(), written]).toEqual([ofS('K'), 2])
  })

  test('is not written again after a restart', async () => {
    await start().settle('senml/s', pack('Cel'))
    const later = start()
    await later.settle('senml/s', pack('Cel', 2))
    expect(written).toBe(1)
    await later.settle('senml/s', pack('K', 3))
    expect([units(), written]).toEqual([ofS('K'), 2])
  })

  test('is durable before its message is acknowledged, and before those that tell the same', async () => {
    const { accept, settle } = start()
    // So that rows of the sensor itself hold nothing back.
    await settle('senml/s', [{ n: 'a', v: 0, t: T / 1000 }])
    storage.isManual = true
    /** @type {any[]} */
    const held = []
    const isUnit = (/** @type {any} */ { rows }) =>
      rows.some((/** @type {any} */ { query }) => query.includes('told_unit'))
    const endOthers = () => {
      for (const request of storage.requests.splice(0)) {
        if (isUnit(request)) held.push(request)
        else request.end()
      }
    }
    const first = accept('senml/s', pack('Cel', 1))
    await until(() => {
      endOthers()
      return held.length > 0
    })
    const second = accept('senml/s', pack('Cel', 2))
    const isStored = () => storage.rowsOf('measurement_30d').some(({ v }) => v === 2)
    await until(() => {
      endOthers()
      return isStored()
    })
    for (let turn = 0; turn < 10; turn++) {
      endOthers()
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    expect([first.isSettled, second.isSettled, held.length]).toEqual([false, false, 1])
    for (const request of held) request.end()
    await until(() => {
      endOthers()
      return first.isSettled && second.isSettled
    })
    expect([units(), written]).toEqual([ofS('Cel'), 1])
  })

  test('is of the metrics that were stored alone', async () => {
    const { settle } = start()
    const bad = { n: 'b', u: 'V', v: 1, t: T / 1000, vs: 'x' }
    await settle('senml/s', [...pack('Cel'), bad])
    expect(units()).toEqual(ofS('Cel'))
    storage.sensors.set(sensorId('gone'), { isRegistered: true, isHidden: true, layouts: [] })
    await settle('senml/gone', pack('Cel'))
    await settle('senml/other', pack('Cel'), { rights: new Rights('one', sensorId('own')) })
    expect(units()).toEqual(ofS('Cel'))
  })

  test('that another process stored is heard of, so that a change back is stored', async () => {
    let nowMs = T
    const one = start()
    const other = start()
    const send = async (/** @type {typeof one} */ ingest, /** @type {string} */ unit) => {
      nowMs += 10
      await ingest.settle('senml/s', pack(unit, nowMs - T), { receivedMs: nowMs })
    }
    await send(one, 'Cel')
    await send(other, 'K')
    expect(units()).toEqual(ofS('K'))
    // What `one` believes is a minute old at most.
    one.registry.ask(one.registry.sensor('s'))
    await until(() => one.registry.sensor('s').units.get('a')?.unit === 'K')
    await send(one, 'Cel')
    expect(units()).toEqual(ofS('Cel'))
  })

  test('an hour ago does not take the place of what was told since', async () => {
    const { settle } = start()
    const nowMs = Date.now()
    await settle('senml/s', pack('K', 1), { receivedMs: nowMs })
    await settle('senml/s', pack('Cel', 2), { receivedMs: nowMs - 3_600_000 })
    await settle('senml/s', pack('K', 3), { receivedMs: nowMs + 1 })
    expect([units(), written]).toEqual([ofS('K'), 1])
  })

  test('comes by HTTP as by MQTT', async () => {
    const { settle } = start()
    const payload = JSON.stringify([{ bn: 's/', n: 'a', u: 'Cel', v: 1 }])
    await settle('/v1/measurements', payload, { format: senmlJson.number })
    expect(units()).toEqual(ofS('Cel'))
    await settle('/v1/measurements', '{"sensor":"s","a":2}', { format: FORMAT.object })
    expect(written).toBe(1)
  })

  test('comes with the birth of an edge node, and its data tell no other', async () => {
    const topic = 'spBv1.0/{group}/{type}/{node}[/{device}] in sparkplug-b'
    const { settle } = start({ topicTemplates: parseTopics(topic) })
    const send = async (/** @type {string} */ type, /** @type {number} */ seq, metric = {}) => {
      const one = { name: 'a', alias: 1, datatype: 10, double: seq, ...metric }
      const payload = writePayload({ timeMs: T + seq, seq, metrics: [one] })
      await settle(`spBv1.0/g/${type}/n`, '', { payload, qos: 0 })
    }
    await send('NBIRTH', 0, { unit: 'Cel' })
    await send('NDATA', 1)
    await send('NDATA', 2)
    expect([units(), written]).toEqual([[[sensorId('g∕n'), 'a', 'Cel']], 1])
  })

  test('is told again by a dead letter that is replayed', async () => {
    const first = start()
    storage.refuses = ({ query }) => query.includes('measurement')
    await first.settle('senml/s', pack('Cel'))
    storage.refuses = () => false
    const letters = storage.rowsOf('dead_letter').map(({ id }) => String(id))
    expect(letters).toHaveLength(1)
    // The unit alone was stored: it is told of a metric without values, and harms nobody.
    const later = start()
    const accept = (/** @type {any} */ message) => later.pipeline.accept(message)
    expect(await replay(letters, { ...later, reader: storage, accept })).toMatchObject({
      replayed: 1,
    })
    expect(units()).toEqual(ofS('Cel'))
  })
})

describe('a unit in the spool', () => {
  /** @type {string} */
  let spoolDir
  beforeEach(() => {
    spoolDir = mkdtempSync(join(tmpdir(), 'sandglass-units-'))
  })
  afterEach(() => rmSync(spoolDir, { recursive: true }))

  test('is stored when its message comes out of it, after a restart, too', async () => {
    const limits = { spoolDir, spoolBytesMax: 2 ** 20, spoolAfterMs: 1 }
    storage.isDown = true
    const first = start(limits)
    await first.spool?.open()
    const messages = [pack('Cel', 1), pack('K', 2)].map((one, at) =>
      first.accept('senml/s', one, { receivedMs: T + at }),
    )
    await until(() => {
      first.diversion?.look(first.inFlight, performance.now())
      return messages.every((message) => message.isSettled)
    })
    await first.spool?.close()
    expect(units()).toEqual([])
    storage.isDown = false
    const next = start(limits)
    if (next.spool) await openSpool(next.spool, next.counts)
    void next.drain?.run()
    await until(() => next.counts.spooled === 0)
    expect(units()).toEqual(ofS('K'))
    await next.spool?.close()
  })

  test('is not taken for stored when its message was spooled while the row was on its way', async () => {
    const limits = { spoolDir, spoolBytesMax: 2 ** 20, spoolAfterMs: 1 }
    const ingest = start(limits)
    await ingest.spool?.open()
    await ingest.settle('senml/s', [{ n: 'b', v: 1 }])
    storage.isDown = true
    const message = ingest.accept('senml/s', pack('Cel'))
    await until(() => {
      ingest.diversion?.look(ingest.inFlight, performance.now())
      return message.isSettled
    })
    expect([units(), ingest.counts.spooled]).toEqual([[], 1])
    storage.isDown = false
    ingest.writer.wake()
    void ingest.drain?.run()
    await until(() => ingest.counts.spooled === 0 && storage.rowsOf('measurement_30d').length === 2)
    expect(units()).toEqual(ofS('Cel'))
    await ingest.spool?.close()
  })
})
