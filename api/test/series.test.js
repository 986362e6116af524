import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { Aggregate } from '@sandglass/common/aggregate'
import { WIDTHS_S } from '@sandglass/common/layout'
import { DAY_MS, HOUR_MS, startOf } from '@sandglass/common/rollup'
import { Semaphore } from '@sandglass/common/semaphore'
import { sensorId } from '@sandglass/common/sensor'
import { Registry } from 'prom-client'
import { buildApp } from '../src/app.js'
import { SeriesDownsampler } from '../src/downsample/reader.js'
import { parseStep, stepFor, windowCount } from '../src/downsample/step.js'
import { createFakeStore, NO_KEYS, seeded } from './support/fake-store.js'

const NOW = Date.UTC(2026, 5, 15, 12, 34, 56)
const MINUTE_MS = 60_000
const ID = sensorId('s')
const SIGNAL = new AbortController().signal

describe('steps', () => {
  test.each([
    ['250ms', 250],
    ['60s', 60_000],
    ['5m', 300_000],
    ['1h', 3_600_000],
    ['1w', 604_800_000],
  ])('%s is a length', (text, ms) => expect(parseStep(text)).toBe(ms))

  test.each(['', '0s', '5', '5y', '-1s', '1.5h', '99999999999d'])('%p is refused', (text) => {
    expect(() => parseStep(text)).toThrow('step must be')
  })

  test('the shortest that people expect is chosen, and never makes more windows than asked', () => {
    const day = { fromMs: NOW - DAY_MS, toMs: NOW }
    expect(stepFor(day, 800, 1)).toBe(2 * MINUTE_MS)
    expect(stepFor(day, 800, HOUR_MS)).toBe(HOUR_MS)
    expect(stepFor({ fromMs: NOW - 400 * DAY_MS, toMs: NOW }, 10, 1)).toBe(41 * DAY_MS)
    const random = seeded(7)
    for (let n = 0; n < 2_000; n++) {
      const fromMs = NOW - 1 - random(2 ** 31) * (1 + random(500))
      const range = { fromMs, toMs: NOW }
      const points = 1 + random(2_000)
      const stepMs = stepFor(range, points, 1)
      // One window is always enough only if it lies well; two always are.
      expect(windowCount(range, stepMs)).toBeLessThanOrEqual(Math.max(points, 2))
    }
  })

  test('one window before 1970 and one after are the least for both', () => {
    expect(windowCount({ fromMs: -1, toMs: 1 }, stepFor({ fromMs: -1, toMs: 1 }, 1, 1))).toBe(2)
  })
})

/** @param {(below: number) => number} random */
function history(random) {
  const spanMs = [HOUR_MS, DAY_MS, 9 * DAY_MS][random(3)]
  const rows = Array.from({ length: 1 + random(400) }, (_, seq) => ({
    metric: 'm',
    t: NOW - random(spanMs) - 1,
    seq,
    value: random(10) === 0 ? random(2) === 0 : random(2_000) - 1_000,
  }))
  const doneMs = NOW - [0, 90_000, 3 * HOUR_MS, 3 * DAY_MS, 1e12][random(5)]
  const markedHours = new Set(
    rows.filter(() => random(20) === 0).map(({ t }) => startOf(t, HOUR_MS)),
  )
  const layouts = [{ fromMs: 0, className: '30d', bucketS: 86_400 }]
  for (let fromMs = NOW - 9 * DAY_MS; layouts.length < 1 + random(4); ) {
    fromMs += 1 + random(3 * DAY_MS)
    const className = ['30d', '90d', 'keep'][random(3)]
    layouts.push({ fromMs, className, bucketS: WIDTHS_S[random(WIDTHS_S.length)] })
  }
  return { rows, layouts, rollups: { doneMs, markedHours } }
}

