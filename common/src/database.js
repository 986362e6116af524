/**
 * The one way in which services talk to the database: a cassandra-driver client with our options,
 * that waits for a database which is not there yet and says whether it is there now.
 */

import { EventEmitter } from 'node:events'
import cassandra from 'cassandra-driver'
import { guardControlConnection } from './control-connection.js'
import { addresses, json, oneOf } from './options.js'
import {
  ADDED_COLUMNS,
  CLASS_DEFAULT,
  LAYOUT_COLUMNS,
  METADATA_COLUMNS,
  measurementTable,
  schemaStatements,
} from './schema.js'

/** @typedef {import('./options.js').OptionSpec<any>} OptionSpec */
/** @typedef {import('cassandra-driver').Client} Client */

/**
 * @typedef {object} DatabaseOptions
 * @property {import('./options.js').Address[]} cqlHosts
 * @property {string} cqlDatacenter
 * @property {string} cqlKeyspace
 * @property {Record<string, unknown>} cqlReplication
 * @property {string} cqlConsistency
 */

/** @type {OptionSpec[]} */
export const databaseOptions = [
  {
    flag: '--cql-hosts <host:port,...>',
    help: 'the database: db-engine, ScyllaDB or Apache Cassandra',
    default: '127.0.0.1:9042',
    parse: addresses,
  },
  {
    flag: '--cql-datacenter <name>',
    help: 'the data centre of the database that is near',
    default: 'datacenter1',
  },
  {
    flag: '--cql-keyspace <name>',
    help: 'the keyspace of our tables',
    default: 'sandglass',
    parse: keyspaceName,
  },
  {
    flag: '--cql-replication <json>',
    help: 'how a keyspace that does not exist yet is replicated',
    default: '{"class":"SimpleStrategy","replication_factor":1}',
    parse: json,
  },
  {
    flag: '--cql-consistency <level>',
    help: 'how many replicas must agree',
    default: 'localQuorum',
    parse: oneOf(['one', 'localOne', 'quorum', 'localQuorum', 'all']),
  },
]

/** How long one request may take, in milliseconds: a lost database must be noticed within 2 s. */
export const REQUEST_MS_MAX = 1_500

/** Most requests in flight on one connection; the driver throws beyond 2,048. */
export const REQUESTS_IN_FLIGHT_MAX = 1_024

/** First and longest pause between two attempts to reach the database, in milliseconds. */
const RETRY_MS_MIN = 200
const RETRY_MS_MAX = 2_000

/** How often a quiet database is asked whether it is still there, in milliseconds. */
const PROBE_MS = 500

const PROBE = 'SELECT * FROM system.local'

/** @param {string} text */
function keyspaceName(text) {
  return oneOf(/^[a-z][a-z0-9_]{0,47}$/.test(text) ? [text] : ['a name of a-z, 0-9 and _'])(text)
}

/** @param {DatabaseOptions} options  @param {import('pino').Logger} logger */
function createClient({ cqlHosts, cqlDatacenter, cqlConsistency }, logger) {
  const { CQL_USERNAME: username, CQL_PASSWORD: password } = process.env
  const { policies, types, auth } = cassandra
  const client = new cassandra.Client({
    contactPoints: cqlHosts.map(
      ({ host, port }) => `${host.includes(':') ? `[${host}]` : host}:${port}`,
    ),
    localDataCenter: cqlDatacenter,
    authProvider: username ? new auth.PlainTextAuthProvider(username, password ?? '') : undefined,
    pooling: { heartBeatInterval: 5_000, maxRequestsPerConnection: 2 * REQUESTS_IN_FLIGHT_MAX - 1 },
    policies: { reconnection: new policies.reconnection.ConstantReconnectionPolicy(RETRY_MS_MIN) },
    socketOptions: { readTimeout: REQUEST_MS_MAX, connectTimeout: REQUEST_MS_MAX },
    queryOptions: {
      consistency: /** @type {Record<string, any>} */ (types.consistencies)[cqlConsistency],
      prepare: true,
    },
    encoding: { useBigIntAsLong: false },
  })
  guardControlConnection(client, ({ message }) => {
    logger.warn({ reason: message }, 'the control connection is refreshed again')
  })
  return client
}

/**
 * A database that may come, go and come back. Emits `up` and `down`.
 */
export class Database extends EventEmitter {
  #options
  #logger
  /** @type {NodeJS.Timeout | undefined} */
  #timer
  #closed = false

  /** @param {DatabaseOptions} options  @param {import('pino').Logger} logger */
  constructor(options, logger) {
    super()
    this.keyspace = options.cqlKeyspace
    /** The driver's client; usable once {@link Database.connect} has resolved. */
    this.client = createClient(options, logger)
    /** Whether the last request of any kind was answered. */
    this.isUp = false
    /** Whether this is our own engine, where a batch may hold several partitions. */
    this.isSandglass = false
    this.#options = options
    this.#logger = logger
  }

