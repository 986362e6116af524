/**
 * Deletes measurements for good, a week of a series at a time; and a sensor with all it has.
 *
 * ```text
 * delete ─▶ tell ─▶ settle ─▶ again ─▶ done
 *             └─▶ look ─┘
 * ```
 *
 * `delete`: afterwards no answer holds what was deleted. `tell`: until processes that are well have
 * heard which newest values are gone; what they showed meanwhile is shown again. `settle`: until
 * every process knows of it, and what was on its way is durable. `again`: the same once more, for
 * that. `look`: the same, where first and last times are forgotten, for what came before processes
 * heard of that. Each step can be repeated, so whoever takes it over goes on where the last one
 * stood.
 * ADR 0046 has the argument.
 */

import { covers, deletionStampUs, ERAS_MAX, takesAll } from '@sandglass/common/deletion'
import { HOUR_MS, LEVELS, MARK, SLOT_MS, shardOf, slotFor } from '@sandglass/common/rollup'
import { TakenOver } from '../jobs/jobs.js'
import { eraStart } from '../write/rows.js'
import { ALERT_DAYS, LETTER_PARTITIONS } from './belongings.js'
import { halvesOf, nextChunk, overlap, partitionsOf, touched } from './ranges.js'

const [, , DAYS] = LEVELS
const DAY_MS = 24 * HOUR_MS

/**
 * How long marks may be older than the deletion of rollups, in milliseconds: less than it takes
 * until they can be worked off.
 */
const MARKED_MS_MAX = 15_000

/** Pause before a broker that was away is told again, in milliseconds. */
const BROKER_RETRY_MS = 10_000

/** How long it takes until processes that are well have heard of an era, in milliseconds. */
const HEARD_MS = 3_000

/** @typedef {import('./store.js').DeletionStore} DeletionStore */
/** @typedef {import('./store.js').Job} Job */
/** @typedef {import('./store.js').Extent} Extent */
/** @typedef {import('@sandglass/common/spans').Range} Range */
/** @typedef {import('@sandglass/common/schema').Layout} Layout */
/** @typedef {'delete' | 'tell' | 'look' | 'settle' | 'again' | 'done'} Phase */

/**
 * How far a deletion has come, as it is stored.
 *
 * @typedef {object} State
 * @property {string} runner  The process that does it.
 * @property {Phase} phase
 * @property {string} [metric]  Which one is deleted, or was last.
 * @property {number} [atMs]  Event time up to which that is done; none if it is finished.
 * @property {Record<string, number>} eras  Of metrics whose newest value was deleted.
 * @property {Record<string, number>} covers  Of metrics of which all was deleted, the eras of
 *   their first and last times.
 * @property {Range} [reach]  Between which times these had values.
 * @property {string} [name]  Of a sensor that goes, too.
 * @property {boolean} [isDropped]  Whether it is gone, but for its measurements.
 * @property {number} [letters]  So many partitions of dead letters, and then of alerts, were looked
 *   through.
 * @property {boolean} [isAlive]  Whether something came of it after the deletion.
 * @property {'broker'} [waitsFor]  The broker is away, and retains what was desired of the device.
 * @property {number} [goneMs]  Since then no answer holds it.
 * @property {number} updatedMs
 */

/** Whether nothing is left to do. @param {Job} job */
export function isOver({ state }) {
  return state?.phase === 'done'
}

export class Deletion {
  #store
  #rollups
  #runner
  #clock
  #now
  #rest
  #settleMs
  #isStopped
  #counts
  #onEra
  #belongings
  /** @type {State | undefined} */
  #state
  /** When the phase began, by the clock that only goes forward. */
  #sinceMs = 0
  /** Which wish it works on: another one is another job. */
  askedMs

  /**
   * @param {Job} job
   * @param {object} parts
   * @param {DeletionStore} parts.store
   * @param {Pick<import('../rollup/store.js').RollupStore, 'progress' |
   *   'setProgress' | 'markDirty' | 'rawHours'>} parts.rollups
   * @param {string} parts.runner  A UUID of this run of the process.
   * @param {import('../rollup/slot-clock.js').SlotClock} parts.clock  By which hours are marked.
   * @param {() => number} parts.now  A clock that only goes forward, in milliseconds.
   * @param {(ms: number) => Promise<void>} parts.rest
   * @param {number} parts.settleMs
   * @param {() => boolean} parts.isStopped
   * @param {{ partitions: number }} parts.counts
   * @param {(job: Job, state: State) => void} parts.onEra  Tells this process of eras.
   * @param {import('./belongings.js').Belongings} parts.belongings
   */
  constructor({ askedMs }, parts) {
    this.askedMs = askedMs
    this.#store = parts.store
    this.#rollups = parts.rollups
    this.#runner = parts.runner
    this.#clock = parts.clock
    this.#now = parts.now
    this.#rest = parts.rest
    this.#settleMs = parts.settleMs
    this.#isStopped = parts.isStopped
    this.#counts = parts.counts
    this.#onEra = parts.onEra
    this.#belongings = parts.belongings
  }

