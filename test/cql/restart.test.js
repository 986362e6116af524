// Static columns and deleted ranges after a restart: the same rows in every kind of pages.
import { expect, test } from '@jest/globals'
import { startStack } from '../support/stack.js'
import { restart } from './golden/data.js'

const TIMEOUT_MS = 120_000

test(
  'static columns and deleted ranges outlive a restart',
  async () => {
    const stack = await startStack({ parts: ['engine'] })
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
        'CREATE TABLE ks.t (p int, c int, s int STATIC, v int, PRIMARY KEY (p, c))',
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
      client = await restart(stack)
      for (const size of sizes) expect(await read(size)).toEqual(before)
      await run([
        'DELETE FROM ks.t WHERE p = 5 AND c > 1 AND c <= 3',
        'DELETE FROM ks.t WHERE p = 1 AND c >= 1',
        'UPDATE ks.t SET s = 11 WHERE p = 5',
      ])
      const after = [[5, 1, 11, 1], [5, 4, 11, 4], [1, null, 10, null], ...before.slice(6)]
      for (const size of sizes) expect(await read(size)).toEqual(after)
      client = await restart(stack)
      for (const size of sizes) expect(await read(size)).toEqual(after)
    } finally {
      await stack.end()
    }
  },
  TIMEOUT_MS,
)
