import { randomInt } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { KIND } from '@sandglass/common/measurement'
import { sensorId } from '@sandglass/common/sensor'
import { parseTopics } from '@sandglass/common/topics'
import { Message } from '../src/message/message.js'
import { REFUSAL_KINDS } from '../src/message/refusal.js'
import { LATEST_MS_MIN } from '../src/sensors/latest.js'
import { Sensor } from '../src/sensors/series.js'
import { CLUSTER_LIMITS } from '../src/write/batcher.js'
import { COVER_MS, Rows } from '../src/write/rows.js'
import { FakeError } from './support/fake-storage.js'
import { until } from './support/ingest.js'
import { build } from './support/pipeline.js'
import { seeded } from './support/random.js'

const T = Date.UTC(2026, 0, 1)

describe('measurements', () => {
  test('a value becomes a row in the bucket of its time, as of its acceptance', async () => {
    const { settle, storage } = build()
    const { receivedMs } = await settle('sensors/s/m', { t: T + 5, v: 21.5 })
    const [row] = storage.rowsOf('measurement_30d')
    expect(row).toMatchObject({ metric: 'm', ts: T + 5, seq: 0, v: 21.5 })
    expect(String(row.sensor_id)).toBe(sensorId('s'))
    expect(Number(row.bucket)).toBe(T / 1000)
    expect(row.timestamp).toBe(receivedMs * 1000)
    expect(row).not.toHaveProperty('s')
  })

  test('what was received long ago lives shorter by that', async () => {
    const { settle, storage } = build()
    const hourAgoMs = Date.now() - 3_600_000
    const { receivedMs } = await settle('sensors/s/m', '1', { receivedMs: hourAgoMs })
    await settle('sensors/s/n', '1')
    const [late, fresh] = storage.rowsOf('measurement_30d')
    expect(late.timestamp).toBe(receivedMs * 1000)
    expect(late.ttlS).toBeGreaterThan(30 * 86_400 - 3_600 - 10)
    expect(late.ttlS).toBeLessThanOrEqual(30 * 86_400 - 3_600)
    expect(fresh.ttlS).toBeUndefined()
  })

  test.each([
    ['its whole time where our clock is years ahead', 3_650, undefined],
    ['its whole time where it would be over already', 30, undefined],
    ['a day at least', 29.9, 86_400],
    ['what is left of its time otherwise', 28, 2 * 86_400],
  ])('what was received long ago lives %s', (_, daysAgo, ttlS) => {
    const rows = new Rows('k', () => T + daysAgo * 86_400_000)
    /** @type {any} */
    const message = { receivedMs: T, writtenMs: T, pending: 0 }
    const series = new Sensor(sensorId('s'), 's').seriesOf('m')
    const place = { className: '30d', bucketS: 86_400 }
    const what = { timeMs: T, seq: 0, kind: KIND.number, value: 1 }
    const { query, params } = rows.copy(message, series, place, what)
    expect(query.endsWith('AND TTL ?') ? params.at(-1) : undefined).toBe(ttlS)
  })

  test('every kind of value sets its own columns and no other', async () => {
    const { settle, storage } = build()
    await settle('sensors/s', { t: T, n: 1, b: false, s: 'x', at: { lat: 1, lon: 2 } })
    const values = storage.rowsOf('measurement_30d').map(({ metric, v, b, s, lat, lon }) => {
      return [
        metric,
        Object.fromEntries(
          Object.entries({ v, b, s, lat, lon }).filter(([, x]) => x !== undefined),
        ),
      ]
    })
    expect(Object.fromEntries(values)).toEqual({
      n: { v: 1 },
      b: { b: false },
      s: { s: 'x' },
      at: { lat: 1, lon: 2 },
    })
  })

  test('two values of one millisecond are two rows, the same one again is none', async () => {
    const { settle, storage, places } = build()
    for (const v of [1, 2, 1, 3, 2]) await settle('sensors/s/m', { t: T, v })
    const rows = storage.rowsOf('measurement_30d').map(({ seq, v }) => [seq, v])
    expect(rows.sort()).toEqual([0, 1, 2].map((seq) => [seq, seq + 1]))
    expect(places.sameTime).toBe(2)
  })

  test('without a time it is the time of receipt, also for its redelivery', async () => {
    const { settle, storage, counts } = build()
    const receivedMs = Date.now() - 60_000
    await settle('sensors/s/m', '5', { packetId: 9, receivedMs })
    await settle('sensors/s/m', '5', { packetId: 9, dup: true })
    expect(storage.rowsOf('measurement_30d').map(({ ts }) => ts)).toEqual([receivedMs])
    expect(counts.duplicates).toBe(1)

    // Without the DUP flag, with another payload, or too late it is a new measurement.
    await settle('sensors/s/m', '5', { packetId: 9, receivedMs: receivedMs + 1 })
    await settle('sensors/s/m', '6', { packetId: 9, dup: true, receivedMs: receivedMs + 2 })
    const later = { receivedMs: receivedMs + 700_000, arrivedMs: performance.now() + 700_000 }
    await settle('sensors/s/m', '6', { packetId: 9, dup: true, ...later })
    expect(storage.rowsOf('measurement_30d')).toHaveLength(4)
  })

  test.each([
    ['before the year 2000', { t: 915_148_800, v: 1 }, 'time', '1999-01-01T00:00:00.000Z, before'],
    ['too far ahead', { t: Date.now() + 86_500_000, v: 1 }, 'time', '24 hours ahead'],
    ['no JSON', 'on', 'json', 'not JSON'],
  ])('%s: a dead letter that says so', async (_name, payload, kind, reason) => {
    const { settle, storage, counts } = build()
    const { receivedMs } = await settle('sensors/s/m', payload)
    const [row] = storage.rowsOf('dead_letter')
    expect(row).toMatchObject({ topic: 'sensors/s/m', client: 'c', received: receivedMs })
    expect(row.reason).toContain(reason)
    expect(String(row.payload)).toBe(
      typeof payload === 'string' ? payload : JSON.stringify(payload),
    )
    expect(counts.deadLetters).toMatchObject({ [kind]: 1 })
    expect(storage.rowsOf('measurement_30d')).toEqual([])
  })

  test('a sensor has a thousand metrics, and any number of readings of each', async () => {
    const { settle, storage, counts } = build()
    const readings = Array.from({ length: 1_500 }, (_, at) => ({ t: T + at, a: at, b: 1 }))
    await settle('sensors/s', readings)
    expect(storage.rowsOf('measurement_30d')).toHaveLength(3_000)
    const metrics = (/** @type {number} */ n) =>
      Object.fromEntries(Array.from({ length: n }, (_, at) => [`m${at}`, 1]))
    await settle('sensors/s', metrics(998))
    expect(counts.deadLettered).toBe(0)
    await settle('sensors/s', { one: 1, more: 1 })
    await settle('sensors/t', [metrics(1_001)])
    expect(counts.deadLetters).toMatchObject({ value: 2 })
  })

  test('a dead letter keeps at most 64 KiB of the payload', async () => {
    const { settle, storage } = build()
    await settle('sensors/s/m', 'x'.repeat(100_000))
    expect(storage.rowsOf('dead_letter')[0].payload).toHaveLength(64 * 1024)
  })

  test('a layout that begins later holds from its time on', async () => {
    const { settle, storage } = build()
    storage.sensors.set(sensorId('s'), {
      isRegistered: true,
      isHidden: false,
      layouts: [
        { fromMs: 0, className: '30d', bucketS: 86_400 },
        { fromMs: T, className: '7d', bucketS: 3_600 },
      ],
    })
    await settle('sensors/s/m', { t: T - 1, v: 1 })
    await settle('sensors/s/m', { t: T + 3_600_000, v: 2 })
    expect(Number(storage.rowsOf('measurement_30d')[0].bucket)).toBe(T / 1000 - 86_400)
    expect(Number(storage.rowsOf('measurement_7d')[0].bucket)).toBe(T / 1000 + 3_600)
    expect(storage.rowsOf('layout')).toEqual([])
  })

  test('a sensor of which a crash left only the layout is registered all the same', async () => {
    const { settle, storage } = build()
    const layouts = [{ fromMs: 0, className: '7d', bucketS: 3_600 }]
    storage.sensors.set(sensorId('s'), { isRegistered: false, isHidden: false, layouts })
    await settle('sensors/s/m', { t: T, v: 1 })
    expect(storage.rowsOf('sensor')).toMatchObject([{ name: 's' }])
    expect(storage.rowsOf('layout')).toEqual([])
    expect(storage.rowsOf('measurement_7d')).toHaveLength(1)
  })
})

