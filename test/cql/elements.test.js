// Elements of collections by bound values: the same answers here and on Cassandra. On the engine
// they outlast a crash, and the order of a list does, too.
import { expect, test } from '@jest/globals'
import cassandra from 'cassandra-driver'
import { inKeyspace } from './in-keyspace.js'

const { unset } = cassandra.types

const { answer, client, crash, timeoutMs } = inKeyspace('elements', [
  'CREATE TABLE t (k int PRIMARY KEY, l list<int>, m map<text, int>, s set<int>)',
  'CREATE TABLE b (p text, c int, v int, PRIMARY KEY (p, c))',
])

/** @param {number} k */
const collections = (k) => answer('SELECT l, m, s FROM t WHERE k = ?', [k])

test('markers have the types of what they stand for', async () => {
  expect(
    await answer('UPDATE t SET m[?] = ?, l = ? + l, s = s + ?, m = m + ? WHERE k = ?', [
      'a',
      1,
      [1, 2],
      [3, 1, 3],
      { b: 2 },
      1,
    ]),
  ).toEqual([])
  expect(await collections(1)).toEqual([[[1, 2], { a: 1, b: 2 }, [1, 3]]])
  expect(await answer('UPDATE t SET m = m - ?, s -= ? WHERE k = 1', [['a'], [1, 9]])).toEqual([])
  expect(await collections(1)).toEqual([[[1, 2], { b: 2 }, [3]]])
  expect(await answer('SELECT m[?], s[?..?] FROM t WHERE k = 1', ['b', 1, 3])).toEqual([[2, [3]]])
  const where = 'm[?] = ? AND m CONTAINS KEY ? AND s CONTAINS ? AND l CONTAINS ?'
  const values = ['b', 2, 'b', 3, 2]
  expect(await answer(`SELECT k FROM t WHERE ${where} ALLOW FILTERING`, values)).toEqual([[1]])
})

test.each([
  ['UPDATE t SET m[?] = 1 WHERE k = 2', null, '2200 Invalid null map key'],
  ['UPDATE t SET m[?] = 1 WHERE k = 2', unset, '2200 Invalid unset map key'],
  ['DELETE m[?] FROM t WHERE k = 2', unset, '2200 Invalid unset map key'],
  ['DELETE s[?] FROM t WHERE k = 2', null, '2200 Invalid null set element'],
  ['DELETE s[?] FROM t WHERE k = 2', unset, []],
  ["UPDATE t SET m['a'] = ? WHERE k = 2", unset, []],
  ['UPDATE t SET s = s - ? WHERE k = 2', unset, []],
  ['UPDATE t SET l[?] = 1 WHERE k = 2', null, '2200 Invalid null value for list index'],
  ['UPDATE t SET l[?] = 1 WHERE k = 2', unset, '2200 Invalid unset value for list index'],
  [
    'UPDATE t SET l[?] = 1 WHERE k = 2',
    0,
    '2200 Attempted to set an element on a list which is null',
  ],
  ['DELETE l[?] FROM t WHERE k = 2', null, '2200 Invalid null value for list index'],
  ['DELETE l[?] FROM t WHERE k = 2', unset, []],
  ['UPDATE t SET l = l - ? WHERE k = 2', unset, []],
  ['UPDATE t SET l = l - ? WHERE k = 2', null, []],
  ['SELECT m[?] FROM t', null, '2200 Invalid null value for element selection on m'],
  ['SELECT m[?] FROM t', unset, '2200 Invalid unset value for element selection on m'],
  ['SELECT m[?..] FROM t', null, '2200 Invalid null value for slice selection on m'],
  [
    'SELECT k FROM t WHERE l CONTAINS ? ALLOW FILTERING',
    null,
    '2200 Unsupported null value for column l',
  ],
  [
    'SELECT k FROM t WHERE m CONTAINS KEY ? ALLOW FILTERING',
    unset,
    '2200 Unsupported unset value for column m',
  ],
  [
    'SELECT k FROM t WHERE m[?] = 1 ALLOW FILTERING',
    unset,
    '2200 Unsupported unset map key for column m',
  ],
  [
    "SELECT k FROM t WHERE m['a'] = ? ALLOW FILTERING",
    null,
    '2200 Unsupported null map value for column m',
  ],
])('%s of %s', async (text, value, expected) => {
  expect(await answer(text, [value])).toEqual(expected)
})

