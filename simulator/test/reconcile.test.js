// A platform that does with what it acknowledged what it should not, and is found out.
import { describe, expect, test } from '@jest/globals'
import { Ledger } from '../src/ledger.js'
import { Readback, ReadbackError } from '../src/readback.js'
import { LETTERS, Reconciliation } from '../src/reconcile.js'
import { differenceOf, verdictLines } from '../src/verdicts.js'
import { planOf } from './plan.js'

const START_MS = Date.UTC(2026, 0, 5, 6)
const NOW_MS = Date.UTC(2026, 0, 6)
const CLIENTS = 'simulator-1-'
const PAGE_ROWS_MAX = 500

/** @typedef {{ metric: string, timeMs: number, value: unknown }} Row */

/** What a platform would answer over REST. */
class FakePlatform {
  /** @type {Map<string, Row[]>}  By sensor. */
  rows = new Map()
  /** Newest first. @type {import('../src/readback.js').Letter[]} */
  letters = []
  #receivedMs = NOW_MS
  /** Called before each answer. */
  onAsk = () => {}

  /** @param {import('../src/plan.js').Planned} message */
  store({ topic, payload, timeMs, values }) {
    const receivedMs = this.#receivedMs++
    if (!values) {
      this.letters.unshift({ received: receivedMs, topic, payload, client: `${CLIENTS}1` })
      return
    }
    const sensor = topic.split('/')[1]
    const rows = this.rows.get(sensor) ?? []
    this.rows.set(sensor, rows)
    for (const [metric, value] of Object.entries(values)) {
      const row = { metric, timeMs: timeMs ?? receivedMs, value }
      const isThere = timeMs !== undefined && rows.some((one) => isSame(one, row))
      if (!isThere) rows.push(row)
    }
  }

  /** @param {string | URL | Request} input */
  answer = async (input) => {
    this.onAsk()
    const { pathname, searchParams } = new URL(String(input))
    const sensor = /^\/v1\/sensors\/(.+)\/measurements$/.exec(pathname)?.[1]
    if (sensor === undefined) return page(this.letters, searchParams)
    const rows = this.rows.get(decodeURIComponent(sensor))
    if (!rows) {
      const problem = { type: 'urn:sandglass:problem:unknown-sensor', detail: 'none' }
      return Response.json(problem, { status: 404 })
    }
    const from = Number(searchParams.get('from') ?? 0)
    const to = Number(searchParams.get('to') ?? Number.MAX_SAFE_INTEGER)
    const sign = searchParams.get('order') === 'desc' ? -1 : 1
    const found = rows
      .filter(({ timeMs }) => timeMs >= from && timeMs < to)
      .sort((a, b) => sign * (a.timeMs - b.timeMs) || (a.metric < b.metric ? -1 : 1))
      .map(({ metric, timeMs, value }) => ({ metric, t: timeMs, v: value }))
    return page(found, searchParams)
  }
}

/** @param {Row} a  @param {Row} b */
function isSame(a, b) {
  return a.metric === b.metric && a.timeMs === b.timeMs && isEqual(a.value, b.value)
}

/** @param {unknown} a  @param {unknown} b */
const isEqual = (a, b) => JSON.stringify(a) === JSON.stringify(b)

/** @param {object[]} items  @param {URLSearchParams} query */
function page(items, query) {
  const from = Number(query.get('cursor') ?? 0)
  const to = from + Math.min(PAGE_ROWS_MAX, Number(query.get('limit')))
  return Response.json({
    items: items.slice(from, to),
    next: to < items.length ? String(to) : null,
  })
}

/**
 * A run that was acknowledged, all of it but what is chosen, and the platform that has it.
 *
 * @param {Partial<import('../src/options.js').Options>} [options]
 * @param {(message: import('../src/plan.js').Planned) => boolean} [isLost]  On its way to us.
 */
