/** What a deletion asks of the database, as functions with plain results. */

import {
  closeStatement,
  DELETION_COLUMNS,
  DELETION_TTL_S,
  deletionOfRow,
  deletionStampUs,
  openStampUs,
  openStatement,
} from '@sandglass/common/deletion'
import { rollupTable } from '@sandglass/common/rollup'
import { bucketOf, LAYOUT_COLUMNS, layoutOfRow, measurementTable } from '@sandglass/common/schema'
import cassandra from 'cassandra-driver'
import { asNewest } from '../sensors/repair-latest.js'
import { Sensor } from '../sensors/series.js'
import { COVER_MS, eraStart } from '../write/rows.js'
import { isOver } from './deletion.js'

const { Long } = cassandra.types

/** @typedef {import('@sandglass/common/deletion').Deletion} Deletion */
/** @typedef {import('@sandglass/common/schema').Layout} Layout */
/** @typedef {import('@sandglass/common/spans').Range} Range */
/** @typedef {import('@sandglass/common/spans').Span} Span */
/** @typedef {Deletion & { state: import('./deletion.js').State | undefined }} Job */
/**
 * Of a series, with some margin; empty where nothing is stored of it.
 *
 * @typedef {Range & { metric: string, era: number, coverEra: number }} Extent
 */

/** Open jobs that are read at the same time. */
const JOBS_AT_ONCE = 32

/** Of a series of which nothing is stored. */
const NOWHERE = Object.freeze({ fromMs: Infinity, toMs: -Infinity })

/** @param {string} keyspace */
function statements(keyspace) {
  const jobs = `SELECT ${DELETION_COLUMNS}, state FROM ${keyspace}.deletion`
  const PART = 'sensor_id = ? AND bucket = ? AND metric = ? AND ts >= ? AND ts < ?'
  const drop = (/** @type {string} */ table) =>
    `DELETE FROM ${keyspace}.${table} USING TIMESTAMP ? WHERE ${PART}`
  return {
    jobs,
    listed: `SELECT sensor_id, id FROM ${keyspace}.deletion_open`,
    open: openStatement(keyspace),
    close: closeStatement(keyspace),
    job: `${jobs} WHERE sensor_id = ? AND id = ?`,
    save: `INSERT INTO ${keyspace}.deletion (sensor_id, id, metrics, from_ts, to_ts, whole, state)
           VALUES (?, ?, ?, ?, ?, ?, ?) USING TTL ?`,
    layouts: `SELECT from_ts, ${LAYOUT_COLUMNS} FROM ${keyspace}.layout WHERE sensor_id = ?`,
    rewrite: `SELECT state FROM ${keyspace}.rewrite WHERE sensor_id = ?`,
    series: `SELECT metric, first_ts, last_ts, era, cover_era FROM ${keyspace}.series
             WHERE sensor_id = ?`,
    setCoverEra: `UPDATE ${keyspace}.series SET cover_era = ?
                  WHERE sensor_id = ? AND metric = ?`,
    dropCover: `DELETE first_ts, last_ts FROM ${keyspace}.series USING TIMESTAMP ?
                WHERE sensor_id = ? AND metric = ?`,
    dropTold: `DELETE told_unit FROM ${keyspace}.series USING TIMESTAMP ?
               WHERE sensor_id = ? AND metric = ?`,
    setEra: `UPDATE ${keyspace}.series SET era = ? WHERE sensor_id = ? AND metric = ?`,
    latest: `SELECT ts, received FROM ${keyspace}.latest WHERE sensor_id = ? AND metric = ?`,
    dropLatest: `DELETE FROM ${keyspace}.latest USING TIMESTAMP ?
                 WHERE sensor_id = ? AND metric = ?`,
    dropRows: (/** @type {string} */ className) => drop(measurementTable(className)),
    times: (/** @type {string} */ className) =>
      `SELECT MIN(ts) AS first, MAX(ts) AS last FROM ${keyspace}.${measurementTable(className)}
       WHERE ${PART}`,
    dropRollups: (/** @type {string} */ level) => drop(rollupTable(level)),
  }
}

export class DeletionStore {
  #storage
  #cql
  #rows
  /** Whether those are listed that the version before, which had no list, has left open. */
  #isListed = false

