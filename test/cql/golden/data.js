// A keyspace with everything that a table can hold, and what is read of it.

const KEYSPACE = 'golden'
/** Seconds of a time to live that ends in 2045. */
const LONG_TTL_S = 600_000_000
/** What a cell of every kind holds. */
const VALUES = {
  ascii: `'a'`,
  bigint: '-9223372036854775808',
  blob: '0x00ff00',
  boolean: 'true',
  date: `'1969-07-20'`,
  decimal: '-12345678901234567890.0123456789',
  double: '-0.1',
  duration: '1y2mo3d4h5m6s7ns',
  float: '3.25',
  inet: `'2001:db8::1'`,
  int: '-1',
  smallint: '-32768',
  text: `'Grüße, 世界'`,
  time: `'23:59:59.999999999'`,
  timestamp: `'2026-02-03T04:05:06.789Z'`,
  timeuuid: '50554d6e-29bb-11e5-b345-feff819cdc9f',
  tinyint: '-128',
  uuid: '123e4567-e89b-12d3-a456-426614174000',
  varint: '-123456789012345678901234567890',
  'frozen<list<text>>': `['b', 'a', 'b']`,
  'frozen<set<int>>': '{3, 1, 2}',
  'frozen<map<text, frozen<list<int>>>>': `{'x': [1, 2], 'a': []}`,
  'tuple<int, text, frozen<set<uuid>>>': `(1, null, {123e4567-e89b-12d3-a456-426614174000})`,
}
const COLUMNS = Object.keys(VALUES)

/** What is in sstables: the engine is stopped and started after it. */
export const FLUSHED = [
  `CREATE KEYSPACE ${KEYSPACE}
     WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}`,
  `CREATE TABLE ${KEYSPACE}.kinds
     (id int PRIMARY KEY, ${COLUMNS.map((type, at) => `c${at} ${type}`).join(', ')})`,
  `INSERT INTO ${KEYSPACE}.kinds (id, ${COLUMNS.map((_, at) => `c${at}`).join(', ')})
     VALUES (1, ${Object.values(VALUES).join(', ')}) USING TIMESTAMP 1000`,
  ...COLUMNS.map(
    (type, at) => `INSERT INTO ${KEYSPACE}.kinds (id, c${at})
      VALUES (${at + 2}, ${VALUES[/** @type {keyof typeof VALUES} */ (type)]})
      USING TIMESTAMP ${2_000 + at} AND TTL ${LONG_TTL_S}`,
  ),
  `CREATE TABLE ${KEYSPACE}.series
     (sensor text, day date, t timestamp, seq int, v double, note text,
      PRIMARY KEY ((sensor, day), t, seq))
     WITH CLUSTERING ORDER BY (t DESC, seq ASC) AND gc_grace_seconds = 864000
     AND compaction = {'class': 'TimeWindowCompactionStrategy',
       'compaction_window_unit': 'DAYS', 'compaction_window_size': 1}`,
  ...range(400, (n) => seriesRow(n, 10_000 + n)),
  `CREATE TABLE ${KEYSPACE}.emptied (id int PRIMARY KEY, v text)`,
  ...range(20, (n) => `INSERT INTO ${KEYSPACE}.emptied (id, v) VALUES (${n}, 'before')`),
  `CREATE TABLE ${KEYSPACE}.altered (a int, b int, kept int, dropped text, PRIMARY KEY (a, b))`,
  ...range(
    30,
    (n) => `INSERT INTO ${KEYSPACE}.altered (a, b, kept, dropped)
      VALUES (${n % 5}, ${n}, ${n}, 'gone') USING TIMESTAMP ${20_000 + n}`,
  ),
]

/** What is in the commit log only: the engine is killed after it. */
export const LOGGED = [
  ...range(60, (n) => seriesRow(n * 9, 30_000 + n)),
  `DELETE FROM ${KEYSPACE}.series USING TIMESTAMP 40000
     WHERE sensor = 'press-1' AND day = '2026-03-02'`,
  `DELETE FROM ${KEYSPACE}.series USING TIMESTAMP 40001
     WHERE sensor = 'press-2' AND day = '2026-03-03' AND t = '2026-03-03T00:02:00Z' AND seq = 0`,
  `DELETE note FROM ${KEYSPACE}.series USING TIMESTAMP 40002
     WHERE sensor = 'press-0' AND day = '2026-03-01' AND t = '2026-03-01T00:00:00Z' AND seq = 0`,
  `TRUNCATE ${KEYSPACE}.emptied`,
  `INSERT INTO ${KEYSPACE}.emptied (id, v) VALUES (7, 'after') USING TIMESTAMP 50000`,
  `ALTER TABLE ${KEYSPACE}.altered DROP dropped`,
  `ALTER TABLE ${KEYSPACE}.altered ADD added frozen<set<text>>`,
  `UPDATE ${KEYSPACE}.altered USING TIMESTAMP 60000 SET added = {'b', 'a'} WHERE a = 1 AND b = 1`,
  `BEGIN BATCH USING TIMESTAMP 70000
     ${range(12, (n) => `UPDATE ${KEYSPACE}.altered SET kept = ${-n} WHERE a = ${n} AND b = 0`).join('; ')};
   APPLY BATCH`,
  `UPDATE ${KEYSPACE}.kinds USING TIMESTAMP 80000 SET c6 = null, c12 = 'newer' WHERE id = 1`,
]

/** @param {number} count  @param {(n: number) => string} make */
function range(count, make) {
  return Array.from({ length: count }, (_, n) => make(n))
}

/** @param {number} n  @param {number} timestampUs */
function seriesRow(n, timestampUs) {
  const day = `2026-03-0${1 + (n % 4)}`
  const at = new Date(Date.parse(day) + 60_000 * (n % 50)).toISOString()
  return `INSERT INTO ${KEYSPACE}.series (sensor, day, t, seq, v, note)
    VALUES ('press-${n % 3}', '${day}', '${at}', ${n % 2}, ${timestampUs / 8}, 'n${n}')
    USING TIMESTAMP ${timestampUs}`
}

/**
 * All that can be read, in the order in which it is read, as text.
 *
 * @param {import('cassandra-driver').Client} client
 */
export async function readAll(client) {
  /** @type {Record<string, string[]>} */
  const all = {}
  const query = `SELECT table_name, column_name, kind FROM system_schema.columns
    WHERE keyspace_name = ?`
  const { rows: columns } = await client.execute(query, [KEYSPACE], { prepare: true })
  for (const table of new Set(columns.map(({ table_name: name }) => name))) {
    const own = columns.filter(({ table_name: name }) => name === table)
    const selected = own.flatMap(({ column_name: column, kind }) =>
      kind === 'regular' ? [column, `writetime(${column})`] : [column],
    )
    all[table] = []
    const statement = `SELECT ${selected.join(', ')} FROM ${KEYSPACE}.${table}`
    /** @type {string | undefined} */
    let pageState
    do {
      /** @type {import('cassandra-driver').QueryOptions} */
      const options = { prepare: true, fetchSize: 7, pageState }
      /** @type {import('cassandra-driver').types.ResultSet} */
      const page = await client.execute(statement, [], options)
      all[table].push(...page.rows.map((row) => JSON.stringify(row)))
      pageState = page.pageState
    } while (pageState)
  }
  return all
}

/**
 * Stops the engine and starts it, and gives a client that has found it again.
 *
 * @param {import('../../support/stack.js').Stack} stack
 */
export async function restart(stack) {
  await stack.part('engine').stop()
  await stack.databaseBack()
  return stack.client()
}
