/**
 * Every question that the api asks of the database, as functions with plain results.
 *
 * All statements are prepared. A database that does not answer is a `database-away` problem; what
 * is done about it is the caller's business.
 */

import { DecoderStore } from '@sandglass/common/expressions/decoder-store'
import { rowValue } from '@sandglass/common/measurement'
import { Problem } from '@sandglass/common/problem'
import { openRewriteStampUs, openRewriteStatement } from '@sandglass/common/rewrite'
import { LAYOUT_COLUMNS, layoutOfRow } from '@sandglass/common/schema'
import cassandra from 'cassandra-driver'
import { dashboardQuestions } from './dashboards/store.js'
import { deletionQuestions } from './deletions.js'
import { rollupQuestions } from './downsample/store.js'
import { metadataQuestions } from './metadata/store.js'
import { rowQuestions, VALUE } from './rows.js'
import { ruleQuestions } from './rules/store.js'

/** @typedef {import('@sandglass/common/database').Database} Database */
/** @typedef {import('@sandglass/common/schema').Layout} Layout */

/**
 * @typedef {object} Sensor
 * @property {string} id
 * @property {string} name  The id where it has none.
 * @property {string | undefined} type
 * @property {string | undefined} unit
 * @property {Record<string, string>} tags
 * @property {boolean} hidden  Deleted: not shown, and nothing is stored for it.
 * @property {number | undefined} createdMs  Milliseconds since the Unix epoch.
 */

/**
 * What a client can say of a sensor; null takes a word back.
 *
 * @typedef {object} About
 * @property {string | null} [type]
 * @property {string | null} [unit]
 * @property {Record<string, string>} [tags]
 */

/** @typedef {{ metric: string, firstMs: number, lastMs: number }} Series */

/**
 * @typedef {object} Latest
 * @property {string} metric
 * @property {number} t  Event time, milliseconds since the Unix epoch.
 * @property {import('@sandglass/common/measurement').Value | null} value
 * @property {number | undefined} receivedMs
 */

/**
 * @typedef {object} LetterHead  A dead letter without its payload.
 * @property {string} id  A version 1 UUID.
 * @property {number} receivedMs  Milliseconds since the Unix epoch.
 * @property {string} topic
 * @property {string} client
 * @property {string} reason
 * @property {number | undefined} replayedMs
 * @property {number | undefined} format  Its number; none in letters of earlier versions.
 *
 * @typedef {LetterHead & { payload: Buffer }} DeadLetter  The payload is perhaps cut.
 */

/** @typedef {{ t: number, state: string, client: string, reason: string }} Status */

/** @typedef {{ state: string, changedMs: number }} Desired  JSON, as it is published. */

/** Rows of one answer when a whole table is read. */
const SCAN_ROWS = 1_000

/** The same of a table that is read from its first row to its last. */
const TABLE_ROWS = 2_000

const SENSOR = 'sensor_id, name, type, unit, tags, hidden, created_at'
const LETTER_HEAD = 'id, topic, client, reason, received, replayed, format'

/** @param {string} keyspace */
function statements(keyspace) {
  const latest = `SELECT metric, ts, kind, ${VALUE}, received FROM ${keyspace}.latest
                  WHERE sensor_id = ?`
  return {
    sensor: `SELECT ${SENSOR} FROM ${keyspace}.sensor WHERE sensor_id = ?`,
    hidden: `SELECT hidden FROM ${keyspace}.sensor WHERE sensor_id = ?`,
    names: `SELECT sensor_id, name FROM ${keyspace}.sensor WHERE sensor_id IN ?`,
    sensors: `SELECT ${SENSOR} FROM ${keyspace}.sensor`,
    layouts: `SELECT from_ts, ${LAYOUT_COLUMNS} FROM ${keyspace}.layout WHERE sensor_id = ?`,
    series: `SELECT metric, first_ts, last_ts FROM ${keyspace}.series WHERE sensor_id = ?`,
    latest,
    latestOf: `${latest} AND metric IN ?`,
    latestTimes: `SELECT metric, ts FROM ${keyspace}.latest WHERE sensor_id = ?`,
    heardTimes: `SELECT sensor_id, ts FROM ${keyspace}.latest`,
    insertLayout: `INSERT INTO ${keyspace}.layout (sensor_id, from_ts, class, bucket_s)
                   VALUES (?, ?, ?, ?)`,
    insertSensor: `INSERT INTO ${keyspace}.sensor
                   (sensor_id, name, type, unit, tags, hidden, created_at)
                   VALUES (?, ?, ?, ?, ?, ?, ?)`,
    rewrite: `SELECT asked, class, state FROM ${keyspace}.rewrite WHERE sensor_id = ?`,
    openRewrite: openRewriteStatement(keyspace),
    askRewrite: `INSERT INTO ${keyspace}.rewrite (sensor_id, asked, class) VALUES (?, ?, ?)`,
    updateSensor: `INSERT INTO ${keyspace}.sensor (sensor_id, type, unit, tags)
                   VALUES (?, ?, ?, ?)`,
    desired: `SELECT state, changed FROM ${keyspace}.desired WHERE sensor_id = ?`,
    putDesired: `INSERT INTO ${keyspace}.desired (sensor_id, sensor, state, changed)
                 VALUES (?, ?, ?, ?)`,
    hideSensor: `INSERT INTO ${keyspace}.sensor (sensor_id, hidden) VALUES (?, ?)`,
    statuses: `SELECT ts, state, client, reason FROM ${keyspace}.status
               WHERE sensor_id = ? AND bucket = ? AND ts <= ? LIMIT ?`,
    deadLetters: `SELECT ${LETTER_HEAD} FROM ${keyspace}.dead_letter
                  WHERE day = ? AND shard = ? LIMIT ?`,
    deadLettersBefore: `SELECT ${LETTER_HEAD} FROM ${keyspace}.dead_letter
                        WHERE day = ? AND shard = ? AND id < ? LIMIT ?`,
    deadLetterPayload: `SELECT payload FROM ${keyspace}.dead_letter
                        WHERE day = ? AND shard = ? AND id = ?`,
  }
}

