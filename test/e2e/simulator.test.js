// The simulator against the whole platform: fleets with all kinds of trouble are stored as they
// were published, and what is not is found.
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { sensorId } from '@sandglass/common/sensor'
import { startStack } from '../support/stack.js'
import { readMeasurements } from '../support/stored.js'
import { until } from '../support/until.js'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const FROM = '2026-01-05T06:00'
const TO = '2026-01-05T08:00'
const RUN_MS_MAX = 120_000
/** The first sensors of two fleets: the same seed gives the same names. */
const CLIMATE_OF_SEED_5 = 'climate-north-sarina-1'
const COLLAR_OF_SEED_6 = 'collar-sincere-1'

const TROUBLE = [
  '--late-percent=10',
  '--duplicate-percent=10',
  '--malformed-percent=3',
  '--clockless-percent=20',
  '--fault-percent=5',
  '--outage-percent=5',
]

/** @param {{ code: number | null, output: string }} run */
function expectReconciled({ code, output }) {
  expect(output).toMatch(/reconciled: everything is stored as it was published/)
  expect(code).toBe(0)
}

describe('a simulated fleet', () => {
  /** @type {import('../support/stack.js').Stack} */
  let stack

  beforeAll(async () => {
    stack = await startStack()
  })
  afterAll(() => stack?.end())

  /**
   * Runs the simulator to its end.
   *
   * @param {...string} args
   * @returns {Promise<{ code: number | null, output: string }>}
   */
  function simulate(...args) {
    const { MQTT_URL: _, ...env } = process.env
    const child = spawn(
      process.execPath,
      [
        join(ROOT, 'simulator/src/main.js'),
        `--mqtt-url=${stack.mqttUrl}`,
        `--api-url=${stack.apiUrl}`,
        '--reconcile',
        ...args,
      ],
      { env: { ...env, NODE_OPTIONS: '' }, stdio: ['ignore', 'pipe', 'pipe'] },
    )
    let output = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk) => {
        output += chunk
      })
    }
    return new Promise((resolve) => {
      child.once('close', (code) => resolve({ code, output }))
    })
  }

  test.each([
    ['collars', 'object', 1],
    ['factory', 'single', 2],
    ['mixed', 'object', 3],
  ])(
    'of %s, as %s, in the past and with all trouble, is stored as it was published',
    async (fleet, shape, seed) => {
      const run = await simulate(
        `--fleet=${fleet}`,
        `--shape=${shape}`,
        `--seed=${seed}`,
        `--from=${FROM}`,
        `--to=${TO}`,
        '--sensors=10',
        '--rate=2',
        ...TROUBLE,
      )
      expectReconciled(run)
    },
    RUN_MS_MAX,
  )

  test(
    'in the present, some without a clock and some messages late, is stored as it was published',
    async () => {
      const run = await simulate(
        '--seed=4',
        '--sensors=8',
        '--rate=80',
        '--duration=4',
        '--shape=single',
        ...TROUBLE,
      )
      expect(run.output).toMatch(/^published .*\/s · p50 /m)
      expect(run.output).toMatch(/\(dead letters\)/)
      expectReconciled(run)
    },
    RUN_MS_MAX,
  )

  test(
    'is stored once, however often it is published',
    async () => {
      const past = [`--from=${FROM}`, `--to=${TO}`, '--seed=5', '--sensors=3', '--rate=1']
      const first = await simulate(...past)
      const second = await simulate(...past)
      expect([first.code, second.code]).toEqual([0, 0])
      const { items } = await readMeasurements(stack.apiUrl, CLIMATE_OF_SEED_5)
      expect(items).toHaveLength(3 * 2400)
    },
    RUN_MS_MAX,
  )

  test(
    'is stored as it was published although ingest dies and the database hangs on the way',
    async () => {
      const run = simulate(
        '--seed=8',
        '--sensors=12',
        '--rate=600',
        '--duration=10',
        '--reconcile-wait=30',
        ...TROUBLE,
      )
      const ingest = stack.part('ingest')
      const busy = () => untilStats('it is being stored', ({ stored }) => stored > 500)
      await busy()
      await ingest.kill9()
      await ingest.start()
      await busy()
      const hang = (/** @type {boolean} */ on) => {
        if (stack.ours) process.kill(stack.part('engine').pid, on ? 'SIGSTOP' : 'SIGCONT')
        else return on ? stack.databaseAway() : stack.databaseBack()
      }
      await hang(true)
      await untilStats('it is being spooled', ({ spooled }) => spooled > 100)
      await hang(false)
      await untilStats('the spool is empty', ({ spooled }) => spooled === 0)
      await ingest.kill9()
      await ingest.start()
      const ended = await run
      expect(ended.output).toMatch(/reconnected [1-9]/)
      expectReconciled(ended)
    },
    RUN_MS_MAX,
  )

  test(
    'of which a row is deleted, one changed and one added behind its back is found out',
    async () => {
      // Connected before, so that a busy machine has read nothing back yet when it is done.
      const database = await stack.client()
      const run = simulate(
        '--fleet=collars',
        '--seed=6',
        '--sensors=2',
        '--rate=20',
        '--duration=25',
      )
      const [gone, changed, near] = await until('rows to tamper with', async () => {
        const rows = await pulses(COLLAR_OF_SEED_6)
        return rows.length >= 10 && rows
      })
      const table = `${stack.keyspace}.measurement_30d`
      const key = 'sensor_id = ? AND bucket = ? AND metric = ? AND ts = ? AND seq = ?'
      const keyOf = (/** @type {Record<string, any>} */ row) =>
        ['sensor_id', 'bucket', 'metric', 'ts', 'seq'].map((column) => row[column])
      const prepare = { prepare: true }
      await database.execute(`DELETE FROM ${table} WHERE ${key}`, keyOf(gone), prepare)
      const values = [999, ...keyOf(changed)]
      await database.execute(`UPDATE ${table} SET v = ? WHERE ${key}`, values, prepare)
      const between = { ...near, ts: new Date(near.ts.getTime() + 1) }
      await database.execute(
        `UPDATE ${table} SET v = ? WHERE ${key}`,
        [7, ...keyOf(between)],
        prepare,
      )
      const { code, output } = await run
      expect(output).toMatch(/\/pulse +\d+ +\d+ +1 +1 +1\n/)
      expect(output).toMatch(/NOT reconciled: 3 differences/)
      expect(output).toMatch(/ is missing\n/)
      expect(output).toMatch(/: 999 instead of \d+\n/)
      expect(output).toMatch(/: 7 was not published\n/)
      expect(code).toBe(1)
    },
    RUN_MS_MAX,
  )

  test(
    'cannot be reconciled where there is no api, and says so before it publishes',
    async () => {
      const { code, output } = await simulate(
        '--duration=1',
        `--api-url=${stack.ingestUrl}/nothing`,
      )
      expect(output).toMatch(/^cannot be reconciled: /m)
      expect(output).not.toContain('published')
      expect(code).toBe(1)
    },
    RUN_MS_MAX,
  )

  /** @param {string} what  @param {(stats: Record<string, any>) => boolean} is */
  function untilStats(what, is) {
    return until(what, async () => is(await stack.stats()), { deadlineMs: 60_000 })
  }

  /** The keys of all pulses of a sensor. @param {string} sensor */
  async function pulses(sensor) {
    const database = await stack.client()
    const query = `SELECT sensor_id, bucket, metric, ts, seq FROM ${stack.keyspace}.measurement_30d`
    const rows = []
    for await (const row of await database.execute(query, [], { prepare: true, fetchSize: 5000 })) {
      const isOurs = String(row.sensor_id) === sensorId(sensor) && row.metric === 'pulse'
      if (isOurs) rows.push(row)
    }
    return rows
  }
})
