// User-defined types as a driver sees them: found in the schema, bound, read, and learnt again when
// they change. On the engine types and values outlast a crash.
import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from '@jest/globals'
import cassandra from 'cassandra-driver'
import { inKeyspace } from './in-keyspace.js'

const { client, crash, keyspace, timeoutMs } = inKeyspace('user_types', [
  'CREATE TYPE address (street text, zip int, tags frozen<set<text>>)',
  'CREATE TYPE person (name text, home frozen<address>)',
  'CREATE TABLE t (k int PRIMARY KEY, f frozen<person>, u address, l list<frozen<address>>)',
])

/** @param {string} text @param {unknown[]} [values] */
const run = (text, values = []) => client().execute(text, values, { prepare: true })

/** @param {number} k */
const row = async (k) => (await run('SELECT f, u, l FROM t WHERE k = ?', [k])).rows[0].values()

/** @param {string} name */
async function fields(name) {
  const found = await client().metadata.getUdt(keyspace, name)
  return found.fields.map((/** @type {{ name: string }} */ field) => field.name)
}

const home = { street: 'High', zip: 12, tags: ['b', 'a', 'b'] }
const stored = { ...home, tags: ['a', 'b'] }

test('values are bound and read as the driver has them', async () => {
  expect(await fields('person')).toEqual(['name', 'home'])
  const values = [1, { name: 'n', home }, { zip: 7 }, [home, { street: 's' }]]
  await run('INSERT INTO t (k, f, u, l) VALUES (?, ?, ?, ?)', values)
  const empty = { street: null, zip: null, tags: null }
  const list = [stored, { ...empty, street: 's' }]
  const person = { name: 'n', home: stored }
  expect(await row(1)).toEqual([person, { ...empty, zip: 7 }, list])
  await run('UPDATE t SET u.street = ?, u.tags = ?, u.zip = ? WHERE k = ?', ['x', ['q'], null, 1])
  expect(await row(1)).toEqual([person, { street: 'x', zip: null, tags: ['q'] }, list])
})

test('a condition compares values that are frozen', async () => {
  const conditional = 'UPDATE t SET u.zip = ? WHERE k = 3 IF f = ?'
  const person = { name: 'n', home }
  await run('INSERT INTO t (k, f, u) VALUES (3, ?, ?)', [person, { zip: 7 }])
  const refused = await run(conditional, [8, { ...person, name: 'm' }])
  const found = { '[applied]': false, f: { ...person, home: stored } }
  expect({ ...refused.rows[0] }).toEqual(found)
  expect((await run(conditional, [8, person])).wasApplied()).toBe(true)
  expect((await row(3))[1]).toEqual({ street: null, tags: null, zip: 8 })
})

test('who prepared with a type learns of its change', async () => {
  await run('UPDATE t SET u = ? WHERE k = ?', [home, 2])
  expect(await row(2)).toEqual([null, stored, null])
  await client().execute('ALTER TYPE address ADD land text')
  for (let left = 100; left > 0 && (await fields('address')).length < 4; left--) await pause(100)
  expect(await fields('address')).toEqual(['street', 'zip', 'tags', 'land'])
  await run('UPDATE t SET u = ? WHERE k = ?', [{ ...home, land: 'X' }, 2])
  expect(await row(2)).toEqual([null, { ...stored, land: 'X' }, null])
})

test(
  'types and values outlast a crash',
  async () => {
    const before = [await row(1), await row(2)]
    await crash()
    expect([await row(1), await row(2)]).toEqual(before)
    expect(await fields('address')).toEqual(['street', 'zip', 'tags', 'land'])
  },
  timeoutMs,
)

test('markers stand inside of tuples and of fields', async () => {
  await client().execute('CREATE TYPE pair (t frozen<tuple<int, text>>, n int)')
  await client().execute(
    'CREATE TABLE tuples (k int, c frozen<tuple<int, text>>, p frozen<pair>, PRIMARY KEY (k, c))',
  )
  const insert = 'INSERT INTO tuples (k, c, p) VALUES (1, (?, ?), {t: (?, ?), n: ?})'
  await run(insert, [1, 'a', 2, null, 3])
  const read = async (/** @type {string} */ where, /** @type {unknown[]} */ values) => {
    const { rows } = await run(`SELECT c, p FROM tuples WHERE k = 1 AND ${where}`, values)
    return rows.map(({ c, p }) => [c.values(), p.t.values(), p.n])
  }
  const found = [[[1, 'a'], [2, null], 3]]
  expect(await read('c = (?, ?)', [1, 'a'])).toEqual(found)
  expect(await read("c > (?, 'a')", [0])).toEqual(found)
  expect(await read("c IN ((?, 'b'), (1, ?))", [1, 'a'])).toEqual(found)
  const refused = (/** @type {string} */ text, /** @type {unknown[]} */ values) =>
    run(text, values).catch((/** @type {Error} */ error) => error.message)
  const { unset } = cassandra.types
  const unfit = 'Invalid tuple literal for c:'
  for (const [text, values, words] of /** @type {[string, unknown[], string][]} */ ([
    ['(1, ?)', [unset], 'Invalid unset value for tuple field number 1'],
    ['(?, 5)', [1], `${unfit} component 1 is not of type text`],
    ["('a', ?)", ['a'], `${unfit} component 0 is not of type int`],
    ["('a', 'b')", [], `${unfit} component 0 is not of type int`],
    [
      '(?, ?, ?)',
      [1, 'a', 1],
      `${unfit} too many elements. Type frozen<tuple<int, text>> expects 2 but got 3`,
    ],
  ])) {
    expect(await refused(`DELETE FROM tuples WHERE k = 1 AND c = ${text}`, values)).toBe(words)
  }
})