async function runOf(options = {}, isLost = () => false) {
  const plan = planOf({ to: START_MS + 600_000, ...options }, { startMs: START_MS })
  let nowMs = 0
  const ledger = new Ledger(plan.fleet.length, () => {
    nowMs += 2
    return nowMs
  })
  const platform = new FakePlatform()
  // An earlier run of the same sensors.
  for (const [number, { name, metrics }] of plan.fleet.entries()) {
    if (number === 0) continue
    const rows = metrics.map((metric) => ({ metric, timeMs: START_MS - 60_000, value: 1 }))
    platform.rows.set(name, rows)
  }
  const reconciliation = new Reconciliation(
    { plan, ledger, readback: readbackOf(platform.answer) },
    {
      clients: CLIENTS,
      startMs: NOW_MS,
      waitMs: 0,
      sleep: async () => {},
      onRead: () => {},
    },
  )
  await reconciliation.begin()
  for (const schedule of plan.schedules) {
    for (let due = schedule.take(Infinity); due; due = schedule.take(Infinity)) {
      for (const message of plan.messagesAt(schedule, due)) {
        platform.store(message)
        const acknowledged = message.isCopy ? undefined : ledger.note(message)
        if (!isLost(message)) acknowledged?.()
      }
    }
  }
  return { plan, platform, reconciliation }
}

/** @param {typeof fetch} answer */
const readbackOf = (answer) =>
  new Readback({ apiUrl: 'http://platform', fetch: answer, patienceMs: 0 })

const TROUBLE = {
  malformedPercent: 5,
  latePercent: 10,
  duplicatePercent: 10,
  clocklessPercent: 25,
  faultPercent: 5,
  outagePercent: 5,
}

/** @param {import('../src/reconcile.js').Verdict[]} verdicts */
const text = (verdicts) => verdictLines(verdicts, { unacknowledged: 0, seed: 1 }).join('\n')

