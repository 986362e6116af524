// Keys of 65,535 bytes, and one byte more: the same answers here and on Cassandra.
import { expect, test } from '@jest/globals'
import cassandra from 'cassandra-driver'
import { inKeyspace } from './in-keyspace.js'

const MAX = 65_535

const { answer, client, timeoutMs } = inKeyspace('long_keys')

/** @param {number} length */
const refused = (length) => `2200 Key length of ${length} is longer than maximum of ${MAX}`

test(
  'the values of a clustering key have 65,535 bytes together',
  async () => {
    await client().execute('CREATE TABLE t (p int, c text, d blob, v int, PRIMARY KEY (p, c, d))')
    const insert = 'INSERT INTO t (p, c, d, v) VALUES (?, ?, ?, ?)'
    const one = 'SELECT v FROM t WHERE p = ? AND c = ? AND d = ?'
    const remove = 'DELETE FROM t WHERE p = ? AND c = ? AND d = ?'
    for (const [c, d] of [
      [MAX - 1, 0],
      [MAX, 0],
      [0, MAX],
      [40_000, 25_535],
    ]) {
      const key = [1, '\0'.repeat(c), Buffer.alloc(d)]
      expect(await answer(insert, [...key, c])).toEqual([])
      expect(await answer(one, key)).toEqual([[c]])
    }
    for (const [c, d] of [
      [MAX + 1, 0],
      [0, MAX + 1],
      [40_000, 25_536],
      [70_000, 70_000],
    ]) {
      const key = [1, '\0'.repeat(c), Buffer.alloc(d)]
      expect(await answer(insert, [...key, c])).toBe(refused(c + d))
      expect(await answer(remove, key)).toBe(refused(c + d))
      expect(await answer(one, key)).toEqual([])
    }
    for (const fetchSize of [1, 3]) {
      /** @type {number[][]} */
      const lengths = []
      /** @type {string | undefined} */
      let pageState
      do {
        const options = { fetchSize, pageState }
        /** @type {cassandra.types.ResultSet} */
        const page = await client().execute('SELECT c, d FROM t WHERE p = 1', [], options)
        for (const row of page.rows) lengths.push([row.c.length, row.d.length])
        pageState = page.pageState ?? undefined
      } while (pageState !== undefined)
      expect(lengths).toEqual([
        [0, MAX],
        [40_000, 25_535],
        [MAX - 1, 0],
        [MAX, 0],
      ])
    }
  },
  timeoutMs,
)

test(
  'a partition key has 65,535 bytes',
  async () => {
    await client().execute('CREATE TABLE one (p blob PRIMARY KEY, v int)')
    await client().execute('CREATE TABLE two (p blob, q blob, v int, PRIMARY KEY ((p, q)))')
    for (const length of [MAX - 1, MAX]) {
      const key = Buffer.alloc(length)
      expect(await answer('INSERT INTO one (p, v) VALUES (?, ?)', [key, length])).toEqual([])
      expect(await answer('SELECT v FROM one WHERE p = ?', [key])).toEqual([[length]])
    }
    const long = Buffer.alloc(MAX + 1)
    expect(await answer('INSERT INTO one (p, v) VALUES (?, 1)', [long])).toBe(refused(MAX + 1))
    expect(await answer('SELECT v FROM one WHERE p = ?', [long])).toBe(refused(MAX + 1))
    expect(await answer('SELECT v FROM one WHERE p IN ?', [[long]])).toBe(refused(MAX + 1))
    // Each component has three bytes beside its own.
    const insert = 'INSERT INTO two (p, q, v) VALUES (?, ?, ?)'
    const select = 'SELECT v FROM two WHERE p = ? AND q = ?'
    const [p, q] = [Buffer.alloc(MAX - 16), Buffer.alloc(10)]
    expect(await answer(insert, [p, q, 1])).toEqual([])
    expect(await answer(select, [p, q])).toEqual([[1]])
    const longer = Buffer.alloc(MAX - 15)
    expect(await answer(insert, [longer, q, 1])).toBe(refused(MAX + 1))
    expect(await answer(insert, [Buffer.alloc(MAX), q, 1])).toBe(refused(MAX + 10))
  },
  timeoutMs,
)

test(
  'collections in a key count as a whole, and outside of one not at all',
  async () => {
    await client().execute('CREATE TABLE f (p int, c frozen<list<text>>, PRIMARY KEY (p, c))')
    const insert = 'INSERT INTO f (p, c) VALUES (1, ?)'
    // Four bytes for the number of values, four for the length of one.
    expect(await answer(insert, [['\0'.repeat(MAX - 8)]])).toEqual([])
    expect(await answer(insert, [['\0'.repeat(MAX - 7)]])).toBe(refused(MAX + 1))
    const [row] = (await client().execute('SELECT c FROM f')).rows
    expect(row.c).toEqual(['\0'.repeat(MAX - 8)])
    const columns = 's frozen<set<text>>, m frozen<map<text, text>>, l frozen<list<text>>'
    await client().execute(`CREATE TABLE m (p int PRIMARY KEY, ${columns})`)
    for (const length of [MAX, MAX + 1, 70_000]) {
      const text = 'x'.repeat(length)
      const values = [length, [text], { [text]: text }, [text]]
      expect(await answer('INSERT INTO m (p, s, m, l) VALUES (?, ?, ?, ?)', values)).toEqual([])
      const found = await answer('SELECT p, s, m, l FROM m WHERE p = ?', [length])
      expect(found).toEqual([values])
    }
  },
  timeoutMs,
)
