// Where a deletion looks, what must be summed up again, and what the spool does not bring back.
import { describe, expect, test } from '@jest/globals'
import { deletionStampUs, ERA_US, ERAS_MAX } from '@sandglass/common/deletion'
import { MemoryShare } from '@sandglass/common/memory-share'
import { bucketAt, layoutAt } from '@sandglass/common/schema'
import { sensorId } from '@sandglass/common/sensor'
import { Topics } from '@sandglass/common/topics'
import { KNOWN_BYTES_MAX, KnownDeletions } from '../src/deletion/known.js'
import { letterSensors } from '../src/deletion/letters.js'
import { nextChunk, partitionsOf, touched } from '../src/deletion/ranges.js'
import { Hearer } from '../src/deletion/worker.js'
import { Message } from '../src/message/message.js'
import { Sensor } from '../src/sensors/series.js'
import { eraStart, Rows } from '../src/write/rows.js'
import { startIngest } from './support/ingest.js'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const T = Date.UTC(2026, 0, 7)

describe('a deletion', () => {
  /** @type {import('@sandglass/common/schema').Layout[]} */
  const layouts = [
    { fromMs: 0, className: '30d', bucketS: 86_400 },
    {
      fromMs: T,
      className: '30d',
      bucketS: 3_600,
      next: { className: 'keep', bucketS: 604_800, generation: 2 },
    },
    { fromMs: T + 5 * HOUR_MS, className: '7d', bucketS: 900, generation: 1 },
  ]

  test('looks wherever a row of its range can lie, and where a rewrite puts it', () => {
    const range = { fromMs: T - 30 * HOUR_MS + 1, toMs: T + 7 * HOUR_MS + 1 }
    const found = partitionsOf(layouts, [], range)
    for (let timeMs = range.fromMs; timeMs < range.toMs; timeMs += 60_007) {
      const layout = layoutAt(layouts, timeMs)
      for (const place of [layout, layout.next]) {
        if (!place) continue
        const bucket = bucketAt(place, timeMs)
        const holding = found.filter(
          (span) =>
            span.className === place.className &&
            span.bucket === bucket &&
            span.fromMs <= timeMs &&
            span.toMs > timeMs,
        )
        expect([timeMs, place.className, holding.length]).toEqual([timeMs, place.className, 1])
      }
    }
    expect(found.every(({ fromMs, toMs }) => fromMs >= range.fromMs && toMs <= range.toMs)).toBe(
      true,
    )
  })

  test('looks where a rewrite has left rows', () => {
    const left = { className: '90d', bucketS: 86_400, generation: 3, fromMs: 0, toMs: Infinity }
    const found = partitionsOf(layouts, [left], { fromMs: T, toMs: T + 1 })
    expect(found.map(({ className }) => className).sort()).toEqual(['30d', '90d', 'keep'])
  })

  test('goes week by week', () => {
    const range = { fromMs: T + 1, toMs: T + 15 * DAY_MS }
    const chunks = []
    for (let { fromMs } = range; ; ) {
      const chunk = nextChunk({ fromMs, toMs: range.toMs })
      if (!chunk) break
      chunks.push(chunk)
      fromMs = chunk.toMs
    }
    expect(chunks.map(({ fromMs }) => fromMs)).toEqual([
      T + 1,
      ...chunks.slice(0, -1).map((one) => one.toMs),
    ])
    expect(chunks.at(-1)?.toMs).toBe(range.toMs)
    expect(chunks).toHaveLength(3)
  })

  test('has whole hours and days deleted, and those summed up again of which something is left', () => {
    expect(touched({ fromMs: T, toMs: T + DAY_MS })).toEqual({
      hours: { fromMs: T, toMs: T + DAY_MS },
      days: { fromMs: T, toMs: T + DAY_MS },
      cutDays: [],
    })
    expect(touched({ fromMs: T - 1, toMs: T + HOUR_MS + 1 })).toEqual({
      hours: { fromMs: T - HOUR_MS, toMs: T + 2 * HOUR_MS },
      days: { fromMs: T - DAY_MS, toMs: T + DAY_MS },
      cutDays: [
        { dayMs: T - DAY_MS, hourMs: T - HOUR_MS },
        { dayMs: T, hourMs: T + HOUR_MS },
      ],
    })
  })
})