/** @typedef {ReturnType<typeof createStore>} Store */

/** @param {Database} database */
export function createStore(database) {
  const cql = statements(database.keyspace)
  const ask = asker(database)
  /** @type {import('./downsample/store.js').Page} */
  const page = (query, parameters, pageState) =>
    execute(database, query, parameters, { fetchSize: SCAN_ROWS, pageState })
  return {
    /** @param {string} sensorId  @returns {Promise<Sensor | undefined>} */
    async sensor(sensorId) {
      const [row] = await ask(cql.sensor, [sensorId])
      return row && toSensor(row)
    },

    /**
     * What some sensors are called, by id; without those that were never heard of.
     *
     * @param {readonly string[]} sensorIds
     * @returns {Promise<Map<string, string>>}
     */
    async names(sensorIds) {
      const sensors = (await ask(cql.names, [sensorIds])).map(toSensor)
      return new Map(sensors.map(({ id, name }) => [id, name]))
    },

    /** Whether there is such a sensor, and it is not hidden. @param {string} sensorId */
    async isKnown(sensorId) {
      const [row] = await ask(cql.hidden, [sensorId])
      return row !== undefined && row.hidden !== true
    },

    /** Oldest first. @param {string} sensorId  @returns {Promise<Layout[]>} */
    async layouts(sensorId) {
      return (await ask(cql.layouts, [sensorId])).map(layoutOfRow)
    },

    /** @param {string} sensorId  @returns {Promise<Series[]>} */
    async series(sensorId) {
      return (await ask(cql.series, [sensorId]))
        .filter((row) => row.first_ts !== null && row.last_ts !== null)
        .map((row) => ({
          metric: row.metric,
          firstMs: row.first_ts.getTime(),
          lastMs: row.last_ts.getTime(),
        }))
    },

    /** By metric. @param {string} sensorId  @returns {Promise<Latest[]>} */
    async latest(sensorId) {
      return latestOfRows(await ask(cql.latest, [sensorId]))
    },

    /**
     * The same, as much of it as the server gives at once.
     *
     * @param {string} sensorId
     * @param {string[] | undefined} metrics  Undefined for all.
     * @param {string} [from]  Where the part before ended.
     * @returns {Promise<{ rows: Latest[], next: string | undefined }>}
     */
    async latestPart(sensorId, metrics, from) {
      const { rows, pageState } = metrics
        ? await page(cql.latestOf, [sensorId, metrics], from)
        : await page(cql.latest, [sensorId], from)
      return { rows: latestOfRows(rows), next: pageState ?? undefined }
    },

    /** Event times of the newest values. @param {string} sensorId */
    async latestTimes(sensorId) {
      return (await ask(cql.latestTimes, [sensorId]))
        .filter(({ ts }) => ts !== null)
        .map(({ metric, ts }) => ({ metric: String(metric), t: Number(ts.getTime()) }))
    },

    decoders: new DecoderStore(database.keyspace, (query, params) => ask(query, params)),
    ...rowQuestions(database.keyspace, (...query) => execute(database, ...query)),
    ...tableQuestions(database, cql),
    ...rollupQuestions(database.keyspace, ask, page),
    ...deletionQuestions(database.keyspace, ask),
    ...madeQuestions(database.keyspace, ask),
    ...metadataQuestions(database.keyspace, ask, (query) => pages(database, query)),
    /**
     * When a device came and went, newest first.
     *
     * @param {string} sensorId
     * @param {number} bucket  Seconds since the Unix epoch.
     * @param {number} untilMs
     * @param {number} rowsMax
     * @returns {Promise<Status[]>}
     */
    async statuses(sensorId, bucket, untilMs, rowsMax) {
      const rows = await ask(cql.statuses, [sensorId, bucket, untilMs, rowsMax], rowsMax)
      return rows.map(({ ts, state, client, reason }) => ({
        t: ts.getTime(),
        state,
        client,
        reason,
      }))
    },

    ...registry(ask, cql),
    ...deadLetters(ask, cql),
  }
}

