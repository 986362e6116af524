/** What the work on rollups asks of a database, answered from the rows of a fake one. */

import { HOUR_MS, MARK_TTL_S, rollupTable, shardOf, startOf } from '@sandglass/common/rollup'
import { retentionClass, WORKER_TTL_S } from '@sandglass/common/schema'
import { FakeError } from './fake-storage.js'

/** @typedef {import('../../src/rollup/store.js').RollupStore} RollupStore */
/** @typedef {import('../../src/rollup/store.js').RollupRow} RollupRow */
/** @typedef {import('../../src/rollup/store.js').Progress} Progress */
/** @typedef {{ shard: number, slot: number, level: number, sensorId: string, metric: string,
 *   startMs: number, expiresMs: number }} FakeMark */

/** Lets everything else that is ready go first. */
const tick = () => new Promise((resolve) => setImmediate(resolve))

/** The rows of a fake database; marks can be found by their slot, and expire. */
class MarkedRows extends Map {
  /** By shard and slot, by everything. @type {Map<string, Map<string, FakeMark>>} */
  marks = new Map()
  /** By sensor. @type {Map<string, Set<Record<string, any>>>} */
  raw = new Map()
  #now

  /** @param {() => number} now */
  constructor(now) {
    super()
    this.#now = now
  }

  /** @param {any} key  @param {any} row */
  set(key, row) {
    if (row.table === 'late_mark') {
      const { shard, slot, level, metric, ttlS = 3 * 86_400 } = row
      const sensorId = String(row.sensor_id)
      const expiresMs = this.#now() + ttlS * 1000
      this.mark({ shard, slot, level, sensorId, metric, startMs: Number(row.ts), expiresMs })
    } else if (row.table.startsWith('measurement')) {
      const id = String(row.sensor_id)
      this.raw.set(id, (this.raw.get(id) ?? new Set()).add(row))
    }
    return super.set(key, row)
  }

  /** @param {any} key */
  delete(key) {
    const row = this.get(key)
    this.raw.get(String(row?.sensor_id))?.delete(row)
    return super.delete(key)
  }

  /** @param {FakeMark} mark */
  mark(mark) {
    const place = `${mark.shard} ${mark.slot}`
    const marks = this.marks.get(place) ?? new Map()
    this.marks.set(place, marks)
    const { level, sensorId, metric, startMs } = mark
    marks.set([level, sensorId, metric, startMs].join(' '), mark)
  }

