// The two databases that are compared: our engine, which is killed and started in between, and a
// Cassandra.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CassandraNode, freeHosts } from '../../support/cassandra.js'
import { Part } from '../../support/part.js'
import { freePort } from '../../support/ports.js'
import { ENGINE, GIVEN_DATABASE } from '../../support/stack.js'
import { Connection } from './connection.js'

const HOST = '127.0.0.1'

/** Our engine, with a directory of its own. */
export class Engine {
  /** Counts its starts: connections of an earlier one are closed. */
  starts = 0
  #part
  #directory

  /** @param {string} directory  @param {number} cql  @param {number} http  Ports. */
  constructor(directory, cql, http) {
    this.#directory = directory
    this.address = `${HOST}:${cql}`
    this.#part = new Part({
      name: 'engine',
      command: ENGINE,
      args: [],
      directory,
      env: {
        DB_DATA_DIR: join(directory, 'data'),
        DB_LISTEN: this.address,
        DB_HTTP: `${HOST}:${http}`,
        DB_SHARDS: '2',
        DB_MEMORY: '64MiB',
      },
      logFile: join(directory, 'engine.log'),
      healthUrl: `http://${HOST}:${http}/health`,
    })
  }

  static async start() {
    const directory = mkdtempSync(join(tmpdir(), 'sandglass-random-'))
    const engine = new Engine(directory, await freePort(HOST), await freePort(HOST))
    await engine.#part.start()
    return engine
  }

  /** Ends it without warning, so that it reads its log, or in order, so that all is in files; then
   * it starts again. @param {'kill' | 'stop'} how */
  async restart(how) {
    this.starts++
    if (how === 'kill') await this.#part.kill9()
    else await this.#part.stop()
    await this.#part.start()
  }

  /** Starts it again if it ended by itself. */
  async revive() {
    if (this.#part.died === undefined) return
    process.stdout.write(`${this.#part.died}\n${this.#part.logTail()}\n`)
    this.#part.died = undefined
    this.starts++
    await this.#part.start()
  }

  async end() {
    await this.#part.kill9()
    rmSync(this.#directory, { recursive: true, force: true })
  }
}

/** The Cassandra that CQL_HOSTS names, or one of our own. */
export async function startCassandra() {
  if (GIVEN_DATABASE) return { address: GIVEN_DATABASE, end: async () => {} }
  const directory = mkdtempSync(join(tmpdir(), 'sandglass-cassandra-'))
  const [host] = await freeHosts(1)
  const node = new CassandraNode({ directory, host })
  await node.start()
  const end = async () => {
    await node.stop()
    rmSync(directory, { recursive: true, force: true })
  }
  return { address: node.address, end }
}

/**
 * The same for Cassandra, which then compacts nothing: a compaction while a table has no static
 * column loses the values of all that it had, also those that `DROP … USING TIMESTAMP` leaves.
 *
 * @param {import('./connection.js').Statement} statement
 */
export function uncompacted(statement) {
  if (!statement.text.startsWith('CREATE TABLE')) return statement
  const link = statement.text.includes(' WITH ') ? 'AND' : 'WITH'
  const option = "compaction = {'class': 'SizeTieredCompactionStrategy', 'enabled': 'false'}"
  return { ...statement, text: `${statement.text} ${link} ${option}` }
}

/** A connection that is opened again after its database was started again. */
export class Session {
  /** @type {Connection | undefined} */
  #connection
  #start = 0
  #database
  #keyspace

  /** @param {{ address: string, starts?: number }} database  @param {string} keyspace */
  constructor(database, keyspace) {
    this.#database = database
    this.#keyspace = keyspace
  }

  /** @param {import('./connection.js').Statement} statement */
  async execute(statement) {
    const start = this.#database.starts ?? 0
    if (start !== this.#start) this.close()
    this.#start = start
    if (!this.#connection) {
      this.#connection = await Connection.open(this.#database.address)
      await this.#connection.execute({ text: `USE ${this.#keyspace}` })
    }
    try {
      return await this.#connection.execute(statement)
    } catch (error) {
      this.close()
      throw error
    }
  }

  close() {
    this.#connection?.close()
    this.#connection = undefined
  }
}

/** Many pass at once; one who wants to be alone waits until nobody is inside. */
export class Gate {
  #inside = 0
  /** @type {Promise<void> | undefined} */
  #closed
  /** @type {(() => void) | undefined} */
  #empty

  /** @template T @param {() => Promise<T>} work @returns {Promise<T>} */
  async pass(work) {
    while (this.#closed) await this.#closed
    this.#inside++
    try {
      return await work()
    } finally {
      this.#inside--
      if (this.#inside === 0) this.#empty?.()
    }
  }

  /** @param {() => Promise<void>} work */
  async alone(work) {
    while (this.#closed) await this.#closed
    const done = this.#alone(work)
    this.#closed = done.catch(() => {})
    await done.finally(() => {
      this.#closed = undefined
    })
  }

  /** @param {() => Promise<void>} work */
  async #alone(work) {
    if (this.#inside > 0) {
      await new Promise((resolve) => {
        this.#empty = () => resolve(undefined)
      })
    }
    this.#empty = undefined
    await work()
  }
}
