// What is deleted is in no rollup, also after the clock was once far ahead: versions of rollups
// never fall, so those of that time are above all that the clock says now.

import { DAY_MS, HOUR_MS, shardOf } from '@sandglass/common/rollup'
import { sensorId } from '@sandglass/common/sensor'
import { Deletion } from '../src/deletion/deletion.js'
import { alone, settle, store } from './support/rollup-model.js'

const T = Date.UTC(2026, 0, 10, 12)
const YEARS_MS = 3 * 365 * DAY_MS

/** @typedef {import('./support/rollup-model.js').Model} Model */

/**
 * A deletion, with raw rows and rollups as in the model.
 *
 * @param {Model} model
 * @param {import('./support/rollup-model.js').Process} process
 * @param {{ fromMs: number, toMs: number }} range
 */
function deletionOf(model, process, range) {
  const id = sensorId('s')
  const { rollups } = model
  /** When what is deleted was, in microseconds. @type {number[]} */
  const tombstones = []
  /** @type {any} */
  const job = { sensorId: id, id: 'x', askedMs: model.wallMs, metrics: null, ...range }
  const nothing = async () => undefined
  /** @type {any} */
  const stored = {
    save: async (/** @type {any} */ _job, /** @type {any} */ state) => {
      job.state = structuredClone(state)
    },
    layouts: async () => [{ fromMs: 0, className: '30d', bucketS: 86_400, generation: 0 }],
    left: async () => [],
    extents: async () => [{ metric: 'm', ...range, era: 0, coverEra: 0 }],
    async dropRows() {
      for (const [key, row] of [...rollups.rows]) {
        const isIn = row.ts >= range.fromMs && row.ts < range.toMs
        if (String(row.table).startsWith('measurement') && isIn) rollups.rows.delete(key)
      }
    },
    async dropRollups(
      /** @type {{ name: string }} */ { name },
      /** @type {string} */ _id,
      /** @type {string} */ metric,
      /** @type {{ fromMs: number, toMs: number }} */ { fromMs, toMs },
      /** @type {number} */ stampUs,
    ) {
      tombstones.push(stampUs)
      const found = rollups.rollupsOf(name, { sensorId: id, metric })
      for (const [startMs, { version }] of found) {
        const isIn = startMs >= fromMs && startMs < toMs
        if (isIn && version * 1000 <= stampUs) found.delete(startMs)
      }
    },
    ...Object.fromEntries(
      ['latest', 'setEra', 'setCoverEra', 'dropLatest', 'dropCover', 'showNewest', 'times', 'cover']
        .concat('dropLetters')
        .map((name) => [name, nothing]),
    ),
  }
  const deletion = new Deletion(job, {
    store: stored,
    rollups: {
      ...rollups.store,
      async *rawHours() {
        /** @type {Set<number>} */
        const hours = new Set()
        for (const { ts } of rollups.rows.raw.get(id) ?? []) hours.add(ts - (ts % HOUR_MS))
        yield* [...hours].filter((hourMs) => hourMs >= range.fromMs - HOUR_MS)
      },
    },
    runner: 'me',
    clock: process.clock,
    now: () => model.steadyMs,
    rest: async () => {},
    settleMs: 5_000,
    isStopped: () => false,
    counts: { partitions: 0 },
    onEra: () => {},
    belongings: /** @type {any} */ ({}),
  })
  return { deletion, job, tombstones }
}

test.each([
  ['right all the time', 0],
  ['once three years ahead', YEARS_MS],
])('rollups of what is deleted are gone, where the clock was %s', async (_, aheadMs) => {
  const { model, process } = await alone(T)
  // An hour that goes as a whole, and one of which something is left.
  await store(process, 's', T + 1_000, 5)
  await store(process, 's', T + HOUR_MS + 1_000, 7)
  await store(process, 's', T + 1.5 * HOUR_MS, 9)
  model.pass(3 * HOUR_MS)
  await settle(model, process)
  if (aheadMs > 0) {
    model.step(aheadMs)
    await settle(model, process)
    model.step(-aheadMs)
    for (let minute = 0; minute < 10; minute++) {
      model.pass(60_000)
      await settle(model, process)
    }
    // All is summed up anew since.
    const { rollups } = model
    const version = rollups.progress.get(shardOf(sensorId('s')))?.version ?? 0
    expect(version).toBeGreaterThan(model.wallMs + aheadMs / 2)
    const hours = rollups.rollupsOf('1h', { sensorId: sensorId('s'), metric: 'm' })
    expect(hours.get(T)?.version).toBeGreaterThan(model.wallMs + aheadMs / 2)
  }
  expect(model.rollup('s', '1h', T)?.n).toBe(1)
  expect(model.rollup('s', '1h', T + HOUR_MS)?.n).toBe(2)

  const range = { fromMs: T, toMs: T + 1.25 * HOUR_MS }
  const { deletion, job, tombstones } = deletionOf(model, process, range)
  for (let step = 0; step < 12 && tombstones.length === 0; step++) {
    await deletion.step(job)
    model.pass(5_000)
  }
  expect(tombstones.length).toBeGreaterThan(0)
  expect(model.rollup('s', '1h', T)).toBeUndefined()
  model.pass(10 * 60_000)
  await settle(model, process)
  expect(model.rollup('s', '1h', T)).toBeUndefined()
  const left = model.rollups.rollupsOf('1h', { sensorId: sensorId('s'), metric: 'm' })
  expect(left.get(T + HOUR_MS)?.aggregate).toMatchObject({ n: 1, sum: 9 })
  // A database shows what was written after its tombstone.
  expect((left.get(T + HOUR_MS)?.version ?? 0) * 1000).toBeGreaterThan(Math.max(...tombstones))
})
