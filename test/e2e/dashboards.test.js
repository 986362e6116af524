// Every panel of every dashboard is answered with data: by a real Prometheus that scrapes a
// platform in use and works our rules out, or by the api. Every metric that is named is there.
import { spawn } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import cassandra from 'cassandra-driver'
import { askApi, suits } from '../support/infinity.js'
import { Prometheus } from '../support/prometheus.js'
import { describeWith, missingPrograms } from '../support/requirement.js'
import { GIVEN_DATABASE, startStack } from '../support/stack.js'
import { until } from '../support/until.js'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const DASHBOARDS = join(ROOT, 'dashboards/grafana/dashboards')
const read = (/** @type {string} */ path) => readFileSync(join(ROOT, path), 'utf8')

/** Enough for several scrapes to fall into a rate's window. */
const START_MS_MAX = 90_000

/**
 * @typedef {import('../support/infinity.js').Question} Question
 * @typedef {{ expr?: string, legendFormat: string } & Question} Target
 * @typedef {{ title: string, targets?: Target[] }} Panel
 * @typedef {{ name: string, query: { infinityQuery?: Question } }} Variable
 * @typedef {{ list: { name: string, target: Target }[] }} Annotations
 * @typedef {{ title: string, panels: Panel[], templating: { list: Variable[] },
 *   annotations?: Annotations }} Dashboard
 */

/** @type {Dashboard[]} */
const dashboards = readdirSync(DASHBOARDS).map((name) =>
  JSON.parse(readFileSync(join(DASHBOARDS, name), 'utf8')),
)
const targets = dashboards.flatMap(({ title: dashboard, panels, annotations }) =>
  [
    ...panels,
    // Grafana's own mark what was written down in Grafana.
    ...(annotations?.list ?? []).flatMap(({ name: title, target }) =>
      target?.columns ? [{ title, targets: [target] }] : [],
    ),
  ].flatMap(({ title: panel, targets: all = [] }) =>
    all.map((target) => ({ name: `${dashboard}, ${panel}`, target })),
  ),
)
const rules = read('dashboards/prometheus/alerts.yml') + read('dashboards/prometheus/records.yml')

/** Names of metrics in a query or a rules file. @param {string} text */
const metricsIn = (text) =>
  new Set(text.match(/\b(sandglass_(db|ingest|api)|process)_[a-z0-9_]+/g) ?? [])

/** Our engine's metrics are only there if the database is our engine. @param {string} text */
const isOfEngine = (text) => /sandglass_db_|sandglass:cql_|job="engine"/.test(text)

const queries = targets
  .map(({ name, target }) => ({ name, legend: target.legendFormat, expr: target.expr ?? '' }))
  .filter(({ expr }) => expr !== '' && (GIVEN_DATABASE === undefined || !isOfEngine(expr)))

const questions = targets.filter(({ target }) => target.expr === undefined)
const choices = dashboards.flatMap(({ templating }) =>
  templating.list.flatMap(({ name, query }) =>
    query?.infinityQuery ? [{ name, question: query.infinityQuery }] : [],
  ),
)