describe('topics that templates describe', () => {
  const topicTemplates = parseTopics(
    'plant/{line}/{unit}/{metric} as {line}.{unit}, meters/{sensor}/{metric...}',
  )

  test('are stored as those of the sensor and metric that they name', async () => {
    const { settle, storage, counts } = build({ topicTemplates })
    await settle('plant/a/press/force', { t: T, v: 5 })
    await settle('plant/a/press/force', { t: T + 1, v: 6 })
    await settle('meters/m1/phase/0/volts', { t: T, v: 230 })
    await settle('meters/m1', { t: T, volts: 231, amps: 2 })
    const rows = storage.rowsOf('measurement_30d')
    const named = rows.map(({ sensor_id: id, metric, v }) => [String(id), metric, v])
    const press = sensorId('a.press')
    const meter = sensorId('m1')
    expect(named).toEqual([
      [press, 'force', 5],
      [press, 'force', 6],
      [meter, 'phase.0.volts', 230],
      [meter, 'volts', 231],
      [meter, 'amps', 2],
    ])
    expect(storage.rowsOf('sensor').map(({ name }) => name)).toEqual(['a.press', 'm1'])
    await settle('plant/a/press', '5')
    expect([counts.received, counts.passed]).toEqual([4, 1])
  })

  test('are dead letters when they name nothing, or come back after the template is gone', async () => {
    const { settle, storage } = build({ topicTemplates })
    await settle('plant//press/force', '5')
    await settle(`plant/a/${'x'.repeat(200)}/force`, '5')
    expect(storage.rowsOf('dead_letter').map(({ topic }) => topic.slice(0, 8))).toEqual([
      'plant/a/',
    ])
    expect(storage.rowsOf('sensor').map(({ name }) => name)).toEqual(['.press'])

    const later = build()
    const { receivedMs } = await settle('plant/a/press/force', '5')
    const message = new Message({
      origin: { settled() {} },
      clientId: 'c',
      session: undefined,
      visit: 0,
      qos: 1,
      topic: 'plant/a/press/force',
      payload: Buffer.from('5'),
      dup: false,
      retain: false,
      packetId: 0,
      receivedMs,
      arrivedMs: 0,
      arrival: 'spool',
    })
    later.counts.spooled = 1
    later.pipeline.take(message)
    await until(() => message.isSettled)
    const [letter] = later.storage.rowsOf('dead_letter')
    expect(letter).toMatchObject({ topic: 'plant/a/press/force', received: receivedMs })
    expect(later.counts.spooled).toBe(0)
  })
})

