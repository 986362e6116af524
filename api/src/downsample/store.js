/** What is asked of the database to sum series up. */

import { Aggregate } from '@sandglass/common/aggregate'
import {
  LEVELS,
  MARK,
  progressKey,
  rollupTable,
  SLOT_MS,
  shardOf,
  startOf,
} from '@sandglass/common/rollup'
import { CLASS_NAMES, measurementTable } from '@sandglass/common/schema'

/** @typedef {import('@sandglass/common/spans').Range} Range */
/** @typedef {import('@sandglass/common/spans').Span} Span */
/** @typedef {Range & { bucket: number }} Part  Of a partition; `bucket` as in the table. */
/** @typedef {import('cassandra-driver').types.Row} Row */

/** Gives all rows of an answer. */
/** @typedef {(query: string, parameters: unknown[]) => Promise<Row[]>} Ask */

/** Gives a page of them. */
/**
 * @typedef {(query: string, parameters: unknown[], pageState?: string) =>
 *   Promise<{ rows: Row[], pageState: string }>} Page
 */

/**
 * @typedef {{ ts: Date, v: number | null, i: { toString(): string } | null,
 *   b: boolean | null }} NumberRow
 */

/**
 * @typedef {object} HourRow  Without its sketch.
 * @property {number} startMs
 * @property {Aggregate} aggregate
 * @property {number} [oldestMs]  When the first of its raw rows was received; undefined where an
 *   earlier version summed it up.
 * @property {number} leftMs  How long it will live: so it was written when it had all of its time.
 */

/** @param {string} keyspace */
function statements(keyspace) {
  /** @param {string} className */
  const raw = (className) =>
    `SELECT ts, v, i, b FROM ${keyspace}.${measurementTable(className)}
     WHERE sensor_id = ? AND bucket = ? AND metric = ? AND ts >= ? AND ts < ?`
  /** @param {string} level  @param {string} columns */
  const rollup = (level, columns) =>
    `SELECT ts, n${columns} FROM ${keyspace}.${rollupTable(level)}
     WHERE sensor_id = ? AND bucket = ? AND metric = ? AND ts >= ? AND ts < ?`
  const sums = ', sum, min, max, first, last'
  return {
    numbers: new Map(CLASS_NAMES.map((name) => [name, raw(name)])),
    rollups: new Map(LEVELS.map(({ name }) => [name, rollup(name, `${sums}, sketch`)])),
    hours: rollup('1h', `${sums}, oldest, ttl(n) AS left_s`),
    dayCounts: rollup('1d', ''),
    progress: `SELECT done FROM ${keyspace}.rollup_progress WHERE shard = ?`,
    marks: `SELECT metric, ts FROM ${keyspace}.late_mark
            WHERE shard = ? AND slot IN ? AND level = ${MARK.hour} AND sensor_id = ?`,
  }
}

/**
 * @param {string} keyspace
 * @param {Ask} ask
 * @param {Page} page
 */
export function rollupQuestions(keyspace, ask, page) {
  const cql = statements(keyspace)
  return {
    /**
     * A page of raw rows of a series in a part of a partition, as far as they are numbers, newest
     * first: of one millisecond, by falling `seq`.
     *
     * @param {string} sensorId
     * @param {string} metric
     * @param {Span} span
     * @param {string} [pageState]  Of the page before.
     * @returns {Promise<{ rows: NumberRow[], pageState: string | undefined }>}
     */
    async numbers(sensorId, metric, { className, bucket, fromMs, toMs }, pageState) {
      const query = /** @type {string} */ (cql.numbers.get(className))
      const found = await page(query, [sensorId, bucket, metric, fromMs, toMs], pageState)
      return { rows: /** @type {any[]} */ (found.rows ?? []), pageState: found.pageState }
    },

    /**
     * Rows of a level.
     *
     * @param {string} sensorId
     * @param {string} metric
     * @param {Part & { level: string }} part
     */
    async rollups(sensorId, metric, { level, bucket, fromMs, toMs }) {
      const query = /** @type {string} */ (cql.rollups.get(level))
      return ask(query, [sensorId, bucket, metric, fromMs, toMs])
    },

    /**
     * What was summed up of hours.
     *
     * @param {string} sensorId
     * @param {string} metric
     * @param {Part} part
     * @returns {Promise<HourRow[]>}
     */
    async hours(sensorId, metric, { bucket, fromMs, toMs }) {
      const rows = await ask(cql.hours, [sensorId, bucket, metric, fromMs, toMs])
      return rows.map((row) => ({
        startMs: row.ts.getTime(),
        aggregate: Aggregate.ofRow(/** @type {any} */ (row)),
        oldestMs: row.oldest?.getTime(),
        leftMs: row.left_s * 1000,
      }))
    },

    /**
     * How many raw rows days count.
     *
     * @param {string} sensorId
     * @param {string} metric
     * @param {Part} part
     * @returns {Promise<Map<number, number>>}  By their start.
     */
    async dayCounts(sensorId, metric, { bucket, fromMs, toMs }) {
      const rows = await ask(cql.dayCounts, [sensorId, bucket, metric, fromMs, toMs])
      return new Map(rows.map(({ ts, n }) => [ts.getTime(), Number(n.toString())]))
    },

    /** Until when the slots of a sensor are worked off. @param {string} sensorId */
    async rollupProgress(sensorId) {
      const [row] = await ask(cql.progress, [progressKey(shardOf(sensorId))])
      return /** @type {number | undefined} */ (row?.done.getTime())
    },

    /**
     * Hours of a sensor with a mark in a slot of a range, by metric.
     *
     * @param {string} sensorId
     * @param {Range} slots  At most {@link SLOTS_MAX}.
     * @returns {Promise<Map<string, Set<number>>>}
     */
    async markedHours(sensorId, { fromMs, toMs }) {
      /** @type {number[]} */
      const slots = []
      for (let ms = startOf(fromMs, SLOT_MS); ms < toMs; ms += SLOT_MS) slots.push(ms)
      /** @type {Map<string, Set<number>>} */
      const found = new Map()
      for (const { metric, ts } of await ask(cql.marks, [shardOf(sensorId), slots, sensorId])) {
        const hours = found.get(metric) ?? new Set()
        found.set(metric, hours.add(ts.getTime()))
      }
      return found
    },
  }
}

/** Most slots of one question. */
export const SLOTS_MAX = 90
