/**
 * The database, as ingest uses it: requests of rows go in, what is known of sensors comes out, and
 * an error says what can be done about it.
 */

import { DELETION_COLUMNS, deletionOfRow } from '@sandglass/common/deletion'
import { layoutTimestampUs } from '@sandglass/common/layout'
import { EVENT_MS_MIN } from '@sandglass/common/measurement'
import { metadataOf } from '@sandglass/common/metadata'
import {
  bucketAt,
  LAYOUT_COLUMNS,
  layoutAt,
  layoutOfRow,
  measurementTable,
} from '@sandglass/common/schema'
import { spans } from '@sandglass/common/spans'
import cassandra from 'cassandra-driver'
import { COVER_MS, letterPlace } from './rows.js'
import { sendRows } from './rows-request.js'
import { COUNTED_MAX } from './seq.js'

const { errors } = cassandra
const { Long, responseErrorCodes, TimeUuid } = cassandra.types

/** Partitions in which the newest row of a series is looked for. */
const NEWEST_SPANS_MAX = 8

/** When the value of a row was received, in microseconds: of its columns one or two are set. */
const RECEIPTS = ['v', 'i', 'b', 's', 'lat']
  .map((column) => `, writetime(${column}) AS w${column}`)
  .join('')

/** Rows of a page when a table is read as a whole. */
const PAGE_ROWS = 5_000

/**
 * Rows of a page where each may be a text of 64 KiB, and many places are asked about at once: most
 * milliseconds have one row or none.
 */
const TEXTS_PAGE_ROWS = 16

/** A larger row alone is left to the driver: bytes of ours that grow are copied several times. */
const LARGE_ROW_BYTES = 64 * 1024

const COUNTED_LAST = Long.fromNumber(COUNTED_MAX)

/** @typedef {import('@sandglass/common/schema').Layout} Layout */
/** @typedef {import('./row.js').Row} Row */
/** @typedef {import('./writer.js').Remedy} Remedy */
/** @typedef {import('../sensors/registry.js').KnownSensor} KnownSensor */
/** @typedef {import('@sandglass/common/database').Database} Database */

/**
 * What is to be done about each answer of the database. It retries what a healthy database would
 * do; it refuses what no database would.
 *
 * @type {ReadonlyMap<number, Remedy>}
 */
const REMEDIES = new Map([
  [responseErrorCodes.unavailableException, 'retry'],
  [responseErrorCodes.overloaded, 'retry'],
  [responseErrorCodes.isBootstrapping, 'retry'],
  [responseErrorCodes.writeTimeout, 'retry'],
  [responseErrorCodes.readTimeout, 'retry'],
  // What an operator mends, not the sender.
  [responseErrorCodes.badCredentials, 'retry'],
  [responseErrorCodes.unauthorized, 'retry'],
  [responseErrorCodes.configError, 'retry'],
  [responseErrorCodes.syntaxError, 'refuse'],
  [responseErrorCodes.invalid, 'refuse'],
])

/**
 * @param {Error} error  Of a write.
 * @returns {Remedy}
 */
export function remedyOf(error) {
  if (error instanceof errors.ResponseError) {
    // A table or keyspace that is gone: whoever dropped it will want it back.
    if (/unconfigured table|keyspace .*does not exist/i.test(error.message)) return 'retry'
    return REMEDIES.get(error.code) ?? 'split'
  }
  // A value that the driver cannot encode never reaches the database.
  const isOurs = error instanceof TypeError || error instanceof RangeError
  return isOurs || error instanceof errors.ArgumentError ? 'refuse' : 'retry'
}

/** @returns {KnownSensor} */
function unknownSensor() {
  return {
    isRegistered: false,
    isHidden: false,
    layouts: [],
    lastTimes: new Map(),
    units: new Map(),
  }
}

/**
 * @typedef {import('./past.js').RawRow & { receivedMs: number }} NewestRow
 */

/** What a person says of a sensor. @param {any} row */
function wordsOf({ type, unit, tags }) {
  return { type: type ?? undefined, unit: unit ?? undefined, tags: tags ?? {} }
}