  /** Those that have not expired. @param {number} shard  @param {number} slot */
  marksOf(shard, slot) {
    const marks = this.marks.get(`${shard} ${slot}`)
    if (!marks) return []
    return [...marks.values()].filter(({ expiresMs }) => expiresMs > this.#now())
  }
}

/**
 * @param {object} parts
 * @param {import('./fake-storage.js').FakeStorage} parts.storage
 * @param {() => number} parts.now
 * @param {() => number} [parts.steadyNow]  By which processes are forgotten.
 * @param {() => boolean} parts.fails  Whether the next request fails.
 */
export function createFakeRollups({ storage, now, steadyNow = now, fails }) {
  const rows = new MarkedRows(now)
  storage.stored = rows
  /** By table, sensor and metric, by start. */
  /** @type {Map<string, Map<number, RollupRow & { version: number }>>} */
  const rollups = new Map()
  /** @type {Map<number, Progress>} */
  const progress = new Map()
  /** Of a version before. @type {Map<number, number>} */
  const progressBefore = new Map()
  /** When each was last heard of. @type {Map<string, number>} */
  const beats = new Map()
  const answer = async () => {
    await tick()
    if (fails()) throw new FakeError('retry')
  }
  /** @param {string} level  @param {{ sensorId: string, metric: string }} series */
  const rollupsOf = (level, { sensorId, metric }) => {
    const key = `${rollupTable(level)} ${sensorId} ${metric}`
    const found = rollups.get(key) ?? new Map()
    rollups.set(key, found)
    return found
  }
  /** When a raw row expires. @param {Record<string, any>} row */
  const expiresMs = ({ table, timestamp }) => {
    const { ttlS } = retentionClass(table.slice('measurement_'.length))
    return timestamp / 1000 + (ttlS || Number.POSITIVE_INFINITY) * 1000
  }
  /** @satisfies {RollupStore} */
  const store = {
    async layouts(sensorId) {
      await answer()
      return (await storage.readSensors([sensorId])).get(sensorId)?.layouts ?? []
    },
    async *raw({ sensorId, metric }, { fromMs, toMs, bucket, className }) {
      await answer()
      const found = [...(rows.raw.get(sensorId) ?? [])]
        .filter((row) => row.table === `measurement_${className}` && row.metric === metric)
        .filter((row) => Number(row.bucket) === bucket && row.ts >= fromMs && row.ts < toMs)
        .filter((row) => expiresMs(row) > now())
      for (const row of found) {
        await tick()
        const dates = { wv: { toNumber: () => row.timestamp }, wi: null, wb: null }
        yield/** @type {any} */ ({ ...row, ts: new Date(row.ts), ...dates })
      }
    },
    async rollups({ name }, window, endMs) {
      await answer()
      return [...rollupsOf(name, window).values()].filter(
        ({ startMs }) => startMs >= window.startMs && startMs < endMs,
      )
    },
    async write({ name }, series, written, version) {
      await answer()
      const found = rollupsOf(name, series)
      for (const row of written) {
        if ((found.get(row.startMs)?.version ?? 0) <= version) {
          found.set(row.startMs, { ...row, version })
        }
      }
    },
    async dirtySlots(shard, slots) {
      await answer()
      return new Set(slots.filter((slot) => rows.marksOf(shard, slot).length > 0))
    },
    async *dirty(shard, slotMs, level) {
      await answer()
      for (const { sensorId, metric, startMs, level: its } of rows.marksOf(shard, slotMs)) {
        if (its === level) yield { sensorId, metric, startMs }
      }
    },
    async markDirty(shard, slot, level, windows) {
      await answer()
      const expiresMs = now() + MARK_TTL_S * 1000
      for (const window of windows) rows.mark({ shard, slot, level, ...window, expiresMs })
    },
    async progress(shard) {
      await answer()
      return progress.get(shard)
    },
    async progressBefore(shard) {
      await answer()
      return progressBefore.get(shard)
    },
    async setProgress(shard, its) {
      await answer()
      if ((progress.get(shard)?.version ?? 0) <= its.version) progress.set(shard, its)
    },
    async *rawHours() {},

    async *hours(shard) {
      /** @type {Set<string>} */
      const found = new Set()
      for (const [sensorId, its] of rows.raw) {
        if (shardOf(sensorId) !== shard) continue
        for (const row of its) {
          if (expiresMs(row) > now()) found.add(`${sensorId} ${startOf(Number(row.ts), HOUR_MS)}`)
        }
      }
      for (const [key, levels] of rollups) {
        const [table, sensorId] = key.split(' ')
        if (table !== 'rollup_1h' || shardOf(sensorId) !== shard) continue
        for (const startMs of levels.keys()) found.add(`${sensorId} ${startMs}`)
      }
      for (const one of found) {
        await answer()
        const [sensorId, startMs] = one.split(' ')
        yield { sensorId, metric: 'm', startMs: Number(startMs) }
      }
    },
    async workers() {
      await answer()
      return [...beats].filter(([, ms]) => steadyNow() - ms < WORKER_TTL_S * 1000).map(([id]) => id)
    },
    async beat(id) {
      await answer()
      beats.set(id, steadyNow())
    },
    async leave(id) {
      beats.delete(id)
    },
  }
  return { store, rollups, rollupsOf, progress, progressBefore, rows }
}