  /**
   * Waits until the database is there, for as long as it takes, and has our tables: creates them,
   * or waits until another service has.
   *
   * @param {{ createSchema: boolean }} how
   */
  async connect({ createSchema }) {
    for (let pauseMs = RETRY_MS_MIN; !this.#closed; pauseMs = Math.min(2 * pauseMs, RETRY_MS_MAX)) {
      try {
        await this.client.connect()
        const [row] = (await this.client.execute(PROBE, [], { prepare: false })).rows
        this.isSandglass = String(row.engine ?? '').startsWith('sandglass')
        if (createSchema) await this.#createSchema()
        await this.client.execute(`SELECT day FROM ${this.keyspace}.dead_letter LIMIT 1`, [], {
          prepare: false,
        })
        await this.#requireSchema()
        this.noteUp()
        this.#watch()
        return
      } catch (error) {
        const { message } = /** @type {Error} */ (error)
        this.#logger.warn(
          { hosts: this.#options.cqlHosts, reason: message, pauseMs },
          'database not ready',
        )
        // A client whose first connection failed cannot be connected again.
        await this.client.shutdown().catch(() => {})
        this.client = createClient(this.#options, this.#logger)
        await new Promise((resolve) => setTimeout(resolve, pauseMs))
      }
    }
  }

  async #createSchema() {
    for (const statement of schemaStatements(this.keyspace, this.#options.cqlReplication)) {
      await this.client.execute(statement, [], { prepare: false, readTimeout: 30_000 })
    }
    await this.#addColumns()
  }

  /** Adds what tables lack that an earlier version created. */
  async #addColumns() {
    const query = `SELECT column_name FROM system_schema.columns
                   WHERE keyspace_name = ? AND table_name = ?`
    for (const table of new Set(ADDED_COLUMNS.map((one) => one.table))) {
      const { rows } = await this.client.execute(query, [this.keyspace, table], { prepare: true })
      const known = new Set(rows.map((row) => row.column_name))
      for (const { column, type } of ADDED_COLUMNS.filter((one) => one.table === table)) {
        if (known.has(column)) continue
        const statement = `ALTER TABLE ${this.keyspace}.${table} ADD ${column} ${type}`
        await this.client.execute(statement, [], { prepare: false, readTimeout: 30_000 })
      }
    }
  }

  /** Throws if the tables are those of an earlier version. */
  async #requireSchema() {
    const wanted = [
      `SELECT ${LAYOUT_COLUMNS} FROM ${this.keyspace}.layout LIMIT 1`,
      `SELECT ${METADATA_COLUMNS}, told_unit, era FROM ${this.keyspace}.series LIMIT 1`,
      `SELECT ${METADATA_COLUMNS} FROM ${this.keyspace}.type_metric LIMIT 1`,
      `SELECT version FROM ${this.keyspace}.rule_progress LIMIT 1`,
      `SELECT asked FROM ${this.keyspace}.rewrite_open LIMIT 1`,
    ]
    for (const query of wanted) await this.client.execute(query, [], { prepare: false })
    const query = `SELECT seq FROM ${this.keyspace}.${measurementTable(CLASS_DEFAULT)} LIMIT 1`
    const { columns } = await this.client.execute(query, [], { prepare: false })
    if (columns[0].type.code === cassandra.types.dataTypes.bigint) return
    throw new Error(
      `keyspace ${this.keyspace} is of an earlier version, in which seq was no bigint: ` +
        'give a new one (--cql-keyspace), and import there what that version exports',
    )
  }

  /** Asks now and then, so that a database that is lost is noticed while nobody reads. */
  #watch() {
    this.#timer = setTimeout(async () => {
      try {
        await this.client.execute(PROBE, [], { prepare: false })
        this.noteUp()
      } catch (error) {
        this.noteDown(/** @type {Error} */ (error))
      }
      if (!this.#closed) this.#watch()
    }, PROBE_MS)
  }

  /** A request was answered. */
  noteUp() {
    if (this.isUp || this.#closed) return
    this.isUp = true
    this.#logger.info({ sandglass: this.isSandglass }, 'database is up')
    this.emit('up')
  }

  /** A request was not answered. @param {Error} error */
  noteDown(error) {
    if (!this.isUp) return
    this.isUp = false
    this.#logger.warn({ reason: error.message }, 'database is down')
    this.emit('down')
  }

  async close() {
    this.#closed = true
    clearTimeout(this.#timer)
    await this.client.shutdown()
  }
}