describe('sensors', () => {
  test('an unknown sensor registers itself before its first message is acknowledged', async () => {
    const { accept, storage, settled, batcher } = build()
    batcher.limits = { ...CLUSTER_LIMITS, rowsMax: 10, bytesMax: 1e6, requestsMax: 100 }
    storage.isManual = true
    accept('sensors/boiler/m', { t: T, v: 1 })
    accept('sensors/boiler/m', { t: T + 1, v: 2 })
    await until(() => storage.requests.length === 6)
    const isRegistration = (/** @type {{ rows: readonly any[] }} */ { rows }) =>
      /\.(sensor|layout|series) /.test(rows[0].query)
    for (const one of storage.requests.filter((request) => !isRegistration(request))) one.end()
    await new Promise((resolve) => setTimeout(resolve, 20))
    expect(settled).toEqual([])
    for (const one of storage.requests.filter(isRegistration)) one.end()
    await until(() => settled.length === 2)
    expect(storage.rowsOf('sensor')[0]).toMatchObject({ name: 'boiler' })
    expect(storage.rowsOf('layout')[0]).toMatchObject({
      from_ts: 0,
      class: '30d',
      bucket_s: 86_400,
    })
  })

  test('beyond the limit of sensors, messages of new ones are dead letters', async () => {
    const { settle, storage, counts } = build({ sensorsMax: 2 })
    for (const name of ['a', 'b', 'c', 'a']) await settle(`sensors/${name}/m`, '1')
    expect(storage.rowsOf('sensor').map(({ name }) => name)).toEqual(['a', 'b'])
    expect(counts.deadLetters.sensors).toBe(1)
  })

  test('a deleted sensor stores nothing', async () => {
    const { settle, storage, counts } = build()
    storage.sensors.set(sensorId('s'), {
      isRegistered: true,
      isHidden: true,
      layouts: [{ fromMs: 0, className: '30d', bucketS: 86_400 }],
    })
    await settle('sensors/s/m', '1')
    expect(counts.deadLetters.hidden).toBe(1)
    expect(storage.rowsOf('measurement_30d')).toEqual([])
  })

  test('first and last time of a series cover every measurement, with few writes', async () => {
    const { settle, storage, counts } = build()
    for (let n = 0; n < 100; n++) {
      const t = T + (n % 2 === 0 ? n : -n) * 30_000
      await settle('sensors/s/m', { t, v: n })
      const [{ first_ts, last_ts }] = storage.rowsOf('series')
      expect(t).toBeGreaterThanOrEqual(first_ts - COVER_MS)
      expect(t).toBeLessThanOrEqual(last_ts + COVER_MS)
    }
    expect(counts.rows).toBeLessThan(120)
  })
})

