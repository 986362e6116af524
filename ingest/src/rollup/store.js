/** What the work on rollups asks of the database, as functions with plain results. */

import { Aggregate } from '@sandglass/common/aggregate'
import { HOUR_MS, rollupTable, startOf } from '@sandglass/common/rollup'
import { bucketOf, LAYOUT_COLUMNS, layoutOfRow, measurementTable } from '@sandglass/common/schema'
import cassandra from 'cassandra-driver'

/** Raw rows of a page: while one is decoded, nothing else happens. */
const PAGE_ROWS = 500

/** Rows of one request to write, so that a cluster does not call it too large. */
const REQUEST_ROWS = 30

const ROLE = 'ingest'

/** @typedef {import('@sandglass/common/schema').Layout} Layout */
/** @typedef {import('@sandglass/common/spans').Span} Span */
/** @typedef {{ sensorId: string, metric: string, startMs: number }} Window */

/**
 * A row of a measurement table, as far as rollups count it.
 *
 * @typedef {{ ts: Date, v: number | null, i: unknown, b: boolean | null,
 *   wv?: unknown, wi?: unknown, wb?: unknown }} RawRow
 */

/** @typedef {{ startMs: number, aggregate: Aggregate, oldestMs: number | undefined }} RollupRow */

/** @param {string} keyspace */
function statements(keyspace) {
  /** @param {string} className  @param {string} columns */
  const raw = (className, columns) =>
    `SELECT ts, v, i, b${columns} FROM ${keyspace}.${measurementTable(className)}
     WHERE sensor_id = ? AND bucket = ? AND metric = ? AND ts >= ? AND ts <= ?`
  const ROLLUP = 'sensor_id, bucket, metric, ts, n, sum, min, max, first, last, sketch, oldest'
  return {
    raw: (/** @type {string} */ className) => raw(className, ''),
    dated: (/** @type {string} */ className) =>
      raw(className, ', writetime(v) AS wv, writetime(i) AS wi, writetime(b) AS wb'),
    rollups: (/** @type {string} */ level) =>
      `SELECT ts, n, sum, min, max, first, last, sketch, oldest
       FROM ${keyspace}.${rollupTable(level)}
       WHERE sensor_id = ? AND bucket = ? AND metric = ? AND ts >= ? AND ts < ?`,
    insert: (/** @type {string} */ level) =>
      `INSERT INTO ${keyspace}.${rollupTable(level)} (${ROLLUP})
       VALUES (${ROLLUP.split(', ').fill('?').join(', ')}) USING TIMESTAMP ?`,
    layouts: `SELECT from_ts, ${LAYOUT_COLUMNS} FROM ${keyspace}.layout WHERE sensor_id = ?`,
    series: `SELECT sensor_id, metric, first_ts, last_ts FROM ${keyspace}.series`,
    marks: `SELECT sensor_id, metric, ts FROM ${keyspace}.late_mark
            WHERE shard = ? AND slot = ? AND level = ?`,
    mark: `INSERT INTO ${keyspace}.late_mark (shard, slot, level, sensor_id, metric, ts)
           VALUES (?, ?, ?, ?, ?, ?)`,
    progress: `SELECT done FROM ${keyspace}.rollup_progress WHERE shard = ?`,
    setProgress: `INSERT INTO ${keyspace}.rollup_progress (shard, done)
                  VALUES (?, ?) USING TIMESTAMP ?`,
    workers: `SELECT id FROM ${keyspace}.worker WHERE role = ?`,
    beat: `INSERT INTO ${keyspace}.worker (role, id, since) VALUES (?, ?, ?)`,
    leave: `DELETE FROM ${keyspace}.worker WHERE role = ? AND id = ?`,
  }
}

/** @typedef {ReturnType<typeof createRollupStore>} RollupStore */

/**
 * @param {import('../write/storage.js').Storage} storage
 * @param {string} keyspace
 */
export function createRollupStore(storage, keyspace) {
  const cql = statements(keyspace)
  const read = storage.read.bind(storage)
  return {
    /** Oldest first. @param {string} sensorId  @returns {Promise<Layout[]>} */
    async layouts(sensorId) {
      return (await read(cql.layouts, [sensorId])).map(layoutOfRow)
    },

    /**
     * The raw rows of a part of a partition, newest first: of one millisecond, by falling `seq`.
     *
     * @param {{ sensorId: string, metric: string }} series
     * @param {Span} span
     * @param {boolean} isDated  Whether they tell when they were received.
     * @returns {AsyncIterable<RawRow>}
     */
    raw({ sensorId, metric }, { className, bucket, fromMs, toMs }, isDated) {
      const query = isDated ? cql.dated(className) : cql.raw(className)
      const params = [sensorId, bucket, metric, fromMs, toMs - 1]
      return /** @type {AsyncIterable<any>} */ (storage.pages(query, params, PAGE_ROWS))
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
     * @param {{ sensorId: string, metric: string }} series
     * @param {RollupRow[]} rows
     * @param {number} readMs  When reading what they are made of began: of two, the later wins.
     */
    async write(level, { sensorId, metric }, rows, readMs) {
      const query = cql.insert(level.name)
      const timestamp = cassandra.types.Long.fromNumber(readMs * 1000)
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
      for (let at = 0; at < statements.length; at += REQUEST_ROWS) {
        await storage.run(statements.slice(at, at + REQUEST_ROWS))
      }
    },

    ...progressStore(storage, cql),
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
     * @param {number} shard
     * @param {number} slotMs
     * @param {number} level  Of `MARK`.
     * @returns {AsyncGenerator<Window>}
     */
    async *marks(shard, slotMs, level) {
      for await (const row of storage.pages(cql.marks, [shard, slotMs, level])) {
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
     * @param {Window} window
     */
    async mark(shard, slotMs, level, { sensorId, metric, startMs }) {
      await read(cql.mark, [shard, slotMs, level, sensorId, metric, startMs])
    },

    /** @param {number} shard  @returns {Promise<number | undefined>} */
    async progress(shard) {
      const [row] = await read(cql.progress, [shard])
      return row?.done.getTime()
    },

    /** @param {number} shard  @param {number} doneMs */
    async setProgress(shard, doneMs) {
      const timestamp = cassandra.types.Long.fromNumber(doneMs * 1000)
      await read(cql.setProgress, [shard, doneMs, timestamp])
    },

    /** Every hour that may hold rows, of every series. @returns {AsyncGenerator<Window>} */
    async *hours() {
      for await (const row of storage.pages(cql.series)) {
        if (!row.first_ts || !row.last_ts) continue
        const fromMs = startOf(row.first_ts.getTime() - HOUR_MS, HOUR_MS)
        const toMs = row.last_ts.getTime() + HOUR_MS
        for (let startMs = fromMs; startMs < toMs; startMs += HOUR_MS) {
          yield { sensorId: row.sensor_id.toString(), metric: row.metric, startMs }
        }
      }
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