  /**
   * @param {object} parts
   * @param {Pick<import('../write/storage.js').Storage, 'read' | 'pages' | 'newest'>} parts.storage
   * @param {string} parts.keyspace
   * @param {import('../write/rows.js').Rows} parts.rows
   */
  constructor({ storage, keyspace, rows }) {
    this.#storage = storage
    this.#cql = statements(keyspace)
    this.#rows = rows
  }

  /**
   * Those that are not over. What is over is kept for 400 days, so it is looked for in a list of
   * its own. Whoever sees that a listed one is over takes it off: after a crash it is seen again.
   *
   * @returns {Promise<Job[]>}
   */
  async jobs() {
    if (!this.#isListed) await this.#listAll()
    this.#isListed = true
    const listed = await this.#storage.read(this.#cql.listed, [])
    /** @type {Job[]} */
    const open = []
    for (let at = 0; at < listed.length; at += JOBS_AT_ONCE) {
      const some = listed.slice(at, at + JOBS_AT_ONCE)
      const jobs = await Promise.all(some.map((row) => this.job(`${row.sensor_id}`, `${row.id}`)))
      for (const job of jobs) {
        // One that is listed and not there is about to be asked for.
        if (!job) continue
        if (isOver(job)) await this.#close(job)
        else open.push(job)
      }
    }
    return open
  }

  async #listAll() {
    for await (const row of this.#storage.pages(this.#cql.jobs)) {
      const job = jobOf(row)
      if (isOver(job)) continue
      const params = [job.sensorId, job.id, Long.fromNumber(openStampUs(job))]
      await this.#storage.read(this.#cql.open, params)
    }
  }

