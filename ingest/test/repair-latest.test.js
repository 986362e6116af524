import { jest } from '@jest/globals'
import cassandra from 'cassandra-driver'
import pino from 'pino'
import { repairLatest } from '../src/sensors/repair-latest.js'
import { Rows } from '../src/write/rows.js'
import { Storage } from '../src/write/storage.js'

const { Long, Uuid } = cassandra.types
const ID = Uuid.fromString('0d1b3c5e-0000-4000-8000-000000000001')
const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const NOW = Date.UTC(2026, 0, 10, 12, 30)
const none = { v: null, i: null, b: null, s: null, lat: null, lon: null }

/** @typedef {import('@sandglass/common/schema').Layout} Layout */
/** @typedef {{ timeMs: number, v: number, receivedMs?: number, seq?: number }} Raw */

/** @type {Layout[]} */
const HOURLY = [{ fromMs: 0, className: '7d', bucketS: 3_600 }]

/**
 * The database of one series, as the driver would answer.
 *
 * @param {{ raw: Raw[], lastMs: number, layouts?: Layout[],
 *   latest?: { ts: number, received: number } }} content
 */
function storageOf({ raw, lastMs, layouts = HOURLY, latest }) {
  /** @param {string} query  @param {any[]} params */
  const answer = (query, params) => {
    if (query.includes('k.series')) {
      return [{ sensor_id: ID, metric: 'm', last_ts: new Date(lastMs) }]
    }
    if (query.includes('k.layout')) {
      return layouts.map(({ fromMs, className, bucketS }) => ({
        from_ts: new Date(fromMs),
        class: className,
        bucket_s: bucketS,
      }))
    }
    if (query.includes('k.latest')) {
      const shown = latest && { ts: new Date(latest.ts), received: new Date(latest.received) }
      return shown ? [{ metric: 'm', ...shown }] : []
    }
    const [, bucket, , fromMs, toMs] = params
    const isHere = (/** @type {Raw} */ { timeMs }) => {
      const layout = /** @type {Layout} */ (layouts.findLast((one) => one.fromMs <= timeMs))
      const itsBucket = Math.floor(timeMs / 1000 / layout.bucketS) * layout.bucketS
      return query.includes(`measurement_${layout.className}\n`) && itsBucket === bucket
    }
    return raw
      .filter((row) => isHere(row) && row.timeMs >= fromMs && row.timeMs < toMs)
      .sort((a, b) => b.timeMs - a.timeMs || (b.seq ?? 0) - (a.seq ?? 0))
      .slice(0, Number(/LIMIT (\d+)/.exec(query)?.[1]))
      .map(({ timeMs, v, receivedMs = timeMs, seq = 0 }) => ({
        ...none,
        ts: new Date(timeMs),
        seq: Long.fromNumber(seq),
        v,
        wv: String(receivedMs * 1000),
      }))
  }
  const client = {
    execute: async (/** @type {string} */ query, /** @type {any[]} */ params) => ({
      rows: answer(query, params),
    }),
  }
  return new Storage(/** @type {any} */ ({ keyspace: 'k', isUp: true, client }))
}

/** What is written to `latest`. @param {Parameters<typeof storageOf>[0]} content */
async function repair(content) {
  const storage = storageOf(content)
  const write = jest.fn()
  const logger = pino({ level: 'silent' })
  await repairLatest({ storage, rows: new Rows('k'), logger, keyspace: 'k', write })
  return write.mock.calls.map(([row]) => {
    const { params } = /** @type {any} */ (row)
    return { t: params[2], received: params[4], v: params[5], timestamp: Number(params[6]) }
  })
}

test('a newest raw row that latest does not have is written there as it would have been', async () => {
  const row = { timeMs: NOW - 60_000, v: 5, receivedMs: NOW - 59_000, seq: 2 }
  const repaired = {
    t: row.timeMs,
    received: row.receivedMs,
    v: 5,
    timestamp: row.timeMs * 1000 + 2,
  }
  const shown = { ts: row.timeMs - 1, received: NOW }
  for (const latest of [undefined, shown]) {
    expect(await repair({ raw: [row], lastMs: row.timeMs, latest })).toEqual([repaired])
  }
})

test('where latest is up to date or newer nothing is written', async () => {
  const raw = [{ timeMs: NOW - 60_000, v: 5 }]
  for (const ts of [NOW - 60_000, NOW]) {
    const latest = { ts, received: ts + 5 }
    expect(await repair({ raw, lastMs: NOW - 60_000, latest })).toEqual([])
  }
})

test('a series that has been silent for long is repaired, too', async () => {
  const timeMs = NOW - 400 * DAY_MS
  const raw = [{ timeMs, v: 5, receivedMs: NOW }]
  expect(await repair({ raw, lastMs: timeMs })).toMatchObject([{ t: timeMs, v: 5 }])
})

test('where the last time was stored and its row was not, the row before is found', async () => {
  const raw = [{ timeMs: NOW - 3 * HOUR_MS, v: 4 }]
  expect(await repair({ raw, lastMs: NOW })).toMatchObject([{ v: 4 }])
})

test('an event that was ahead of our clock does not push out one that came later', async () => {
  const raw = [
    { timeMs: NOW - 60_000, v: 1, receivedMs: NOW - 60_000 },
    { timeMs: NOW + 20 * 60_000, v: 9, receivedMs: NOW - 50_000 },
    { timeMs: NOW - 10_000, v: 2, receivedMs: NOW - 10_000 },
  ]
  const lastMs = NOW + 20 * 60_000
  expect(await repair({ raw, lastMs })).toMatchObject([{ v: 2 }])
  const latest = { ts: NOW - 10_000, received: NOW - 10_000 }
  expect(await repair({ raw, lastMs, latest })).toEqual([])
  // What was ahead is the newest while nothing came after it.
  const repaired = [{ v: 9, timestamp: (NOW - 50_000) * 1000 }]
  expect(await repair({ raw: raw.slice(0, 2), lastMs })).toMatchObject(repaired)
})

describe('where a layout has just begun to hold', () => {
  const fromMs = Date.UTC(2026, 0, 10, 12)
  const wider = [
    { fromMs: 0, className: '30d', bucketS: 3_600 },
    { fromMs, className: '30d', bucketS: 86_400 },
  ]
  const other = [
    { fromMs: 0, className: '30d', bucketS: 86_400 },
    { fromMs, className: '7d', bucketS: 21_600 },
  ]

  test.each([
    ['wider buckets', wider],
    ['another class', other],
  ])('the newest row is found on either side: %s', async (_name, layouts) => {
    // With wider buckets the first row is in the partition that the last one is looked for in.
    const old = { timeMs: Date.UTC(2026, 0, 10, 0, 30), v: 1 }
    const before = { timeMs: fromMs - 60_000, v: 2 }
    const after = { timeMs: fromMs + 60_000, v: 3 }
    const lastMs = before.timeMs
    expect(await repair({ raw: [old, before], lastMs, layouts })).toMatchObject([{ v: 2 }])
    expect(await repair({ raw: [old, before, after], lastMs, layouts })).toMatchObject([{ v: 3 }])
  })
})