/** With `seq` as a number. @param {any} row  @returns {import('./past.js').RawRow} */
function counted(row) {
  return Object.assign(row, { seq: row.seq.toNumber() })
}

/** @param {any} row  @returns {NewestRow} */
function dated(row) {
  const { wv, wi, wb, ws, wlat } = row
  const receivedMs = Math.floor(Number(String(wv ?? wi ?? wb ?? ws ?? wlat)) / 1000)
  return Object.assign(counted(row), { receivedMs })
}

/** @param {KnownSensor} known  @param {any} row  Of a series. */
function noteEras(known, { metric, era, cover_era: coverEra }) {
  if (era) known.eras = (known.eras ?? new Map()).set(metric, era)
  if (coverEra) known.coverEras = (known.coverEras ?? new Map()).set(metric, coverEra)
}

export class Storage {
  #database
  #queries
  #ofSensor
  #ofSensors
  #rowsOf
  #datedRowsOf

  /** @param {Database} database */
  constructor(database) {
    this.#database = database
    const { keyspace } = database
    this.#queries = {
      layouts: `SELECT from_ts, ${LAYOUT_COLUMNS} FROM ${keyspace}.layout WHERE sensor_id = ?`,
      addLayout: `INSERT INTO ${keyspace}.layout (sensor_id, from_ts, class, bucket_s)
                  VALUES (?, ?, ?, ?) USING TIMESTAMP ?`,
      sensors: `SELECT sensor_id FROM ${keyspace}.sensor`,
      deletions: `SELECT ${DELETION_COLUMNS} FROM ${keyspace}.deletion WHERE sensor_id = ?`,
      deadLetter: `SELECT topic, client, payload, received, format, rights, retention
                   FROM ${keyspace}.dead_letter
                   WHERE day = ? AND shard = ? AND id = ?`,
    }
    /** @param {string} which */
    const known = (which) => ({
      sensors: `SELECT sensor_id, hidden, type, unit, tags FROM ${keyspace}.sensor
                WHERE sensor_id ${which}`,
      layouts: `SELECT sensor_id, from_ts, ${LAYOUT_COLUMNS} FROM ${keyspace}.layout
                WHERE sensor_id ${which}`,
      series: `SELECT sensor_id, metric, last_ts, era, cover_era, unit, expected_min, expected_max,
                 told_unit, writetime(told_unit) AS told_us
               FROM ${keyspace}.series WHERE sensor_id ${which}`,
    })
    // Drivers know the node of a sensor by the first only.
    this.#ofSensor = known('= ?')
    this.#ofSensors = known('IN ?')
    /** @param {string} className  @param {string} more */
    const rowsOf = (className, more) =>
      `SELECT ts, seq, v, i, b, s, lat, lon${more} FROM ${keyspace}.${measurementTable(className)}
       WHERE sensor_id = ? AND bucket = ? AND metric = ?`
    this.#rowsOf = (/** @type {string} */ className) => rowsOf(className, '')
    this.#datedRowsOf = (/** @type {string} */ className) => rowsOf(className, RECEIPTS)
  }

  /** The driver's client. */
  get #client() {
    if (!this.#database.isUp) throw new Error('the database is not there')
    return this.#database.client
  }

  /**
   * Writes rows in one request.
   *
   * @param {readonly Row[]} rows  At least one.
   */
  async insert(rows) {
    const options = { prepare: true, logged: false, isIdempotent: true }
    const { isSandglass } = this.#database
    const [{ query, params, bytes }] = rows
    try {
      if (rows.length === 1 && (!isSandglass || bytes > LARGE_ROW_BYTES)) {
        await this.#client.execute(query, params, options)
      } else if (isSandglass) {
        await sendRows(this.#client, rows)
      } else {
        const statements = /** @type {{ query: string, params: any[] }[]} */ ([...rows])
        await this.#client.batch(statements, options)
      }
    } catch (error) {
      if (error instanceof errors.NoHostAvailableError) this.#database.noteDown(error)
      throw error
    }
  }

  /** @param {Error} error */
  remedy(error) {
    return remedyOf(error)
  }

  /**
   * What is known of each of some sensors. A cluster is asked about one after the other, for they
   * lie on several nodes.
   *
   * @param {readonly string[]} ids
   * @returns {Promise<Map<string, KnownSensor>>}
   */
  async readSensors(ids) {
    const known = new Map(ids.map((id) => [id, unknownSensor()]))
    if (this.#database.isSandglass && ids.length > 1) {
      await this.#readKnown(this.#ofSensors, [ids], known)
    } else {
      for (const id of ids) await this.#readKnown(this.#ofSensor, [id], known)
    }
    return known
  }

  /**
   * @param {{ sensors: string, layouts: string, series: string }} queries
   * @param {unknown[]} params
   * @param {Map<string, KnownSensor>} into
   */
  async #readKnown(queries, params, into) {
    const [sensors, layouts, series] = await Promise.all([
      this.read(queries.sensors, params),
      this.read(queries.layouts, params),
      this.read(queries.series, params),
    ])
    const of = (/** @type {any} */ row) => /** @type {KnownSensor} */ (into.get(`${row.sensor_id}`))
    for (const row of sensors) {
      of(row).isRegistered = true
      of(row).isHidden = row.hidden === true
      if (row.type || row.tags || row.unit) of(row).words = wordsOf(row)
    }
    for (const row of layouts) of(row).layouts.push(layoutOfRow(row))
    for (const row of series) {
      const { metric, last_ts: last, told_unit: unit, told_us: us } = row
      if (last) of(row).lastTimes.set(metric, last.getTime())
      noteEras(of(row), row)
      if (row.expected_min !== null || row.expected_max !== null || row.unit !== null) {
        const known = of(row)
        known.said ??= new Map()
        known.said.set(metric, metadataOf(row))
      }
      if (unit !== null) {
        of(row).units.set(metric, { unit, toldMs: Math.floor(Number(String(us)) / 1000) })
      }
    }
  }

  /**
   * What was deleted of a sensor.
   *
   * @param {string} id
   * @returns {Promise<import('@sandglass/common/deletion').Deletion[]>}
   */
  async deletionsOf(id) {
    return (await this.read(this.#queries.deletions, [id])).map(deletionOfRow)
  }

  /** Of a sensor, oldest first. @param {string} id  @returns {Promise<Layout[]>} */
  async layouts(id) {
    return (await this.read(this.#queries.layouts, [id])).map(layoutOfRow)
  }

  /**
   * Adds a layout that no person asked for; of two for one time the same one stays, in whatever
   * order they come.
   *
   * @param {string} id  Of the sensor.
   * @param {Layout} layout
   */
  async addLayout(id, layout) {
    const { fromMs, className, bucketS } = layout
    const timestamp = Long.fromNumber(layoutTimestampUs(layout))
    await this.read(this.#queries.addLayout, [id, fromMs, className, bucketS, timestamp])
  }

  /**
   * @param {string} id  A version 1 UUID.
   * @returns {Promise<import('../http/replay.js').Letter | undefined>}
   */
  async deadLetter(id) {
    const place = letterPlace(TimeUuid.fromString(id))
    const { day, shard } = place
    const [row] = await this.read(this.#queries.deadLetter, [day, shard, place.id])
    if (!row?.received) return undefined
    const { topic, client, payload, received, format, rights, retention } = row
    const receivedMs = received.getTime()
    return { id: place.id, topic, client, payload, receivedMs, format, rights, retention }
  }

  /**
   * The newest rows of a series by event time, newest first. They lie at or a little after its last
   * time, unless that was stored and they were not.
   *
   * @param {{ id: string, layouts: readonly Layout[] }} sensor
   * @param {string} metric
   * @param {number} lastMs  `last_ts` of the series.
   * @param {number} rowsMax
   * @param {{ fromMs?: number, spansMax?: number }} [within]
   * @returns {Promise<NewestRow[]>}  Of one partition.
   */
  async newest({ id, layouts }, metric, lastMs, rowsMax, within = {}) {
    if (layouts.length === 0) return []
    const { fromMs: earliestMs = EVENT_MS_MIN, spansMax = NEWEST_SPANS_MAX } = within
    const range = { fromMs: earliestMs, toMs: lastMs + COVER_MS + 1 }
    let spansLeft = spansMax
    for (const { className, bucket, fromMs, toMs } of spans(layouts, [range], 'desc')) {
      const query = `${this.#datedRowsOf(className)} AND ts >= ? AND ts < ? LIMIT ${rowsMax}`
      const rows = await this.read(query, [id, bucket, metric, fromMs, toMs])
      spansLeft--
      if (rows.length > 0 || spansLeft === 0) return rows.map(dated)
    }
    return []
  }

  /**
   * All rows of a series from a time on, page by page: they may be very many.
   *
   * @param {{ id: string, layouts: readonly Layout[] }} sensor
   * @param {string} metric
   * @param {number} earliestMs
   * @param {number} lastMs  `last_ts` of the series.
   * @returns {AsyncGenerator<NewestRow, void, undefined>}
   */
  async *rowsFrom({ id, layouts }, metric, earliestMs, lastMs) {
    const range = { fromMs: earliestMs, toMs: lastMs + COVER_MS + 1 }
    for (const { className, bucket, fromMs, toMs } of spans(layouts, [range], 'asc')) {
      const query = `${this.#datedRowsOf(className)} AND ts >= ? AND ts < ?`
      const params = [id, bucket, metric, fromMs, toMs]
      for await (const row of this.pages(query, params)) yield dated(row)
    }
  }

  /**
   * The last row of a series before a time, if it lies in the same partition or one before.
   *
   * @param {{ id: string, layouts: readonly Layout[] }} sensor
   * @param {string} metric
   * @param {number} timeMs
   */
  rowBefore(sensor, metric, timeMs) {
    return this.newest(sensor, metric, timeMs - COVER_MS - 1, 1, { spansMax: 2 })
  }

  /**
   * The rows of a series at one millisecond, those of counted `seq`: page by page, for they may be
   * thousands of long texts.
   *
   * @param {{ id: string, layouts: readonly Layout[] }} sensor
   * @param {string} metric
   * @param {number} timeMs
   */
  async *rowsAt({ id, layouts }, metric, timeMs) {
    const layout = layoutAt(layouts, timeMs)
    const bucket = bucketAt(layout, timeMs)
    const query = `${this.#rowsOf(layout.className)} AND ts = ? AND seq <= ?`
    const params = [id, bucket, metric, timeMs, COUNTED_LAST]
    for await (const row of this.pages(query, params, TEXTS_PAGE_ROWS)) yield counted(row)
  }

  async countSensors() {
    let count = 0
    for await (const _ of this.pages(this.#queries.sensors)) count++
    return count
  }

  /**
   * Writes rows whose statements are alike and of one partition, in one request.
   *
   * @param {{ query: string, params: unknown[] }[]} statements
   */
  async run(statements) {
    const options = { prepare: true, logged: false, isIdempotent: true }
    await this.#client.batch(statements, options)
  }

  /**
   * Writes rows of any partitions, all of them or none.
   *
   * @param {{ query: string, params: unknown[] }[]} statements
   */
  async together(statements) {
    const options = { prepare: true, logged: true, isIdempotent: true }
    await this.#client.batch(statements, options)
  }

  /**
   * All rows of a query, page by page.
   *
   * @param {string} query
   * @param {unknown[]} [params]
   * @param {number} [fetchSize]  Rows of a page.
   */
  async *pages(query, params = [], fetchSize = PAGE_ROWS) {
    const options = { prepare: true, isIdempotent: true, fetchSize }
    /** @type {string | undefined} */
    let pageState
    do {
      const page = await this.#client.execute(query, params, { ...options, pageState })
      yield* page.rows ?? []
      pageState = page.pageState ?? undefined
    } while (pageState)
  }

  /**
   * All rows of an answer, which must not be many.
   *
   * @param {string} query
   * @param {unknown[]} params
   */
  async read(query, params) {
    /** @type {any[]} */
    const rows = []
    for await (const row of this.pages(query, params)) rows.push(row)
    return rows
  }
}
