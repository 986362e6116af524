/** What the work on rollups asks of the database, as functions with plain results. */

import { randomInt } from 'node:crypto'
import { Aggregate } from '@sandglass/common/aggregate'
import {
  HOUR_MS,
  LEVELS,
  MARK_TTL_S,
  markTimestampUs,
  progressKey,
  rollupTable,
  shardOf,
  startOf,
} from '@sandglass/common/rollup'
import { bucketOf, LAYOUT_COLUMNS, layoutOfRow, measurementTable } from '@sandglass/common/schema'
import { spans } from '@sandglass/common/spans'
import cassandra from 'cassandra-driver'

/** Raw rows of a page: while one is decoded, nothing else happens. */
const PAGE_ROWS = 500

/** Rows of one request to write, so that a cluster does not call it too large. */
const REQUEST_ROWS = 30

const ROLE = 'ingest'

const [, HOURS] = LEVELS

/** @typedef {import('@sandglass/common/schema').Layout} Layout */
/** @typedef {import('@sandglass/common/spans').Span} Span */
/** @typedef {{ sensorId: string, metric: string }} Series */
/** @typedef {Series & { startMs: number }} Window */

/**
 * A row of a measurement table, as far as rollups count it, and when it was received, in
 * microseconds: by which of its columns is set.
 *
 * @typedef {{ ts: Date, v: number | null, i: unknown, b: boolean | null,
 *   wv: Microseconds, wi: Microseconds, wb: Microseconds }} RawRow
 * @typedef {{ toNumber(): number } | null} Microseconds
 */

/** @typedef {{ startMs: number, aggregate: Aggregate, oldestMs: number | undefined }} RollupRow */

/** @param {string} keyspace */
function statements(keyspace) {
  const ROLLUP = 'sensor_id, bucket, metric, ts, n, sum, min, max, first, last, sketch, oldest'
  return {
    raw: (/** @type {string} */ className) =>
      `SELECT ts, v, i, b, writetime(v) AS wv, writetime(i) AS wi, writetime(b) AS wb
       FROM ${keyspace}.${measurementTable(className)}
       WHERE sensor_id = ? AND bucket = ? AND metric = ? AND ts >= ? AND ts <= ?`,
    rollups: (/** @type {string} */ level) =>
      `SELECT ts, n, sum, min, max, first, last, sketch, oldest
       FROM ${keyspace}.${rollupTable(level)}
       WHERE sensor_id = ? AND bucket = ? AND metric = ? AND ts >= ? AND ts < ?`,
    insert: (/** @type {string} */ level) =>
      `INSERT INTO ${keyspace}.${rollupTable(level)} (${ROLLUP})
       VALUES (${ROLLUP.split(', ').fill('?').join(', ')}) USING TIMESTAMP ?`,
    layouts: `SELECT from_ts, ${LAYOUT_COLUMNS} FROM ${keyspace}.layout WHERE sensor_id = ?`,
    newest: (/** @type {string} */ className) =>
      `SELECT ts FROM ${keyspace}.${measurementTable(className)}
       WHERE sensor_id = ? AND bucket = ? AND metric = ? AND ts >= ? AND ts <= ? LIMIT 1`,
    rolled: `SELECT ts FROM ${keyspace}.${rollupTable(HOURS.name)}
             WHERE sensor_id = ? AND bucket = ? AND metric = ?`,
    series: `SELECT sensor_id, metric, first_ts, last_ts FROM ${keyspace}.series`,
    dirtySlots: `SELECT DISTINCT shard, slot FROM ${keyspace}.late_mark
                 WHERE shard = ? AND slot IN ?`,
    dirty: `SELECT sensor_id, metric, ts FROM ${keyspace}.late_mark
            WHERE shard = ? AND slot = ? AND level = ?`,
    markDirty: `INSERT INTO ${keyspace}.late_mark (shard, slot, level, sensor_id, metric, ts)
                VALUES (?, ?, ?, ?, ?, ?) USING TIMESTAMP ? AND TTL ?`,
    progress: `SELECT done, writetime(done) AS version FROM ${keyspace}.rollup_progress
               WHERE shard = ?`,
    setProgress: `INSERT INTO ${keyspace}.rollup_progress (shard, done)
                  VALUES (?, ?) USING TIMESTAMP ?`,
    workers: `SELECT id FROM ${keyspace}.worker WHERE role = ?`,
    beat: `INSERT INTO ${keyspace}.worker (role, id, since) VALUES (?, ?, ?)`,
    leave: `DELETE FROM ${keyspace}.worker WHERE role = ? AND id = ?`,
  }
}

