import { describe, expect, jest, test } from '@jest/globals'
import { Semaphore } from '@sandglass/common/semaphore'
import { sensorId } from '@sandglass/common/sensor'
import { cursorOf, MeasurementReader, parseQuestion } from '../src/measurements.js'
import { createFakeStore, DAILY, seeded } from './support/fake-store.js'

/** @typedef {import('../src/merge.js').Row} Row */
/** @typedef {import('../src/measurements.js').Parameters} Parameters */

const DAY_MS = 86_400_000
const ID = sensorId('s')

/** @param {string} metric  @param {number} t  @param {number} [seq]  @returns {Row} */
const row = (metric, t, seq = 0) => ({ metric, t, seq, value: `${metric} ${t} ${seq}` })

/** @param {(below: number) => number} random */
function randomContent(random) {
  const layouts = [{ fromMs: 0, className: '30d', bucketS: 1 + random(100) }]
  for (let fromMs = 0; layouts.length < 1 + random(4); ) {
    fromMs += 1 + random(50_000)
    layouts.push({ fromMs, className: ['7d', '30d', '90d'][random(3)], bucketS: 1 + random(100) })
  }
  /** @type {Map<string, Row>} */
  const rows = new Map()
  const metrics = ['a', 'b', 'c', 'd'].slice(0, 1 + random(4))
  const count = random(300)
  const spread = [40, 5_000, 200_000, 3_000_000][random(4)]
  for (let index = 0; index < count; index += 1) {
    const one = row(metrics[random(metrics.length)], random(spread), random(3) ? 0 : random(20))
    rows.set(String(one.value), one)
  }
  return { layouts, rows: [...rows.values()] }
}

/** @param {Row[]} rows  @param {boolean} newestFirst */
function inOrder(rows, newestFirst) {
  const sign = newestFirst ? -1 : 1
  return [...rows].sort(
    (a, b) =>
      sign * (a.t - b.t) ||
      (a.metric < b.metric ? -1 : Number(a.metric > b.metric)) ||
      sign * (a.seq - b.seq),
  )
}

/**
 * Reads page by page, each cursor as a client would give it back.
 *
 * @param {MeasurementReader} reader
 * @param {Parameters} parameters
 * @param {() => number} limit
 * @param {{ spansMax?: number, bytesMax?: number }} [budget]
 */
async function readAll(reader, parameters, limit, budget) {
  const rows = []
  const { signal } = new AbortController()
  /** @type {string | undefined} */
  let cursor
  for (let pages = 1; pages < 5_000; pages += 1) {
    const { question, after } = parseQuestion(ID, cursor ? { cursor } : parameters)
    const most = limit()
    const page = await reader.read(question, { after, limit: most, signal }, budget)
    expect(page.rows.length).toBeLessThanOrEqual(most)
    rows.push(...page.rows)
    if (!page.next) return { rows, pages }
    cursor = cursorOf(question, page.next)
  }
  throw new Error('the pages do not end')
}

/** @param {number | undefined} ms */
const iso = (ms) => (ms === undefined ? undefined : new Date(ms).toISOString())