describe('latest', () => {
  test('the newest by event time wins, whatever arrives last', async () => {
    const { settle, storage, measurements } = build()
    const times = [5, 9, 7]
    for (const [at, t] of times.entries()) await settle('sensors/s/m', { t: T + t, v: at + 1 })
    await new Promise((resolve) => setTimeout(resolve, LATEST_MS_MIN + 20))
    measurements.writeLatest()
    await until(() => storage.rowsOf('latest')[0].v === 2)
    expect(storage.rowsOf('latest')).toHaveLength(1)
    expect(storage.rowsOf('latest')[0]).toMatchObject({ ts: T + 9, kind: 1 })
  })

  test('a clock that was ahead does not pin it', async () => {
    const { settle, storage, measurements } = build()
    await settle('sensors/s/m', { t: Date.now() + 3_600_000, v: 1 })
    await new Promise((resolve) => setTimeout(resolve, 5))
    await settle('sensors/s/m', { t: Date.now(), v: 2 })
    await measurements.finishLatest(1_000)
    expect(storage.rowsOf('latest')[0].v).toBe(2)
  })
})

describe('refusals of the database', () => {
  test('a row that it never takes is a dead letter; those it came with are stored', async () => {
    const { accept, settled, storage, counts } = build()
    await until(() => true)
    storage.refuses = ({ query, params }) => query.includes('measurement') && params.includes(13)
    for (let v = 0; v < 40; v++) accept('sensors/s/m', { t: T + v, v })
    await until(() => settled.length === 40)
    expect(counts.storedMessages).toBe(39)
    expect(storage.rowsOf('measurement_30d')).toHaveLength(39)
    expect(storage.rowsOf('dead_letter')[0].reason).toContain('database')
  })

  test('an outage is waited for, and every row written as of its first acceptance', async () => {
    const { accept, settled, storage, counts } = build()
    storage.isDown = true
    const messages = [1, 2, 3].map((v) => accept('sensors/s/m', { t: T + v, v }))
    await new Promise((resolve) => setTimeout(resolve, 400))
    expect(settled).toEqual([])
    storage.isDown = false
    await until(() => settled.length === 3)
    const rows = storage.rowsOf('measurement_30d').sort((a, b) => a.v - b.v)
    expect(rows.map(({ timestamp }) => timestamp)).toEqual(
      messages.map(({ receivedMs }) => receivedMs * 1000),
    )
    expect(counts.storedMessages).toBe(3)
  })
})