/**
 * What changes sensors.
 *
 * @param {ReturnType<typeof asker>} ask
 * @param {ReturnType<typeof statements>} cql
 */
function registry(ask, cql) {
  const { unset } = cassandra.types
  return {
    /** @param {string} sensorId  @param {Layout} layout */
    async addLayout(sensorId, { fromMs, className, bucketS }) {
      await ask(cql.insertLayout, [sensorId, fromMs, className, bucketS])
    },

    /** @param {string} sensorId  @returns {Promise<import('./rewrites.js').Rewrite | undefined>} */
    async rewrite(sensorId) {
      const [row] = await ask(cql.rewrite, [sensorId])
      const state = row?.state ? JSON.parse(row.state) : undefined
      return row?.asked && { askedMs: row.asked.getTime(), className: row.class ?? null, state }
    },

    /** None calls it off. @param {string} sensorId  @param {string | null} className */
    async askRewrite(sensorId, className) {
      const askedMs = Date.now()
      const stamp = cassandra.types.Long.fromNumber(openRewriteStampUs(askedMs))
      await ask(cql.openRewrite, [sensorId, askedMs, stamp])
      await ask(cql.askRewrite, [sensorId, askedMs, className])
    },

    /** @param {Sensor} sensor */
    async putSensor({ id, name, type, unit, tags, hidden, createdMs }) {
      await ask(cql.insertSensor, [
        id,
        name,
        type ?? null,
        unit ?? null,
        tags,
        hidden,
        createdMs ?? unset,
      ])
    },

    /** Changes what is given. @param {string} sensorId  @param {About} about */
    async updateSensor(sensorId, { type, unit, tags }) {
      const given = [type, unit, tags].map((value) => (value === undefined ? unset : value))
      await ask(cql.updateSensor, [sensorId, ...given])
    },

    /** @param {string} sensorId  @returns {Promise<Desired | undefined>} */
    async desired(sensorId) {
      const [row] = await ask(cql.desired, [sensorId])
      return row?.state ? { state: row.state, changedMs: row.changed.getTime() } : undefined
    },

    /**
     * The row stays where nothing is desired any more: its topic has to be cleared.
     *
     * @param {string} sensorId
     * @param {string} sensor  As its topic names it.
     * @param {string | null} state  JSON.
     */
    async putDesired(sensorId, sensor, state) {
      await ask(cql.putDesired, [sensorId, sensor, state, Date.now()])
    },

    /** @param {string} sensorId */
    async hideSensor(sensorId) {
      await ask(cql.hideSensor, [sensorId, true])
    },
  }
}

/**
 * @param {ReturnType<typeof asker>} ask
 * @param {ReturnType<typeof statements>} cql
 */
function deadLetters(ask, cql) {
  return {
    /**
     * Dead letters of one partition without their payloads, newest first.
     *
     * @param {number} day  Days since the Unix epoch.
     * @param {number} shard
     * @param {string | undefined} before  Only those older than the one with this id.
     * @param {number} rowsMax
     * @returns {Promise<LetterHead[]>}
     */
    async deadLetters(day, shard, before, rowsMax) {
      const rows = before
        ? await ask(cql.deadLettersBefore, [day, shard, before, rowsMax], rowsMax)
        : await ask(cql.deadLetters, [day, shard, rowsMax], rowsMax)
      return rows.map((row) => ({
        id: row.id.toString(),
        receivedMs: row.received?.getTime() ?? row.id.getDate().getTime(),
        topic: row.topic ?? '',
        client: row.client ?? '',
        reason: row.reason ?? '',
        replayedMs: row.replayed?.getTime(),
        format: row.format ?? undefined,
      }))
    },

    /**
     * @param {number} day
     * @param {number} shard
     * @param {string} id
     * @returns {Promise<Buffer | undefined>}  None where there is no such letter any more.
     */
    async deadLetterPayload(day, shard, id) {
      const [row] = await ask(cql.deadLetterPayload, [day, shard, id], 1)
      return row && (row.payload ?? Buffer.alloc(0))
    },
  }
}

