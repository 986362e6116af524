// Rollups on a real database: what arrived late is in them a moment later, and at no moment does an
// answer differ from what the raw rows say.
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import {
  MARK,
  progressKey,
  SLOT_GRACE_MS,
  SLOT_MS,
  shardOf,
  startOf,
} from '@sandglass/common/rollup'
import { WORKER_TTL_S } from '@sandglass/common/schema'
import { sensorId } from '@sandglass/common/sensor'
import { publishAll } from '../support/rest.js'
import { startStack, UNSPOOLED } from '../support/stack.js'
import { getJson } from '../support/stored.js'
import { until } from '../support/until.js'

const SENSOR = 'turbine'
/** Its rollups are worked off apart from those of the other: it is in another shard. */
const ARCHIVE = 'archive'
const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS
/** Three days of a reading every ten seconds, two days ago. */
const FROM = startOf(Date.now() - 5 * DAY_MS, DAY_MS)
const TO = FROM + 3 * DAY_MS
const EVERY_MS = 10_000

/** A day of 2015, a row a minute. */
const LONG_AGO = Date.UTC(2015, 4, 5)
const imported = Array.from({ length: 1_440 }, (_, minute) => {
  return { sensor: ARCHIVE, metric: 'speed', t: LONG_AGO + minute * MINUTE_MS, v: minute }
})

/** @param {number} timeMs */
const valueAt = (timeMs) => Math.round(2_000 * Math.sin(timeMs / 3_000_000)) / 100 + 0

/** What the clock of ingest is moved on instead of waiting until a slot is worked off. */
const STEP_MS = SLOT_MS + SLOT_GRACE_MS
const CLOCK = new URL('../support/clock.js', import.meta.url)
const CLOCK_ENV = { NODE_OPTIONS: `--import ${CLOCK}`, CLOCK_STEP_MS: String(STEP_MS) }
let aheadMs = 0

/** @type {Map<number, number>} */
const rows = new Map()

/** @type {import('../support/stack.js').Stack} */
let stack

beforeAll(async () => {
  stack = await startStack({ ingestEnv: { ...UNSPOOLED, ...CLOCK_ENV } })
  for (let t = FROM; t < TO; t += EVERY_MS) rows.set(t, valueAt(t))
  await publishAll(stack.apiUrl, [...rows].map(toLine))
  await publishAll(stack.apiUrl, imported)
})
afterAll(() => stack?.end())

/** @param {[number, number]} row */
function toLine([t, v]) {
  return { sensor: SENSOR, metric: 'speed', t, v }
}

/**
 * What the api answers. On a busy machine it may say that it was not in time (503), and nothing
 * else; what is judged is what it says otherwise.
 *
 * @param {string} sensor
 * @param {string} query
 */
async function series(sensor, query) {
  const url = `${stack.apiUrl}/v1/sensors/${sensor}/series?metric=speed&${query}`
  const isLate = (/** @type {Error} */ { message }) => message.startsWith(`${url}: 503 `)
  const answer = await until(
    'the api is in time',
    () => getJson(url).catch((error) => !isLate(error) && { error }),
    { deadlineMs: 60_000 },
  )
  if (answer.error) throw answer.error
  return answer
}

/** What the raw rows say. @param {number} stepMs  @param {number} from  @param {number} to */
function right(stepMs, from, to) {
  /** @type {Map<number, number[]>} */
  const windows = new Map()
  for (const [t, v] of [...rows].sort(([a], [b]) => a - b)) {
    if (t < from || t >= to) continue
    const startMs = startOf(t, stepMs)
    windows.set(startMs, [...(windows.get(startMs) ?? []), v])
  }
  return [...windows].map(([t, values]) => ({
    t,
    count: values.length,
    sum: expect.closeTo(
      values.reduce((sum, v) => sum + v, 0),
      6,
    ),
    min: Math.min(...values),
    max: Math.max(...values),
    first: values[0],
    last: values[values.length - 1],
  }))
}

/** Every answer is right. @returns {Promise<string[]>}  Which resolutions were read. */
async function check() {
  const resolutions = []
  for (const [step, stepMs] of /** @type {const} */ ([
    ['1m', MINUTE_MS],
    ['15m', 15 * MINUTE_MS],
    ['6h', 6 * HOUR_MS],
    ['1d', DAY_MS],
  ])) {
    for (const [from, to] of [
      [FROM, TO],
      [FROM + 12_345_678, TO - 45_678_901],
    ]) {
      const agg = 'count,sum,min,max,first,last'
      const answer = await series(SENSOR, `from=${from}&to=${to}&step=${step}&agg=${agg}`)
      expect(answer.items).toEqual(right(stepMs, from, to))
      resolutions.push(answer.resolution)
    }
  }
  return resolutions
}