describe('eras', () => {
  test('of latest are apart from each other, and fit into a timestamp', () => {
    const last = eraStart(ERAS_MAX).add(eraStart(1)).subtract(1)
    expect(last.isPositive()).toBe(true)
    // The year 2100, in microseconds.
    expect(Date.UTC(2100, 0, 1) * 1000).toBeLessThan(ERA_US)
  })

  test('that begin forget the newest value, and put the next one above its tombstone', () => {
    const sensor = new Sensor(sensorId('s'), 's')
    const series = sensor.seriesOf('m')
    const newest = { timeMs: 5, receivedMs: 6, kind: 1, value: 1, timestampUs: 5_000 }
    series.newest = newest
    const rows = new Rows('k')
    expect(String(rows.latest(series, newest, 1).params.at(-1))).toBe('5000')
    sensor.knowsEras(new Map([['m', 2]]))
    expect(series.newest).toBeUndefined()
    expect(String(rows.latest(series, newest, 1).params.at(-1))).toBe(String(2 * ERA_US + 5_000))
    series.newest = newest
    sensor.knowsEras(new Map([['m', 2]]))
    expect(series.newest).toBe(newest)
    expect(sensor.seriesOf('other').era).toBe(0)
  })
})

describe('a message out of the spool', () => {
  const deletion = {
    sensorId: sensorId('s'),
    id: '',
    askedMs: T + 1_000,
    metrics: ['a'],
    fromMs: T,
    toMs: T + 1,
  }

  /** @param {import('../src/message/message.js').Arrival} arrival  @param {number} receivedMs */
  async function storedOf(arrival, receivedMs) {
    const ingest = await startIngest()
    ingest.storage.deletions = [deletion]
    await new Promise((resolve) => {
      const message = new Message({
        origin: { settled: resolve },
        arrival,
        clientId: 'c',
        topic: 'sensors/s',
        payload: Buffer.from(
          JSON.stringify([
            { t: T, a: 1, b: 2 },
            { t: T + 1, a: 3 },
          ]),
        ),
        receivedMs,
        arrivedMs: 0,
      })
      if (arrival === 'spool') ingest.pipeline.take(message)
      else ingest.pipeline.accept(message)
    })
    const rows = ingest.storage.rowsOf('measurement_30d')
    await ingest.stop()
    return rows.map(({ metric, ts }) => `${metric} ${ts - T}`).sort()
  }

  test('loses what was deleted since it was received, and nothing else', async () => {
    expect(await storedOf('spool', T + 1_000)).toEqual(['a 1', 'b 0'])
    expect(await storedOf('spool', T + 1_001)).toEqual(['a 0', 'a 1', 'b 0'])
    expect(await storedOf('live', T + 1_000)).toEqual(['a 0', 'a 1', 'b 0'])
    expect(await storedOf('replay', T + 1_000)).toEqual(['a 0', 'a 1', 'b 0'])
  })

  test('is received at or before the tombstones', () => {
    expect(deletionStampUs(deletion)).toBeGreaterThanOrEqual(deletion.askedMs * 1000)
    expect(deletionStampUs(deletion)).toBeLessThan((deletion.askedMs + 1) * 1000)
  })
})

