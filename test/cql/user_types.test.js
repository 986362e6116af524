// User-defined types as a driver sees them: found in the schema, bound, read, and learnt again when
// they change. On the engine types and values outlast a crash.
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { GIVEN_DATABASE, startStack } from '../support/stack.js'

const TIMEOUT_MS = 120_000
const KEYSPACE = `user_types_${process.pid}`

/** @type {Awaited<ReturnType<typeof startStack>>} */
let stack
/** @type {Awaited<ReturnType<typeof stack.client>>} */
let client

beforeAll(async () => {
  stack = await startStack({ parts: ['engine'] })
  client = await stack.client()
  const replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
  await client.execute(`CREATE KEYSPACE ${KEYSPACE} WITH replication = ${replication}`)
  await client.execute(`USE ${KEYSPACE}`)
  await client.execute('CREATE TYPE address (street text, zip int, tags frozen<set<text>>)')
  await client.execute('CREATE TYPE person (name text, home frozen<address>)')
  await client.execute(
    'CREATE TABLE t (k int PRIMARY KEY, f frozen<person>, u address, l list<frozen<address>>)',
  )
}, TIMEOUT_MS)

afterAll(async () => {
  await client?.execute(`DROP KEYSPACE IF EXISTS ${KEYSPACE}`)
  await stack?.end()
}, TIMEOUT_MS)

/** @param {string} text @param {unknown[]} [values] */
const run = (text, values = []) => client.execute(text, values, { prepare: true })

/** @param {number} k */
const row = async (k) => (await run('SELECT f, u, l FROM t WHERE k = ?', [k])).rows[0].values()

/** @param {string} name */
async function fields(name) {
  const found = await client.metadata.getUdt(KEYSPACE, name)
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
  await client.execute('ALTER TYPE address ADD land text')
  for (let left = 100; left > 0 && (await fields('address')).length < 4; left--) await pause(100)
  expect(await fields('address')).toEqual(['street', 'zip', 'tags', 'land'])
  await run('UPDATE t SET u = ? WHERE k = ?', [{ ...home, land: 'X' }, 2])
  expect(await row(2)).toEqual([null, { ...stored, land: 'X' }, null])
})

test(
  'types and values outlast a crash',
  async () => {
    const before = [await row(1), await row(2)]
    if (!GIVEN_DATABASE) {
      await stack.databaseAway()
      await stack.databaseBack()
    }
    // The driver needs a moment to connect again.
    for (let left = 100; left > 0; left--) {
      const found = await client.execute('SELECT key FROM system.local').catch(() => undefined)
      if (found) break
      await pause(100)
    }
    expect([await row(1), await row(2)]).toEqual(before)
    expect(await fields('address')).toEqual(['street', 'zip', 'tags', 'land'])
  },
  TIMEOUT_MS,
)
