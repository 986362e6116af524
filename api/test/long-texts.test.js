/** Texts of 64 KiB, and thousands of values of one millisecond: what is held stays small. */

import { setTimeout as delay } from 'node:timers/promises'
import { describe, expect, test } from '@jest/globals'
import { Semaphore } from '@sandglass/common/semaphore'
import { sensorId } from '@sandglass/common/sensor'
import { exported, FORMATS } from '../src/export.js'
import { LATEST_MS, LiveHub } from '../src/live.js'
import { MeasurementReader, PAGE_BYTES_MAX } from '../src/measurements.js'
import { rowBytes } from '../src/merge.js'
import { createFakeStore } from './support/fake-store.js'
import { appOver } from './support/inject.js'

/** @typedef {import('../src/merge.js').Row} Row */

const ID = sensorId('s')
const MIB = 2 ** 20
const { signal } = new AbortController()

/** @param {Row[]} rows */
const bytesOf = (rows) => rows.reduce((sum, row) => sum + rowBytes(row), 0)

/** @param {Row} row */
const keyOf = ({ metric, t, seq }) => `${metric} ${t} ${seq}`

/**
 * A store that ends an answer with about a mebibyte, as the engine does, and counts what is read.
 *
 * @param {Row[]} rows
 */
function countedStore(rows) {
  const store = createFakeStore({ rows })
  const counts = { queries: 0, rows: 0, bytes: 0 }
  return {
    counts,
    store: {
      ...store,
      /** @type {import('../src/store.js').Store['rows']} */
      async rows(...query) {
        const answer = await store.rows(...query)
        let bytes = 0
        const first = answer.rows.findIndex((row) => {
          bytes += rowBytes(row)
          return bytes >= MIB
        })
        const some = first < 0 ? answer.rows : answer.rows.slice(0, first + 1)
        counts.queries += 1
        counts.rows += some.length
        counts.bytes += bytesOf(some)
        return { rows: some, isAll: answer.isAll && some.length === answer.rows.length }
      },
    },
  }
}

/** @param {number} series  @param {number} texts  @param {number} [fromMs] */
function longTexts(series, texts, fromMs = 1_000) {
  const text = 'ä'.repeat(32_768)
  return Array.from({ length: series * texts }, (_, at) => {
    const t = fromMs + Math.floor(at / series)
    return { metric: `m${String(at % series).padStart(3, '0')}`, t, seq: 0, value: text }
  })
}

/**
 * @param {MeasurementReader} reader
 * @param {'asc' | 'desc'} order
 * @param {number} limit
 */
async function pagesOf(reader, order, limit) {
  /** @type {Row[][]} */
  const pages = []
  /** @type {import('../src/measurements.js').Position | undefined} */
  let after
  do {
    const question = { sensorId: ID, metrics: undefined, fromMs: undefined, toMs: undefined, order }
    const page = await reader.read(question, { after, limit, signal })
    pages.push(page.rows)
    after = page.next
  } while (after)
  return pages
}

