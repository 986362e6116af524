// What one answer of `series` may cost.
import { describe, expect, test } from '@jest/globals'
import { DAY_MS, HOUR_MS, MARK_TTL_S, SLOT_MS, startOf } from '@sandglass/common/rollup'
import { Semaphore } from '@sandglass/common/semaphore'
import { sensorId } from '@sandglass/common/sensor'
import { READ_MS_MAX, ROWS_MAX, SeriesDownsampler, VALUES_MAX } from '../src/downsample/reader.js'
import { MARK_SLOTS_MAX } from '../src/downsample/sensors.js'
import { createFakeStore } from './support/fake-store.js'
import { appOver } from './support/inject.js'

const NOW = Date.UTC(2026, 5, 15, 12, 34, 56)
const FROM = startOf(NOW - 5 * DAY_MS, DAY_MS)
const SIGNAL = new AbortController().signal
const PAGE_ROWS = 1_000
const QUESTION = { fromMs: FROM, toMs: FROM + HOUR_MS, stepMs: 60_000, points: 1 }

/**
 * A series of which so many rows lie in one hour.
 *
 * @param {number} count
 * @param {() => void} [onPage]
 */
function crowded(count, onPage = () => {}) {
  const series = [{ metric: 'm', firstMs: FROM, lastMs: FROM + HOUR_MS - 1 }]
  return {
    ...createFakeStore(),
    series: async () => series,
    /** @type {import('../src/store.js').Store['numbers']} */
    async numbers(_id, _metric, span, pageState) {
      onPage()
      if (span.fromMs > FROM) return { rows: [], pageState: undefined }
      const from = Number(pageState ?? 0)
      const rows = Array.from({ length: Math.min(PAGE_ROWS, count - from) }, (_, at) => {
        return {
          ts: new Date(FROM + HOUR_MS - 1 - ((from + at) % HOUR_MS)),
          v: 1,
          i: null,
          b: null,
        }
      })
      const isLast = from + PAGE_ROWS >= count
      return { rows, pageState: isLast ? undefined : String(from + PAGE_ROWS) }
    },
  }
}

/** @param {import('../src/store.js').Store} store  @param {() => number} [clock] */
async function count(store, clock = () => 0) {
  const parts = { store, gate: new Semaphore(9), now: () => NOW, clock }
  const series = { sensorId: sensorId('s'), metric: 'm' }
  const question = { ...QUESTION, needsSketch: false }
  const { windows, range } = await new SeriesDownsampler(parts).read([series], question, SIGNAL)
  const items = windows.get(series)?.items(range, ['count'], 'none') ?? []
  return items.reduce((sum, item) => sum + Number(item.count), 0)
}

test('as many rows as one answer may need are read, and one more is too many', async () => {
  expect(await count(crowded(ROWS_MAX))).toBe(ROWS_MAX)
  await expect(count(crowded(ROWS_MAX + 1))).rejects.toMatchObject({
    code: 'too-many-rows',
    message: expect.stringMatching(/rollups of 1 sensors are missing or behind/),
  })
})

test('before longer windows are tried, nothing goes on reading for shorter ones', async () => {
  const rows = Array.from({ length: 2 * 60 }, (_, minute) => ({
    metric: minute % 2 ? 'slow' : 'large',
    t: FROM + minute * 30_000,
    seq: 0,
    value: 1,
  }))
  const base = createFakeStore({ rows, rollups: { doneMs: NOW, markedHours: new Set() } })
  let open = 0
  /** @type {import('../src/store.js').Store} */
  const store = {
    ...base,
    async numbers(id, metric, span) {
      const page = await base.numbers(id, metric, span)
      if (metric === 'large') return { rows: Array(ROWS_MAX + 1).fill(page.rows[0]), pageState: '' }
      open++
      for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate)
      open--
      return page
    },
    async rollups(id, metric, part) {
      expect(open).toBe(0)
      return base.rollups(id, metric, part)
    },
  }
  const parts = { store, gate: new Semaphore(9), now: () => NOW, clock: () => 0 }
  const series = ['slow', 'large'].map((metric) => ({ sensorId: sensorId('s'), metric }))
  const range = { fromMs: FROM, toMs: FROM + HOUR_MS }
  const question = { ...range, stepMs: undefined, points: 500, needsSketch: false }
  const answer = await new SeriesDownsampler(parts).read(series, question, SIGNAL)
  expect(answer).toMatchObject({ stepMs: 60_000, resolution: '1m' })
  for (const windows of answer.windows.values()) {
    expect(windows.items(range, ['count'], 'none')).toHaveLength(60)
  }
})