/**
 * @typedef {object} Progress  Of a shard.
 * @property {number} doneMs  Slots that ended until then are worked off.
 * @property {number} version  It grows with each slot that is worked off, also when `doneMs` falls.
 */

/** @typedef {ReturnType<typeof createRollupStore>} RollupStore */

/**
 * @param {import('../write/storage.js').Storage} storage
 * @param {string} keyspace
 */
export function createRollupStore(storage, keyspace) {
  const cql = statements(keyspace)
  const read = storage.read.bind(storage)
  // Rows of one version by two processes must not mix, column by column.
  const tag = randomInt(1000)
  return {
    /** Oldest first. @param {string} sensorId  @returns {Promise<Layout[]>} */
    async layouts(sensorId) {
      return (await read(cql.layouts, [sensorId])).map(layoutOfRow)
    },

    /**
     * The raw rows of a part of a partition, newest first: of one millisecond, by falling `seq`.
     *
     * @param {Series} series
     * @param {Span} span
     * @returns {AsyncIterable<RawRow>}
     */
    raw({ sensorId, metric }, { className, bucket, fromMs, toMs }) {
      const params = [sensorId, bucket, metric, fromMs, toMs - 1]
      const rows = storage.pages(cql.raw(className), params, PAGE_ROWS)
      return /** @type {AsyncIterable<any>} */ (rows)
    },

    /**
     * Rows of a level that begin between two times.
     *
     * @param {import('@sandglass/common/rollup').Level} level
     * @param {Window} window
     * @param {number} endMs  In the same bucket.
     * @returns {Promise<RollupRow[]>}
     */
    async rollups(level, { sensorId, metric, startMs }, endMs) {
      const bucket = bucketOf(level.bucketS, startMs)
      const params = [sensorId, bucket, metric, startMs, endMs]
      return (await read(cql.rollups(level.name), params)).map((row) => ({
        startMs: row.ts.getTime(),
        aggregate: Aggregate.ofRow(row),
        oldestMs: row.oldest?.getTime(),
      }))
    },

    /**
     * @param {import('@sandglass/common/rollup').Level} level
     * @param {Series} series
     * @param {RollupRow[]} rows
     * @param {number} version  Of two rows of one window, that of the higher version stays.
     */
    async write(level, { sensorId, metric }, rows, version) {
      const query = cql.insert(level.name)
      const timestamp = cassandra.types.Long.fromNumber(version * 1000 + tag)
      const statements = rows.map(({ startMs, aggregate, oldestMs }) => {
        const { n, sum, min, max, first, last, sketch } = aggregate
        const bucket = bucketOf(level.bucketS, startMs)
        const { unset } = cassandra.types
        return {
          query,
          params: [
            ...[sensorId, bucket, metric, startMs, n, sum, min, max, first, last],
            ...[sketch?.encode() ?? unset, oldestMs ?? unset, timestamp],
          ],
        }
      })
      await inRequests(storage, statements)
    },

    ...hourStore(storage, cql),
    ...progressStore(storage, cql),
  }
}

/**
 * @param {import('../write/storage.js').Storage} storage
 * @param {{ query: string, params: unknown[] }[]} statements  Alike and of one partition.
 */
async function inRequests(storage, statements) {
  for (let at = 0; at < statements.length; at += REQUEST_ROWS) {
    await storage.run(statements.slice(at, at + REQUEST_ROWS))
  }
}

/**
 * @param {import('../write/storage.js').Storage} storage
 * @param {ReturnType<typeof statements>} cql
 */
