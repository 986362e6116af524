// What is deleted is in no answer, at no resolution, and what comes later stays: compared with a
// list of rows, whatever is deleted, stored again, killed or repeated in between.
import { execFile } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { SLOT_GRACE_MS, SLOT_MS, startOf } from '@sandglass/common/rollup'
import { publishAll } from '../support/rest.js'
import { ENGINE, startStack } from '../support/stack.js'
import { getJson, readMeasurements } from '../support/stored.js'
import { until } from '../support/until.js'

const SENSOR = 'boiler'
const METRICS = ['heat', 'load', 'note']
const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS
/** Five days of a reading every 17 minutes, two days ago. */
const FROM = startOf(Date.now() - 7 * DAY_MS, DAY_MS)
const TO = FROM + 5 * DAY_MS

/** What the clocks are moved on instead of waiting until a slot is worked off. */
const STEP_MS = SLOT_MS + SLOT_GRACE_MS
const CLOCK = new URL('../support/clock.js', import.meta.url)
let aheadMs = 0

/** Deletions, in some of which ingest is killed. A longer search: DELETION_ROUNDS=30. */
const ROUNDS = Number(process.env.DELETION_ROUNDS ?? 4)

/**
 * How long each of them may take, in milliseconds: an ingest that was killed counts as alive for
 * half a minute, and until then nobody goes on with its work.
 */
const ROUND_MS_MAX = 120_000

/** Of the deletions, and by it also how many processes ingest has. */
const SEED = Number(process.env.DELETION_SEED ?? randomInt(2 ** 31))
const PROCESSES = 1 + (SEED % 2)

/** @type {import('../support/stack.js').Stack} */
let stack

/** What is stored, by metric and time. @type {Map<string, any>} */
const rows = new Map()

let published = 0

beforeAll(async () => {
  const env = { NODE_OPTIONS: `--import ${CLOCK}`, CLOCK_STEP_MS: String(STEP_MS) }
  stack = await startStack({
    ingestEnv: {
      ...env,
      INGEST_PROCESSES: `${PROCESSES}`,
      REWRITE_WAIT_S: '3',
      SPOOL_AFTER_MS: '4000',
    },
    apiEnv: env,
  })
  const times = Array.from({ length: (TO - FROM) / (17 * MINUTE_MS) }, (_, n) => n * 17 * MINUTE_MS)
  await store(times.flatMap((ms) => METRICS.map((metric) => ({ metric, t: FROM + ms }))))
  await workedOff()
})
afterAll(() => stack?.end())

/** @param {{ metric: string, t: number }[]} places */
async function store(places) {
  const items = places.map(({ metric, t }) => {
    published += 1
    const v = metric === 'note' ? `note ${published} secret` : published / 4
    return { sensor: SENSOR, metric, t, v }
  })
  await publishAll(stack.apiUrl, items)
  for (const { metric, t, v } of items) rows.set(`${metric} ${t}`, { metric, t, v })
}

/** Moves the clocks on, until rollups of all that is stored are made. */
async function workedOff() {
  const [api, ingest] = [stack.part('api').pid, stack.part('ingest').pid]
  const others = readFileSync(`/proc/${ingest}/task/${ingest}/children`, 'utf8').match(/\d+/g)
  for (const pid of [api, ingest, ...(others ?? [])]) process.kill(Number(pid), 'SIGUSR2')
  aheadMs += STEP_MS
  await new Promise((resolve) => setTimeout(resolve, 3_000))
}

/** @param {string} query */
async function ask(query) {
  const url = `${stack.apiUrl}/v1/sensors/${SENSOR}/measurements?${query}`
  const response = await fetch(url, { method: 'DELETE' })
  const body = /** @type {any} */ (await response.json())
  return { status: response.status, location: response.headers.get('location'), body }
}