  /**
   * Does what can be done now.
   *
   * @param {Job} job  As it is stored.
   * @returns {Promise<number>}  When to come back, in milliseconds.
   * @throws {TakenOver}
   */
  async step(job) {
    const state = await this.#take(job)
    if (state.phase === 'settle') {
      const leftMs = this.#sinceMs + this.#settleMs - this.#now()
      return leftMs > 0 ? leftMs : this.#enter(job, state, 'again')
    }
    if (state.phase === 'tell') {
      const leftMs = this.#sinceMs + HEARD_MS - this.#now()
      if (leftMs > 0) return leftMs
      await this.#showAgain(job, state)
      return this.#enter(job, state, isForgotten(job, state) ? 'look' : 'settle')
    }
    if (await this.#dropMore(job, state)) return 0
    if (job.isWhole && state.isAlive) {
      await this.#belongings.revive(job.sensorId, state.name, job.askedMs)
    }
    if (state.phase === 'again') {
      if (state.waitsFor) await this.#dropDesired(job, state)
      if (state.waitsFor) {
        await this.#save(job, state)
        return BROKER_RETRY_MS
      }
      await this.#enter(job, state, 'done')
      return Number.POSITIVE_INFINITY
    }
    // Where first and last times are forgotten, what came meanwhile is found after the next look.
    if (state.phase === 'look' || !isForgotten(job, state)) state.goneMs = this.#clock.wallNow()
    const isHeard = isForgotten(job, state) || Object.keys(state.eras).length > 0
    return this.#enter(job, state, state.phase === 'delete' && isHeard ? 'tell' : 'settle')
  }

  /** The state, as it is now ours. @param {Job} job */
  async #take(job) {
    if (this.#state) {
      if (job.state?.runner !== this.#runner) throw new TakenOver()
      return this.#state
    }
    /** @type {State} */
    const state = {
      covers: {},
      ...(job.state ?? { phase: 'delete', eras: {}, updatedMs: 0 }),
      runner: this.#runner,
    }
    this.#state = state
    this.#sinceMs = this.#now()
    await this.#save(job, state)
    return state
  }

  /** @param {Job} job  @param {State} state  @param {Phase} phase */
  async #enter(job, state, phase) {
    state.phase = phase
    state.metric = undefined
    state.atMs = undefined
    state.isDropped = undefined
    state.letters = undefined
    this.#sinceMs = this.#now()
    await this.#save(job, state)
    return 0
  }

