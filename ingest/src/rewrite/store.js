/** What a rewrite asks of the database, as functions with plain results. */

import { kindOf, VALUE_COLUMNS } from '@sandglass/common/measurement'
import {
  closeRewriteStampUs,
  closeRewriteStatement,
  openRewriteStampUs,
  openRewriteStatement,
} from '@sandglass/common/rewrite'
import {
  bucketAt,
  LAYOUT_COLUMNS,
  layoutOfRow,
  measurementTable,
  retentionClass,
} from '@sandglass/common/schema'
import cassandra from 'cassandra-driver'
import { COVER_MS } from '../write/rows.js'

const { Long } = cassandra.types

/** Rows of a page: while one is decoded, nothing else happens. */
const PAGE_ROWS = 500

/** Open jobs that are read at the same time. */
const JOBS_AT_ONCE = 32

/** Rows and bytes of one request to write, so that a cluster does not call it too large. */
const REQUEST_ROWS = 30
const REQUEST_BYTES = 16_384

/** What a row takes besides its text, in bytes, about. */
const ROW_BYTES = 80

const COLUMNS = ['v', 'i', 'b', 's', 'lat', 'lon']
const RECEIPTS = ['v', 'i', 'b', 's', 'lat']
const KEY = 'sensor_id = ? AND bucket = ?'

/** @typedef {import('@sandglass/common/schema').Layout} Layout */
/** @typedef {import('@sandglass/common/schema').Place} Place */

/**
 * What was asked for, and how far it has come.
 *
 * @typedef {object} Job
 * @property {string} sensorId
 * @property {number} askedMs
 * @property {string | null} className  None where it was called off.
 * @property {import('./rewrite.js').State | undefined} state
 */

/**
 * @typedef {object} StoredRow
 * @property {string} metric
 * @property {number} timeMs  Of the event.
 * @property {unknown} seq
 * @property {number} kind
 * @property {unknown[]} values  Of the columns of that kind.
 * @property {number} receivedMs
 * @property {number} bytes
 */

/** @typedef {{ query: string, params: unknown[], bytes: number }} Statement */

/** @param {string} keyspace */
function statements(keyspace) {
  const receipts = RECEIPTS.map((column) => `writetime(${column}) AS w${column}`).join(', ')
  return {
    jobs: `SELECT sensor_id, asked, class, state FROM ${keyspace}.rewrite`,
    listed: `SELECT sensor_id, asked FROM ${keyspace}.rewrite_open`,
    open: openRewriteStatement(keyspace),
    close: closeRewriteStatement(keyspace),
    save: `INSERT INTO ${keyspace}.rewrite (sensor_id, state) VALUES (?, ?)`,
    layouts: `SELECT from_ts, ${LAYOUT_COLUMNS}, writetime(class) AS written
              FROM ${keyspace}.layout WHERE sensor_id = ?`,
    putLayout: `INSERT INTO ${keyspace}.layout (sensor_id, from_ts, ${LAYOUT_COLUMNS})
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP ?`,
    dropLayout: `DELETE FROM ${keyspace}.layout USING TIMESTAMP ?
                 WHERE sensor_id = ? AND from_ts = ?`,
    series: `SELECT first_ts, last_ts FROM ${keyspace}.series WHERE sensor_id = ?`,
    /** @param {string} className */
    rows: (className) =>
      `SELECT metric, ts, seq, ${COLUMNS.join(', ')}, ${receipts}
       FROM ${keyspace}.${measurementTable(className)} WHERE ${KEY}`,
    /** @param {string} className  @param {readonly string[]} columns  @param {boolean} isMortal */
    insert: (className, columns, isMortal) => {
      const names = ['sensor_id', 'bucket', 'metric', 'ts', 'seq', ...columns]
      return `INSERT INTO ${keyspace}.${measurementTable(className)} (${names.join(', ')})
              VALUES (${names.map(() => '?').join(', ')})
              USING TIMESTAMP ?${isMortal ? ' AND TTL ?' : ''}`
    },
    /** @param {string} className */
    dropPartition: (className) =>
      `DELETE FROM ${keyspace}.${measurementTable(className)} USING TIMESTAMP ? WHERE ${KEY}`,
    /** @param {string} className */
    dropRow: (className) =>
      `DELETE FROM ${keyspace}.${measurementTable(className)} USING TIMESTAMP ?
       WHERE ${KEY} AND metric = ? AND ts = ? AND seq = ?`,
  }
}

/** Whether nothing is left to do. @param {Job} job */
export function isOver({ askedMs, className, state }) {
  if (!state) return className === null
  const isEnd = state.phase === 'done' || state.phase === 'cancelled'
  return isEnd && state.askedMs === askedMs
}