describe('a sensor that is deleted', () => {
  const deletion = {
    sensorId: sensorId('s'),
    id: 'd',
    askedMs: T + 1_000,
    metrics: null,
    fromMs: null,
    toMs: null,
    isWhole: true,
  }
  const state = /** @type {any} */ ({ phase: 'look', eras: { m: 1 }, covers: { m: 1 } })

  /**
   * @param {Awaited<ReturnType<typeof startIngest>>} ingest
   * @param {Partial<ConstructorParameters<typeof Message>[0]>} fields
   */
  function settled(ingest, fields) {
    return new Promise((resolve) => {
      const message = new Message({
        origin: { settled: resolve },
        arrival: 'live',
        clientId: 'c',
        topic: 'sensors/s/m',
        payload: Buffer.from('1'),
        receivedMs: T,
        arrivedMs: 0,
        ...fields,
      })
      if (fields.arrival === 'spool') ingest.pipeline.take(message)
      else ingest.pipeline.accept(message)
    })
  }

  test('is registered anew by whoever sends next, with first and last time above the tombstones', async () => {
    const ingest = await startIngest()
    const hearer = new Hearer(ingest.registry, ingest.deletions)
    await settled(ingest, { receivedMs: T })
    hearer.hearAll([{ ...deletion, state: undefined }])
    ingest.storage.stored.clear()
    await settled(ingest, { receivedMs: T + 500 })
    expect(ingest.storage.rowsOf('sensor')).toEqual([])
    hearer.hearAll([{ ...deletion, state }])
    // One of before is hidden by the deletion: the next one registers it, too.
    await settled(ingest, { receivedMs: T + 900 })
    ingest.storage.stored.clear()
    await settled(ingest, { receivedMs: T + 2_000 })
    expect(ingest.storage.rowsOf('sensor').map(({ timestamp }) => timestamp)).toEqual([
      (T + 2_000) * 1000,
    ])
    ingest.storage.stored.clear()
    await settled(ingest, { receivedMs: T + 3_000_000 })
    expect(ingest.storage.rowsOf('sensor')).toEqual([])
    const [series] = ingest.storage.rowsOf('series')
    expect(series.timestamp).toBeGreaterThan(ERA_US)
    await ingest.stop()
  })

  test('has its first and last time written again, in the new era', async () => {
    const ingest = await startIngest()
    const hearer = new Hearer(ingest.registry, ingest.deletions)
    await settled(ingest, { receivedMs: T })
    await settled(ingest, { receivedMs: T + 1 })
    hearer.hearAll([{ ...deletion, state }])
    ingest.storage.stored.clear()
    await settled(ingest, { receivedMs: T + 2_000 })
    const [series] = ingest.storage.rowsOf('series')
    expect(series).toMatchObject({ first_ts: T + 2_000, last_ts: T + 2_000 })
    expect(series.cells.last_ts).toBe(ERA_US + (T + 2_000) * 1000)
    expect(series.cells.first_ts).toBe(ERA_US + Date.UTC(2100, 0, 1) - (T + 2_000))
    await ingest.stop()
  })

  test('leaves no dead letter of what the spool held, and one of what came later', async () => {
    const ingest = await startIngest()
    ingest.storage.deletions = [deletion]
    const spooled = { arrival: /** @type {const} */ ('spool'), payload: Buffer.from('{') }
    await settled(ingest, { ...spooled, receivedMs: deletion.askedMs })
    await settled(ingest, { ...spooled, topic: 'sensors/other/m', receivedMs: T })
    await settled(ingest, { ...spooled, receivedMs: deletion.askedMs + 1 })
    expect(ingest.storage.rowsOf('dead_letter').map(({ topic }) => topic)).toEqual([
      'sensors/other/m',
      'sensors/s/m',
    ])
    await ingest.stop()
  })

  test('is counted no more, once, also where nothing of it is remembered', async () => {
    const ingest = await startIngest()
    ingest.registry.count = 7
    const hearer = new Hearer(ingest.registry, ingest.deletions)
    hearer.hearAll([{ ...deletion, id: 'begun before', state }])
    expect(ingest.registry.count).toBe(7)
    for (let turn = 0; turn < 3; turn++) hearer.hearAll([{ ...deletion, state }])
    expect(ingest.registry.count).toBe(6)
    await ingest.stop()
  })

  test('is known at once when it is heard of, whatever the database said before', async () => {
    const ingest = await startIngest()
    const { deletions } = ingest
    await deletions.learn(deletion.sensorId, () => true)
    expect(deletions.knows(deletion.sensorId)).toBe(true)
    const hearer = new Hearer(ingest.registry, deletions)
    hearer.hearAll([{ ...deletion, state: undefined }])
    expect(deletions.knows(deletion.sensorId)).toBe(false)
    await deletions.learn(deletion.sensorId, () => true)
    hearer.hearAll([{ ...deletion, state }])
    expect(deletions.knows(deletion.sensorId)).toBe(true)
    await ingest.stop()
  })
})

test('what is remembered of deletions is bytes of the budget', async () => {
  const share = new MemoryShare(1e9)
  const metrics = Array.from({ length: 1_000 }, (_, n) => `${n}`.padStart(128, 'm'))
  const one = { sensorId: '', id: '', askedMs: T, metrics, fromMs: null, toMs: null }
  const known = new KnownDeletions({ reader: { deletionsOf: async () => [one, one, one] }, share })
  for (let n = 0; n < 20; n++) await known.learn(`${n}`, () => true)
  expect(share.bytes).toBeLessThanOrEqual(KNOWN_BYTES_MAX)
  expect(share.bytes).toBeGreaterThan(KNOWN_BYTES_MAX / 2)
  expect([known.knows('0'), known.knows('19')]).toEqual([false, true])
  for (let n = 0; n < 20; n++) known.forget(`${n}`)
  expect(share.bytes).toBe(0)
})

describe('a dead letter', () => {
  const sensorOf = letterSensors(new Topics())
  /** @param {string} topic  @param {string} payload  @param {number} [format] */
  const of = (topic, payload, format) =>
    sensorOf(
      topic,
      async () => /** @type {any} */ ({ topic, payload: Buffer.from(payload), format }),
    )

  test('is of the sensor that its topic names, and nobody reads what it says', async () => {
    const never = () => Promise.reject(new Error('it is read'))
    expect(await sensorOf('sensors/s/m', never)).toBe(sensorId('s'))
  })

  test('is of the sensor that its payload names, also where that cannot be decoded', async () => {
    expect(await of('/v1/measurements', '{"sensor":"s","m":1}')).toBe(sensorId('s'))
    expect(await of('/v1/measurements', '{"sensor":"s","t":"no time","v":1}')).toBe(sensorId('s'))
    expect(await of('telegraf/a', 's,sensor=s m=1 1')).toBe(sensorId('s'))
  })

  test('is nobody’s where nothing tells', async () => {
    expect(await of('/v1/measurements', '{')).toBeUndefined()
    expect(await of('/v1/measurements', 'null')).toBeUndefined()
    expect(await of('a/b', '"s"')).toBeUndefined()
  })
})