test.each([
  ['without a spool', 0],
  ['with a spool', 2 ** 30],
  ['with a spool that is often full', 2 ** 20],
])(
  'each message is in one place in any history, %s',
  async (_, spoolBytesMax) => {
    const seed = Number(process.env.SEED ?? randomInt(2 ** 31))
    const random = seeded(seed)
    const spoolDir = mkdtempSync(join(tmpdir(), 'sandglass-pipeline-'))
    const limits = { qos0BytesMax: 3_000, sensorsMax: 5, spoolBytesMax, spoolDir, spoolAfterMs: 1 }
    const { accept, storage, settled, counts, inFlight, spool, diversion, drain } = build(limits)
    await spool?.open()
    void drain?.run()
    storage.isManual = true
    storage.refuses = ({ params }) => params.includes('refused')
    /** @param {unknown[]} choices */
    const pick = (choices) => choices[Math.floor(random() * choices.length)]
    let unsettled = 0
    const check = (/** @type {number} */ step) => {
      const kept = counts.storedMessages + counts.deadLettered + counts.spooled
      if (kept + inFlight.count + counts.droppedQos0 !== counts.received)
        throw new Error(`seed ${seed}, step ${step}: ${JSON.stringify(counts)}`)
    }
    for (let step = 0; step < 3_000; step++) {
      const topic = `sensors/s${Math.floor(random() * 7)}${pick(['', '/m', '/m', '//'])}`
      const v = pick([1, true, 'x', 'refused', null, { lat: 1, lon: 2 }])
      const payload = pick([
        v,
        { t: T + Math.floor(random() * 50), v },
        { a: v, m: 2 },
        'poison',
        [v, v],
        [v, 7, []],
      ])
      if (random() < 0.6) accept(topic, payload, { qos: /** @type {0 | 1} */ (pick([0, 1])) })
      else {
        const [request] = storage.requests.splice(Math.floor(random() * storage.requests.length), 1)
        request?.end(random() < 0.1 ? new FakeError(random() < 0.5 ? 'retry' : 'split') : undefined)
      }
      if (random() < 0.2) await new Promise((resolve) => setImmediate(resolve))
      if (random() < 0.05) diversion?.look(inFlight, performance.now())
      if (random() < 0.05) diversion?.wrote(0)
      check(step)
    }
    storage.isManual = false
    await until(() => {
      for (const request of storage.requests.splice(0)) request.end()
      check(-1)
      return inFlight.count === 0 && counts.spooled === 0
    })
    unsettled = counts.received - settled.length
    expect({ seed, unsettled }).toEqual({ seed, unsettled: 0 })
    expect({ seed, bytes: inFlight.bytes, spoolBytes: spool?.bytes ?? 0 }).toEqual({
      seed,
      bytes: 0,
      spoolBytes: 0,
    })
    await spool?.close()
    rmSync(spoolDir, { recursive: true })
    const partial = counts.partialMessages.get(0) ?? 0
    expect(partial).toBeGreaterThan(0)
    expect(storage.rowsOf('dead_letter')).toHaveLength(counts.deadLettered + partial)
    expect(REFUSAL_KINDS.filter((kind) => counts.deadLetters[kind] > 0)).toEqual(
      expect.arrayContaining(['topic', 'json', 'value', 'sensors', 'database']),
    )
  },
  40_000,
)

test('names that only poison came from are not remembered', async () => {
  const { settle, registry } = build()
  for (let n = 0; n < 5; n++) await settle(`sensors/stranger-${n}/m`, 'poison')
  expect([...registry.all()]).toEqual([])
})
