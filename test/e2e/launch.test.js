// Two whole platforms, as `npm run demo` starts them, beside each other: a part that dies comes
// back, and all of it goes when it is told to.
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { unaccounted } from '../support/accounts.js'
import { freePort } from '../support/ports.js'
import { until } from '../support/until.js'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const HOST = '127.0.0.1'
/** Long enough for an engine that is not built yet, or stale. */
const START_MS_MAX = 300_000
const FLAGS = ['--db-listen', '--db-http', '--mqtt-listen', '--ingest-http', '--api-listen']

/** A platform started by the launcher. */
class Demo {
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

  /** Stops it and gives its exit code. */
  stop() {
    this.#launcher?.kill('SIGTERM')
    return this.ended
  }
}

describe('two platforms side by side', () => {
  const demos = [new Demo(), new Demo()]

  beforeAll(async () => {
    for (const demo of demos) await demo.start()
  }, START_MS_MAX)
  afterAll(async () => {
    for (const demo of demos) {
      await demo.stop()
      rmSync(demo.directory, { recursive: true, force: true })
    }
  }, 60_000)

  test('both store what their sensors measure', async () => {
    for (const demo of demos) {
      await until('messages are stored', async () => (await demo.stats()).stored > 50)
    }
  }, 60_000)

  test('an engine that is killed comes back, and nothing is missing', async () => {
    const [demo] = demos
    const engine = demo.parts().find(({ command }) => command.includes('sandglass-db'))
    process.kill(Number(engine?.pid), 'SIGKILL')
    await until('it is back', () => /engine is back after/.test(demo.output), {
      deadlineMs: 60_000,
    })
    expect(demo.output).toMatch(/engine ended \(SIGKILL\) and is started again in 0\.5 s/)
    const { stored } = await demo.stats()
    await until('more is stored', async () => (await demo.stats()).stored > stored + 50)
    expect(unaccounted(await demo.stats())).toBe(0)
    expect(demos[1].output).not.toContain('started again')
  }, 90_000)

  test('stop in order, with exit code 0, and leave nothing behind', async () => {
    for (const demo of demos) {
      const parts = demo.parts()
      expect(parts.length).toBeGreaterThanOrEqual(4)
      expect(await demo.stop()).toBe(0)
      expect(demo.output.trim().endsWith('stopped')).toBe(true)
      for (const { pid } of parts.filter(({ command }) => !command.includes('trap'))) {
        expect(() => process.kill(pid, 0)).toThrow('ESRCH')
      }
    }
  }, 60_000)
})
