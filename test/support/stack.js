// The platform under test: a database, ingest and api, on free ports, with data of their own.
//
// The database is our engine, or the one that CQL_HOSTS names. Ours can be killed and started. A
// given one cannot; it is reached through a link that can be cut, which the services cannot tell
// from a crash: connections are reset with requests in flight, and refused until it is back.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { API_FLAGS, INGEST_FLAGS } from '@sandglass/common/service'
import cassandra from 'cassandra-driver'
import { Link } from './link.js'
import { Part } from './part.js'
import { freePort } from './ports.js'
import { until } from './until.js'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const HOST = '127.0.0.1'
/** The engine's executable; SANDGLASS_DB names another one. */
export const ENGINE =
  process.env.SANDGLASS_DB ?? join(ROOT, 'db-engine/target/release/sandglass-db')

/**
 * Settings of ingest by which what is acknowledged is in the database, however slow that is on a
 * busy machine, and can be read at once: nothing is spooled for ten minutes.
 */
export const UNSPOOLED = Object.freeze({ SPOOL_AFTER_MS: '600000' })

/** The same for tests that want the spool, too: a disk that is still for less spools nothing. */
export const SPOOLED_LATE = Object.freeze({ SPOOL_AFTER_MS: '4000' })

/** The address of a database that is not ours, from the environment. */
export const GIVEN_DATABASE = process.env.CQL_HOSTS

/**
 * @typedef {'engine' | 'ingest' | 'api'} PartName
 *
 * @typedef {object} StackOptions
 * @property {PartName[]} [parts]  What to start, in this order. Default: all.
 * @property {Record<string, string>} [engineEnv]  Settings of the engine.
 * @property {Record<string, string>} [ingestEnv]
 * @property {string[]} [ingestNode]  Node's options for ingest.
 * @property {Record<string, string>} [apiEnv]
 * @property {number} [healthyMsMax]  How long a part may take until it is healthy, in milliseconds.
 * @property {(stack: Stack) => Promise<void>} [prepare]  What is done before the parts start.
 */

/**
 * Starts the platform; resolves once all of it is healthy.
 *
 * @param {StackOptions} [options]
 */
export async function startStack(options = {}) {
  const stack = new Stack(await place(), options)
  try {
    await options.prepare?.(stack)
    await stack.start()
    return stack
  } catch (error) {
    await stack.end().catch(() => {})
    throw error
  }
}

/** Where everything of a stack is. */
async function place() {
  const database = GIVEN_DATABASE
  const [cql, engineHttp, mqtt, ingestHttp, api] = await Promise.all(
    Array.from({ length: 5 }, () => freePort(HOST)),
  )
  const directory = mkdtempSync(join(tmpdir(), 'sandglass-test-'))
  const keyspace = `sandglass_test_${process.pid}_${mqtt}`
  return { database, directory, keyspace, cql, engineHttp, mqtt, ingestHttp, api }
}

/** @typedef {Awaited<ReturnType<typeof place>>} Place */

export class Stack {
  /** @type {Map<PartName | string, Part>} */
  #parts = new Map()
  /** @type {Link | undefined} */
  #link
  /** @type {cassandra.Client | undefined} */
  #client
  #place

  /**
   * @param {Place} place
   * @param {StackOptions} options
   */
  constructor(place, options) {
    this.#place = place
    this.mqtt = { host: HOST, port: place.mqtt }
    this.mqttUrl = `mqtt://${HOST}:${place.mqtt}`
    this.apiUrl = `http://${HOST}:${place.api}`
    this.ingestUrl = `http://${HOST}:${place.ingestHttp}`
    this.engineUrl = `http://${HOST}:${place.engineHttp}`
    this.cqlHosts = `${HOST}:${place.cql}`
    this.keyspace = place.keyspace
    /** Whether the database is our engine. */
    this.ours = place.database === undefined
    const wanted = options.parts ?? ['engine', 'ingest', 'api']
    for (const name of wanted) {
      if (name === 'engine' && !this.ours) continue
      this.#parts.set(name, new Part(this.#describe(name, options)))
    }
  }