describe('pages of measurements', () => {
  test.each(Array.from({ length: 300 }, (_, seed) => seed))(
    'are together what was asked for, in order, each once (seed %i)',
    async (seed) => {
      const random = seeded(seed)
      const content = randomContent(random)
      const reader = new MeasurementReader({
        store: createFakeStore({ ...content, cut: random(2) ? () => random(50) : undefined }),
        gate: new Semaphore(1 + random(8)),
        now: () => random(4_000_000),
      })
      const fromMs = random(2) ? random(10_000) : undefined
      const toMs = random(2) ? (fromMs ?? 0) + 1 + random(100_000) : undefined
      const order = random(2) ? 'asc' : 'desc'
      const metric = random(3) ? undefined : ['b', 'a', 'a'].slice(0, 1 + random(3))
      const { rows } = await readAll(
        reader,
        { from: iso(fromMs), to: iso(toMs), order, metric },
        random(2) ? () => 1 + random(3) : () => 1 + random(400),
        {
          spansMax: random(2) ? 1 + random(5) : undefined,
          bytesMax: random(2) ? random(3_000) : undefined,
        },
      )
      const expected = content.rows.filter(
        ({ t, metric: name }) =>
          t >= (fromMs ?? 0) && t < (toMs ?? Infinity) && (!metric || metric.includes(name)),
      )
      expect(rows).toEqual(inOrder(expected, order === 'desc'))
    },
  )

  test('hold all values of one millisecond, more than a page has', async () => {
    const rows = Array.from({ length: 500 }, (_, seq) => row('a', 7, seq))
    rows.push(row('b', 7), row('a', 6))
    for (const order of /** @type {const} */ (['asc', 'desc'])) {
      const store = createFakeStore({ rows })
      const reader = new MeasurementReader({ store, gate: new Semaphore(4), now: () => 0 })
      const { rows: found } = await readAll(reader, { order }, () => 3, { spansMax: 1 })
      expect(found).toEqual(inOrder(rows, order === 'desc'))
    }
  })

  test('have no next when they end exactly at the last row', async () => {
    const store = createFakeStore({ rows: [row('a', 1), row('a', 2)] })
    const reader = new MeasurementReader({ store, gate: new Semaphore(4), now: () => 0 })
    expect((await readAll(reader, {}, () => 2)).pages).toBe(1)
  })

  test('go on where they were, whatever arrives meanwhile', async () => {
    const rows = Array.from({ length: 10 }, (_, index) => row('a', 1_000 + index))
    const store = createFakeStore({ rows })
    const reader = new MeasurementReader({ store, gate: new Semaphore(4), now: () => 5_000 })
    const { signal } = new AbortController()
    const { question } = parseQuestion(ID, {})
    const first = await reader.read(question, { limit: 4, signal })
    rows.push(row('a', 2_000), row('b', 1_003), row('a', 1_008, 1))
    const rest = await reader.read(question, { after: first.next, limit: 100, signal })
    expect(rest.rows.map(({ metric, t }) => [metric, t])).toEqual([
      ['a', 1_005],
      ['a', 1_004],
      ['a', 1_003],
      ['b', 1_003],
      ['a', 1_002],
      ['a', 1_001],
      ['a', 1_000],
    ])
  })

  test('of a sensor that is long silent cost a few reads, whatever its gaps', async () => {
    const rows = [row('a', 5), row('a', 20_000 * DAY_MS), row('b', 20_000 * DAY_MS + 1)]
    const store = createFakeStore({ rows })
    const reads = jest.spyOn(store, 'rows')
    const reader = new MeasurementReader({
      store,
      gate: new Semaphore(4),
      now: () => 40_000 * DAY_MS,
    })
    const { signal } = new AbortController()
    const { question } = parseQuestion(ID, {})
    const page = await reader.read(question, { limit: 1, signal })
    expect(page.rows).toEqual([rows[2]])
    expect(reads.mock.calls.length).toBeLessThan(10)
    const all = await readAll(reader, {}, () => 100)
    expect(all.rows).toHaveLength(3)
    expect(all.pages).toBeGreaterThan(1)
  })

  test('find a row that is newer than the extent of its series says', async () => {
    const rows = [row('a', DAY_MS)]
    const store = createFakeStore({ rows, layouts: DAILY })
    const series = await store.series(ID)
    store.series = async () => series
    rows.push(row('a', 9 * DAY_MS - 1_000))
    const reader = new MeasurementReader({ store, gate: new Semaphore(4), now: () => 9 * DAY_MS })
    expect((await readAll(reader, {}, () => 10)).rows).toHaveLength(2)
  })

  test('are not read on when nobody waits for them', async () => {
    const rows = Array.from({ length: 50 }, (_, day) => row('a', day * DAY_MS))
    const store = createFakeStore({ rows })
    const reader = new MeasurementReader({ store, gate: new Semaphore(4), now: () => 0 })
    const reads = jest.spyOn(store, 'rows')
    const signal = AbortSignal.abort()
    const { question } = parseQuestion(ID, {})
    await expect(reader.read(question, { limit: 100, signal })).rejects.toThrow('abort')
    expect(reads).not.toHaveBeenCalled()
  })
})

describe('a cursor of measurements', () => {
  const { question } = parseQuestion(ID, { metric: ['a'], from: '5', to: '9', order: 'asc' })
  const cursor = cursorOf(question, { t: 7, metric: 'a', seq: 0 })

  test('repeats its question when it is given alone', () => {
    expect(parseQuestion(ID, { cursor })).toEqual({
      question,
      after: { t: 7, metric: 'a', seq: 0 },
    })
  })

  test.each([
    [{ metric: ['b'] }],
    [{ from: '4' }],
    [{ to: '10' }],
    [{ order: /** @type {const} */ ('desc') }],
  ])('is refused beside another question: %j', (other) => {
    expect(() => parseQuestion(ID, { ...other, cursor })).toThrow('cursor belongs to another')
  })

  test('is refused for another sensor', () => {
    expect(() => parseQuestion(sensorId('t'), { cursor })).toThrow('another sensor')
  })
})
