// A real Prometheus that scrapes the platform under test, and works our rules out.
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { freePort } from './ports.js'
import { until } from './until.js'

const RULES = fileURLToPath(new URL('../../dashboards/prometheus', import.meta.url))
const HOST = '127.0.0.1'

/** @typedef {{ metric: Record<string, string>, value: [number, string] }} Sample */

export class Prometheus {
  #directory = mkdtempSync(join(tmpdir(), 'sandglass-prometheus-'))
  #url = ''
  /** @type {import('node:child_process').ChildProcess | undefined} */
  #child

  /**
   * Resolves once it answers. It scrapes and works rules out every second.
   *
   * @param {Record<string, string>} jobs  The address of each.
   */
  async start(jobs) {
    const port = await freePort(HOST)
    this.#url = `http://${HOST}:${port}`
    const config = join(this.#directory, 'prometheus.yml')
    const scrapes = Object.entries(jobs).map(([name, url]) => ({
      job_name: name,
      static_configs: [{ targets: [new URL(url).host] }],
    }))
    // JSON is YAML.
    const text = JSON.stringify({
      global: { scrape_interval: '1s', evaluation_interval: '1s' },
      rule_files: ['records.yml', 'alerts.yml'].map((name) => join(RULES, name)),
      scrape_configs: scrapes,
    })
    writeFileSync(config, text)
    const args = [
      `--config.file=${config}`,
      `--storage.tsdb.path=${join(this.#directory, 'data')}`,
      `--web.listen-address=${HOST}:${port}`,
      '--log.level=error',
    ]
    this.#child = spawn('prometheus', args, { stdio: 'ignore' })
    await until('Prometheus is ready', async () => (await fetch(`${this.#url}/-/ready`)).ok)
  }

  async stop() {
    const child = this.#child
    if (child) {
      const ended = new Promise((resolve) => child.once('exit', resolve))
      child.kill('SIGTERM')
      await ended
    }
    rmSync(this.#directory, { recursive: true, force: true })
  }

  /** What a query gives now. @param {string} query  @returns {Promise<Sample[]>} */
  async ask(query) {
    const response = await fetch(`${this.#url}/api/v1/query`, {
      method: 'POST',
      body: new URLSearchParams({ query }),
    })
    const { status, data, error } = await response.json()
    if (status !== 'success') throw new Error(`${query}: ${error}`)
    return data.result
  }
}