/** An hour of 2015 is told as finely as it is stored, which is not as old. */
async function checkLongAgo() {
  const from = LONG_AGO + 10 * HOUR_MS
  const hour = `from=${from}&to=${from + HOUR_MS}&agg=count,min`
  const ask = (/** @type {string} */ query) => series(ARCHIVE, `${hour}&${query}`)
  const { step, items } = await ask('points=10')
  expect(step).toBe(10 * MINUTE_MS)
  expect(items).toEqual(
    Array.from({ length: 6 }, (_, at) => {
      return { t: from + at * 10 * MINUTE_MS, count: 10, min: 600 + at * 10 }
    }),
  )
  expect((await ask('step=1h')).items).toEqual([{ t: from, count: 60, min: 600 }])
  expect((await ask('step=60s')).items).toHaveLength(60)
  const seconds = await ask('step=1s')
  expect(seconds.items).toHaveLength(60)
  expect(seconds.resolution).toBe('raw')
  return (await ask('step=5m')).resolution
}

/** All hours that are dirty now are worked off, as soon as ingest's clock says that it is time. */
async function settle() {
  const slotMs = startOf(Date.now() + aheadMs, SLOT_MS)
  process.kill(stack.part('ingest').pid, 'SIGUSR2')
  aheadMs += STEP_MS
  const client = await stack.client()
  const query = `SELECT done FROM ${stack.keyspace}.rollup_progress WHERE shard = ?`
  for (const sensor of [SENSOR, ARCHIVE]) {
    await until(
      `rollups of ${sensor} have come so far`,
      async () => {
        const params = [progressKey(shardOf(sensorId(sensor)))]
        const [row] = (await client.execute(query, params, { prepare: true })).rows
        return row?.done.getTime() > slotMs
      },
      { deadlineMs: 90_000 },
    )
  }
}

/** Ingest is killed, and starts at once with the clock that it had. */
async function restart() {
  const ingest = stack.part('ingest')
  await ingest.kill9()
  await check()
  const client = await stack.client()
  const workers = `${stack.keyspace}.worker`
  const { rows: alive } = await client.execute(`SELECT ttl(since) AS ttl FROM ${workers}`)
  for (const { ttl } of alive) expect(ttl).toBeLessThanOrEqual(WORKER_TTL_S)
  // It counts as gone, as it will when that is over.
  await client.execute(`TRUNCATE ${workers}`)
  ingest.options.env.CLOCK_AHEAD_MS = String(aheadMs)
  await ingest.start()
}

describe('rollups', () => {
  test('before anything is summed up, raw rows answer', async () => {
    expect(new Set(await check())).toEqual(new Set(['raw']))
    expect(await checkLongAgo()).toBe('raw')
  })

  test('after a moment, rollups answer the same', async () => {
    await settle()
    expect(await check()).toEqual(['1m', '1m', '1m', '1m', '1h', '1h', '1d', '1d'])
    expect(await checkLongAgo()).toBe('1m')
    const { items } = await series(SENSOR, `from=${FROM}&to=${TO}&step=1d&agg=p50,p90`)
    for (const { t, p50, p90 } of items) {
      const day = [...rows].filter(([at]) => startOf(at, DAY_MS) === t).map(([, v]) => v)
      day.sort((a, b) => a - b)
      const near = (/** @type {number} */ share) => day[Math.floor(share * (day.length - 1))]
      expect(Math.abs(p50 - near(0.5))).toBeLessThan(0.011 * Math.abs(near(0.5)) + 0.02)
      expect(Math.abs(p90 - near(0.9))).toBeLessThan(0.011 * Math.abs(near(0.9)) + 0.02)
    }
  })

  test('what comes late is in the very next answer, and in rollups after ingest was killed', async () => {
    const late = [FROM + 3_333, FROM + DAY_MS + 7 * HOUR_MS + 1, TO - 1]
    for (const t of late) rows.set(t, 99)
    await publishAll(
      stack.apiUrl,
      late.map((t) => toLine([t, 99])),
    )
    await check()
    await restart()
    await settle()
    expect(await check()).toEqual(['1m', '1m', '1m', '1m', '1h', '1h', '1d', '1d'])
    const client = await stack.client()
    const { rows: marks } = await client.execute(
      `SELECT count(*) AS n FROM ${stack.keyspace}.late_mark WHERE level = ? ALLOW FILTERING`,
      [MARK.hour],
      { prepare: true },
    )
    expect(Number(marks[0].n)).toBeGreaterThanOrEqual(72)
  })
})
