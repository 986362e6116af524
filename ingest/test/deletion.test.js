// Where a deletion looks, what must be summed up again, and what the spool does not bring back.
import { describe, expect, test } from '@jest/globals'
import { deletionStampUs, ERA_US, ERAS_MAX } from '@sandglass/common/deletion'
import { bucketAt, layoutAt } from '@sandglass/common/schema'
import { sensorId } from '@sandglass/common/sensor'
import { nextChunk, partitionsOf, touched } from '../src/deletion/ranges.js'
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
