/**
 * Does work that is asked for in a table: each job in one process, a step at a time. What is done
 * is in the table, so a process that takes a job over goes on where the last one stood.
 */

import { shardOf } from '@sandglass/common/rollup'

/** Pause after a failure, in milliseconds. */
const RETRY_MS = 30_000

/** Another process goes on with it. */
export class TakenOver extends Error {}

/**
 * @template J
 * @typedef {object} Work  What does one job.
 * @property {(job: J) => Promise<number>} step  Does what can be done now, and says when to come
 *   back, in milliseconds.
 * @property {number | undefined} askedMs  Which wish it works on.
 */

/**
 * @template {{ sensorId: string, id?: string, askedMs: number }} J
 * @typedef {object} JobParts
 * @property {{ jobs: () => Promise<J[]>, job: (sensorId: string, id?: string) =>
 *   Promise<J | undefined> }} store
 * @property {(shard: number) => boolean} owns  Whether a shard is ours.
 * @property {(job: J) => boolean} isOver  Whether nothing is left to do.
 * @property {(job: J) => Work<J>} begin
 * @property {(jobs: J[]) => void} [heard]  Of all that are not over, whoever does them.
 * @property {() => void} failed
 * @property {import('pino').Logger} logger
 * @property {string} what  For the log.
 * @property {number} turnMs  How often it is looked what is asked for.
 * @property {() => number} now  A clock that only goes forward, in milliseconds.
 * @property {(ms: number) => Promise<void>} sleep
 */

/** @template {{ sensorId: string, id?: string, askedMs: number }} J */
export class Jobs {
  /** Those that are not over, of all processes. */
  active = 0
  isStopped = false
  /** @type {JobParts<J>} */
  #parts
  /** Ours, and when to come back to them. @type {Map<string, { work: Work<J>, dueMs: number }>} */
  #ours = new Map()

  /** @param {JobParts<J>} parts */
  constructor(parts) {
    this.#parts = parts
  }

  /** Works until it is stopped. */
  async run() {
    while (!this.isStopped) {
      if (!(await this.turn())) await this.#parts.sleep(this.#parts.turnMs)
    }
  }

  stop() {
    this.isStopped = true
  }

  /** Does what is due. @returns {Promise<boolean>}  Whether there is more. */
  async turn() {
    const { store, isOver, heard } = this.#parts
    let hasMore = false
    try {
      const jobs = (await store.jobs()).filter((job) => !isOver(job))
      this.active = jobs.length
      heard?.(jobs)
      for (const { sensorId, id } of jobs) {
        if (this.isStopped) return false
        if (await this.#advance(sensorId, id)) hasMore = true
      }
    } catch (error) {
      this.#failed(error)
    }
    return hasMore
  }

  /**
   * @param {string} sensorId
   * @param {string | undefined} id
   * @returns {Promise<boolean>}  Whether it can go on at once.
   */
  async #advance(sensorId, id) {
    const { store, owns, isOver, begin, now } = this.#parts
    const key = `${sensorId} ${id}`
    if (!owns(shardOf(sensorId))) {
      this.#ours.delete(key)
      return false
    }
    const before = this.#ours.get(key)
    try {
      // Read again: what another process has done meanwhile counts.
      const job = await store.job(sensorId, id)
      if (!job || isOver(job)) {
        this.#ours.delete(key)
        return false
      }
      const ours = before ?? { work: begin(job), dueMs: 0 }
      this.#ours.set(key, ours)
      const isNew = ours.work.askedMs !== job.askedMs
      if (!isNew && now() < ours.dueMs) return false
      const backMs = await ours.work.step(job)
      ours.dueMs = now() + backMs
      return backMs === 0
    } catch (error) {
      const ours = this.#ours.get(key)
      if (ours) ours.dueMs = now() + RETRY_MS
      if (error instanceof TakenOver) this.#ours.delete(key)
      else this.#failed(error)
      return false
    }
  }

  /** @param {unknown} error */
  #failed(error) {
    const { failed, logger, what } = this.#parts
    if (this.isStopped) return
    failed()
    const { message } = /** @type {Error} */ (error)
    logger.warn({ reason: message }, `a ${what} has to wait`)
  }
}

/** @param {number} ms  @returns {Promise<void>} */
export function sleepMs(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
