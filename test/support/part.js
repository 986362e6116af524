// One process of the platform under test: started, killed without warning, stopped in order.
import { spawn } from 'node:child_process'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { missingPrograms } from './requirement.js'
import { until } from './until.js'

/** How long a part may take until it is healthy, in ms: on a busy machine, with recovery. */
const HEALTHY_MS_MAX = 60_000
/** How long a part may take to stop in order, in milliseconds. */
const STOP_MS_MAX = 30_000
/** Characters of a part's log that an error shows. */
const LOG_TAIL = 3000

/**
 * @typedef {object} PartOptions
 * @property {string} name
 * @property {string} command
 * @property {string[]} args
 * @property {string} directory  Working directory.
 * @property {Record<string, string>} env  Added to the environment, from which settings of the
 *   platform are removed.
 * @property {string} logFile  What it prints is appended there.
 * @property {string} healthUrl  Answers 200 once it serves.
 * @property {number} [healthyMsMax]  How long that may take, in milliseconds.
 */

export class Part {
  /** @type {import('node:child_process').ChildProcess | undefined} */
  #child
  /** @type {Promise<{ code: number | null, signal: string | null }> | undefined} */
  #exit
  #stopping = false
  /** Set when it ended without being asked to. @type {string | undefined} */
  died

  /** @param {PartOptions} options */
  constructor(options) {
    this.options = options
  }

  get name() {
    return this.options.name
  }

  /** Process id; throws if it does not run. */
  get pid() {
    const pid = this.#child?.pid
    if (pid === undefined) throw new Error(`${this.name} does not run`)
    return pid
  }

  /** Starts the process; resolves at once. */
  spawn() {
    if (this.#child) throw new Error(`${this.name} runs already`)
    const { command, args, directory, env, logFile } = this.options
    const log = openSync(logFile, 'a')
    const [program, first] = dyingWithUs(command)
    const child = spawn(program, [...first, ...args], {
      cwd: directory,
      env: { ...cleanEnvironment(), ...env },
      stdio: ['ignore', log, log],
    })
    closeSync(log)
    this.#child = child
    this.#stopping = false
    this.#exit = new Promise((resolve) => {
      child.once('error', (error) => this.#ended(resolve, null, error.message))
      child.once('exit', (code, signal) => this.#ended(resolve, code, signal))
    })
  }

  /** Resolves once its health check answers 200. */
  async healthy() {
    const { healthyMsMax: deadlineMs = HEALTHY_MS_MAX } = this.options
    await until(
      `${this.name} is healthy`,
      async () => {
        if (this.died) return true
        const response = await fetch(this.options.healthUrl, { signal: AbortSignal.timeout(2000) })
        await response.body?.cancel()
        return response.ok
      },
      { deadlineMs, everyMs: 50 },
    ).catch((error) => {
      throw new Error(`${error.message}\n${this.logTail()}`)
    })
    this.check()
  }

  async start() {
    this.spawn()
    await this.healthy()
  }

  /** Ends it as a power cut would; resolves once it is gone. */
  async kill9() {
    this.#stopping = true
    this.#child?.kill('SIGKILL')
    await this.#exit
  }

  /** Asks it to stop, and fails if it does not do so with exit code 0. */
  async stop() {
    const child = this.#child
    if (!child) return
    this.#stopping = true
    child.kill('SIGTERM')
    const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS_MAX)
    const exit = await this.#exit
    clearTimeout(timer)
    if (exit?.code !== 0) {
      const how = exit?.signal ?? `exit code ${exit?.code}`
      throw new Error(`${this.name} did not stop in order: ${how}\n${this.logTail()}`)
    }
  }

  /** Resolves when it has ended by itself, which it should; fails unless with exit code 0. */
  async ended() {
    this.#stopping = true
    const exit = await this.#exit
    if (exit?.code !== 0)
      throw new Error(`${this.name} ended with ${exit?.code}\n${this.logTail()}`)
  }

  /** Throws if it ended without being asked to. */
  check() {
    if (this.died) throw new Error(`${this.died}\n${this.logTail()}`)
  }

  /** The end of what it printed. */
  logTail() {
    return readFileSync(this.options.logFile, 'utf8').slice(-LOG_TAIL)
  }

  /**
   * @param {(exit: { code: number | null, signal: string | null }) => void} resolve
   * @param {number | null} code
   * @param {string | null} signal
   */
  #ended(resolve, code, signal) {
    if (!this.#stopping) this.died = `${this.name} ended by itself: ${signal ?? `code ${code}`}`
    this.#child = undefined
    resolve({ code, signal })
  }
}

/**
 * With the help of util-linux a part does not outlive the test that started it.
 *
 * @param {string} command
 * @returns {[string, string[]]}
 */
function dyingWithUs(command) {
  if (missingPrograms(['setpriv']).length > 0) return [command, []]
  return ['setpriv', ['--pdeathsig', 'KILL', command]]
}

/** Our environment without anything that would configure a part behind the test's back. */
function cleanEnvironment() {
  const settings =
    /^(CQL|DB|MQTT|API|INGEST|ALLOW)_|_MAX$|^(RATE_LIMIT|RETENTION_CLASS|NODE_OPTIONS)$/
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !settings.test(name)))
}