describe('a page of long texts', () => {
  test.each(/** @type {const} */ (['asc', 'desc']))(
    'ends with what it may hold, and the next one goes on (%s)',
    async (order) => {
      const rows = longTexts(3, 200)
      const { store, counts } = countedStore(rows)
      const reader = new MeasurementReader({ store, gate: new Semaphore(8), now: () => 5_000 })
      const pages = await pagesOf(reader, order, 10_000)
      expect(pages.flat().map(keyOf).sort()).toEqual(rows.map(keyOf).sort())
      for (const page of pages) expect(bytesOf(page)).toBeLessThanOrEqual(PAGE_BYTES_MAX)
      expect(pages.length).toBeLessThan(2 + (1.1 * bytesOf(rows)) / PAGE_BYTES_MAX)
      expect(counts.bytes).toBeLessThan(3 * bytesOf(rows))
    },
  )

  test('holds a row that is longer than it may be', async () => {
    const value = 'x'.repeat(3 * MIB)
    const rows = [1, 2].map((t) => ({ metric: 'a', t, seq: 0, value }))
    const reader = new MeasurementReader({
      store: createFakeStore({ rows }),
      gate: new Semaphore(8),
      now: () => 5_000,
    })
    const pages = await pagesOf(reader, 'asc', 10)
    expect(pages.map(({ length }) => length)).toEqual([1, 1])
  })

  test('reads little more of many series than it holds', async () => {
    const { store, counts } = countedStore(longTexts(200, 20))
    const reader = new MeasurementReader({ store, gate: new Semaphore(8), now: () => 5_000 })
    const question = { sensorId: ID, metrics: undefined, fromMs: undefined, toMs: undefined }
    const page = await reader.read({ ...question, order: 'asc' }, { limit: 10_000, signal })
    expect(page.rows.length).toBeGreaterThan(50)
    // Two rows of each series have to be known, and eight answers were on their way.
    expect(counts.bytes).toBeLessThan(PAGE_BYTES_MAX + 8 * MIB + 2 * bytesOf(longTexts(200, 1)))
  })

  test('an export reads what it writes, some of it twice at most', async () => {
    const rows = longTexts(1, 300)
    const { store, counts } = countedStore(rows)
    const reader = new MeasurementReader({ store, gate: new Semaphore(8), now: () => 5_000 })
    const question = { metrics: undefined, fromMs: undefined, toMs: undefined }
    const sensors = [{ id: ID, name: 's' }]
    let written = 0
    for await (const text of exported({ format: FORMATS.csv, sensors, reader, question, signal })) {
      expect(text.length).toBeLessThan(PAGE_BYTES_MAX)
      written += text.length
    }
    expect(written).toBeGreaterThan(300 * 32_768)
    expect(counts.bytes).toBeLessThan(2 * bytesOf(rows))
  })
})

describe('many values of one millisecond', () => {
  test.each(/** @type {const} */ (['asc', 'desc']))(
    'are read about once, whatever a page holds (%s)',
    async (order) => {
      const rows = Array.from({ length: 5_000 }, (_, seq) => ({ metric: 'a', t: 7, seq, value: 1 }))
      rows.push({ metric: 'a', t: 6, seq: 0, value: 1 }, { metric: 'a', t: 8, seq: 0, value: 1 })
      for (const limit of [40, 1_000]) {
        const { store, counts } = countedStore(rows)
        const reader = new MeasurementReader({ store, gate: new Semaphore(8), now: () => 5_000 })
        const pages = await pagesOf(reader, order, limit)
        expect(pages.flat().map(keyOf).sort()).toEqual(rows.map(keyOf).sort())
        expect(counts.rows).toBeLessThan(3.2 * rows.length)
        expect(counts.queries).toBeLessThanOrEqual(4 * pages.length)
      }
    },
  )
})