/** @param {string[] | undefined} metrics  @param {number | undefined} from  @param {number} [to] */
function queryOf(metrics, from, to) {
  const query = new URLSearchParams()
  for (const metric of metrics ?? []) query.append('metric', metric)
  if (from !== undefined) query.set('from', String(from))
  if (to !== undefined) query.set('to', String(to))
  return query.toString()
}

/** Those that a deletion takes. */
/** @param {string[] | undefined} metrics  @param {number} [from]  @param {number} [to] */
function covered(metrics, from = 0, to = Infinity) {
  return [...rows.values()].filter(
    ({ metric, t }) => (!metrics || metrics.includes(metric)) && t >= from && t < to,
  )
}

/** Longer than a process that was killed is believed to live. */
const WAIT = { deadlineMs: 120_000 }

/** @param {string} location */
async function gone(location) {
  const isGone = async () => (await getJson(`${stack.apiUrl}${location}`)).gone !== null
  await until('it is gone from answers', isGone, WAIT)
}

/** @param {string} location */
async function done(location) {
  const isDone = async () => (await getJson(`${stack.apiUrl}${location}`)).state === 'done'
  await until('it is over', isDone, WAIT)
}

/** Everything that answers say, against the list. @param {string} when */
async function expectRows(when) {
  const order = (/** @type {any} */ a, /** @type {any} */ b) =>
    a.t - b.t || (a.metric < b.metric ? -1 : 1)
  const all = [...rows.values()].sort(order)
  const { items } = await readMeasurements(stack.apiUrl, SENSOR, { order: 'asc', limit: 999 })
  const found = items.map(({ metric, timeMs: t, value: v }) => ({ metric, t, v })).sort(order)
  expect([when, found]).toEqual([when, all])

  const exported = await fetch(`${stack.apiUrl}/v1/export?format=ndjson&sensor=${SENSOR}`)
  // The last line says that it is whole.
  const lines = (await exported.text()).split('\n').filter((line) => line.includes('"metric"'))
  expect([when, lines.length]).toEqual([when, all.length])

  const newest = METRICS.flatMap((metric) => {
    const last = all.findLast((row) => row.metric === metric)
    return last ? [last] : []
  })
  await until(
    `latest is right, ${when}`,
    async () => {
      const { items: some } = await getJson(`${stack.apiUrl}/v1/sensors/${SENSOR}/latest`)
      const shown = some.map((/** @type {any} */ { metric, t, v }) => ({ metric, t, v }))
      return JSON.stringify(shown) === JSON.stringify(newest)
    },
    { deadlineMs: 15_000 },
  )

  for (const metric of ['heat', 'load']) {
    for (const [step, stepMs] of /** @type {const} */ ([
      ['1m', MINUTE_MS],
      ['1h', HOUR_MS],
      ['1d', DAY_MS],
    ])) {
      const untilMs = step === '1m' ? FROM + 2 * DAY_MS : TO
      const range = `from=${FROM}&to=${untilMs}&step=${step}&agg=count,sum,min,max`
      const url = `${stack.apiUrl}/v1/sensors/${SENSOR}/series?metric=${metric}&${range}`
      const answer = await getJson(url)
      const sums = (/** @type {any[]} */ windows) =>
        windows.map(({ t, count, sum, min, max }) => ({ t, count, sum, min, max }))
      const right = sumsOf(metric, stepMs, untilMs)
      expect([when, metric, step, sums(answer.items)]).toEqual([when, metric, step, right])
    }
  }
}

/** @param {string} metric  @param {number} stepMs  @param {number} untilMs */
function sumsOf(metric, stepMs, untilMs) {
  /** @type {Map<number, number[]>} */
  const windows = new Map()
  for (const row of rows.values()) {
    if (row.metric !== metric || row.t < FROM || row.t >= untilMs) continue
    const startMs = startOf(row.t, stepMs)
    windows.set(startMs, [...(windows.get(startMs) ?? []), row.v])
  }
  return [...windows]
    .sort(([a], [b]) => a - b)
    .map(([t, values]) => ({
      t,
      count: values.length,
      sum: values.reduce((sum, v) => sum + v, 0),
      min: Math.min(...values),
      max: Math.max(...values),
    }))
}