describeWith(missingPrograms(['jq', 'prometheus']), 'dashboards of a platform in use', () => {
  /** @type {import('../support/stack.js').Stack} */
  let stack
  const prometheus = new Prometheus()
  /** @type {import('node:child_process').ChildProcess} */
  let simulator
  /** @type {NodeJS.Timeout} */
  let visitor

  beforeAll(async () => {
    stack = await startStack()
    const env = {
      MQTT_URL: stack.mqttUrl,
      API_URL: stack.apiUrl,
      RATE: '100',
      MALFORMED_PERCENT: '5',
    }
    simulator = spawn(process.execPath, [join(ROOT, 'simulator/src/main.js')], {
      stdio: 'ignore',
      env: { ...process.env, ...env },
    })
    visitor = setInterval(visit, 200)
    const { engineUrl: engine, ingestUrl: ingest, apiUrl: api } = stack
    await prometheus.start({ ...(stack.ours ? { engine } : {}), ingest, api })
  }, START_MS_MAX)

  afterAll(async () => {
    clearInterval(visitor)
    const ended = new Promise((resolve) => simulator.once('exit', resolve))
    simulator.kill('SIGTERM')
    await ended
    await prometheus.stop()
    await stack.end()
  }, START_MS_MAX)

  test.each(queries)(
    '$name, $legend: is answered with data',
    async ({ expr }) => {
      const query = expr.replaceAll('$__rate_interval', '15s')
      const samples = await until(
        `data for ${query}`,
        async () => {
          const found = await prometheus.ask(query)
          return found.some(isNumber) && found
        },
        { deadlineMs: 30_000, everyMs: 500 },
      )
      expect(samples.length).toBeGreaterThan(0)
    },
    40_000,
  )

  describe('of sensors', () => {
    const nowMs = Date.now()
    /** @type {import('../support/infinity.js').Variables} */
    const variables = {
      part: 'climate',
      of: 'p50',
      __from: `${nowMs - 3_600_000}`,
      __to: `${nowMs + 3_600_000}`,
    }

    /** What is read of what was chosen, by variable. @type {Map<string, string[]>} */
    const chosen = new Map()

    beforeAll(async () => {
      const headers = { 'content-type': 'application/json' }
      const always = { kind: 'threshold', metric: 'temperature', above: -1_000, for_s: 0 }
      const body = JSON.stringify({ name: 'warm', ...always, receivers: [] })
      const made = await fetch(`${stack.apiUrl}/v1/rules`, { method: 'POST', headers, body })
      expect(made.status).toBe(201)
    })

    test('every choice has several things to choose, with which the api is asked', async () => {
      expect(choices.map(({ name }) => name)).toEqual(['sensor', 'metric'])
      for (const { name, question } of choices) {
        const rows = await until(`something to choose of ${name}`, async () => {
          const found = await askApi(stack.apiUrl, question, variables)
          return new Set(found.map(({ __text }) => __text)).size > 1 && found
        })
        expect(rows.map(({ __text }) => typeof __text)).not.toContain('undefined')
        const texts = new Map(rows.map(({ __value, __text }) => [String(__value), String(__text)]))
        variables[name] = [...texts.keys()].slice(0, 2)
        chosen.set(name, [...texts.values()].slice(0, 2))
      }
    })

    test.each(questions)(
      '$name: is answered with rows of which every column is filled, as far as something is known',
      async ({ target }) => {
        const rows = await until('rows', async () => {
          const found = await askApi(stack.apiUrl, target, variables)
          return found.length > 0 && found
        })
        for (const { text, type, selector } of target.columns) {
          // Not every metric has a unit, and an alert may not have ended.
          const values = rows
            .map((row) => row[text] ?? undefined)
            .filter((value) => value !== undefined || !['symbol', 'resolved'].includes(selector))
          const isFilled = values.length > 0 || selector === 'resolved'
          expect({ text, isFilled }).toEqual({ text, isFilled: true })
          const other = values.filter((value) => !suits(type, value))
          expect({ text, other }).toEqual({ text, other: [] })
        }
      },
      40_000,
    )

    test('a chart of a metric has a line for each sensor, with its unit, ordered by time', async () => {
      const [{ target }] = questions.filter(({ name }) => name.endsWith('{metric}'))
      // In a chart that is repeated the variable is the one for which it stands.
      const rows = await until('both are there, with their units', async () => {
        const found = await askApi(stack.apiUrl, target, { ...variables, metric: 'temperature' })
        const lines = [...new Set(found.map(({ series }) => String(series)))].sort()
        const wanted = (chosen.get('sensor') ?? []).map((name) => `${name} [°C]`).sort()
        return `${lines}` === `${wanted}` && found
      })
      const times = rows.map(({ time }) => Number(time))
      expect(times).toEqual(times.toSorted((a, b) => a - b))
    })

    test('alerts are those of the sensors chosen', async () => {
      const [{ target }] = questions.filter(({ name }) => name.endsWith('sensors, Alerts'))
      const rows = await until('both have one', async () => {
        const found = await askApi(stack.apiUrl, target, variables)
        return found.length >= 2 && found
      })
      expect(new Set(rows.map(({ sensor }) => sensor))).toEqual(new Set(chosen.get('sensor')))
    })
  })

  test('show what is going on', async () => {
    const rate = async (/** @type {string} */ metric) =>
      Number((await prometheus.ask(`sum(rate(${metric}[20s]))`))[0]?.value[1] ?? 0)
    await until(
      'the rates are those of the simulator',
      async () => {
        const stored = await rate('sandglass_ingest_messages_stored_total')
        const dead = await rate('sandglass_ingest_dead_letters_total')
        return stored > 70 && stored < 130 && dead > 1 && dead < 15
      },
      { deadlineMs: 40_000, everyMs: 500 },
    )
  })

  test('show at every moment, the database being there or not, what became of each message', async () => {
    const spooled = async () =>
      Number((await prometheus.ask('sum(sandglass_ingest_messages_spooled)'))[0].value[1])
    await stack.databaseAway()
    await until('messages are spooled', async () => (await spooled()) > 100, { deadlineMs: 30_000 })
    await stack.databaseBack()
    await stack.emptied()
    await until('it is seen that none is', async () => (await spooled()) === 0)
    const samples = await prometheus.ask(
      'max_over_time(abs(sandglass:ingest_messages_unaccounted:sum)[10m:1s])',
    )
    expect(samples.map(({ value }) => value[1])).toEqual(['0'])
  })

  if (GIVEN_DATABASE === undefined) {
    test('show a client that misuses the database, and that our own do not', async () => {
      const value = async (/** @type {string} */ query) =>
        Number((await prometheus.ask(query))[0]?.value[1])
      const share = (/** @type {string} */ kind) =>
        value(`sandglass:cql_misuse:ratio_rate5m{kind="${kind}"}`)
      const kinds = ['unprepared', 'unpaged', 'filtering', 'consistency']
      for (const kind of [...kinds, 'cache_filling']) {
        expect({ kind, isLittle: (await share(kind)) < 0.1 }).toEqual({ kind, isLittle: true })
      }
      const client = await stack.client()
      const text = `SELECT * FROM ${stack.keyspace}.latest WHERE kind = 0 ALLOW FILTERING`
      const consistency = cassandra.types.consistencies.all
      const options = { prepare: false, fetchSize: 0, consistency }
      await until(
        'every share is large',
        async () => {
          await Promise.all(Array.from({ length: 200 }, () => client.execute(text, [], options)))
          return (await Promise.all(kinds.map(share))).every((one) => one > 0.1)
        },
        { deadlineMs: 40_000, everyMs: 200 },
      )
      // What fits into memory fills it once: after the engine's start, when all was on disk.
      expect(await value('sandglass:cql_misuse:rate5m{kind="cache_filling"}')).toBeGreaterThan(0)
    })
  }

  test('and rules name only metrics that exist', async () => {
    const urls = [...(stack.ours ? [stack.engineUrl] : []), stack.ingestUrl, stack.apiUrl]
    const pages = await Promise.all(urls.map(async (url) => (await fetch(`${url}/metrics`)).text()))
    const exposed = new Set(
      pages.flatMap((page) => [...page.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name)),
    )
    const isThere = (/** @type {string} */ name) =>
      exposed.has(name) || exposed.has(name.replace(/_(bucket|count|sum)$/, ''))
    const missing = [...metricsIn(rules + queries.map(({ expr }) => expr).join('\n'))].filter(
      (name) => (stack.ours || !isOfEngine(name)) && !isThere(name),
    )
    expect(missing).toEqual([])
  })

  /** One request that succeeds and one that does not, so that every status has a series. */
  function visit() {
    for (const path of ['/v1/sensors', '/v1/latest', '/v1/sensors/nobody']) {
      fetch(stack.apiUrl + path)
        .then((response) => response.arrayBuffer())
        .catch(() => {})
    }
  }
})

/** @param {import('../support/prometheus.js').Sample} sample */
const isNumber = ({ value }) => Number.isFinite(Number(value[1]))