describe('the newest values of many sensors', () => {
  /** Each has `parts` texts of a mebibyte. @param {number} sensors  @param {number} parts */
  async function appWith(sensors, parts) {
    const store = createFakeStore()
    /** @type {(string[] | undefined)[]} */
    const asked = []
    store.latestPart = async (id, metrics, from = '0') => {
      asked.push(metrics)
      if (id === ID) return { rows: [], next: undefined }
      const row = { metric: `m${from}`, t: 1, value: 'x'.repeat(MIB), receivedMs: 1 }
      const next = Number(from) + 1 < parts ? String(Number(from) + 1) : undefined
      return { rows: [row], next }
    }
    const app = await appOver(store)
    for (let at = 0; at < sensors; at += 1) {
      const payload = { name: `t${at}` }
      await app.inject({ method: 'POST', url: '/v1/sensors', headers: HOST, payload })
    }
    return { app, asked }
  }

  const HOST = { host: '127.0.0.1:8080' }

  test.each(['asc', 'desc'])(
    'are pages of whole sensors, with 4 MiB or the last (%s)',
    async (order) => {
      const { app } = await appWith(40, 3)
      /** @type {string[]} */
      const items = []
      let url = `/v1/latest?limit=1000&order=${order}`
      for (let cursor = ''; cursor !== null; url = `/v1/latest?limit=1000&cursor=${cursor}`) {
        const answer = await app.inject({ url, headers: HOST })
        expect(answer.statusCode).toBe(200)
        expect(answer.body.length).toBeLessThan(7 * MIB)
        const page = answer.json()
        items.push(...page.items.map((/** @type {any} */ one) => `${one.sensor} ${one.metric}`))
        cursor = page.next
      }
      const numbers = Array.from({ length: 40 }, (_, at) => at)
      if (order === 'desc') numbers.reverse()
      expect(items).toEqual(numbers.flatMap((at) => [0, 1, 2].map((part) => `t${at} m${part}`)))
      await app.close()
    },
  )

  test('are asked for by metric where that is given', async () => {
    const { app, asked } = await appWith(1, 1)
    await app.inject({ url: '/v1/latest?metric=a&metric=b', headers: HOST })
    await app.inject({ url: '/v1/sensors/t0/latest?metric=a&metric=b', headers: HOST })
    expect(asked).toEqual(Array.from({ length: 3 }, () => ['a', 'b']))
    await app.close()
  })
})

describe('live values', () => {
  test('that are long are all told once, by turns that each read little', async () => {
    const rows = longTexts(20, 20, Date.now() - 2_000)
    const { store, counts } = countedStore(rows)
    /** @type {number[]} */
    const turns = []
    const { layouts } = store
    store.layouts = async (id) => {
      turns.push(counts.bytes)
      return layouts(id)
    }
    /** @type {string[]} */
    const told = []
    const hub = new LiveHub({ store, gate: new Semaphore(4) })
    const stop = hub.watch(ID, undefined, (some) => told.push(...some.map(keyOf)))
    while (told.length < rows.length) await delay(20)
    stop()
    turns.push(counts.bytes)
    expect([...told].sort()).toEqual(rows.map(keyOf).sort())
    const most = Math.max(...turns.map((bytes, at) => bytes - (turns[at - 1] ?? 0)))
    expect(most).toBeLessThan(8 * MIB + 5 * (MIB + rowBytes(rows[0])))
  })

  test('of an old clock are told, too, beside texts that take whole turns', async () => {
    const rows = longTexts(20, 1)
    rows.push({ metric: 'old', t: 2_000, seq: 0, value: 'before' })
    const { store } = countedStore(rows)
    /** @type {string[]} */
    const told = []
    const hub = new LiveHub({ store, gate: new Semaphore(4) })
    const stop = hub.watch(ID, undefined, (some) => told.push(...some.map(keyOf)))
    await delay(LATEST_MS + 200)
    rows.push(...longTexts(20, 20, Date.now() - 2_000))
    rows.push({ metric: 'old', t: 3_000, seq: 0, value: 'after' })
    while (told.length < 401) await delay(20)
    stop()
    expect(told).toContain('old 3000 0')
  })

  test('of one millisecond that are more than a turn reads are all told', async () => {
    const t = Date.now() - 1_000
    const [{ value }] = longTexts(1, 1)
    const rows = Array.from({ length: 400 }, (_, seq) => ({ metric: 'a', t, seq, value }))
    const { store } = countedStore(rows)
    /** @type {string[]} */
    const told = []
    const hub = new LiveHub({ store, gate: new Semaphore(4) })
    const stop = hub.watch(ID, undefined, (some) => told.push(...some.map(keyOf)))
    while (told.length < rows.length) await delay(20)
    stop()
    expect([...told].sort()).toEqual(rows.map(keyOf).sort())
  })
})
