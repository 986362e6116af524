/** Does the deletions that are asked for, and tells this process of those that others do. */

import { Jobs, sleepMs } from '../jobs/jobs.js'
import { Deletion, isOver } from './deletion.js'

/** How often it is looked what is asked for, in milliseconds: somebody waits for it. */
const TURN_MS = 1_000

/** @typedef {import('./store.js').Job} Job */

/** @extends {Jobs<Job>} */
export class DeletionWorker extends Jobs {
  counts = { partitions: 0, failures: 0 }

  /**
   * @param {object} parts
   * @param {import('./store.js').DeletionStore} parts.store
   * @param {import('../rollup/store.js').RollupStore} parts.rollups
   * @param {string} parts.id  A UUID of this run of the process.
   * @param {(shard: number) => boolean} parts.owns  Whether a shard is ours.
   * @param {import('../rollup/slot-clock.js').SlotClock} parts.clock
   * @param {import('../sensors/registry.js').Registry} parts.registry
   * @param {number} parts.settleMs
   * @param {import('pino').Logger} parts.logger
   */
  constructor({ store, rollups, id, owns, clock, registry, settleMs, logger }) {
    const now = () => performance.now()
    /** @param {string} sensorId  @param {Record<string, number>} eras */
    const onEra = (sensorId, eras) => registry.knowsEras(sensorId, new Map(Object.entries(eras)))
    super({
      store,
      owns,
      isOver,
      begin: (job) =>
        new Deletion(job, {
          store,
          rollups,
          runner: id,
          clock,
          now,
          rest: sleepMs,
          settleMs,
          isStopped: () => this.isStopped,
          counts: this.counts,
          onEra,
        }),
      heard(jobs) {
        for (const { sensorId, state } of jobs) if (state) onEra(sensorId, state.eras)
      },
      failed: () => {
        this.counts.failures++
      },
      logger,
      what: 'deletion',
      turnMs: TURN_MS,
      now,
      sleep: sleepMs,
    })
  }
}