/** @param {cassandra.types.Row} row  @returns {Sensor} */
function toSensor(row) {
  const id = row.sensor_id.toString()
  return {
    id,
    name: row.name ?? id,
    type: row.type ?? undefined,
    unit: row.unit ?? undefined,
    tags: row.tags ?? {},
    hidden: row.hidden === true,
    createdMs: row.created_at?.getTime(),
  }
}

/**
 * A function that asks one question and gives all rows of the answer.
 *
 * @param {Database} database
 */
function asker(database) {
  /**
   * @param {string} query
   * @param {unknown[]} parameters
   * @param {number} [fetchSize]  Rows of one answer of the server.
   * @returns {Promise<cassandra.types.Row[]>}
   */
  return async (query, parameters, fetchSize = SCAN_ROWS) => {
    let result = await execute(database, query, parameters, { fetchSize, pageState: undefined })
    let { rows } = result
    // A server may end an answer early, e.g. after many rows that are deleted or have expired.
    while (result.pageState) {
      result = await execute(database, query, parameters, {
        fetchSize,
        pageState: result.pageState,
      })
      rows = rows.concat(result.rows)
    }
    return rows ?? []
  }
}

/** @param {cassandra.types.Row[]} rows  @returns {Latest[]} */
function latestOfRows(rows) {
  return rows
    .filter((row) => row.ts !== null)
    .map((row) => ({
      metric: row.metric,
      t: row.ts.getTime(),
      value: rowValue(/** @type {any} */ (row)),
      receivedMs: row.received?.getTime(),
    }))
}

/**
 * Tables that are read from their first row to their last.
 *
 * @param {Database} database
 * @param {ReturnType<typeof statements>} cql
 */
function tableQuestions(database, cql) {
  return {
    /** All sensors, hidden ones too, some at a time. @returns {AsyncGenerator<Sensor[]>} */
    async *sensors() {
      for await (const rows of pages(database, cql.sensors)) yield rows.map(toSensor)
    },

    /** When series were measured last, some at a time. */
    /** @returns {AsyncGenerator<{ id: string, t: number }[]>} */
    async *heardTimes() {
      for await (const rows of pages(database, cql.heardTimes)) {
        yield rows
          .filter(({ ts }) => ts !== null)
          .map(({ sensor_id: id, ts }) => ({ id: id.toString(), t: ts.getTime() }))
      }
    },
  }
}

/**
 * @param {Database} database
 * @param {string} query
 * @returns {AsyncGenerator<cassandra.types.Row[]>}
 */
async function* pages(database, query) {
  /** @type {string | undefined} */
  let pageState
  do {
    const result = await execute(database, query, [], { fetchSize: TABLE_ROWS, pageState })
    yield result.rows
    pageState = result.pageState
  } while (pageState)
}

/**
 * @param {Database} database
 * @param {string} query
 * @param {unknown[]} parameters
 * @param {{ fetchSize: number, pageState: string | undefined }} options
 * @throws {Problem}  `database-away` if there was no answer.
 */
async function execute(database, query, parameters, options) {
  try {
    return await database.client.execute(query, parameters, {
      ...options,
      prepare: true,
      isIdempotent: true,
    })
  } catch (error) {
    throw explain(/** @type {Error} */ (error))
  }
}

const { responseErrorCodes } = cassandra.types

/** What a server answers while it, or its cluster, cannot serve: it may well do so soon. */
const AWAY_CODES = new Set([
  responseErrorCodes.unavailableException,
  responseErrorCodes.overloaded,
  responseErrorCodes.isBootstrapping,
  responseErrorCodes.readTimeout,
  responseErrorCodes.writeTimeout,
])

/** A refusal where the database did not answer, else the error. @param {Error} error */
export function explain(error) {
  const { errors } = cassandra
  const away =
    error instanceof errors.NoHostAvailableError ||
    error instanceof errors.OperationTimedOutError ||
    error instanceof errors.BusyConnectionError ||
    (error instanceof errors.ResponseError && AWAY_CODES.has(error.code))
  if (!away) return error
  const problem = databaseAway()
  problem.cause = error
  return problem
}

/** The refusal while the database is not there. */
export function databaseAway() {
  return new Problem('database-away', 'the database does not answer now: try again in a moment')
}

/**
 * What people made on top of what is measured.
 *
 * @param {string} keyspace
 * @param {Parameters<typeof ruleQuestions>[1]} ask
 */
function madeQuestions(keyspace, ask) {
  return { ...ruleQuestions(keyspace, ask), ...dashboardQuestions(keyspace, ask) }
}
