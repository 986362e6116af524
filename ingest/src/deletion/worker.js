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
   * @param {import('./belongings.js').Belongings} parts.belongings
   * @param {import('../rollup/store.js').RollupStore} parts.rollups
   * @param {string} parts.id  A UUID of this run of the process.
   * @param {(shard: number) => boolean} parts.owns  Whether a shard is ours.
   * @param {import('../rollup/slot-clock.js').SlotClock} parts.clock
   * @param {import('../sensors/registry.js').Registry} parts.registry
   * @param {import('./known.js').KnownDeletions} parts.known
   * @param {number} parts.settleMs
   * @param {import('pino').Logger} parts.logger
   */
  constructor({ store, belongings, rollups, id, owns, clock, registry, known, settleMs, logger }) {
    const now = () => performance.now()
    const hearer = new Hearer(registry, known)
    super({
      store,
      owns,
      isOver,
      begin: (job) =>
        new Deletion(job, {
          store,
          belongings,
          rollups,
          runner: id,
          clock,
          now,
          rest: sleepMs,
          settleMs,
          isStopped: () => this.isStopped,
          counts: this.counts,
          onEra: (one, state) => hearer.hear({ ...one, state }),
        }),
      heard: (jobs) => hearer.hearAll(jobs),
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

/** Tells a process what deletions change of what it remembers. */
export class Hearer {
  #registry
  #known
  /** Those that are not over, and of which it was told; none before the first time. */
  /** @type {Set<string> | undefined} */
  #told
  /** Those of sensors that are discounted. @type {Set<string>} */
  #discounted = new Set()

  /**
   * @param {Pick<import('../sensors/registry.js').Registry,
   *   'knowsEras' | 'knowsCoverEras' | 'wasDeleted' | 'discount'>} registry
   * @param {Pick<import('./known.js').KnownDeletions, 'forget'>} known
   */
  constructor(registry, known) {
    this.#registry = registry
    this.#known = known
  }

  /** @param {Job[]} jobs  All that are not over. */
  hearAll(jobs) {
    const before = this.#told
    this.#told = new Set(jobs.map(({ id }) => id))
    for (const id of this.#discounted) if (!this.#told.has(id)) this.#discounted.delete(id)
    for (const job of jobs) {
      // Whatever comes out of the spool now is held against it, too.
      if (!before?.has(job.id)) this.#known.forget(job.sensorId)
      // The sensors were counted after those of the first time had begun.
      if (!before && job.isWhole) this.#discounted.add(job.id)
      this.hear(job)
    }
  }

  /** @param {Job} job */
  hear({ id, sensorId, askedMs, isWhole, state }) {
    if (!state) return
    this.#registry.knowsEras(sensorId, new Map(Object.entries(state.eras)))
    this.#registry.knowsCoverEras(sensorId, new Map(Object.entries(state.covers ?? {})))
    if (!isWhole || !(state.isDropped || state.phase !== 'delete')) return
    if (!this.#discounted.has(id)) this.#registry.discount(sensorId)
    this.#discounted.add(id)
    this.#registry.wasDeleted(sensorId, askedMs)
  }
}