test('whatever is summed up already, the answer is what raw rows say', async () => {
  for (let seed = 1; seed <= 300; seed++) {
    const random = seeded(seed)
    const content = history(random)
    const store = createFakeStore(content)
    const downsampler = new SeriesDownsampler({ store, gate: new Semaphore(9), now: () => NOW })
    const steps = [17, 1_000, MINUTE_MS, 7 * MINUTE_MS, HOUR_MS, 36 * HOUR_MS, DAY_MS, 7 * DAY_MS]
    const stepMs = random(3) === 0 ? undefined : steps[random(steps.length)]
    const toMs = NOW - random(3) * random(HOUR_MS)
    const lengthMs = Math.min((stepMs ?? DAY_MS) * 9_000, 1 + random(10 * DAY_MS))
    const fromMs = toMs - lengthMs
    const question = { fromMs, toMs, stepMs, points: 1 + random(900), needsSketch: false }
    const series = { sensorId: ID, metric: 'm' }
    const answer = await downsampler.read([series], question, SIGNAL)
    /** @type {Map<number, Aggregate>} */
    const right = new Map()
    for (const { t, seq, value } of content.rows) {
      if (t < fromMs || t >= toMs) continue
      const startMs = startOf(t, answer.stepMs)
      const aggregate = right.get(startMs) ?? new Aggregate()
      right.set(startMs, aggregate)
      aggregate.add(t, seq, Number(value))
    }
    const items = answer.windows.get(series)?.items(answer.range, NAMES, 'none')
    const expected = [...right]
      .sort(([a], [b]) => a - b)
      .map(([t, { n, sum, min, max, first, last }]) => ({
        t,
        count: n,
        sum,
        min,
        max,
        first,
        last,
      }))
    expect({ seed, items }).toEqual({ seed, items: expected })
  }
})

test('a class whose rows are gone sooner makes all of a range coarser, and nothing is missing', async () => {
  const fromMs = NOW - 40 * DAY_MS
  const rows = Array.from({ length: 6_000 }, (_, n) => ({
    metric: 'm',
    t: fromMs + n * 600_000,
    seq: 0,
    value: n,
  }))
  const changeMs = NOW - 20 * DAY_MS
  const layouts = [
    { fromMs: 0, className: 'keep', bucketS: 604_800 },
    { fromMs: changeMs, className: '7d', bucketS: 21_600 },
  ]
  const rollups = { doneMs: NOW, markedHours: new Set() }
  const store = createFakeStore({ rows, layouts, rollups })
  const { numbers } = store
  store.numbers = async (id, metric, span) => {
    // Those of the class of seven days have expired.
    expect(span.className === 'keep' || span.fromMs > NOW - 7 * DAY_MS).toBe(true)
    return numbers(id, metric, span)
  }
  const downsampler = new SeriesDownsampler({ store, gate: new Semaphore(9), now: () => NOW })
  const question = { toMs: NOW - 10 * DAY_MS, stepMs: 1_000, points: 1, needsSketch: false }
  const series = { sensorId: ID, metric: 'm' }
  /** @param {number} from  @param {number} stepMs */
  const count = async (from, stepMs) => {
    const { windows, range } = await downsampler.read(
      [series],
      { ...question, fromMs: from, stepMs },
      SIGNAL,
    )
    const items = windows.get(series)?.items(range, ['count'], 'none') ?? []
    return items.reduce((sum, item) => sum + Number(item.count), 0)
  }
  const week = 7 * DAY_MS
  await expect(count(changeMs - week, 1_000 * 1_000)).rejects.toThrow('multiple of 60000ms')
  // Both ends are moved outwards to whole minutes.
  expect(await count(changeMs - week, MINUTE_MS * 10)).toBe((17 * DAY_MS) / 600_000 + 1)
})

const NAMES = ['count', 'sum', 'min', 'max', 'first', 'last']

test('coarse windows come from rollups: few rows answer for many', async () => {
  const rows = Array.from({ length: 20_000 }, (_, n) => ({
    metric: 'm',
    t: NOW - 20 * DAY_MS + n * 80_000,
    seq: 0,
    value: n,
  }))
  const store = createFakeStore({ rows, rollups: { doneMs: NOW, markedHours: new Set() } })
  let read = 0
  const counting = {
    ...store,
    /**
     * @param {string} id
     * @param {string} metric
     * @param {import('@sandglass/common/spans').Span} span
     */
    async numbers(id, metric, span) {
      const page = await store.numbers(id, metric, span)
      read += page.rows.length
      return page
    },
  }
  const downsampler = new SeriesDownsampler({
    store: counting,
    gate: new Semaphore(9),
    now: () => NOW,
  })
  const question = { fromMs: rows[0].t, toMs: NOW, stepMs: DAY_MS, points: 1, needsSketch: true }
  const series = { sensorId: ID, metric: 'm' }
  const { resolution, windows } = await downsampler.read([series], question, SIGNAL)
  expect(resolution).toBe('1d')
  expect(read).toBeLessThan(200)
  const items = windows.get(series)?.items({ fromMs: 0, toMs: 1 }, ['count', 'p50'], 'none') ?? []
  expect(items.reduce((sum, { count }) => sum + Number(count), 0)).toBe(rows.length)
  const middle = Number(items[10].p50)
  expect(Math.abs(middle - (10 * 1_080 + 540 - 12))).toBeLessThan(0.02 * middle + 600)
})

