/**
 * One process of the platform: started, watched, restarted with back-off when it ends by itself,
 * and stopped. It leads a process group of its own, so that Ctrl-C on a terminal reaches the
 * launcher alone, which then stops the parts in their order.
 */

import { spawn } from 'node:child_process'
import { closeSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { killGroup } from './command.js'
import { Failure } from './failure.js'
import { isWell } from './health.js'

/**
 * How long a part is waited for.
 *
 * @typedef {object} Patience
 * @property {readonly number[]} backOffMs  Pauses before it is started again; the last one stays.
 * @property {number} steadyMs  If it has served this long, it starts again with the shortest pause.
 * @property {number} stopMsMax  How long it has to stop by itself; it takes no more than 15 s.
 */

/** @type {Readonly<Patience>} */
const PATIENCE = Object.freeze({
  backOffMs: [500, 1000, 2000, 4000, 8000, 15_000],
  steadyMs: 30_000,
  stopMsMax: 20_000,
})

/** Between two health checks, in milliseconds. */
const POLL_MS = 100
/** Longest wait for one answer to a health check, in milliseconds. */
const ANSWER_MS_MAX = 2000
/** A part without a health check is up when it has lived this long. */
const ALIVE_MS = 500
/** How often a start that takes long is mentioned, in milliseconds. */
const MENTION_MS = 10_000

/**
 * @typedef {object} PartSpec
 * @property {string} name
 * @property {string[]} command
 * @property {Record<string, string>} env  Added to the launcher's own environment.
 * @property {string} [healthUrl]  Answers 200 when the part serves.
 * @property {boolean} [mayFinish]  Ending with code 0 is no fault.
 */

/** @typedef {{ code: number | null, signal: NodeJS.Signals | null }} Exit */

export class Part {
  /** The process that runs. @type {import('node:child_process').ChildProcess | undefined} */
  #child
  /** Settles when that process is gone. @type {Promise<Exit>} */
  #exit = Promise.resolve({ code: 0, signal: null })
  #stopping = new AbortController()
  /** Settles when nobody looks after the process any more. @type {Promise<void>} */
  #watch = Promise.resolve()
  #spec
  #context
  #patience

  /**
   * @param {PartSpec} spec
   * @param {object} context
   * @param {string} context.cwd
   * @param {import('./log-file.js').LogFile} context.log
   * @param {import('./guard.js').Guard} context.guard
   * @param {(line: string) => void} context.say
   * @param {Readonly<Patience>} [patience]
   */
  constructor(spec, context, patience = PATIENCE) {
    this.#spec = spec
    this.#context = context
    this.#patience = patience
  }

  get name() {
    return this.#spec.name
  }

  get log() {
    return this.#context.log
  }

  /** The id of the process that runs, if one does. */
  get pid() {
    return this.#child?.pid
  }

  /**
   * Starts it and waits until it serves; from then on it is restarted when it ends.
   *
   * @throws {Failure}  It ended before it served: then it would do so again.
   */
  async start() {
    this.#spawn()
    const ended = await this.#serves()
    if (this.#stopping.signal.aborted) return
    if (ended) {
      throw new Failure(`${this.name} does not start (${how(ended)}): ${this.#lastLine()}`)
    }
    this.#watch = this.#restartForEver()
  }

  /** Ends it in order, at last by force; resolves when it is gone. */
  async stop() {
    this.#stopping.abort()
    this.#signal('SIGTERM')
    const { stopMsMax } = this.#patience
    const timer = setTimeout(() => {
      this.#context.say(`${this.name} did not stop within ${stopMsMax / 1000} s and is killed`)
      this.#signal('SIGKILL')
    }, stopMsMax)
    const wasRunning = this.#child !== undefined
    const exit = await this.#exit
    clearTimeout(timer)
    await this.#watch
    if (wasRunning && exit.code !== 0) {
      this.#context.say(`${this.name} ended with ${how(exit)}: ${this.#lastLine()}`)
    }
  }

  /** Ends it at once. */
  kill() {
    this.#stopping.abort()
    this.#signal('SIGKILL')
  }

  #spawn() {
    const [program, ...args] = this.#spec.command
    const { cwd, guard, log } = this.#context
    const handle = log.open()
    const child = spawn(program, args, {
      cwd,
      env: { ...process.env, ...this.#spec.env },
      detached: true,
      stdio: ['ignore', handle, handle],
    })
    closeSync(handle)
    const { pid } = child
    this.#child = child
    if (pid !== undefined) guard.add(pid)
    this.#exit = new Promise((resolve) => {
      const ended = (/** @type {Exit} */ exit) => {
        this.#child = undefined
        if (pid !== undefined) guard.remove(pid)
        resolve(exit)
      }
      child.once('error', () => ended({ code: 127, signal: null }))
      child.once('exit', (code, signal) => ended({ code, signal }))
    })
  }

  /**
   * Waits until the process serves.
   *
   * @returns {Promise<Exit | undefined>}  Set if it ended first.
   */
  async #serves() {
    const startMs = performance.now()
    let mentionMs = startMs + MENTION_MS
    /** @type {Exit | undefined} */
    let ended
    void this.#exit.then((exit) => {
      ended = exit
    })
    while (!ended && !this.#stopping.signal.aborted) {
      if (await this.#isHealthy(performance.now() - startMs)) return undefined
      await this.#pause(POLL_MS)
      if (performance.now() < mentionMs) continue
      mentionMs += MENTION_MS
      const seconds = Math.round((performance.now() - startMs) / 1000)
      this.#context.say(`still waiting for ${this.name} (${seconds} s): ${this.#lastLine()}`)
    }
    return ended
  }

  /** @param {number} aliveMs  How long the process has lived. */
  async #isHealthy(aliveMs) {
    const { healthUrl } = this.#spec
    if (!healthUrl) return aliveMs >= ALIVE_MS
    return isWell(healthUrl, ANSWER_MS_MAX)
  }

  async #restartForEver() {
    const { backOffMs, steadyMs } = this.#patience
    let failures = 0
    /** Undefined while it does not serve. @type {number | undefined} */
    let servesSinceMs = performance.now()
    for (;;) {
      const exit = await this.#exit
      if (this.#stopping.signal.aborted) return
      if (this.#spec.mayFinish && exit.code === 0) {
        this.#context.say(`${this.name} has finished: ${this.#lastLine()}`)
        return
      }
      const servedMs = servesSinceMs === undefined ? 0 : performance.now() - servesSinceMs
      servesSinceMs = undefined
      if (servedMs >= steadyMs) failures = 0
      const pauseMs = backOffMs[Math.min(failures++, backOffMs.length - 1)]
      this.#context.say(
        `${this.name} ended (${how(exit)}) and is started again in ${pauseMs / 1000} s; ` +
          `it last said: ${this.#lastLine() || 'nothing'}`,
      )
      const startMs = performance.now()
      await this.#pause(pauseMs)
      if (this.#stopping.signal.aborted) return
      this.#spawn()
      if (await this.#serves()) continue
      if (this.#stopping.signal.aborted) return
      servesSinceMs = performance.now()
      const seconds = ((servesSinceMs - startMs) / 1000).toFixed(1)
      this.#context.say(`${this.name} is back after ${seconds} s`)
    }
  }

  /** @param {number} ms  Cut short when the part is to stop. */
  async #pause(ms) {
    await sleep(ms, undefined, { signal: this.#stopping.signal }).catch(() => {})
  }

  /** @param {NodeJS.Signals} signal */
  #signal(signal) {
    if (this.#child?.pid !== undefined) killGroup(this.#child.pid, signal)
  }

  #lastLine() {
    return this.#context.log.lastLine()
  }
}

/** @param {Exit} exit */
const how = ({ code, signal }) => signal ?? `exit code ${code}`