test(
  'a batch appends in its order, and lists keep theirs',
  async () => {
    const numbers = Array.from({ length: 100 }, (_, n) => n)
    const append = 'UPDATE t SET l = l + ? WHERE k = ?'
    const prepend = 'UPDATE t SET l = ? + l WHERE k = ?'
    await client().batch(
      numbers.flatMap((n) => [
        { query: append, params: [[n], 3] },
        { query: prepend, params: [[-n - 2, -n - 1], 3] },
      ]),
      { prepare: true },
    )
    for (const n of numbers) await answer(append, [[100 + n], 3])
    await answer("UPDATE t SET s = {2, 1}, m = {'a': 1} WHERE k = 3", [])
    const before = numbers.toReversed().flatMap((n) => [-n - 2, -n - 1])
    const list = [...before, ...Array(200).keys()]
    const expected = [[list, { a: 1 }, [1, 2]]]
    expect(await collections(3)).toEqual(expected)
    for (let turn = 0; turn < 2; turn++) {
      await crash()
      expect(await collections(3)).toEqual(expected)
      await answer("UPDATE t SET s = s + {3}, s = s - {3}, m = m - {'x'} WHERE k = 3", [])
    }
    await answer(append, [[200], 3])
    await answer(prepend, [[-1000], 3])
    const [[l]] = /** @type {number[][][]} */ (await collections(3))
    expect(l).toEqual([-1000, ...list, 200])
  },
  timeoutMs,
)

test('a list is written by bound indexes and values, and read before that', async () => {
  await answer('UPDATE t SET l = ? WHERE k = 4', [[1, 2, 3, 2, 5]])
  const list = async () => (await answer('SELECT l FROM t WHERE k = 4', []))[0]
  expect(await answer('UPDATE t SET l[?] = ?, l[?] = ? WHERE k = 4', [0, 7, 4, null])).toEqual([])
  expect(await list()).toEqual([[7, 2, 3, 2]])
  expect(await answer('UPDATE t SET l[?] = ? WHERE k = 4', [2, unset])).toEqual([])
  expect(await answer('UPDATE t SET l = l - ? WHERE k = 4', [[2, 9]])).toEqual([])
  expect(await list()).toEqual([[7, 3]])
  const refused = '2200 List index 2 out of bound, list has size 2'
  expect(await answer('DELETE l[?] FROM t WHERE k = ?', [2, 4])).toBe(refused)
  await client().batch(
    [
      { query: 'DELETE l[?] FROM t WHERE k = ?', params: [0, 4] },
      { query: 'UPDATE t SET l[?] = ? WHERE k = ?', params: [1, 8, 4] },
      { query: 'UPDATE t SET l = l + ? WHERE k = ?', params: [[9], 5] },
    ],
    { prepare: true },
  )
  expect(await list()).toEqual([[8]])
  expect(await answer('SELECT l FROM t WHERE k = 5', [])).toEqual([[[9]]])
  const old = { prepare: true, timestamp: 1 }
  await client().execute('UPDATE t SET l[0] = 1 WHERE k = 4', [], old)
  expect(await list()).toEqual([[8]])
})

test('a list is not read for a write at level SERIAL', async () => {
  const consistency = cassandra.types.consistencies.serial
  const text = 'UPDATE t SET l = l - [1] WHERE k = 4'
  const error = await client()
    .execute(text, [], { consistency })
    .catch((reason) => reason)
  expect(error.message).toBe('You must use conditional updates for serializable writes')
})