  /** @param {Job} job  @param {State} state */
  async #save(job, state) {
    state.updatedMs = this.#clock.wallNow()
    await this.#store.save(job, state)
  }

  /**
   * Deletes some more.
   *
   * @param {Job} job
   * @param {State} state
   * @returns {Promise<boolean>}  False if nothing is left.
   */
  async #dropMore(job, state) {
    if (job.isWhole && !state.isDropped) {
      await this.#dropSensor(job, state)
      return true
    }
    if (await this.#deleteMore(job, state)) return true
    // What comes of it is read again a last time: a spool may have been emptied meanwhile.
    if (!job.isWhole || state.phase === 'look') return false
    const { letters = 0 } = state
    const day = letters - LETTER_PARTITIONS
    if (day >= ALERT_DAYS) return false
    const startMs = this.#now()
    const { sensorId, askedMs } = job
    if (day < 0) await this.#belongings.dropLetters(sensorId, askedMs, letters)
    else await this.#belongings.dropAlerts(sensorId, askedMs, day, state.phase === 'again')
    state.letters = letters + 1
    await this.#save(job, state)
    await this.#rest(this.#now() - startMs)
    return true
  }

  /**
   * The sensor first: who hears that it is gone registers it anew.
   *
   * @param {Job} job
   * @param {State} state
   */
  async #dropSensor(job, state) {
    const { sensorId } = job
    if (state.phase === 'delete' && state.name === undefined) {
      state.name = await this.#belongings.name(sensorId)
      await this.#save(job, state)
    }
    await this.#belongings.drop(sensorId, deletionStampUs(job))
    await this.#dropDesired(job, state)
    state.isDropped = true
    await this.#save(job, state)
    this.#onEra(job, state)
  }

  /**
   * Without a broker all the rest is deleted first.
   *
   * @param {Job} job
   * @param {State} state
   */
  async #dropDesired(job, state) {
    const isTold = await this.#belongings.dropDesired(job.sensorId, deletionStampUs(job))
    state.waitsFor = isTold ? undefined : 'broker'
  }

  /**
   * Deletes the next week of a series.
   *
   * @param {Job} job
   * @param {State} state
   * @returns {Promise<boolean>}  False if nothing is left.
   */
  async #deleteMore(job, state) {
    const { sensorId, metrics } = job
    const startMs = this.#now()
    const [extents, layouts, left] = await Promise.all([
      this.#extents(sensorId, state),
      this.#store.layouts(sensorId),
      this.#store.left(sensorId),
    ])
    const extent = nextSeries(extents, metrics, state)
    if (!extent || layouts.length === 0) return false
    const { metric } = extent
    const asked = { fromMs: job.fromMs ?? extent.fromMs, toMs: job.toMs ?? extent.toMs }
    const range = overlap(asked, extent)
    if (state.metric === metric) range.fromMs = Math.max(range.fromMs, Number(state.atMs))
    const chunk = nextChunk(range)
    if (chunk) {
      for (const span of partitionsOf(layouts, left, chunk)) {
        await this.#store.dropRows(sensorId, metric, span, deletionStampUs(job))
        this.#counts.partitions++
        if (state.phase !== 'delete') await this.#coverLeft(sensorId, state, extent, span)
        if (this.#isStopped()) throw new Error('the service stops')
      }
      await this.#dropRollups(sensorId, metric, layouts, chunk)
    }
    const isMore = chunk !== undefined && chunk.toMs < range.toMs
    if (!isMore) {
      await this.#repairLatest(job, state, extent, layouts)
      const cover = state.covers[metric]
      if (cover) await this.#store.dropCover(sensorId, metric, cover, deletionStampUs(job))
    }
    state.metric = metric
    state.atMs = isMore ? chunk.toMs : undefined
    await this.#save(job, state)
    // Live traffic goes first.
    await this.#rest(this.#now() - startMs)
    return true
  }

  /**
   * Of series with something to delete. One of which all was deleted has no first and last time,
   * or later ones.
   *
   * @param {string} sensorId
   * @param {State} state
   */
  async #extents(sensorId, { covers: forgotten, reach }) {
    const extents = await this.#store.extents(sensorId)
    return extents
      .map((extent) => {
        return reach && extent.metric in forgotten ? { ...extent, ...union(extent, reach) } : extent
      })
      .filter(({ fromMs, toMs }) => fromMs < toMs)
  }

  /**
   * Has readers find what came after the deletion from a process that did not know yet that first
   * and last times were forgotten.
   *
   * @param {string} sensorId
   * @param {State} state
   * @param {Extent} extent
   * @param {import('@sandglass/common/spans').Span} span
   */
  async #coverLeft(sensorId, state, { metric, coverEra }, span) {
    const era = state.covers[metric]
    if (era === undefined) return
    const times = await this.#store.times(sensorId, metric, span)
    if (!times) return
    state.isAlive = true
    await this.#store.cover(sensorId, metric, times, Math.max(era, coverEra))
  }

  /**
   * Deletes rollups of hours and days of which rows were deleted. What is left of these is marked
   * dirty before, so that readers look at the raw rows until it is summed up again; of whole hours
   * nothing is left, which is what no rollup says.
   *
   * @param {string} sensorId
   * @param {string} metric
   * @param {readonly Layout[]} layouts
   * @param {Range} range
   */
  async #dropRollups(sensorId, metric, layouts, range) {
    await this.#clock.ready
    const parts = [range]
    for (let part = parts.pop(); part; part = parts.pop()) {
      const beganMs = this.#now()
      await this.#dropRollupsOnce(sensorId, metric, layouts, part)
      if (this.#isStopped()) throw new Error('the service stops')
      if (this.#now() - beganMs <= MARKED_MS_MAX) continue
      const halves = halvesOf(part)
      // It is tried again after a pause, and other deletions have their turn.
      if (!halves) throw new Error('the database takes too long for the rollups of an hour')
      parts.push(...halves)
    }
  }

  /**
   * @param {string} sensorId
   * @param {string} metric
   * @param {readonly Layout[]} layouts
   * @param {Range} range
   */
  async #dropRollupsOnce(sensorId, metric, layouts, range) {
    const { hours, days, cutDays } = touched(range)
    const shard = shardOf(sensorId)
    const version = await this.#versionFor(shard)
    /** @type {Set<number>} */
    const dirty = new Set(cutDays.map(({ hourMs }) => hourMs))
    for await (const hourMs of this.#rollups.rawHours({ sensorId, metric }, layouts, hours)) {
      dirty.add(hourMs)
    }
    await this.#mark(shard, MARK.hour, HOUR_MS, [...dirty], { sensorId, metric })
    const cut = cutDays.map(({ dayMs }) => dayMs)
    await this.#mark(shard, MARK.day, DAY_MS, cut, { sensorId, metric })
    for (const level of LEVELS) {
      const which = level === DAYS ? days : hours
      await this.#store.dropRollups(level, sensorId, metric, which, version * 1000 + 999)
    }
  }

  /**
   * The version of rollups that are deleted: whoever sums up now what he read before has an earlier
   * one; who begins to sum up what is marked after this has a later one.
   *
   * @param {number} shard
   */
  async #versionFor(shard) {
    const nowMs = this.#clock.now()
    const progress = await this.#rollups.progress(shard)
    if (!progress || progress.version <= nowMs) return nowMs
    // The clock was ahead once, and versions never fall. What is summed up meanwhile by an earlier
    // version than the one that is set here is summed up again, for `doneMs` is not saved with it.
    const version = progress.version + SLOT_MS
    await this.#rollups.setProgress(shard, { ...progress, version: version + 1 })
    return version
  }

  /**
   * @param {number} shard
   * @param {number} level
   * @param {number} lengthMs
   * @param {readonly number[]} starts
   * @param {{ sensorId: string, metric: string }} series
   */
  async #mark(shard, level, lengthMs, starts, series) {
    const nowMs = this.#clock.now()
    /** @type {Map<number, number[]>} */
    const bySlot = new Map()
    for (const startMs of starts) {
      const slotMs = slotFor(startMs + lengthMs, nowMs)
      bySlot.set(slotMs, [...(bySlot.get(slotMs) ?? []), startMs])
    }
    for (const [slotMs, some] of bySlot) {
      const windows = some.map((startMs) => ({ ...series, startMs }))
      await this.#rollups.markDirty(shard, slotMs, level, windows)
    }
  }

  /**
   * Where the newest value was deleted, the newest of those that are left takes its place.
   *
   * @param {Job} job
   * @param {State} state
   * @param {Extent} extent
   * @param {readonly Layout[]} layouts
   */
  async #repairLatest(job, state, extent, layouts) {
    const { sensorId } = job
    const { metric } = extent
    const shown = await this.#store.latest(sensorId, metric)
    const isAll = takesAll(job, extent) && state.covers[metric] === undefined
    if (isAll || (shown && covers(job, { metric, ...shown }))) {
      const era = Math.max(extent.era, extent.coverEra, state.eras[metric] ?? 0) + 1
      if (era > ERAS_MAX) throw new Error(`${metric} was deleted ${ERAS_MAX} times, which is over`)
      state.eras[metric] = era
      await this.#store.setEra(sensorId, metric, era)
      if (isAll) {
        state.covers[metric] = era
        state.reach = union(extent, state.reach ?? extent)
        await this.#store.setCoverEra(sensorId, metric, era)
      }
      // Others hear of it from the state; what they write before is hidden, and written again.
      await this.#save(job, state)
      this.#onEra(job, state)
      await this.#store.dropLatest(sensorId, metric, eraStart(era).subtract(1))
    }
    if (metric in state.eras) await this.#showNewest(sensorId, state, extent, layouts)
  }

  /** @param {Job} job  @param {State} state */
  async #showAgain({ sensorId }, state) {
    const layouts = await this.#store.layouts(sensorId)
    for (const extent of await this.#store.extents(sensorId)) {
      if (extent.metric in state.eras) await this.#showNewest(sensorId, state, extent, layouts)
    }
  }

  /**
   * @param {string} sensorId
   * @param {State} state
   * @param {Extent} extent
   * @param {readonly Layout[]} layouts
   */
  async #showNewest(sensorId, { eras }, extent, layouts) {
    const era = Math.max(eras[extent.metric], extent.era)
    await this.#store.showNewest(sensorId, extent, layouts, era)
  }
}

/** Whether first and last times are. @param {Job} job  @param {State} state */
function isForgotten({ isWhole }, { covers: forgotten }) {
  return isWhole || Object.keys(forgotten).length > 0
}

/** @param {Range} a  @param {Range} b  @returns {Range} */
function union(a, b) {
  return { fromMs: Math.min(a.fromMs, b.fromMs), toMs: Math.max(a.toMs, b.toMs) }
}

/**
 * The series to go on with, in the order of their metrics.
 *
 * @param {readonly Extent[]} extents
 * @param {string[] | null} metrics
 * @param {State} state
 */
function nextSeries(extents, metrics, state) {
  const wanted = extents.filter(({ metric }) => !metrics || metrics.includes(metric))
  const isLeft = (/** @type {Extent} */ { metric }) =>
    state.metric === undefined ||
    metric > state.metric ||
    (metric === state.metric && state.atMs !== undefined)
  return wanted.sort((a, b) => (a.metric < b.metric ? -1 : 1)).find(isLeft)
}