function hourStore(storage, cql) {
  const read = storage.read.bind(storage)
  /**
   * Hours that have raw rows: each is found by its newest one.
   *
   * @param {Series} series
   * @param {readonly Layout[]} layouts
   * @param {import('@sandglass/common/spans').Range} range
   */
  async function* rawHours({ sensorId, metric }, layouts, range) {
    for (const { className, bucket, fromMs, toMs } of spans(layouts, [range], 'desc')) {
      for (let endMs = toMs; endMs > fromMs; ) {
        const params = [sensorId, bucket, metric, fromMs, endMs - 1]
        const [row] = await read(cql.newest(className), params)
        if (!row) break
        endMs = startOf(row.ts.getTime(), HOUR_MS)
        yield endMs
      }
    }
  }

  /** Hours that were summed up: of their raw rows none may be left. */
  /** @param {Series} series  @param {import('@sandglass/common/spans').Range} range */
  async function* rolledHours({ sensorId, metric }, { fromMs, toMs }) {
    const { bucketS } = HOURS
    for (let bucket = bucketOf(bucketS, fromMs); bucket * 1000 < toMs; bucket += bucketS) {
      for await (const row of storage.pages(cql.rolled, [sensorId, bucket, metric])) {
        yield row.ts.getTime()
      }
    }
  }

  return {
    rawHours,

    /**
     * Every hour that holds rows, of the series of a shard.
     *
     * @param {number} shard
     * @param {(sensorId: string) => Promise<Layout[]>} layoutsOf
     * @returns {AsyncGenerator<Window>}
     */
    async *hours(shard, layoutsOf) {
      for await (const row of storage.pages(cql.series)) {
        const series = { sensorId: row.sensor_id.toString(), metric: row.metric }
        if (shardOf(series.sensorId) !== shard || !row.first_ts || !row.last_ts) continue
        const range = {
          fromMs: startOf(row.first_ts.getTime() - HOUR_MS, HOUR_MS),
          toMs: startOf(row.last_ts.getTime() + 2 * HOUR_MS, HOUR_MS),
        }
        const layouts = await layoutsOf(series.sensorId)
        /** @type {Set<number>} */
        const found = new Set()
        if (layouts.length > 0) {
          for await (const startMs of rawHours(series, layouts, range)) found.add(startMs)
        }
        for await (const startMs of rolledHours(series, range)) found.add(startMs)
        for (const startMs of found) yield { ...series, startMs }
      }
    },
  }
}

/**
 * What is to be done, by whom, and how far that has come.
 *
 * @param {import('../write/storage.js').Storage} storage
 * @param {ReturnType<typeof statements>} cql
 */
function progressStore(storage, cql) {
  const read = storage.read.bind(storage)
  return {
    /**
     * Those of some slots that have marks.
     *
     * @param {number} shard
     * @param {readonly number[]} slots
     * @returns {Promise<Set<number>>}
     */
    async dirtySlots(shard, slots) {
      const rows = await read(cql.dirtySlots, [shard, slots])
      return new Set(rows.map((row) => row.slot.getTime()))
    },

    /**
     * @param {number} shard
     * @param {number} slotMs
     * @param {number} level  Of `MARK`.
     * @returns {AsyncGenerator<Window>}
     */
    async *dirty(shard, slotMs, level) {
      for await (const row of storage.pages(cql.dirty, [shard, slotMs, level])) {
        yield {
          sensorId: row.sensor_id.toString(),
          metric: row.metric,
          startMs: row.ts.getTime(),
        }
      }
    },

    /**
     * @param {number} shard
     * @param {number} slotMs
     * @param {number} level  Of `MARK`.
     * @param {readonly Window[]} windows
     */
    async markDirty(shard, slotMs, level, windows) {
      const timestamp = cassandra.types.Long.fromNumber(markTimestampUs(slotMs))
      const statements = windows.map(({ sensorId, metric, startMs }) => ({
        query: cql.markDirty,
        params: [shard, slotMs, level, sensorId, metric, startMs, timestamp, MARK_TTL_S],
      }))
      await inRequests(storage, statements)
    },

    /** @param {number} shard  @returns {Promise<Progress | undefined>} */
    async progress(shard) {
      const [row] = await read(cql.progress, [progressKey(shard)])
      return row && progressOf(row)
    },

    /**
     * How far versions had come whose marks lived for three days.
     *
     * @param {number} shard
     * @returns {Promise<number | undefined>}
     */
    async progressBefore(shard) {
      const [row] = await read(cql.progress, [shard])
      return row?.done.getTime()
    },

    /**
     * Of two, that of the higher version stays.
     *
     * @param {number} shard
     * @param {Progress} progress
     */
    async setProgress(shard, { doneMs, version }) {
      const timestamp = cassandra.types.Long.fromNumber(version * 1000)
      await read(cql.setProgress, [progressKey(shard), doneMs, timestamp])
    },

    /** Ids of the processes that share the work. @returns {Promise<string[]>} */
    async workers() {
      return (await read(cql.workers, [ROLE])).map((row) => row.id.toString())
    },

    /** @param {string} id  @param {number} sinceMs */
    async beat(id, sinceMs) {
      await read(cql.beat, [ROLE, id, sinceMs])
    },

    /** @param {string} id */
    async leave(id) {
      await read(cql.leave, [ROLE, id])
    },
  }
}

/** @param {any} row  @returns {Progress} */
function progressOf({ done, version }) {
  return { doneMs: done.getTime(), version: Math.floor(Number(version.toString()) / 1000) }
}