test('a dry run says what would go, and deletes nothing', async () => {
  const [from, to] = [FROM + 5 * HOUR_MS + 7, FROM + 2 * DAY_MS]
  const { status, body } = await ask(`${queryOf(['heat', 'note'], from, to)}&dry_run=true`)
  const counted = ['heat', 'note'].map((metric) => covered([metric], from, to))
  expect([status, body.dry_run, body.complete]).toEqual([200, true, true])
  expect(body.items.map((/** @type {any} */ item) => item.rows)).toEqual(
    counted.map(({ length }) => length),
  )
  expect(body.items[0]).toMatchObject({ first: counted[0][0].t, last: counted[0].at(-1)?.t })
  await expectRows('after a dry run')
  expect((await ask('')).status).toBe(400)
  expect((await ask('from=2026-01-02&to=2026-01-01')).status).toBe(400)
})

test(
  'whatever is deleted is in no answer, and what comes later is',
  async () => {
    console.log(`DELETION_SEED=${SEED}`)
    let state = SEED
    const random = (/** @type {number} */ below) => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
      return Math.floor((state / 2 ** 32) * below)
    }
    const anyTime = () => {
      const grain = [1, MINUTE_MS, HOUR_MS, DAY_MS][random(4)]
      return startOf(FROM - HOUR_MS + random(TO - FROM + 2 * HOUR_MS), grain)
    }
    for (let round = 0; round < ROUNDS; round++) {
      const some = METRICS.filter(() => random(2) === 0)
      const metrics = random(3) === 0 || some.length === 0 ? undefined : some
      const [from, to] = [anyTime(), anyTime()].sort((a, b) => a - b)
      const [first, last] = [random(5) > 0, random(5) > 0]
      if (from === to || !(first || last || metrics)) continue
      const range = /** @type {const} */ ([first ? from : undefined, last ? to : undefined])
      const when = `round ${round}: ${queryOf(metrics, ...range)}`
      const { status, location } = await ask(queryOf(metrics, ...range))
      expect([when, status]).toEqual([when, 202])
      for (const { metric, t } of covered(metrics, ...range)) rows.delete(`${metric} ${t}`)
      // Also of what is just being deleted; and whoever does it may die.
      await new Promise((resolve) => setTimeout(resolve, 5 + random(1_200)))
      const again = Array.from({ length: 1 + random(20) }, () => ({
        metric: METRICS[random(METRICS.length)],
        t: startOf(from + random(to - from), 1_000) + 1 + (published % 997),
      }))
      await store(again)
      if (random(3) === 0) {
        const ingest = stack.part('ingest')
        await ingest.kill9()
        ingest.options.env.CLOCK_AHEAD_MS = String(aheadMs)
        await ingest.start()
      }
      await gone(String(location))
      await expectRows(when)
      if (random(2) === 0) await workedOff()
      if (random(2) === 0) {
        await done(String(location))
        await expectRows(`${when}, and it is over`)
      }
    }
    await workedOff()
    await expectRows('at the end')
  },
  ROUNDS * ROUND_MS_MAX,
)

test('what waits in the spool does not come back, and what comes later stays', async () => {
  const old = FROM - 300 * DAY_MS
  await stack.databaseAway()
  await publishAll(stack.apiUrl, [
    { sensor: SENSOR, metric: 'heat', t: old, v: -1 },
    { sensor: SENSOR, metric: 'load', t: old, v: -2 },
  ])
  rows.set(`load ${old}`, { metric: 'load', t: old, v: -2 })
  const ingest = stack.part('ingest')
  expect((await stack.stats()).spooled).toBe(2)
  await ingest.kill9()
  await stack.databaseBack()
  await stack.readable()
  // No ingest runs, and no row tells that there is something of that time.
  const { location } = await ask(queryOf(['heat'], old - 1, old + 1))
  ingest.options.env.CLOCK_AHEAD_MS = String(aheadMs)
  await ingest.start()
  await stack.emptied()
  await gone(String(location))
  await expectRows('out of the spool')
  await store([{ metric: 'heat', t: old }])
  await done(String(location))
  await expectRows('stored again')
})

