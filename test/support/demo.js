// A platform as `npm run demo` starts it, on ports and data of its own.
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { freePort } from './ports.js'
import { until } from './until.js'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const HOST = '127.0.0.1'
/** Long enough for an engine that is not built yet, or stale. */
export const START_MS_MAX = 300_000
const FLAGS = ['--db-listen', '--db-http', '--mqtt-listen', '--ingest-http', '--api-listen']

/** A platform started by the launcher. */
export class Demo {
  output = ''
  directory = mkdtempSync(join(tmpdir(), 'sandglass-demo-'))
  /** @type {Record<string, string>} */
  addresses = {}
  /** @type {import('node:child_process').ChildProcess | undefined} */
  #launcher
  /** @type {Promise<number | null>} */
  ended = Promise.resolve(null)

  async start() {
    for (const flag of FLAGS) this.addresses[flag] = `${HOST}:${await freePort(HOST)}`
    const { CQL_HOSTS: _, ...env } = process.env
    const args = Object.entries(this.addresses).map(([flag, value]) => `${flag}=${value}`)
    const main = join(ROOT, 'common/launch/main.js')
    const launcher = spawn(
      process.execPath,
      [main, 'demo', `--data-dir=${this.directory}`, '--rate=50', ...args],
      { env: { ...env, NODE_OPTIONS: '' }, stdio: ['ignore', 'pipe', 'pipe'] },
    )
    this.#launcher = launcher
    for (const stream of [launcher.stdout, launcher.stderr]) {
      stream.on('data', (chunk) => {
        this.output += chunk
      })
    }
    this.ended = new Promise((resolve) => launcher.once('exit', resolve))
    await until('the platform is up', () => this.output.includes('Sandglass is up'), {
      deadlineMs: START_MS_MAX - 10_000,
    })
  }

  async stats() {
    return (await fetch(`http://${this.addresses['--ingest-http']}/stats`)).json()
  }

  /** The processes of its parts, by program. */
  parts() {
    const pid = this.#launcher?.pid
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(/\s+/)
    return children.map((child) => ({
      pid: Number(child),
      command: readFileSync(`/proc/${child}/cmdline`, 'utf8').replaceAll('\0', ' '),
    }))
  }

  /** Stops it and removes its data. */
  async end() {
    await this.stop()
    rmSync(this.directory, { recursive: true, force: true })
  }

  /** Stops it and gives its exit code. */
  stop() {
    this.#launcher?.kill('SIGTERM')
    return this.ended
  }
}