  /** @param {Job} job */
  async #close(job) {
    const stamp = Long.fromNumber(deletionStampUs(job))
    await this.#storage.read(this.#cql.close, [stamp, job.sensorId, job.id])
  }

  /** @param {string} sensorId  @param {string} [id]  @returns {Promise<Job | undefined>} */
  async job(sensorId, id) {
    const [row] = await this.#storage.read(this.#cql.job, [sensorId, id])
    return row && jobOf(row)
  }

  /** @param {Deletion} job  @param {import('./deletion.js').State} state */
  async save({ sensorId, id, metrics, fromMs, toMs, isWhole = false }, state) {
    const text = JSON.stringify(state)
    await this.#storage.read(this.#cql.save, [
      ...[sensorId, id, metrics, fromMs, toMs, isWhole, text, DELETION_TTL_S],
    ])
  }

  /** @param {string} sensorId  @returns {Promise<Layout[]>} */
  async layouts(sensorId) {
    return (await this.#storage.read(this.#cql.layouts, [sensorId])).map(layoutOfRow)
  }

  /** What a rewrite has left. */
  /** @param {string} sensorId  @returns {Promise<import('../rewrite/layouts.js').Left[]>} */
  async left(sensorId) {
    const [row] = await this.#storage.read(this.#cql.rewrite, [sensorId])
    const left = row?.state ? JSON.parse(row.state).left : []
    // In JSON the end of time is null.
    return left.map((/** @type {any} */ one) => ({ ...one, toMs: one.toMs ?? Infinity }))
  }

  /** Of what was measured. @param {string} sensorId  @returns {Promise<Extent[]>} */
  async extents(sensorId) {
    const rows = await this.#storage.read(this.#cql.series, [sensorId])
    return rows.map((row) => ({
      metric: row.metric,
      ...(row.first_ts && row.last_ts
        ? {
            fromMs: row.first_ts.getTime() - COVER_MS,
            toMs: row.last_ts.getTime() + COVER_MS + 1,
          }
        : NOWHERE),
      era: row.era ?? 0,
      coverEra: row.cover_era ?? 0,
    }))
  }

  /**
   * Between which times a part of a partition has rows.
   *
   * @param {string} sensorId
   * @param {string} metric
   * @param {Span} span
   * @returns {Promise<{ firstMs: number, lastMs: number } | undefined>}
   */
  async times(sensorId, metric, { className, bucket, fromMs, toMs }) {
    const params = [sensorId, bucket, metric, fromMs, toMs]
    const [row] = await this.#storage.read(this.#cql.times(className), params)
    if (!row?.first) return undefined
    return { firstMs: row.first.getTime(), lastMs: row.last.getTime() }
  }

  /**
   * Has readers look at these times.
   *
   * @param {string} sensorId
   * @param {string} metric
   * @param {{ firstMs: number, lastMs: number }} times
   * @param {number} coverEra
   */
  async cover(sensorId, metric, { firstMs, lastMs }, coverEra) {
    const series = new Sensor(sensorId, sensorId).seriesOf(metric)
    series.coverEra = coverEra
    for (const row of [
      this.#rows.seriesFrom(series, firstMs),
      this.#rows.seriesTo(series, lastMs),
    ]) {
      await this.#storage.read(row.query, row.params)
    }
  }

  /**
   * @param {string} sensorId
   * @param {string} metric
   * @param {Span} span
   * @param {number} stampUs
   */
  async dropRows(sensorId, metric, { className, bucket, fromMs, toMs }, stampUs) {
    const params = [Long.fromNumber(stampUs), sensorId, bucket, metric, fromMs, toMs]
    await this.#storage.read(this.#cql.dropRows(className), params)
  }

  /**
   * @param {import('@sandglass/common/rollup').Level} level
   * @param {string} sensorId
   * @param {string} metric
   * @param {Range} range
   * @param {number} stampUs
   */
  async dropRollups({ name, bucketS }, sensorId, metric, range, stampUs) {
    const stamp = Long.fromNumber(stampUs)
    for (let atMs = range.fromMs; atMs < range.toMs; ) {
      const bucket = bucketOf(bucketS, atMs)
      const endMs = Math.min((bucket + bucketS) * 1000, range.toMs)
      const params = [stamp, sensorId, bucket, metric, atMs, endMs]
      await this.#storage.read(this.#cql.dropRollups(name), params)
      atMs = endMs
    }
  }

  /** @param {string} sensorId  @param {string} metric  @param {number} era */
  async setEra(sensorId, metric, era) {
    await this.#storage.read(this.#cql.setEra, [era, sensorId, metric])
  }

  /** The same, of first and last time. */
  /** @param {string} sensorId  @param {string} metric  @param {number} era */
  async setCoverEra(sensorId, metric, era) {
    await this.#storage.read(this.#cql.setCoverEra, [era, sensorId, metric])
  }

  /**
   * Forgets first and last time of the eras before, and the unit that was told until the deletion.
   *
   * @param {string} sensorId
   * @param {string} metric
   * @param {number} coverEra
   * @param {number} stampUs  Of the deletion.
   */
  async dropCover(sensorId, metric, coverEra, stampUs) {
    const before = eraStart(coverEra).subtract(1)
    await this.#storage.read(this.#cql.dropCover, [before, sensorId, metric])
    const stamp = Long.fromNumber(stampUs)
    await this.#storage.read(this.#cql.dropTold, [stamp, sensorId, metric])
  }

  /** What is shown as the newest value. @param {string} sensorId  @param {string} metric */
  async latest(sensorId, metric) {
    const [row] = await this.#storage.read(this.#cql.latest, [sensorId, metric])
    if (!row?.ts) return undefined
    const timeMs = row.ts.getTime()
    return { timeMs, receivedMs: /** @type {number} */ (row.received?.getTime() ?? timeMs) }
  }

  /** @param {string} sensorId  @param {string} metric  @param {cassandra.types.Long} stamp */
  async dropLatest(sensorId, metric, stamp) {
    await this.#storage.read(this.#cql.dropLatest, [stamp, sensorId, metric])
  }

  /**
   * Has what is stored shown as the newest value, if there is something.
   *
   * @param {string} sensorId
   * @param {Extent} extent
   * @param {readonly Layout[]} layouts
   * @param {number} era
   */
  async showNewest(sensorId, { metric, fromMs, toMs }, layouts, era) {
    const lastMs = toMs - COVER_MS - 1
    const within = { fromMs, spansMax: Number.POSITIVE_INFINITY }
    const [row] = await this.#storage.newest({ id: sensorId, layouts }, metric, lastMs, 1, within)
    const newest = row && asNewest(row)
    if (newest?.value === undefined) return
    const series = new Sensor(sensorId, sensorId).seriesOf(metric)
    series.era = era
    const { query, params } = this.#rows.latest(series, newest, newest.value)
    await this.#storage.read(query, params)
  }
}

/** @param {any} row  @returns {Job} */
function jobOf(row) {
  return { ...deletionOfRow(row), state: row.state ? JSON.parse(row.state) : undefined }
}
