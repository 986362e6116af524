/**
 * Does the rewrites that are asked for: each in one process, a slice at a time. What is done is in
 * the table `rewrite`; a process that takes one over begins with its next slice again.
 */

import { Jobs, sleepMs } from '../jobs/jobs.js'
import { Rewrite, timesOf } from './rewrite.js'
import { isOver } from './store.js'

/** How often it is looked what is asked for, in milliseconds. */
const TURN_MS = 5_000

/** @typedef {import('./store.js').Job} Job */

/** @extends {Jobs<Job>} */
export class RewriteWorker extends Jobs {
  counts = { rows: 0, expired: 0, deleted: 0, failures: 0 }

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
    const { store, id, owns, logger } = parts
    const { now = () => performance.now(), wallNow = Date.now, sleep = sleepMs } = parts
    const times = timesOf(parts.settleMs)
    super({
      store,
      owns,
      isOver,
      begin: ({ sensorId }) =>
        new Rewrite({
          store,
          sensorId,
          runner: id,
          now,
          wallNow,
          rest: sleep,
          counts: this.counts,
          isStopped: () => this.isStopped,
          times,
        }),
      failed: () => {
        this.counts.failures++
      },
      logger,
      what: 'rewrite',
      turnMs: TURN_MS,
      now,
      sleep,
    })
  }
}