test('an answer that is not read in time is given up, also where it has few rows', async () => {
  for (const [pages, isInTime] of /** @type {const} */ ([
    [9, true],
    [11, false],
  ])) {
    let ms = 1_000_000
    const store = crowded(pages * PAGE_ROWS, () => {
      ms += READ_MS_MAX / 10
    })
    const answer = count(store, () => ms)
    if (isInTime) expect(await answer).toBe(pages * PAGE_ROWS)
    else await expect(answer).rejects.toMatchObject({ code: 'too-many-rows' })
  }
})

test('once the time is up, nothing more is asked', async () => {
  let ms = 0
  let asked = 0
  const store = crowded(1)
  const slow = {
    ...store,
    /** @param {string} id */
    layouts: async (id) => {
      ms += READ_MS_MAX + 1
      asked++
      return store.layouts(id)
    },
    isKnown: async () => true,
  }
  const parts = { store: slow, gate: new Semaphore(1), now: () => NOW, clock: () => ms }
  const series = ['s', 't', 'u'].map((name) => ({ sensorId: sensorId(name), metric: 'm' }))
  const question = { ...QUESTION, needsSketch: false }
  const answer = new SeriesDownsampler(parts).read(series, question, SIGNAL)
  await expect(answer).rejects.toMatchObject({ code: 'too-many-rows' })
  expect(asked).toBe(1)
})

describe('marks', () => {
  const rows = Array.from({ length: 120 }, (_, minute) => ({
    metric: 'm',
    t: FROM + minute * 60_000,
    seq: 0,
    value: minute,
  }))

  /**
   * Sensors whose rollups are behind, and lie where rows came later.
   *
   * @param {number} sensors
   * @param {number} lagMs
   */
  async function behind(sensors, lagMs) {
    const dirtyMs = FROM + HOUR_MS
    const rollups = { doneMs: startOf(NOW - lagMs, SLOT_MS), markedHours: new Set([dirtyMs]) }
    /** @type {Map<string, ReturnType<typeof createFakeStore>>} */
    const stores = new Map()
    for (let at = 0; at < sensors; at++) {
      stores.set(sensorId(`s${at}`), createFakeStore({ name: `s${at}`, rows, rollups }))
    }
    let slots = 0
    const [first] = stores.values()
    /** @param {string} id */
    const of = (id) => /** @type {typeof first} */ (stores.get(id))
    /** @type {import('../src/store.js').Store} */
    const store = {
      ...first,
      isKnown: (id) => of(id).isKnown(id),
      layouts: (id) => of(id).layouts(id),
      series: (id) => of(id).series(id),
      numbers: (id, metric, span) => of(id).numbers(id, metric, span),
      rollups: (id, metric, part) => of(id).rollups(id, metric, part),
      hours: (id, metric, part) => of(id).hours(id, metric, part),
      async markedHours(_id, { fromMs, toMs }) {
        slots += Math.ceil((toMs - fromMs) / SLOT_MS)
        const isThere = fromMs <= rollups.doneMs && toMs > rollups.doneMs
        return new Map(isThere ? [['m', rollups.markedHours]] : [])
      },
    }
    const parts = { store, gate: new Semaphore(9), now: () => NOW, clock: () => 0 }
    const series = [...stores.keys()].map((id) => ({ sensorId: id, metric: 'm' }))
    const question = { ...QUESTION, toMs: FROM + DAY_MS, stepMs: HOUR_MS, needsSketch: false }
    const answer = await new SeriesDownsampler(parts).read(series, question, SIGNAL)
    const sums = series.map((one) =>
      answer.windows.get(one)?.items(answer.range, ['count', 'sum'], 'none'),
    )
    const right = [
      { t: FROM, count: 60, sum: 1_770 },
      { t: FROM + HOUR_MS, count: 60, sum: 5_370 },
    ]
    expect(sums).toEqual(series.map(() => right))
    return { slots, resolution: answer.resolution }
  }

  test('are asked for while rollups keep up, of as many sensors as there may be', async () => {
    expect(await behind(200, 90_000)).toMatchObject({ resolution: '1h' })
  })

  test('are asked for of one sensor as far back as they are kept', async () => {
    const { slots, resolution } = await behind(1, 2.9 * DAY_MS)
    expect(resolution).toBe('1h')
    expect(slots).toBeGreaterThan((2.9 * DAY_MS) / SLOT_MS)
  })

  test('that are too many are not asked for: then raw rows answer, and the answer is right', async () => {
    const { slots } = await behind(100, 16 * HOUR_MS)
    expect(slots).toBeLessThanOrEqual(MARK_SLOTS_MAX)
    expect(slots).toBeGreaterThan(MARK_SLOTS_MAX * 0.9)
  })

  test('that may have expired are as good as none: no rollup is believed', async () => {
    expect(await behind(1, MARK_TTL_S * 1000 + DAY_MS)).toEqual({ slots: 0, resolution: 'raw' })
  })
})

