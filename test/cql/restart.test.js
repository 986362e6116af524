// Static columns and deleted ranges after a restart: the same rows in every kind of pages, also of
// what is in sstables while its deletions are in the log alone.
import { expect, test } from '@jest/globals'
import { startStack } from '../support/stack.js'
import { until } from '../support/until.js'
import { restart } from './golden/data.js'

const TIMEOUT_MS = 120_000

/** What makes the engine flush: more than its memory for rows. */
const FILLER = 'x'.repeat(60_000)
const FILLERS_MAX = 1_000
const FILLERS_AT_ONCE = 20

/** The key of a partition that is only there to fill memory. */
const FILLED = 100

/** @typedef {import('../support/stack.js').Stack} Stack */

/** @param {Stack} stack */
async function flushes(stack) {
  const text = await (await fetch(`${stack.engineUrl}/metrics`)).text()
  return Number(/^sandglass_db_memtables_flushes_total\S* (\d+)/m.exec(text)?.[1])
}

/**
 * Has the table flushed with all that is in it, and deletes what it took for that.
 *
 * @param {Stack} stack
 * @param {import('cassandra-driver').Client} client
 */
async function flush(stack, client) {
  const before = await flushes(stack)
  for (let c = 0; (await flushes(stack)) === before; c += FILLERS_AT_ONCE) {
    expect(c).toBeLessThan(FILLERS_MAX)
    const fill = Array.from({ length: FILLERS_AT_ONCE }, (_, at) => {
      const text = `INSERT INTO ks.t (p, c, filler) VALUES (${FILLED}, ${c + at}, '${FILLER}')`
      // It is refused now and then while the disk is slow.
      return until('a filler is taken', () => client.execute(text))
    })
    await Promise.all(fill)
  }
  await client.execute(`DELETE FROM ks.t WHERE p = ${FILLED}`)
}

test.each(['a stop', 'a flush and a kill'])(
  'static columns and deleted ranges outlive %s',
  async (what) => {
    const isKilled = what !== 'a stop'
    const engineEnv = { DB_SHARDS: '1', DB_MEMORY: '32MiB' }
    const stack = await startStack({ parts: ['engine'], engineEnv })
    const again = async () => {
      if (!isKilled) return restart(stack)
      await stack.databaseAway()
      await stack.databaseBack()
      return stack.client()
    }
    try {
      let client = await stack.client()
      /** @param {string[]} statements */
      const run = async (statements) => {
        for (const text of statements) await client.execute(text)
      }
      /** @param {number} fetchSize */
      const read = async (fetchSize) => {
        const rows = []
        /** @type {string | undefined} */
        let pageState
        do {
          const text = 'SELECT p, c, s, v FROM ks.t'
          const page = await client.execute(text, [], { fetchSize, pageState })
          rows.push(...page.rows.map((row) => row.values()))
          pageState = page.pageState ?? undefined
        } while (pageState !== undefined)
        return rows
      }
      const sizes = [1, 2, 3, 100]
      await run([
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        'CREATE TABLE ks.t (p int, c int, s int STATIC, v int, filler text, PRIMARY KEY (p, c))',
        ...[1, 2, 3, 4].map((c) => `INSERT INTO ks.t (p, c, v) VALUES (5, ${c}, ${c})`),
        ...[1, 2].map((c) => `INSERT INTO ks.t (p, c, v) VALUES (1, ${c}, ${c})`),
        'UPDATE ks.t SET s = 10 WHERE p IN (1, 2, 5)',
        'INSERT INTO ks.t (p, c, v) VALUES (4, 1, 1)',
      ])
      const before = [
        ...[1, 2, 3, 4].map((c) => [5, c, 10, c]),
        ...[1, 2].map((c) => [1, c, 10, c]),
        [2, null, 10, null],
        [4, 1, null, 1],
      ]
      for (const size of sizes) expect(await read(size)).toEqual(before)
      if (isKilled) await flush(stack, client)
      client = await again()
      for (const size of sizes) expect(await read(size)).toEqual(before)
      await run([
        'DELETE FROM ks.t WHERE p = 5 AND c > 1 AND c <= 3',
        'DELETE FROM ks.t WHERE p = 1 AND c >= 1',
        'UPDATE ks.t SET s = 11 WHERE p = 5',
      ])
      const after = [[5, 1, 11, 1], [5, 4, 11, 4], [1, null, 10, null], ...before.slice(6)]
      for (const size of sizes) expect(await read(size)).toEqual(after)
      client = await again()
      for (const size of sizes) expect(await read(size)).toEqual(after)
    } finally {
      await stack.end()
    }
  },
  TIMEOUT_MS,
)
