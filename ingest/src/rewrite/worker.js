/**
 * Does the rewrites that are asked for: each in one process, a slice at a time. What is done is in
 * the table `rewrite`; a process that takes one over begins with its next slice again.
 */

import { shardOf } from '@sandglass/common/rollup'
import { Rewrite, TakenOver, timesOf } from './rewrite.js'

/** How often it is looked what is asked for, in milliseconds. */
const TURN_MS = 5_000

/** Pause after a failure, in milliseconds. */
const RETRY_MS = 30_000

/** @typedef {import('./store.js').Job} Job */

/** Whether nothing is left to do. @param {Job} job */
export function isOver({ askedMs, className, state }) {
  if (!state) return className === null
  const isEnd = state.phase === 'done' || state.phase === 'cancelled'
  return isEnd && state.askedMs === askedMs
}

export class RewriteWorker {
  counts = { rows: 0, expired: 0, deleted: 0, failures: 0 }
  /** Rewrites that are not over, of all processes. */
  active = 0
  #store
  #runner
  #owns
  #logger
  #now
  #wallNow
  #sleep
  #times
  /**
   * Ours, and when to come back to them.
   *
   * @type {Map<string, { rewrite: Rewrite, dueMs: number }>}
   */
  #ours = new Map()
  #isStopped = false

  /**
   * @param {object} parts
   * @param {import('./store.js').RewriteStore} parts.store
   * @param {string} parts.id  A UUID of this run of the process.
   * @param {(shard: number) => boolean} parts.owns  Whether a shard is ours.
   * @param {import('pino').Logger} parts.logger
   * @param {() => number} [parts.now]  A clock that only goes forward, in milliseconds.
   * @param {() => number} [parts.wallNow]  Milliseconds since the Unix epoch.
   * @param {(ms: number) => Promise<void>} [parts.sleep]
   * @param {number} [parts.settleMs]  How long it waits until all know of it, in milliseconds.
   */
  constructor(parts) {
    this.#store = parts.store
    this.#runner = parts.id
    this.#owns = parts.owns
    this.#logger = parts.logger
    this.#now = parts.now ?? (() => performance.now())
    this.#wallNow = parts.wallNow ?? Date.now
    this.#sleep = parts.sleep ?? sleepMs
    this.#times = timesOf(parts.settleMs)
  }

  /** Works until it is stopped. */
  async run() {
    while (!this.#isStopped) {
      if (!(await this.turn())) await this.#sleep(TURN_MS)
    }
  }

  stop() {
    this.#isStopped = true
  }

  /** Does what is due. @returns {Promise<boolean>}  Whether there is more. */
  async turn() {
    let hasMore = false
    try {
      const jobs = (await this.#store.jobs()).filter((job) => !isOver(job))
      this.active = jobs.length
      for (const { sensorId } of jobs) {
        if (this.#isStopped) return false
        if (await this.#advance(sensorId)) hasMore = true
      }
    } catch (error) {
      this.#failed(error)
    }
    return hasMore
  }

  /** @param {string} sensorId  @returns {Promise<boolean>}  Whether it can go on at once. */
  async #advance(sensorId) {
    if (!this.#owns(shardOf(sensorId))) {
      this.#ours.delete(sensorId)
      return false
    }
    const ours = this.#ours.get(sensorId) ?? { rewrite: this.#begin(sensorId), dueMs: 0 }
    this.#ours.set(sensorId, ours)
    try {
      // Read again: what another process has done meanwhile counts.
      const job = await this.#store.job(sensorId)
      if (!job || isOver(job)) {
        this.#ours.delete(sensorId)
        return false
      }
      const isNew = ours.rewrite.askedMs !== job.askedMs
      if (!isNew && this.#now() < ours.dueMs) return false
      const backMs = await ours.rewrite.step(job)
      ours.dueMs = this.#now() + backMs
      return backMs === 0
    } catch (error) {
      if (error instanceof TakenOver) this.#ours.delete(sensorId)
      else this.#failed(error)
      ours.dueMs = this.#now() + RETRY_MS
      return false
    }
  }

  /** @param {string} sensorId */
  #begin(sensorId) {
    return new Rewrite({
      store: this.#store,
      sensorId,
      runner: this.#runner,
      now: this.#now,
      wallNow: this.#wallNow,
      rest: this.#sleep,
      counts: this.counts,
      isStopped: () => this.#isStopped,
      times: this.#times,
    })
  }

  /** @param {unknown} error */
  #failed(error) {
    if (this.#isStopped) return
    this.counts.failures++
    const { message } = /** @type {Error} */ (error)
    this.#logger.warn({ reason: message }, 'a rewrite has to wait')
  }
}

/** @param {number} ms  @returns {Promise<void>} */
function sleepMs(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