export class RewriteStore {
  #storage
  #cql
  /** Whether those are listed that the version before, which had no list, has left open. */
  #isListed = false

  /**
   * @param {Pick<import('../write/storage.js').Storage, 'read' | 'run' | 'pages'>} storage
   * @param {string} keyspace
   */
  constructor(storage, keyspace) {
    this.#storage = storage
    this.#cql = statements(keyspace)
  }

  /**
   * Those that are not over. What a rewrite has come to is kept, so it is looked for in a list of
   * its own. Whoever sees that a listed one is over takes it off: after a crash it is seen again.
   *
   * @returns {Promise<Job[]>}
   */
  async jobs() {
    if (!this.#isListed) await this.#listAll()
    this.#isListed = true
    /** @type {Job[]} */
    const open = []
    /** @type {import('cassandra-driver').types.Row[]} */
    let some = []
    for await (const row of this.#storage.pages(this.#cql.listed)) {
      some.push(row)
      if (some.length < JOBS_AT_ONCE) continue
      open.push(...(await this.#open(some)))
      some = []
    }
    return [...open, ...(await this.#open(some))]
  }

  /** @param {any[]} listed */
  async #open(listed) {
    const jobs = await Promise.all(
      listed.map(async ({ sensor_id, asked }) => {
        const job = await this.job(`${sensor_id}`)
        const askedMs = asked.getTime()
        // One that is listed and not there is about to be asked for.
        if (!job || job.askedMs < askedMs) return undefined
        // Another was asked for in its place, which has been listed before.
        if (job.askedMs === askedMs && !isOver(job)) return job
        const stamp = Long.fromNumber(closeRewriteStampUs(askedMs))
        await this.#storage.read(this.#cql.close, [stamp, job.sensorId, askedMs])
        return undefined
      }),
    )
    return jobs.filter((job) => job !== undefined)
  }

  async #listAll() {
    for await (const row of this.#storage.pages(this.#cql.jobs)) {
      const job = jobOf(row)
      if (isOver(job)) continue
      const stamp = Long.fromNumber(openRewriteStampUs(job.askedMs))
      await this.#storage.read(this.#cql.open, [job.sensorId, job.askedMs, stamp])
    }
  }

  /** @param {string} sensorId  @returns {Promise<Job | undefined>} */
  async job(sensorId) {
    const [row] = await this.#storage.read(`${this.#cql.jobs} WHERE sensor_id = ?`, [sensorId])
    return row && jobOf(row)
  }

  /** @param {string} sensorId  @param {import('./rewrite.js').State} state */
  async save(sensorId, state) {
    await this.#storage.read(this.#cql.save, [sensorId, JSON.stringify(state)])
  }

  /**
   * Oldest first, and the latest timestamp of any, in microseconds.
   *
   * @param {string} sensorId
   * @returns {Promise<{ layouts: Layout[], writtenUs: number }>}
   */
  async layouts(sensorId) {
    const rows = await this.#storage.read(this.#cql.layouts, [sensorId])
    const writtenUs = Math.max(0, ...rows.map(({ written }) => Number(String(written ?? 0))))
    return { layouts: rows.map(layoutOfRow), writtenUs }
  }

  /**
   * All in one step: they are of one partition.
   *
   * @param {string} sensorId
   * @param {import('./layouts.js').Change} change
   * @param {number} stampUs
   */
  async change(sensorId, { put, drop }, stampUs) {
    const stamp = Long.fromNumber(stampUs)
    await this.#storage.run([
      ...put.map((layout) => ({
        query: this.#cql.putLayout,
        params: [sensorId, ...layoutParams(layout), stamp],
      })),
      ...drop.map((fromMs) => ({ query: this.#cql.dropLayout, params: [stamp, sensorId, fromMs] })),
    ])
  }

  /** The event times between which the sensor has rows. @param {string} sensorId */
  async extent(sensorId) {
    const rows = (await this.#storage.read(this.#cql.series, [sensorId])).filter(
      (row) => row.first_ts && row.last_ts,
    )
    if (rows.length === 0) return undefined
    return {
      fromMs: Math.min(...rows.map((row) => row.first_ts.getTime())) - COVER_MS,
      toMs: Math.max(...rows.map((row) => row.last_ts.getTime())) + COVER_MS + 1,
    }
  }

  /**
   * The rows of a partition, page by page.
   *
   * @param {string} sensorId
   * @param {string} className
   * @param {number} bucket
   * @returns {AsyncGenerator<StoredRow[]>}
   */
  async *rows(sensorId, className, bucket) {
    /** @type {StoredRow[]} */
    let page = []
    for await (const row of this.#storage.pages(
      this.#cql.rows(className),
      [sensorId, bucket],
      PAGE_ROWS,
    )) {
      const stored = storedRow(row)
      if (stored) page.push(stored)
      if (page.length === PAGE_ROWS) {
        yield page
        page = []
      }
    }
    if (page.length > 0) yield page
  }

  /**
   * Writes rows as if they had been stored there at once.
   *
   * @param {string} sensorId
   * @param {Place} place
   * @param {{ row: StoredRow, ttlS: number, stampUs: number }[]} rows  With 0 for ever.
   */
  async put(sensorId, place, rows) {
    /** @type {Map<number, Statement[]>} */
    const byBucket = new Map()
    for (const { row, ttlS, stampUs } of rows) {
      const bucket = bucketAt(place, row.timeMs)
      const query = this.#cql.insert(place.className, columnsOf(row.kind), ttlS > 0)
      const params = [sensorId, bucket, row.metric, row.timeMs, row.seq, ...row.values]
      params.push(Long.fromNumber(stampUs), ...(ttlS > 0 ? [ttlS] : []))
      const some = byBucket.get(bucket) ?? []
      byBucket.set(bucket, some)
      some.push({ query, params, bytes: row.bytes })
    }
    for (const some of byBucket.values()) await this.#write(some)
  }

  /**
   * @param {string} sensorId
   * @param {string} className
   * @param {number} bucket
   * @param {number} stampUs
   */
  async dropPartition(sensorId, className, bucket, stampUs) {
    await this.#storage.read(this.#cql.dropPartition(className), [
      Long.fromNumber(stampUs),
      sensorId,
      bucket,
    ])
  }

  /**
   * @param {string} sensorId
   * @param {string} className
   * @param {number} bucket
   * @param {StoredRow[]} rows
   * @param {number} stampUs
   */
  async dropRows(sensorId, className, bucket, rows, stampUs) {
    const query = this.#cql.dropRow(className)
    const stamp = Long.fromNumber(stampUs)
    await this.#write(
      rows.map(({ metric, timeMs, seq }) => ({
        query,
        params: [stamp, sensorId, bucket, metric, timeMs, seq],
        bytes: ROW_BYTES,
      })),
    )
  }