describe('over HTTP', () => {
  const T = startOf(Date.now() - 2 * DAY_MS, DAY_MS)
  const rows = [0, 1, 2, 6, 7].map((minute) => ({
    metric: 'm',
    t: T + minute * MINUTE_MS,
    seq: 0,
    value: minute,
  }))
  /** @type {Awaited<ReturnType<typeof buildApp>>} */
  let app
  beforeAll(async () => {
    app = await buildApp({
      store: createFakeStore({ rows }),
      isDatabaseUp: () => true,
      ingest: /** @type {any} */ ({}),
      registry: new Registry(),
      limits: { requestsPerS: 0, bodyBytesMax: 1e6, importBytesMax: 1e6, streamsMax: 1 },
      isLoopback: true,
      ...NO_KEYS,
    })
  })
  afterAll(() => app.close())

  /** @param {string} query */
  const ask = async (query) => {
    const url = `/v1/sensors/s/series?metric=m&from=${T}&to=${T + 10 * MINUTE_MS}&${query}`
    return app.inject({ url, headers: { host: 'localhost' } })
  }

  test('a series has its windows, and says how they were made', async () => {
    const answer = (await ask('step=5m&agg=avg,max,count,first,last')).json()
    expect(answer).toEqual({
      sensor: ID,
      metric: 'm',
      from: T,
      to: T + 10 * MINUTE_MS,
      step: 300_000,
      resolution: 'raw',
      items: [
        { t: T, avg: 1, max: 2, count: 3, first: 0, last: 2 },
        { t: T + 5 * MINUTE_MS, avg: 6.5, max: 7, count: 2, first: 6, last: 7 },
      ],
    })
  })

  test.each([
    ['none', [0, 1, 2, 6, 7]],
    ['null', [0, 1, 2, null, null, null, 6, 7, null, null]],
    ['previous', [0, 1, 2, 2, 2, 2, 6, 7, 7, 7]],
    ['linear', [0, 1, 2, 3, 4, 5, 6, 7, null, null]],
  ])('fill=%s', async (fill, values) => {
    const { items } = (await ask(`step=1m&agg=avg,count&fill=${fill}`)).json()
    expect(items.map((/** @type {any} */ { avg }) => avg)).toEqual(values)
    const count = items.reduce((/** @type {number} */ sum, /** @type {any} */ one) => {
      return sum + one.count
    }, 0)
    expect(count).toBe(rows.length)
  })

  test.each([
    ['step=1m&points=5', 'points', 'together with step'],
    ['step=1x', 'step', 'must be a number with'],
    ['step=1ms', 'step', 'more than 10000 windows'],
    ['agg=avg,mode', 'agg', 'mode is none of them'],
    ['agg=p101', 'agg', 'p101'],
    ['points=0', 'points', '>= 1'],
    ['fill=zero', 'fill', 'allowed'],
    ['from=never', 'from', 'ISO 8601'],
  ])('%s is refused by name', async (query, parameter, detail) => {
    const response = await ask(query.startsWith('from') ? `x=1&${query}` : query)
    expect(response.statusCode).toBe(400)
    const problem = response.json()
    if (!query.startsWith('from')) expect(problem).toMatchObject({ parameter })
    if (!query.startsWith('from')) expect(problem.detail).toMatch(detail)
  })

  test('several are grouped as asked', async () => {
    const body = { sensors: ['s'], metrics: ['m', 'none'], from: `${T}`, step: '1h', agg: 'sum' }
    const query = (/** @type {object} */ more) =>
      app.inject({
        method: 'POST',
        url: '/v1/query',
        headers: { host: 'localhost' },
        payload: { ...body, ...more },
      })
    const items = [{ t: T, sum: 16 }]
    expect((await query({})).json().groups).toEqual([
      { sensor: ID, name: 's', metric: 'm', series: 1, items },
      { sensor: ID, name: 's', metric: 'none', series: 1, items: [] },
    ])
    expect((await query({ group: 'all' })).json().groups).toEqual([{ series: 2, items }])
    expect((await query({ group: 'tag:room' })).json().groups).toEqual([
      { tag: null, series: 2, items },
    ])
    expect((await query({ sensors: undefined, type: 'nothing' })).json().groups).toEqual([])
    expect((await query({ sensors: ['who'] })).json()).toMatchObject({ status: 404 })
    expect((await query({ type: 'a' })).json()).toMatchObject({ parameter: 'sensors' })
  })
})