describe('a reconciliation', () => {
  test.each(['mixed', 'factory', 'collars'])(
    'of %s with all trouble finds nothing where nothing is wrong',
    async (fleet) => {
      const { reconciliation } = await runOf({ ...TROUBLE, fleet, sensors: 8 })
      const verdicts = await reconciliation.finish()
      expect(differenceOf(verdicts)).toBe(0)
      expect(verdicts.filter(({ metric }) => metric === LETTERS).length).toBeGreaterThan(0)
      expect(text(verdicts)).toContain('reconciled: everything is stored as it was published')
    },
  )

  /** The rows of this run of a sensor. @param {Awaited<ReturnType<typeof runOf>>} run */
  function rowsOf({ plan, platform }, hasClock = true) {
    const sensor = plan.fleet.find((one) => one.hasClock === hasClock)?.name ?? ''
    const rows = platform.rows.get(sensor) ?? []
    return { sensor, rows, at: rows.length - 7 }
  }

  test.each([true, false])('finds a row that is gone, with a clock: %j', async (hasClock) => {
    const run = await runOf(TROUBLE)
    const { sensor, rows, at } = rowsOf(run, hasClock)
    const [{ metric }] = rows.splice(at, 1)
    const verdicts = await run.reconciliation.finish()
    expect(differenceOf(verdicts)).toBe(1)
    const found = verdicts.find((one) => one.sensor === sensor && one.metric === metric)
    expect(found?.difference).toMatchObject({ missing: 1, extra: 0, changed: 0 })
    expect(found?.acknowledged).toBe((found?.stored ?? 0) + 1)
    expect(text(verdicts)).toMatch(/NOT reconciled: 1 differences/)
  })

  test.each([true, false])('finds a row too many, with a clock: %j', async (hasClock) => {
    const run = await runOf(TROUBLE)
    const { rows, at } = rowsOf(run, hasClock)
    rows.push({ ...rows[at], timeMs: rows[at].timeMs + 1 })
    const verdicts = await run.reconciliation.finish()
    expect(differenceOf(verdicts)).toBe(1)
    expect(verdicts.find(({ difference }) => difference.extra === 1)).toBeDefined()
    expect(text(verdicts)).toContain('--seed 1')
  })

  test('finds a value that is another', async () => {
    const run = await runOf(TROUBLE)
    const { rows, at } = rowsOf(run)
    rows[at].value = 'another'
    const verdicts = await run.reconciliation.finish()
    expect(differenceOf(verdicts)).toBe(1)
    expect(text(verdicts)).toContain('"another" instead of ')
  })

  test('finds a value that is another where the platform chose the time', async () => {
    const run = await runOf(TROUBLE)
    const { rows, at } = rowsOf(run, false)
    rows[at].value = 'another'
    const verdicts = await run.reconciliation.finish()
    const found = verdicts.filter(({ difference }) => difference.total > 0)
    expect(found.map(({ difference }) => [difference.missing, difference.extra])).toEqual([[1, 1]])
  })

  test('finds a sensor that is not there at all', async () => {
    const run = await runOf({ sensors: 1, connections: 1 })
    run.platform.rows.clear()
    const verdicts = await run.reconciliation.finish()
    expect(differenceOf(verdicts)).toBe(3 * 2400)
  })

  test('finds dead letters that are missing, and those that should be none', async () => {
    const run = await runOf({ ...TROUBLE, sensors: 2 })
    const [gone] = run.platform.letters.splice(3, 1)
    const other = run.platform.letters.find(({ topic }) => topic !== gone.topic)
    run.platform.letters.push({ ...gone, topic: other?.topic ?? '', payload: '{"t":1,"v":2}' })
    const verdicts = await run.reconciliation.finish()
    const letters = verdicts.filter(({ metric }) => metric === LETTERS)
    const sum = (/** @type {'missing' | 'extra'} */ name) =>
      letters.reduce((total, { difference }) => total + difference[name], 0)
    expect([sum('missing'), sum('extra'), differenceOf(verdicts)]).toEqual([1, 1, 2])
    expect(text(verdicts)).toContain('--dead-letters-max')
  })

  test("does not mind dead letters of others, nor those from before the run's time", async () => {
    const run = await runOf(TROUBLE)
    const [letter] = run.platform.letters
    run.platform.letters.unshift({ ...letter, client: 'simulator-11-1' })
    run.platform.letters.push({ ...letter, received: NOW_MS - 86_400_000 })
    expect(differenceOf(await run.reconciliation.finish())).toBe(0)
  })

  test.each([true, false])(
    'takes what was not acknowledged as it is, stored or not, with a clock: %j',
    async (hasClock) => {
      const turns = new Set([300, 304, 308, 500, 504])
      const run = await runOf(
        { clocklessPercent: hasClock ? 0 : 100 },
        ({ sensor, turn }) => sensor === 0 && turns.has(turn),
      )
      const rows = run.platform.rows.get(run.plan.fleet[0].name) ?? []
      rows.splice(3 * 150, 3)
      const verdicts = await run.reconciliation.finish()
      expect(differenceOf(verdicts)).toBe(0)
      const lines = verdictLines(verdicts, { unacknowledged: 5, seed: 1 }).join('\n')
      expect(lines).toMatch(/not acknowledged: 5 messages, of which 1[25] values are stored/)
    },
  )

  test('waits for what is still on its way', async () => {
    const run = await runOf()
    const { rows, at } = rowsOf(run)
    const late = rows.splice(at, 5)
    let asked = 0
    run.platform.onAsk = () => {
      asked++
      if (asked > 60 && late.length > 0) rows.push(...late.splice(0))
    }
    // As long as something comes, it may go on.
    const patient = new Reconciliation(
      {
        plan: run.plan,
        ledger: /** @type {any} */ (ledgerOf(run)),
        readback: readbackOf(run.platform.answer),
      },
      { clients: CLIENTS, startMs: NOW_MS, waitMs: 60_000, sleep: async () => {}, onRead() {} },
    )
    expect(differenceOf(await patient.finish())).toBe(0)
    expect(asked).toBeGreaterThan(60)
  })

  test('says what refuses to be read', async () => {
    const refusing = readbackOf(async () => Response.json({ detail: 'no' }, { status: 400 }))
    await expect(refusing.newestMs('s')).rejects.toThrow(
      new ReadbackError('http://platform/v1/sensors/s/measurements: 400 no'),
    )
    const away = readbackOf(async () => {
      throw Object.assign(new TypeError('fetch failed'), { cause: { code: 'ECONNREFUSED' } })
    })
    await expect(away.newestMs('s')).rejects.toThrow(/ECONNREFUSED/)
  })
})

/** All that was planned, as acknowledged. @param {Awaited<ReturnType<typeof runOf>>} run */
function ledgerOf({ plan }) {
  const ledger = new Ledger(plan.fleet.length)
  for (const index of plan.fleet.keys()) {
    for (const message of plan.published(index)) ledger.note(message)()
  }
  return ledger
}

test('a table shows the series that differ where there are many', async () => {
  const run = await runOf({ sensors: 30, connections: 1, to: START_MS + 30_000 })
  const name = run.plan.fleet[5].name
  run.platform.rows.get(name)?.pop()
  const verdicts = await run.reconciliation.finish()
  const lines = text(verdicts).split('\n')
  expect(lines[0]).toMatch(/^series +acknowledged +stored +missing +extra +changed$/)
  expect(lines[1]).toMatch(new RegExp(`^${name}/\\w+ +4 +3 +1 +0 +0$`))
  expect(lines[2]).toMatch(/^all \d+ series .* 1 +0 +0$/)
})
