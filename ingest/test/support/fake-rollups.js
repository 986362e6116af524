/** What the work on rollups asks of a database, answered from the rows of a fake one. */

import { rollupTable } from '@sandglass/common/rollup'
import { WORKER_TTL_S } from '@sandglass/common/schema'
import { FakeError } from './fake-storage.js'

/** @typedef {import('../../src/rollup/store.js').RollupStore} RollupStore */
/** @typedef {import('../../src/rollup/store.js').RollupRow} RollupRow */

/** Lets everything else that is ready go first. */
const tick = () => new Promise((resolve) => setImmediate(resolve))

/**
 * @param {object} parts
 * @param {import('./fake-storage.js').FakeStorage} parts.storage
 * @param {() => number} parts.now
 * @param {() => boolean} parts.fails  Whether the next request fails.
 */
export function createFakeRollups({ storage, now, fails }) {
  /** By table, sensor, metric and start. @type {Map<string, RollupRow & { readMs: number }>} */
  const rollups = new Map()
  /** @type {Map<number, number>} */
  const progress = new Map()
  /** When each was last heard of. @type {Map<string, number>} */
  const beats = new Map()
  const answer = async () => {
    await tick()
    if (fails()) throw new FakeError('retry')
  }
  /** @satisfies {RollupStore} */
  const store = {
    async layouts(sensorId) {
      await answer()
      return (await storage.readSensor(sensorId)).layouts
    },
    async *raw({ sensorId, metric }, { fromMs, toMs, bucket, className }, isDated) {
      await answer()
      const rows = storage
        .rowsOf(`measurement_${className}`)
        .filter((row) => String(row.sensor_id) === sensorId && row.metric === metric)
        .filter((row) => Number(row.bucket) === bucket && row.ts >= fromMs && row.ts < toMs)
      for (const row of rows) {
        await tick()
        const dates = isDated ? { wv: row.timestamp, wi: null, wb: null } : {}
        yield/** @type {any} */ ({ ...row, ts: new Date(row.ts), ...dates })
      }
    },
    async rollups({ name }, { sensorId, metric, startMs }, endMs) {
      await answer()
      const key = [rollupTable(name), sensorId, metric, ''].join(' ')
      return [...rollups]
        .filter(([of, row]) => of.startsWith(key) && row.startMs >= startMs && row.startMs < endMs)
        .map(([, row]) => row)
    },
    async write({ name }, { sensorId, metric }, rows, readMs) {
      await answer()
      for (const row of rows) {
        const key = [rollupTable(name), sensorId, metric, row.startMs].join(' ')
        if ((rollups.get(key)?.readMs ?? 0) <= readMs) rollups.set(key, { ...row, readMs })
      }
    },
    async *marks(shard, slotMs, level) {
      await answer()
      for (const row of storage.rowsOf('late_mark')) {
        if (row.shard !== shard || row.slot !== slotMs || row.level !== level) continue
        yield { sensorId: String(row.sensor_id), metric: row.metric, startMs: row.ts }
      }
    },
    async mark(shard, slot, level, { sensorId, metric, startMs }) {
      await answer()
      const row = { shard, slot, level, sensor_id: sensorId, metric, ts: startMs }
      storage.stored.set(Object.values(row).join(' '), { table: 'late_mark', ...row })
    },
    async progress(shard) {
      await answer()
      return progress.get(shard)
    },
    async setProgress(shard, doneMs) {
      await answer()
      progress.set(shard, Math.max(doneMs, progress.get(shard) ?? 0))
    },
    async *hours() {},
    async workers() {
      await answer()
      return [...beats].filter(([, ms]) => now() - ms < WORKER_TTL_S * 1000).map(([id]) => id)
    },
    async beat(id) {
      await answer()
      beats.set(id, now())
    },
    async leave(id) {
      beats.delete(id)
    },
  }
  return { store, rollups, progress }
}
