// Random statements, with the answers of Cassandra that were recorded when it was there:
//
//     npm run test:cql -- --random 3000 --seed recorded --tables 4 --record FILE
//
// with random/recorded.json.gz as the file.
import { readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { gunzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { startStack } from '../support/stack.js'
import { Session, uncompacted } from './random/databases.js'
import { anyEpisode } from './random/episode.js'
import { kindsOf } from './random/kinds.js'
import { Random } from './random/random.js'
import { CONTRADICTION, keyspaceOf } from './random/run.js'
import { shrunk } from './random/shrink.js'
import { difference, TOLERATED } from './random/tolerated.js'

/** @typedef {import('./random/episode.js').Step} Step */
/** @typedef {import('./random/connection.js').Answer} Answer */

const TIMEOUT_MS = 300_000
const SEED = 'recorded'
const FILE = new URL('random/recorded.json.gz', import.meta.url)

describe('recorded', () => {
  /** @type {Awaited<ReturnType<typeof startStack>>} */
  let stack

  beforeAll(async () => {
    stack = await startStack({ parts: ['engine'] })
  }, TIMEOUT_MS)

  afterAll(async () => {
    await stack?.end()
  }, TIMEOUT_MS)

  /** @param {'kill' | 'stop'} how */
  async function restart(how) {
    if (!stack.ours) return
    if (how === 'kill') await stack.databaseAway()
    else await stack.part('engine').stop()
    await stack.databaseBack()
  }

  test(
    'random statements are answered as by Cassandra, from memory, log and files',
    async () => {
      const database = { address: stack.cqlHosts, starts: 0 }
      const keyspace = keyspaceOf(SEED)
      const system = new Session(database, 'system')
      const replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
      await system.execute({
        text: `CREATE KEYSPACE ${keyspace} WITH replication = ${replication}`,
      })
      const session = new Session(database, keyspace)
      const wrong = []
      for (const line of gunzipSync(readFileSync(FILE)).toString().split('\n')) {
        const [step, theirs] = /** @type {[Step, Answer]} */ (JSON.parse(line))
        if ('pause' in step) await pause(step.pause)
        else if ('restart' in step) {
          database.starts++
          await restart(step.restart)
        } else {
          const ours = await session.execute(step)
          const { part, listed } = difference(step, ours, theirs)
          if (part && !listed) wrong.push({ step, ours, theirs })
        }
      }
      await system.execute({ text: `DROP KEYSPACE ${keyspace}` })
      for (const one of [session, system]) one.close()
      expect(wrong).toEqual([])
    },
    TIMEOUT_MS,
  )
})

test('a seed gives the same statements each time, and another seed others', () => {
  const of = (/** @type {string} */ seed) => JSON.stringify(anyEpisode(seed, 7, 50, kindsOf()))
  expect(of('1')).toBe(of('1'))
  expect(of('1')).not.toBe(of('2'))
})

test('a list of steps is shrunk to those that matter, in their order', async () => {
  const random = new Random('shrink')
  /** @type {Step[]} */
  const steps = [{ text: 'CREATE TABLE' }]
  for (let number = 0; number < 200; number++) steps.push({ text: `INSERT ${number}` })
  steps.push({ text: 'SELECT' })
  const matter = random.shuffled(steps.slice(1, -1)).slice(0, 3)
  const found = await shrunk(steps, async (some) => matter.every((step) => some.includes(step)))
  const kept = steps.slice(1, -1).filter((step) => matter.includes(step))
  expect(found).toEqual([steps[0], ...kept, steps.at(-1)])
})

test('a list of steps is shrunk without its pauses, unless they matter', async () => {
  const steps = [{ text: 'INSERT' }, { pause: 1 }, { text: 'UPDATE' }, { pause: 2 }, { text: 'X' }]
  /** @param {(some: Step[]) => boolean} shows */
  const attempts = async (shows) => {
    /** @type {Step[][]} */
    const tried = []
    const found = await shrunk(steps, async (some) => {
      tried.push(some)
      return shows(some)
    })
    return { found, pauses: tried.slice(3).filter((some) => some.some((step) => 'pause' in step)) }
  }
  const plain = await attempts((some) => some.includes(steps[0]))
  expect(plain).toEqual({ found: [steps[0], steps[4]], pauses: [] })
  const paused = await attempts((some) => some.includes(steps[1]))
  expect(paused.found).toEqual([steps[1], steps[4]])
})

test('Cassandra compacts none of the tables that are compared, and is sent all else as it is', () => {
  const option = "compaction = {'class': 'SizeTieredCompactionStrategy', 'enabled': 'false'}"
  const table = 'CREATE TABLE T0 (p0 int PRIMARY KEY)'
  const sent = (/** @type {string} */ text) => uncompacted({ text, prepare: true })
  expect(sent(table)).toEqual({ text: `${table} WITH ${option}`, prepare: true })
  expect(sent(`${table} WITH default_time_to_live = 5`).text).toBe(
    `${table} WITH default_time_to_live = 5 AND ${option}`,
  )
  expect(sent('ALTER TABLE T0 ADD v1 int').text).toBe('ALTER TABLE T0 ADD v1 int')
})

describe('an answer', () => {
  const statement = { text: 'SELECT v FROM T0' }
  /** @type {Answer} */
  const rows = { columns: [['v', 'int']], rows: [['00000001'], [null]], pages: [2] }

  test.each(
    /** @type {[string, Answer, Answer, string | undefined][]} */ ([
      ['is the same', rows, structuredClone(rows), undefined],
      ['has another value', rows, { ...rows, rows: [['00000001'], ['']] }, 'rows'],
      ['has its rows in another order', rows, { ...rows, rows: [[null], ['00000001']] }, 'rows'],
      ['has other pages', rows, { ...rows, pages: [1, 1] }, 'pages'],
      ['has an empty page more', rows, { ...rows, pages: [2, 0] }, undefined],
      ['has another type', rows, { ...rows, columns: [['v', 'text']] }, 'columns'],
      ['is refused', rows, { error: [0x2200, 'no'] }, 'error'],
      ['has other words', { error: [0x2200, 'yes'] }, { error: [0x2200, 'no'] }, 'error'],
      ['has another code', { error: [0x2000, 'no'] }, { error: [0x2200, 'no'] }, 'error'],
      ['has other words of syntax', { error: [0x2000, 'a'] }, { error: [0x2000, 'b'] }, undefined],
      ['warns', rows, { ...rows, warnings: ['slow'] }, 'warnings'],
    ]),
  )('that %s', (_, ours, theirs, part) => {
    expect(difference(statement, ours, theirs)).toEqual({ part, listed: undefined })
  })

  test.each([
    [60, undefined],
    [6000, 'rows'],
  ])('that has a lifetime of %i seconds less', (seconds, part) => {
    /** @type {(left: number) => Answer} */
    const lives = (left) => ({
      columns: [['ttl(v)', 'int']],
      rows: [[left.toString(16).padStart(8, '0')]],
      pages: [1],
    })
    const found = difference(statement, lives(100_000 - seconds), lives(100_000))
    expect(found.part).toBe(part)
  })
})

describe('of a condition on a value of a map', () => {
  /** @type {Answer} */
  const applied = { columns: [['[applied]', 'boolean']], rows: [['01']], pages: [1] }
  /** @param {string} type @returns {Answer} */
  const refused = (type) => ({
    columns: [
      ['[applied]', 'boolean'],
      ['v0', type],
    ],
    rows: [['00', '00000000']],
    pages: [1],
  })

  test.each([
    ['map<inet, tuple<time, decimal>>', "v0['::1'] >= (null, null)", true],
    ['map<inet, tuple<time, decimal>>', "v0['::1'] = (1, 1.0)", true],
    ['map<inet, tuple<time, bigint>>', "v0['::1'] = (1, 1)", false],
    ['map<inet, tuple<time, bigint>>', "v0['::1'] IN ((1, 1))", false],
    ['map<inet, text>', "v0['::1'] >= 'a'", false],
    ['map<blob, int>', 'v0[?] < ?', true],
    ['map<blob, int>', 'v0[?] != ?', false],
    ['map<blob, int>', 'v0 < ?', false],
    ['map<blob, int>', 'v0[?] = ? AND v1 < ?', false],
    ['map<bigint, int>', 'v0[1] = 1', true],
    ['map<bigint, bigint>', 'v0[1] < 1', false],
    ['map<list<int>, int>', 'v0[[1]] = 1', true],
  ])('%s, IF %s: another answer is listed: %s', (type, condition, isListed) => {
    const statement = { text: `UPDATE T0 SET v1 = 1 WHERE p0 = 1 IF ${condition}` }
    for (const [ours, theirs] of [
      [applied, refused(type)],
      [refused(type), applied],
    ]) {
      const { listed } = difference(statement, ours, theirs)
      expect(listed).toBe(isListed ? 'how values of a map are compared' : undefined)
    }
  })
})

describe('another answer', () => {
  /** @type {Answer} */
  const unset = { error: [0x2200, "Invalid 'unset' value in condition"] }
  /** @type {Answer} */
  const refused = { columns: [['[applied]', 'boolean']], rows: [['00']], pages: [1] }
  /** @type {Answer} */
  const applied = { ...refused, rows: [['01']] }
  /** @type {Answer} */
  const ofKey = {
    error: [0x2200, 'Cannot use selection function writetime on PRIMARY KEY part c0'],
  }
  /** @type {Answer} */
  const syntax = { error: [0x2000, 'line 1:1'] }
  /** @type {Answer} */
  const apart = { error: [0x2200, 'c0 cannot be restricted by more than one relation'] }
  const update = 'UPDATE T0 SET v0 = 1 WHERE p0 = 1 AND c0 = 1'

  test.each(
    /** @type {[string, Answer, Answer, boolean][]} */ ([
      [`${update} IF v0 = 2 AND v1 = ?`, unset, refused, true],
      [`BEGIN BATCH ${update} IF v0 = 2; ${update} IF v1 = ?; APPLY BATCH`, unset, refused, true],
      [`${update} IF v0 = 2 AND v1 = ?`, refused, unset, false],
      [`${update} IF v0 = 2 AND v1 = ?`, unset, applied, false],
      [`${update} IF v1 = ?`, unset, refused, false],
      [`BEGIN BATCH ${update} IF v1 = ?; ${update}; APPLY BATCH`, unset, refused, false],
      ['SELECT writetime(c0), ttl() FROM T0', ofKey, syntax, true],
      ['SELECT writetime(c0), ttl(v0) FROM T0', ofKey, syntax, false],
      ['SELECT writetime(c0), ttl() FROM T0', syntax, ofKey, false],
      ['SELECT p1 , ( "V1 x" [ 1 ] ) FROM T0 WHERE c0 = 1', syntax, apart, true],
      ['SELECT p1 , ( [ 1 ] ) FROM T0 WHERE c0 = 1', syntax, apart, false],
    ]),
  )('to %s: %j, not %j, is listed: %s', (text, ours, theirs, isListed) => {
    expect(difference({ text }, ours, theirs).listed !== undefined).toBe(isListed)
  })
})

test('docs/protocol.md lists each difference that is tolerated', () => {
  const page = readFileSync(new URL('../../docs/protocol.md', import.meta.url), 'utf8')
  const text = page.replaceAll(/\s+/g, ' ')
  const listed = [...TOLERATED.map((one) => one.listed), CONTRADICTION]
  expect(listed.filter((words) => !text.includes(words))).toEqual([])
})