test('a page that was open goes on, without what was deleted', async () => {
  const url = `${stack.apiUrl}/v1/sensors/${SENSOR}/measurements?metric=note&order=asc`
  await store(
    Array.from({ length: 40 }, (_, n) => ({ metric: 'note', t: FROM + n * MINUTE_MS + 30_000 })),
  )
  const page = await getJson(`${url}&limit=10`)
  const [from, to] = [page.items[4].t, page.items[9].t + 20 * MINUTE_MS]
  const { location } = await ask(queryOf(['note'], from, to))
  for (const { metric, t } of covered(['note'], from, to)) rows.delete(`${metric} ${t}`)
  await gone(String(location))
  const next = await getJson(`${url}&limit=1000&cursor=${encodeURIComponent(page.next)}`)
  const left = covered(['note'], to)
    .map(({ t }) => t)
    .sort((a, b) => a - b)
  expect(next.items.map((/** @type {any} */ { t }) => t)).toEqual(left)
})

test('after a compaction no sstable has the value, and after a start no log', async () => {
  const client = await stack.client()
  const { rows: tables } = await client.execute(
    'SELECT keyspace_name, table_name FROM system_schema.tables',
  )
  for (const { keyspace_name: keyspace, table_name: table } of tables) {
    if (!table.startsWith('measurement_')) continue
    const windows = "'compaction_window_unit': 'MINUTES', 'compaction_window_size': '1'"
    await client.execute(
      `ALTER TABLE ${keyspace}.${table}
       WITH compaction = {'class': 'TimeWindowCompactionStrategy', ${windows}}`,
    )
  }
  const [secret, kept] = [letters(), letters()]
  const t = FROM + 3 * HOUR_MS
  await publishAll(stack.apiUrl, [
    { sensor: SENSOR, metric: 'note', t, v: secret },
    { sensor: SENSOR, metric: 'note', t: t + 1, v: kept },
  ])
  await compact()
  expect(filesWith('sst-', secret)).toHaveLength(1)
  // By more than a window.
  await workedOff()
  const { location } = await ask(queryOf(['note'], t, t + 1))
  await done(String(location))
  await compact()
  expect(filesWith('sst-', kept)).toHaveLength(1)
  expect(filesWith('sst-', secret)).toEqual([])
  expect(filesWith('log-', secret)).not.toEqual([])
  await stack.databaseAway()
  await stack.databaseBack()
  await until('no log has it', () => filesWith('log-', secret).length === 0)
  expect(filesWith('sst-', secret)).toEqual([])
})

function letters() {
  return Array.from({ length: 24 }, () => String.fromCharCode(65 + randomInt(26))).join('')
}

/**
 * Names of the engine's files of a kind in which a text is.
 *
 * @param {'sst-' | 'log-'} kind
 * @param {string} text
 */
function filesWith(kind, text) {
  const directory = join(stack.directory, 'data')
  // LZ4 refers to four bytes that were there before: what is beside a text, and one end of it.
  const middle = text.slice(4, -4)
  for (;;) {
    const names = readdirSync(directory).filter((name) => name.startsWith(kind))
    try {
      return names.filter((name) => readFileSync(join(directory, name)).includes(middle))
    } catch (error) {
      // It was replaced meanwhile, perhaps by one that is not listed yet.
      if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'ENOENT') throw error
    }
  }
}

async function compact() {
  const args = ['ctl', '--data-dir', join(stack.directory, 'data'), 'compact']
  await new Promise((resolve, reject) => {
    execFile(ENGINE, args, (error, out, err) =>
      error ? reject(new Error(`${error.message} ${out} ${err}`)) : resolve(out),
    )
  })
}
