// What DESCRIBE answers makes the same schema again, here and on Cassandra.
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { startStack } from '../support/stack.js'

const TIMEOUT_MS = 120_000
const KEYSPACE = `described_${process.pid}`

/** Of each table Cassandra notes when it was made. */
const OWN_TO_EACH = ['id']

/** @type {Awaited<ReturnType<typeof startStack>>} */
let stack
/** @type {Awaited<ReturnType<typeof stack.client>>} */
let client

beforeAll(async () => {
  stack = await startStack({ parts: ['engine'] })
  client = await stack.client()
}, TIMEOUT_MS)

afterAll(async () => {
  await client?.execute(`DROP KEYSPACE IF EXISTS ${KEYSPACE}`)
  await stack?.end()
}, TIMEOUT_MS)

/** What the system says of the keyspace. */
async function schema() {
  /** @type {Record<string, unknown>[]} */
  const rows = []
  for (const table of ['keyspaces', 'tables', 'columns']) {
    const query = `SELECT * FROM system_schema.${table} WHERE keyspace_name = ?`
    const result = await client.execute(query, [KEYSPACE], { prepare: true })
    for (const row of result.rows) {
      const told = result.columns.filter(({ name }) => !OWN_TO_EACH.includes(name))
      rows.push(Object.fromEntries(told.map(({ name }) => [name, row[name]])))
    }
  }
  return rows
}

test(
  'what DESCRIBE answers makes the same schema again',
  async () => {
    const replication = "{'class': 'NetworkTopologyStrategy', 'datacenter1': 1}"
    const made = [
      `CREATE KEYSPACE ${KEYSPACE} WITH replication = ${replication} AND durable_writes = false`,
      `CREATE TABLE ${KEYSPACE}.plain (a int PRIMARY KEY, b text)`,
      `CREATE TABLE ${KEYSPACE}."Odd" ("sel""ect" timeuuid, "From" frozen<list<int>>, c inet,
         "select" tuple<int, text>, "é" frozen<map<text, frozen<set<uuid>>>>,
         PRIMARY KEY (("sel""ect", "From"), c)) WITH CLUSTERING ORDER BY (c DESC)
         AND comment = 'it''s odd' AND default_time_to_live = 3600 AND gc_grace_seconds = 7
         AND bloom_filter_fp_chance = 0.0002 AND crc_check_chance = 0.25
         AND caching = {'keys': 'NONE', 'rows_per_partition': 'ALL'}
         AND compression = {'class': 'DeflateCompressor', 'chunk_length_in_kb': 64}
         AND compaction = {'class': 'TimeWindowCompactionStrategy',
           'compaction_window_unit': 'MINUTES', 'compaction_window_size': 15}
         AND speculative_retry = 'ALWAYS' AND additional_write_policy = '95p'
         AND read_repair = 'NONE' AND min_index_interval = 64 AND max_index_interval = 1024`,
    ]
    for (const statement of made) await client.execute(statement)
    const before = await schema()
    expect(before.length).toBe(1 + 2 + 7)
    const { rows } = await client.execute(`DESCRIBE KEYSPACE ${KEYSPACE}`)
    expect(rows.map(({ type, name }) => [type, name])).toEqual([
      ['keyspace', KEYSPACE],
      ['table', '"Odd"'],
      ['table', 'plain'],
    ])
    await client.execute(`DROP KEYSPACE ${KEYSPACE}`)
    for (const row of rows) await client.execute(row.create_statement)
    expect(await schema()).toEqual(before)
    const again = await client.execute(`DESCRIBE KEYSPACE ${KEYSPACE}`)
    expect(again.rows).toEqual(rows)
  },
  TIMEOUT_MS,
)