test('a part is named by what it is of, without the name of a marker', async () => {
  await client().execute('CREATE TABLE f (k int PRIMARY KEY, m map<double, int>)')
  const text = 'SELECT m[:one], m[:one..Infinity], m[..-Infinity] FROM f'
  const { columns } = await client().execute(text, { one: 1 }, { prepare: true })
  expect(columns.map(({ name }) => name)).toEqual(['m[?]', 'm[?..Infinity]', 'm[..-Infinity]'])
})

/** A statement of a batch; values are bytes in hexadecimal. @param {string} query
 * @param {string[]} values */
const one = (query, ...values) => ({ query, params: values.map((hex) => Buffer.from(hex, 'hex')) })

const UNFIT = one('UPDATE b SET v = ? WHERE p = ? AND c = 1', '00', '61')

test.each([
  ['keys', [UNFIT, one('UPDATE b SET v = 1 WHERE p = ? AND c = 1', '')], 'Key may not be empty'],
  [
    'the first key',
    [
      UNFIT,
      one('UPDATE b SET v = 1 WHERE p = ? AND c = 1', 'ff'),
      one('UPDATE b SET v = 1 WHERE p = ? AND c = 1', ''),
    ],
    "String didn't validate.",
  ],
  [
    'statements',
    [one("UPDATE b SET v = 1 WHERE p = '' AND c = 1"), one('UPDATE b SET v = 1 WHERE c = 1')],
    'Some partition key parts are missing: p',
  ],
  ['numbers of values', [UNFIT, one('UPDATE b SET v = 1 WHERE p = ? AND c = 1')], /1 markers/],
  [
    'conditions',
    [UNFIT, one("UPDATE b SET v = 1 WHERE p = 'b' AND c = 1 IF EXISTS")],
    'Batch with conditions cannot span multiple partitions',
  ],
  [
    'clustering keys, in a batch with conditions,',
    [
      one("UPDATE b SET v = 1 WHERE p = 'a' AND c = ?", '00'),
      one("UPDATE b SET v = 1 WHERE p = 'b' AND c = 1 IF EXISTS"),
    ],
    /^Expected 4 or 0 byte/,
  ],
  [
    'partitions, before what conditions compare,',
    [
      { query: "UPDATE b SET v = 1 WHERE p = 'a' AND c = 1 IF v = ?", params: [unset] },
      one("UPDATE b SET v = 1 WHERE p = 'b' AND c = 1"),
    ],
    'Batch with conditions cannot span multiple partitions',
  ],
  ['all else', [UNFIT, one("UPDATE b SET v = 1 WHERE p = 'a' AND c = 1")], /^Expected 4 or 0 byte/],
])('of the faults of a batch, those of %s come first', async (_, statements, words) => {
  await expect(client().batch(statements, { prepare: false })).rejects.toThrow(words)
})

test('of a batch whose conditions do not hold no value is looked at', async () => {
  const condition = one("UPDATE b SET v = 1 WHERE p = 'a' AND c = 1 IF EXISTS")
  const { rows } = await client().batch([UNFIT, condition], { prepare: false })
  expect(rows[0].values()).toEqual([false])
})

test('a row whose key is a tuple without bytes is another than that of nulls', async () => {
  await client().execute('CREATE TABLE e (p int, c tuple<int>, v int, PRIMARY KEY (p, c))')
  const insert = (/** @type {string} */ hex, /** @type {number} */ v) =>
    client().execute(`INSERT INTO e (p, c, v) VALUES (1, ?, ${v})`, [Buffer.from(hex, 'hex')])
  await insert('ffffffff', 1)
  await insert('', 2)
  expect(await answer('SELECT v FROM e WHERE p = 1')).toEqual([[2], [1]])
  expect(await answer('SELECT v FROM e WHERE p = 1 AND c = (null)')).toEqual([[1]])
})