describe('the numbers of an answer', () => {
  const RECENT = startOf(Date.now() - 2 * DAY_MS, DAY_MS)
  const AGGREGATES = ['avg', 'min', 'max', 'sum', 'count', 'first', 'last', 'p50']

  /**
   * Asks for so many series of one sensor, of which the first has values in some windows.
   *
   * @param {number} series
   * @param {object} question
   */
  async function query(series, question) {
    const rows = Array.from({ length: 4 }, (_, at) => {
      return { metric: 'm0', t: RECENT + at * 60_000, seq: 0, value: at }
    })
    const store = createFakeStore({ rows })
    const known = await store.sensor(sensorId('s'))
    let reads = 0
    const app = await appOver({
      ...store,
      sensor: async (id) => known && { ...known, id },
      isKnown: async () => true,
      async numbers(id, metric, span) {
        reads += 1
        return store.numbers(id, metric, span)
      },
    })
    const metrics = Array.from({ length: Math.min(50, series) }, (_, at) => `m${at}`)
    const sensors = Array.from({ length: series / metrics.length }, (_, at) =>
      at ? `s${at}` : 's',
    )
    const times = { from: RECENT, to: RECENT + DAY_MS }
    const response = await app.inject({
      method: 'POST',
      url: '/v1/query',
      headers: { host: 'localhost' },
      payload: { sensors, metrics, ...times, ...question },
    })
    await app.close()
    return { response, reads }
  }

  test.each([
    ['step', { step: '10s', fill: 'null' }],
    ['points', { points: 10_000, fill: 'previous' }],
  ])('are refused before anything is read, where %s makes too many', async (_, more) => {
    const { response, reads } = await query(50, { ...more, agg: AGGREGATES.join() })
    expect(response.json()).toMatchObject({
      status: 400,
      type: 'urn:sandglass:problem:too-many-rows',
      detail: expect.stringContaining(String(VALUES_MAX)),
    })
    expect(reads).toBe(0)
  })

  test('are counted by group: what is summed up together is one series', async () => {
    const more = { step: '10s', fill: 'null', group: 'all' }
    const { response } = await query(50, { ...more, agg: AGGREGATES.join() })
    expect(response.statusCode).toBe(200)
    expect(response.json().groups[0].items).toHaveLength(8_640)
  })

  test('may be those of 200 series with the windows and aggregates of who says nothing', async () => {
    const { response } = await query(200, { fill: 'linear' })
    expect(response.statusCode).toBe(200)
    const { groups } = response.json()
    expect(groups).toHaveLength(200)
    expect(groups[0].items.slice(0, 2)).toEqual([
      { t: RECENT, avg: 0.5, min: 0, max: 1 },
      { t: RECENT + 120_000, avg: 2.5, min: 2, max: 3 },
    ])
    expect(groups[199].items[719]).toEqual({
      t: RECENT + DAY_MS - 120_000,
      avg: null,
      min: null,
      max: null,
    })
  })

  test('are counted, too, where only windows have an item that have a value', async () => {
    const fromMs = RECENT + HOUR_MS - 10_000
    const metrics = Array.from({ length: 12 }, (_, at) => `m${at}`)
    const app = await appOver({
      ...createFakeStore(),
      series: async () =>
        metrics.map((metric) => ({ metric, firstMs: fromMs, lastMs: fromMs + 10_000 })),
      async numbers(_id, _metric, span) {
        const rows = Array.from({ length: span.toMs - span.fromMs }, (_, at) => {
          return { ts: new Date(span.toMs - 1 - at), v: 1, i: null, b: null }
        })
        return { rows, pageState: undefined }
      },
    })
    const agg = AGGREGATES.slice(0, 7).join()
    const times = { from: fromMs, to: fromMs + 10_000, step: '1ms' }
    const response = await app.inject({
      method: 'POST',
      url: '/v1/query',
      headers: { host: 'localhost' },
      payload: { sensors: ['s'], metrics, ...times, agg },
    })
    await app.close()
    expect(response.json()).toMatchObject({ type: 'urn:sandglass:problem:too-many-rows' })
    expect(response.json().detail).toMatch(/^840000 numbers/)
  })
})