  /** @param {Statement[]} all  Of one partition. */
  async #write(all) {
    for (let at = 0; at < all.length; ) {
      const from = at
      for (let bytes = 0; at < all.length && at - from < REQUEST_ROWS; at++) {
        bytes += all[at].bytes
        if (at > from && bytes > REQUEST_BYTES) break
      }
      const some = all.slice(from, at)
      // One alone is no batch, so that its size does not count as one's.
      if (some.length === 1) await this.#storage.read(some[0].query, some[0].params)
      else await this.#storage.run(some)
    }
  }
}

/** @param {number} kind */
function columnsOf(kind) {
  return /** @type {Record<number, readonly string[]>} */ (VALUE_COLUMNS)[kind]
}

/** @param {any} row  @returns {Job} */
function jobOf(row) {
  return {
    sensorId: row.sensor_id.toString(),
    askedMs: row.asked?.getTime() ?? 0,
    className: row.class ?? null,
    state: row.state ? JSON.parse(row.state) : undefined,
  }
}

/** In the order of `LAYOUT_COLUMNS`, after the key. @param {Layout} layout */
function layoutParams({ fromMs, className, bucketS, generation, next, lostMs }) {
  const nextParams = next
    ? [next.className, next.bucketS, next.generation ?? 0]
    : [null, null, null]
  return [fromMs, className, bucketS, generation ?? 0, ...nextParams, lostMs ?? null]
}

/** @param {any} row  @returns {StoredRow | undefined} */
function storedRow(row) {
  const kind = kindOf(row)
  if (kind === undefined) return undefined
  const receipt = RECEIPTS.map((column) => row[`w${column}`]).find((one) => one != null)
  const values = columnsOf(kind).map((column) => row[column])
  return {
    metric: row.metric,
    timeMs: row.ts.getTime(),
    seq: row.seq,
    kind,
    values,
    receivedMs: Math.floor(Number(String(receipt)) / 1000),
    bytes: ROW_BYTES + row.metric.length + (row.s ? 2 * row.s.length : 0),
  }
}

/**
 * How long a row lives that was received then, in seconds: 0 for ever, undefined if it is over.
 *
 * @param {string} className
 * @param {number} receivedMs
 * @param {number} nowMs
 */
export function ttlLeftS(className, receivedMs, nowMs) {
  const { ttlS } = retentionClass(className)
  if (ttlS === 0) return 0
  const leftS = Math.min(ttlS, ttlS - Math.floor((nowMs - receivedMs) / 1000))
  return leftS > 0 ? leftS : undefined
}
