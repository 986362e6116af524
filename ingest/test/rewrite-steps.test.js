// Single steps of a rewrite: what it waits for, and what it saves.
import { expect, test } from '@jest/globals'
import { bucketAt } from '@sandglass/common/schema'
import { sensorId } from '@sandglass/common/sensor'
import { ANNOUNCED_MS_MAX, Rewrite, timesOf } from '../src/rewrite/rewrite.js'
import { ModelDatabase, ModelRewriteStore } from './support/model-database.js'

const MINUTE_MS = 60_000
const DAY_MS = 86_400_000
const NOW = Date.UTC(2026, 0, 10)
const ID = sensorId('s')
const PLACE = { sensorId: ID, className: '7d' }
const T = NOW - 8 * DAY_MS

/**
 * A sensor of class 7d with one row, which expires in ten minutes, and a wish to keep it.
 *
 * @param {Partial<import('../src/rewrite/rewrite.js').Times>} [times]
 */
function build(times) {
  const clock = { nowMs: NOW - 7 * DAY_MS + 10 * MINUTE_MS }
  const database = new ModelDatabase(clock)
  const bucket = Math.floor(T / 1000 / 21_600) * 21_600
  const row = { metric: 'm', ts: T, seq: 0, value: 1 }
  database.setCell({ ...PLACE, bucket }, row, 7 * 86_400, clock.nowMs * 1000)
  clock.nowMs = NOW
  database.setLayout(ID, 0, { fromMs: 0, className: '7d', bucketS: 21_600 }, 1)
  const startMs = NOW + DAY_MS
  database.setLayout(ID, startMs, { fromMs: startMs, className: 'keep', bucketS: 604_800 }, 1)
  const series = 'INSERT INTO k.series (sensor_id, metric, first_ts, last_ts)'
  database.keep({ query: series, params: [ID, 'm', T, T + DAY_MS, 1] })
  const events = { onRequest: async () => {} }
  const store = new ModelRewriteStore(database, () => events.onRequest())
  store.ask(ID, 'keep')
  const counts = { rows: 0, expired: 0, deleted: 0 }
  const rewriteOf = (/** @type {string} */ runner) =>
    new Rewrite({
      store: /** @type {any} */ (store),
      sensorId: ID,
      runner,
      now: () => clock.nowMs,
      wallNow: () => clock.nowMs,
      rest: async () => {},
      counts,
      isStopped: () => false,
      times: { ...timesOf(), ...times },
    })
  const step = async (/** @type {Rewrite} */ rewrite) =>
    rewrite.step(/** @type {any} */ (await store.job(ID)))
  const phase = async () => (await store.job(ID))?.state.phase
  const layouts = () => database.registered(ID).layouts
  return { clock, database, events, counts, rewriteOf, step, phase, layouts }
}

test('nothing is copied before everybody knows that rows go to both places', async () => {
  const { clock, counts, rewriteOf, step, phase, layouts } = build()
  const rewrite = rewriteOf('a')
  await step(rewrite)
  expect(layouts()[0]).toMatchObject({ className: '7d', next: { className: 'keep' } })
  expect(await phase()).toBe('settle')
  expect(await step(rewrite)).toBe(timesOf().settleMs)
  clock.nowMs += timesOf().settleMs - 1
  expect([await step(rewrite), counts.rows]).toEqual([1, 0])
  clock.nowMs += 1
  await step(rewrite)
  await step(rewrite)
  expect(counts.rows).toBe(1)
  expect(layouts()[0]).toMatchObject({ className: 'keep' })
})

test('a row that expires while its slice is copied is found before and after', async () => {
  const { clock, database, events, rewriteOf, step, layouts } = build()
  const rewrite = rewriteOf('a')
  await step(rewrite)
  clock.nowMs += timesOf().settleMs
  await step(rewrite)
  let requests = 0
  const found = () => database.read(ID, layouts()).length
  events.onRequest = async () => {
    requests++
    // Time goes by only once the row was read.
    if (database.cells.size > 1) clock.nowMs += 2 * MINUTE_MS
    expect([requests, found()]).toEqual([requests, 1])
  }
  await step(rewrite)
  expect(clock.nowMs).toBeGreaterThan(NOW + 10 * MINUTE_MS)
  expect([layouts()[0].className, found()]).toEqual(['keep', 1])
})

test('who takes over waits for the last request of whoever did it before', async () => {
  const { clock, rewriteOf, step, phase, layouts } = build()
  await step(rewriteOf('a'))
  const announced = layouts()
  const other = rewriteOf('b')
  expect(await step(other)).toBe(timesOf().claimMs)
  clock.nowMs += timesOf().claimMs - 1
  expect([await step(other), await phase(), layouts()]).toEqual([1, 'claim', announced])
  clock.nowMs += 1
  await step(other)
  await step(other)
  expect(await phase()).toBe('settle')
  expect(layouts()[0].next?.generation).toBeGreaterThan(announced[0].next?.generation ?? 9)
})

test.each([
  ['goes on at once finds what goes to both places all the time', 0, [2]],
  ['comes back after a week does not find again what has expired', 7 * DAY_MS, []],
])('a rewrite that takes long and %s', async (_, pauseMs, expected) => {
  const { clock, database, rewriteOf, step, phase, layouts } = build({ sliceRows: 1 })
  const rewrite = rewriteOf('a')
  const laterMs = T + DAY_MS
  const found = () => database.read(ID, layouts()).filter(({ ts }) => ts === laterMs)
  await step(rewrite)
  const { next } = layouts()[0]
  const both = /** @type {const} */ ([
    [layouts()[0], 7 * 86_400],
    [next, 0],
  ])
  for (const [place, ttlS] of both) {
    const { className } = /** @type {import('@sandglass/common/schema').Place} */ (place)
    for (const ts of [T, laterMs]) {
      const bucket = bucketAt(/** @type {any} */ (place), ts)
      const row = { metric: 'm', ts, seq: 1, value: 2 }
      database.setCell({ sensorId: ID, className, bucket }, row, ttlS, clock.nowMs * 1000)
    }
  }
  clock.nowMs += timesOf().settleMs
  await step(rewrite)
  clock.nowMs += ANNOUNCED_MS_MAX
  // One slice is copied whatever it takes: there is progress.
  await step(rewrite)
  expect([await phase(), layouts()[0].className]).toEqual(['announce', 'keep'])
  clock.nowMs += pauseMs
  for (let turn = 0; turn < 300 && (await phase()) !== 'done'; turn++) {
    expect(found().map(({ value }) => value)).toEqual(expected)
    clock.nowMs += Math.max(await step(rewrite), 5 * MINUTE_MS)
  }
  expect([await phase(), found().length]).toEqual(['done', expected.length])
})
