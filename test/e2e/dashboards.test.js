// Every panel of the dashboard is answered with data by a real Prometheus that scrapes a platform
// in use, and every metric that a panel or an alert names is there.
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { freePort } from '../support/ports.js'
import { describeWith, missingPrograms } from '../support/requirement.js'
import { GIVEN_DATABASE, startStack } from '../support/stack.js'
import { until } from '../support/until.js'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const read = (/** @type {string} */ path) => readFileSync(join(ROOT, path), 'utf8')

/** Enough for several scrapes to fall into a rate's window. */
const START_MS_MAX = 90_000

/**
 * @typedef {{ title: string, targets?: { expr: string, legendFormat: string }[] }} Panel
 * @typedef {{ metric: Record<string, string>, value: [number, string] }} Sample
 */

/** @type {Panel[]} */
const panels = JSON.parse(read('dashboards/grafana/dashboards/sandglass.json')).panels
const alerts = read('dashboards/prometheus/alerts.yml')

/** Names of metrics in a query or a rules file. @param {string} text */
const metricsIn = (text) =>
  new Set(text.match(/\b(sandglass_(db|ingest|api)|process)_[a-z0-9_]+/g) ?? [])

/** Our engine's metrics are only there if the database is our engine. @param {string} text */
const isOfEngine = (text) => /sandglass_db_|job="engine"/.test(text)

const queries = panels
  .flatMap(({ title, targets = [] }) =>
    targets.map(({ expr, legendFormat }) => ({ title, legend: legendFormat, expr })),
  )
  .filter(({ expr }) => GIVEN_DATABASE === undefined || !isOfEngine(expr))

describeWith(missingPrograms(['prometheus']), 'the dashboard', () => {
  /** @type {import('../support/stack.js').Stack} */
  let stack
  /** @type {string} */
  let directory
  /** @type {string} */
  let prometheusUrl
  /** @type {import('node:child_process').ChildProcess[]} */
  const children = []
  /** @type {NodeJS.Timeout} */
  let visitor

  beforeAll(async () => {
    stack = await startStack()
    directory = mkdtempSync(join(tmpdir(), 'sandglass-prometheus-'))
    start(process.execPath, [join(ROOT, 'simulator/src/main.js')], {
      MQTT_URL: stack.mqttUrl,
      RATE: '100',
      MALFORMED_PERCENT: '5',
    })
    visitor = setInterval(visit, 200)
    const port = await freePort('127.0.0.1')
    prometheusUrl = `http://127.0.0.1:${port}`
    const config = join(directory, 'prometheus.yml')
    writeFileSync(config, scrapeConfig())
    start('prometheus', [
      `--config.file=${config}`,
      `--storage.tsdb.path=${join(directory, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
      '--log.level=error',
    ])
    await until('Prometheus is ready', async () => (await fetch(`${prometheusUrl}/-/ready`)).ok)
  }, START_MS_MAX)

  afterAll(async () => {
    clearInterval(visitor)
    for (const child of children) {
      const ended = new Promise((resolve) => child.once('exit', resolve))
      child.kill('SIGTERM')
      await ended
    }
    await stack.end()
    rmSync(directory, { recursive: true, force: true })
  }, START_MS_MAX)

  test.each(queries)(
    '$title, $legend: is answered with data',
    async ({ expr }) => {
      const samples = await until(
        `data for ${expr}`,
        async () => {
          const found = await ask(expr)
          return found.length > 0 && found.every(isNumber) && found
        },
        { deadlineMs: 30_000, everyMs: 500 },
      )
      expect(samples.length).toBeGreaterThan(0)
    },
    40_000,
  )

  test('shows what is going on', async () => {
    const rate = async (/** @type {string} */ metric) =>
      Number((await ask(`sum(rate(${metric}[20s]))`))[0]?.value[1] ?? 0)
    await until(
      'the rates are those of the simulator',
      async () => {
        const stored = await rate('sandglass_ingest_messages_stored_total')
        const dead = await rate('sandglass_ingest_dead_letters_total')
        return stored > 70 && stored < 130 && dead > 1 && dead < 15
      },
      { deadlineMs: 40_000, everyMs: 500 },
    )
  }, 60_000)

  test('and the alerts name only metrics that exist', async () => {
    const urls = [...(stack.ours ? [stack.engineUrl] : []), stack.ingestUrl, stack.apiUrl]
    const pages = await Promise.all(urls.map(async (url) => (await fetch(`${url}/metrics`)).text()))
    const exposed = new Set(
      pages.flatMap((page) => [...page.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name)),
    )
    const missing = [...metricsIn(alerts + queries.map(({ expr }) => expr).join('\n'))]
      .map((name) => name.replace(/_bucket$/, ''))
      .filter((name) => (stack.ours || !isOfEngine(name)) && !exposed.has(name))
    expect(missing).toEqual([])
  })

  /** @param {string} command  @param {string[]} args  @param {Record<string, string>} [env] */
  function start(command, args, env = {}) {
    const options = /** @type {const} */ ({ stdio: 'ignore' })
    children.push(spawn(command, args, { ...options, env: { ...process.env, ...env } }))
  }

  /** One request that succeeds and one that does not, so that every status has a series. */
  function visit() {
    for (const path of ['/v1/sensors', '/v1/sensors/nobody']) {
      fetch(stack.apiUrl + path)
        .then((response) => response.arrayBuffer())
        .catch(() => {})
    }
  }

  function scrapeConfig() {
    const jobs = { engine: stack.engineUrl, ingest: stack.ingestUrl, api: stack.apiUrl }
    const scrapes = Object.entries(jobs)
      .filter(([name]) => name !== 'engine' || stack.ours)
      .map(([name, url]) => ({
        job_name: name,
        static_configs: [{ targets: [new URL(url).host] }],
      }))
    // JSON is YAML.
    return JSON.stringify({ global: { scrape_interval: '1s' }, scrape_configs: scrapes })
  }

  /** @param {string} expr  @returns {Promise<Sample[]>} */
  async function ask(expr) {
    const query = expr.replaceAll('$__rate_interval', '15s')
    const response = await fetch(`${prometheusUrl}/api/v1/query`, {
      method: 'POST',
      body: new URLSearchParams({ query }),
    })
    const { status, data, error } = await response.json()
    if (status !== 'success') throw new Error(`${query}: ${error}`)
    return data.result
  }
})

/** @param {Sample} sample */
const isNumber = ({ value }) => Number.isFinite(Number(value[1]))