  async start() {
    const { database, cql } = this.#place
    if (database !== undefined) {
      this.#link = new Link(parseAddress(database))
      await this.#link.listen({ host: HOST, port: cql })
    }
    for (const part of this.#parts.values()) await part.start()
  }

  /**
   * One more ingest, with a spool and an address of its own; it is not started.
   *
   * @param {string} name
   * @param {Record<string, string>} ingestEnv
   */
  async addIngest(name, ingestEnv) {
    const { directory } = this.#place
    const http = `${HOST}:${await freePort(HOST)}`
    const spool = join(directory, `${name}-spool`)
    const part = new Part({
      ...this.#describe('ingest', {
        ingestEnv: { INGEST_HTTP: http, SPOOL_DIR: spool, ...ingestEnv },
      }),
      name,
      logFile: join(directory, `${name}.log`),
      healthUrl: `http://${http}/health`,
    })
    this.#parts.set(name, part)
    return part
  }

  /**
   * One more api, with an address of its own; it is not started.
   *
   * @param {string} name
   * @param {Record<string, string>} [apiEnv]
   */
  async addApi(name, apiEnv = {}) {
    const listen = `${HOST}:${await freePort(HOST)}`
    const url = `http://${listen}`
    const part = new Part({
      ...this.#describe('api', { apiEnv: { API_LISTEN: listen, ...apiEnv } }),
      name,
      logFile: join(this.#place.directory, `${name}.log`),
      healthUrl: `${url}/health`,
    })
    this.#parts.set(name, part)
    return { part, url }
  }

  /** @param {PartName} name */
  part(name) {
    const part = this.#parts.get(name)
    if (!part) throw new Error(`${name} is no part of this stack`)
    return part
  }

  /** Takes the database away without warning: `kill -9`, or the link is cut. */
  async databaseAway() {
    if (this.#link) this.#link.cut()
    else await this.part('engine').kill9()
  }

  /**
   * Brings it back; resolves once it serves. The next client is a new one: the driver connects
   * again by two timers, and if that of its control connection is the first one, it takes the host
   * for a new one, to which there is no connection yet, although a statement was answered just
   * before.
   */
  async databaseBack() {
    if (this.#link) return this.#link.mend()
    await this.part('engine').start()
    await this.#client?.shutdown()
    this.#client = undefined
  }

  /** Resolves once the api reads from the database: after an outage it may take a moment. */
  async readable() {
    await until('the api reads', async () => {
      const response = await fetch(`${this.apiUrl}/v1/sensors`, {
        signal: AbortSignal.timeout(5000),
      })
      await response.body?.cancel()
      return response.ok
    })
  }

  /** Resolves once all that was acknowledged is in the database: none is in the spool. */
  async emptied() {
    const isEmpty = async () => {
      const { spooled, held } = await this.stats()
      return spooled === 0 && held === 0
    }
    await until('the spool is empty', isEmpty, { deadlineMs: 120_000 })
  }

  /** Where its files are. */
  get directory() {
    return this.#place.directory
  }

  /** A connection of the test's own to the database, until that is away. */
  async client() {
    if (this.#client) return this.#client
    const client = new cassandra.Client({
      contactPoints: [this.#place.database ?? this.cqlHosts],
      localDataCenter: process.env.CQL_DATACENTER ?? 'datacenter1',
      credentials: credentials(),
      // An idle connection is silent: the engine is watched for what it does by itself.
      pooling: { heartBeatInterval: 0 },
      socketOptions: { readTimeout: 30_000 },
    })
    await client.connect()
    this.#client = client
    return client
  }

  /** What ingest counts of messages since it started. */
  async stats() {
    const response = await fetch(`${this.ingestUrl}/stats`, { signal: AbortSignal.timeout(20_000) })
    return /** @type {Promise<Record<string, any>>} */ (response.json())
  }

  /** Throws if a part ended without being asked to. */
  check() {
    for (const part of this.#parts.values()) part.check()
  }

  /** Stops everything in reverse order and removes the data. Throws if a part had died. */
  async end() {
    /** @type {unknown[]} */
    const errors = []
    /** @param {() => unknown} step */
    const attempt = async (step) => {
      try {
        await step()
      } catch (error) {
        errors.push(error)
      }
    }
    await attempt(() => this.check())
    const reversed = [...this.#parts.values()].reverse()
    for (const part of reversed.filter(({ name }) => name !== 'engine')) {
      await attempt(() => part.stop())
    }
    if (!this.ours) await attempt(() => this.#dropKeyspace())
    await attempt(() => this.#client?.shutdown())
    await attempt(() => this.#parts.get('engine')?.stop())
    await attempt(() => this.#link?.close())
    rmSync(this.#place.directory, { recursive: true, force: true })
    if (errors.length > 0) throw errors[0]
  }

  async #dropKeyspace() {
    const client = await this.client()
    await client.execute(`DROP KEYSPACE IF EXISTS ${this.keyspace}`, [], { readTimeout: 60_000 })
  }

  /**
   * @param {PartName} name
   * @param {StackOptions} options
   * @returns {import('./part.js').PartOptions}
   */
  #describe(name, { engineEnv, ingestEnv, ingestNode = [], apiEnv, healthyMsMax }) {
    const { directory, engineHttp, ingestHttp, mqtt, api } = this.#place
    const common = { name, directory, logFile: join(directory, `${name}.log`), healthyMsMax }
    if (name === 'engine') {
      const env = {
        DB_DATA_DIR: join(directory, 'data'),
        DB_LISTEN: this.cqlHosts,
        DB_HTTP: `${HOST}:${engineHttp}`,
        ...engineEnv,
      }
      return { ...common, command: ENGINE, args: [], env, healthUrl: `${this.engineUrl}/health` }
    }
    const database = {
      CQL_HOSTS: this.cqlHosts,
      CQL_KEYSPACE: this.keyspace,
      ...given(
        'CQL_DATACENTER',
        'CQL_REPLICATION',
        'CQL_CONSISTENCY',
        'CQL_USERNAME',
        'CQL_PASSWORD',
      ),
    }
    const flags = name === 'api' ? API_FLAGS : [...INGEST_FLAGS, ...ingestNode]
    const args = [...flags, join(ROOT, name, 'src/main.js')]
    const node = { ...common, command: process.execPath, args }
    if (name === 'ingest') {
      const env = {
        ...database,
        MQTT_LISTEN: `${HOST}:${mqtt}`,
        INGEST_HTTP: `${HOST}:${ingestHttp}`,
        SPOOL_DIR: join(directory, 'spool'),
        ...ingestEnv,
      }
      return { ...node, env, healthUrl: `${this.ingestUrl}/health` }
    }
    const env = {
      ...database,
      API_LISTEN: `${HOST}:${api}`,
      INGEST_URL: this.ingestUrl,
      ...apiEnv,
    }
    return { ...node, env, healthUrl: `${this.apiUrl}/health` }
  }
}

/**
 * Those variables of our environment that are set.
 *
 * @param {...string} names
 * @returns {Record<string, string>}
 */
function given(...names) {
  return Object.fromEntries(
    names.flatMap((name) => (process.env[name] ? [[name, process.env[name]]] : [])),
  )
}

function credentials() {
  const { CQL_USERNAME: username, CQL_PASSWORD: password } = process.env
  return username && password ? { username, password } : undefined
}

/**
 * @param {string} text  `HOST:PORT`; of a list the first.
 * @returns {import('./link.js').Address}
 */
function parseAddress(text) {
  const match = /^([^:,]+):(\d+)(,|$)/.exec(text)
  if (!match) throw new Error(`CQL_HOSTS is HOST:PORT, not ${text}`)
  return { host: match[1], port: Number(match[2]) }
}
