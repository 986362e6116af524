// A keyspace of its own for a file of tests, on the engine or on a given Cassandra.
import { afterAll, beforeAll } from '@jest/globals'
import cassandra from 'cassandra-driver'
import { startStack } from '../support/stack.js'

const TIMEOUT_MS = 120_000

/** @typedef {Awaited<ReturnType<typeof startStack>>} Stack */

/**
 * Has a keyspace made before all tests of a file, with what these statements make in it, and
 * dropped after them.
 *
 * @param {string} name
 * @param {string[]} [statements]
 */
export function inKeyspace(name, statements = []) {
  const keyspace = `${name}_${process.pid}`
  /** @type {Stack} */
  let stack
  /** @type {Awaited<ReturnType<Stack['client']>>} */
  let client

  beforeAll(async () => {
    stack = await startStack({ parts: ['engine'] })
    client = await stack.client()
    const replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
    await client.execute(`CREATE KEYSPACE ${keyspace} WITH replication = ${replication}`)
    await client.execute(`USE ${keyspace}`)
    for (const statement of statements) await client.execute(statement)
  }, TIMEOUT_MS)

  afterAll(async () => {
    await client?.execute(`DROP KEYSPACE IF EXISTS ${keyspace}`)
    await stack?.end()
  }, TIMEOUT_MS)

  return {
    keyspace,
    timeoutMs: TIMEOUT_MS,
    client: () => client,

    /** Kills the engine and starts it again, unless the database is a given one. */
    async crash() {
      if (!stack.ours) return
      await stack.databaseAway()
      await stack.databaseBack()
      client = await stack.client()
      await client.execute(`USE ${keyspace}`)
    },

    /**
     * What a statement answers: its rows, or why it is refused.
     *
     * @param {string} text
     * @param {unknown[]} [values]
     */
    async answer(text, values = []) {
      try {
        const { rows } = await client.execute(text, values, { prepare: true })
        return (rows ?? []).map((row) => row.values())
      } catch (error) {
        if (!(error instanceof cassandra.errors.ResponseError)) throw error
        return `${error.code.toString(16)} ${error.message}`
      }
    },
  }
}
