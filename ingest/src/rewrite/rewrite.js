/**
 * Rewrites what is stored of a sensor into another retention class, while it is written and read.
 *
 * ```text
 * announce ─▶ settle ─▶ copy ─▶ wait ─▶ clean ─▶ announce … ─▶ later ─▶ announce … ─▶ done
 *     ▲
 *   claim ◀─ after a restart, from anywhere
 * ```
 *
 * `claim`: the process that did it before may not be dead; until it has heard that it is another's.
 * `announce`: from now on rows are stored in both places. `settle`: until every process knows that,
 * and what others wrote is durable. `copy`: rows of one slice of event time after the other are
 * copied, and then readers are told to look there. `wait`: until nobody reads by what was told
 * before. `clean`: what was left is deleted. `later`: the newest rows are rewritten when they are
 * past. ADR 0021 has the argument.
 */

import { HOUR_MS, startOf } from '@sandglass/common/rollup'
import {
  bucketOf,
  GENERATIONS_MAX,
  generationOffset,
  retentionClass,
} from '@sandglass/common/schema'
import { TakenOver } from '../jobs/jobs.js'
import { SETTLE_MS, SETTLED_MS } from '../sensors/placement.js'
import {
  announced,
  generationAfter,
  isDeadBucket,
  isDeadRow,
  isSamePlace,
  leftBy,
  pieces,
  rewriteUntil,
  switched,
} from './layouts.js'
import { ttlLeftS } from './store.js'

/** How much longer it waits for whoever did it before, and for readers of older layouts. */
const CLAIM_FACTOR = 2
const READERS_FACTOR = 12

/** How old events are at least that are rewritten, in milliseconds: of now too many come. */
const REWRITTEN_AGE_MS = 2 * SETTLED_MS

/** Rows after which readers are told; of a slice that is longer the bucket is read to its end. */
export const SLICE_ROWS = 50_000

/** A slice that takes longer is begun anew: rows that it copied may have expired since. */
export const SLICE_MS_MAX = HOUR_MS

/**
 * So long rows are stored in both places, and until the slice at hand is copied, before that begins
 * anew, in milliseconds. In the old class they do not expire meanwhile, which they would if it went
 * on for a week; then readers would miss them, and find them again in the new one.
 */
export const ANNOUNCED_MS_MAX = 12 * HOUR_MS

/** Most rows that are copied in a second: live traffic goes first. */
const ROWS_PER_S_MAX = 5_000

/** How often it is looked whether it is later, in milliseconds. */
const LATER_MS = 60_000

/** @typedef {import('@sandglass/common/schema').Layout} Layout */
/** @typedef {import('@sandglass/common/schema').Place} Place */
/** @typedef {import('./store.js').RewriteStore} RewriteStore */
/** @typedef {import('./store.js').StoredRow} StoredRow */
/** @typedef {'claim' | 'announce' | 'settle' | 'copy' | 'wait' | 'clean' | 'later'} Step */
/** @typedef {Step | 'done' | 'cancelled'} Phase */

/**
 * How far a rewrite has come, as it is stored.
 *
 * @typedef {object} State
 * @property {string} runner  The process that does it.
 * @property {number} askedMs  Which wish it is for.
 * @property {string | null} className
 * @property {Phase} phase
 * @property {number} generation
 * @property {number} stampUs  Of the last change of layouts.
 * @property {import('./layouts.js').Left[]} left
 * @property {number} rows  Copied.
 * @property {number} expired  Not copied: in the new class they are too old.
 * @property {number | null} untilMs  Event time up to which readers look in the new class.
 * @property {number} updatedMs
 */

/** How long it waits, and how much it does at once. */
/** @typedef {{ claimMs: number, settleMs: number, readersMs: number, sliceRows: number }} Times */

/**
 * @param {number} [settleMs]  Longer than a process places rows by layouts that it read before.
 * @returns {Times}  With those also longer than a process stops between two requests, and than
 *   anybody reads by layouts that he read before, by far.
 */
export function timesOf(settleMs = SETTLE_MS) {
  return {
    claimMs: CLAIM_FACTOR * settleMs,
    settleMs,
    readersMs: READERS_FACTOR * settleMs,
    sliceRows: SLICE_ROWS,
  }
}

export class Rewrite {
  #store
  #sensorId
  #runner
  #now
  #wallNow
  #rest
  #counts
  #isStopped
  #times
  /** @type {State | undefined} */
  #state
  /** When the phase began, by the clock that only goes forward. */
  #sinceMs = 0
  /** When rows began to be stored in both places, by the same clock. */
  #announcedMs = 0
  /** When the slice was begun of which rows are copied, by both clocks. */
  #slice = /** @type {{ ms: number, wallMs: number } | undefined} */ (undefined)

  /**
   * @param {object} parts
   * @param {RewriteStore} parts.store
   * @param {string} parts.sensorId
   * @param {string} parts.runner  A UUID of this run of the process.
   * @param {() => number} parts.now  A clock that only goes forward, in milliseconds.
   * @param {() => number} parts.wallNow  Milliseconds since the Unix epoch.
   * @param {(ms: number) => Promise<void>} parts.rest
   * @param {{ rows: number, expired: number, deleted: number }} parts.counts
   * @param {() => boolean} parts.isStopped
   * @param {Times} parts.times
   */
  constructor(parts) {
    this.#store = parts.store
    this.#sensorId = parts.sensorId
    this.#runner = parts.runner
    this.#now = parts.now
    this.#wallNow = parts.wallNow
    this.#rest = parts.rest
    this.#counts = parts.counts
    this.#isStopped = parts.isStopped
    this.#times = parts.times
  }

  /** Which wish it works on. */
  get askedMs() {
    return this.#state?.askedMs
  }

  /**
   * Does what can be done now.
   *
   * @param {import('./store.js').Job} job  As it is stored.
   * @returns {Promise<number>}  When to come back, in milliseconds; `Infinity` when it is over.
   * @throws {TakenOver}
   */
  async step(job) {
    const state = await this.#take(job)
    switch (state.phase) {
      case 'claim':
        return this.#after(this.#times.claimMs, state, 'announce')
      case 'announce':
        return this.#announce(state)
      case 'settle':
        return this.#after(this.#times.settleMs, state, 'copy')
      case 'copy':
        return this.#copy(state)
      case 'wait':
        return this.#after(this.#times.readersMs, state, 'clean')
      case 'clean':
        return this.#clean(state)
      case 'later':
        return this.#enter(state, 'announce')
      default:
        return Infinity
    }
  }

  /** The state, as it is now ours. @param {import('./store.js').Job} job */
  async #take({ askedMs, className, state: stored }) {
    if (this.#state && stored?.runner !== this.#runner) throw new TakenOver()
    const known = this.#state ?? stored
    /** @type {State} */
    const state = known ?? {
      runner: this.#runner,
      askedMs: 0,
      className,
      phase: 'announce',
      generation: 0,
      stampUs: 0,
      left: [],
      rows: 0,
      expired: 0,
      untilMs: null,
      updatedMs: 0,
    }
    const isNew = state.askedMs !== askedMs
    if (isNew) Object.assign(state, { askedMs, className, rows: 0, expired: 0, untilMs: null })
    const isOver = state.phase === 'done' || state.phase === 'cancelled'
    if (isNew || (!this.#state && !isOver)) {
      const isOthers = known !== undefined && !isOver && known.runner !== this.#runner
      state.runner = this.#runner
      this.#state = state
      // Whoever begins knows nothing of what was on its way: all have to hear of it again.
      await this.#enter(state, isOthers ? 'claim' : 'announce')
    }
    this.#state = state
    return state
  }

  /** @param {State} state  @param {Phase} phase  @param {number} [comeBackMs] */
  async #enter(state, phase, comeBackMs = 0) {
    state.phase = phase
    this.#slice = undefined
    this.#sinceMs = this.#now()
    await this.#save(state)
    return comeBackMs
  }

  /** @param {State} state */
  async #save(state) {
    state.updatedMs = this.#wallNow()
    await this.#store.save(this.#sensorId, state)
  }

  /** @param {number} ms  @param {State} state  @param {Phase} phase */
  async #after(ms, state, phase) {
    const leftMs = this.#sinceMs + ms - this.#now()
    return leftMs > 0 ? leftMs : this.#enter(state, phase)
  }

  /** Nobody else has begun with it meanwhile. */
  async #requireOurs() {
    const job = await this.#store.job(this.#sensorId)
    if (job?.state?.runner !== this.#runner) throw new TakenOver()
    return job
  }

  /** @param {State} state */
  async #announce(state) {
    const { layouts, writtenUs } = await this.#store.layouts(this.#sensorId)
    noteLeft(state, leftBy(layouts))
    const { className } = state
    const pastMs = startOf(this.#wallNow() - REWRITTEN_AGE_MS, HOUR_MS)
    const untilMs =
      className === null
        ? Number.NEGATIVE_INFINITY
        : rewriteUntil(layouts, className, startOf(state.askedMs, HOUR_MS))
    const toMs = Math.min(pastMs, untilMs)
    const wanted = className ?? ''
    const isDue = (/** @type {number} */ endMs) =>
      layouts.some((layout) => layout.className !== wanted && layout.fromMs < endMs)
    const generation = generationAfter(layouts, state.generation)
    const change = announced(layouts, wanted, toMs, generation)
    const stampUs = Math.max(state.stampUs, writtenUs, this.#wallNow() * 1000) + 1
    if (!isDue(toMs)) {
      if (change.put.length > 0) await this.#store.change(this.#sensorId, change, stampUs)
      if (state.left.length > 0) return this.#enter(state, 'wait')
      if (className === null) return this.#enter(state, 'cancelled', Infinity)
      return this.#enter(state, isDue(untilMs) ? 'later' : 'done', LATER_MS)
    }
    // What would be small pieces of the last day is done at once, when it is over.
    const isRest = state.untilMs !== null && untilMs > pastMs && state.left.length === 0
    if (isRest) return this.#enter(state, 'later', LATER_MS)
    if (generation > GENERATIONS_MAX) {
      throw new Error(`a sensor can be rewritten ${GENERATIONS_MAX} times, which is over`)
    }
    Object.assign(state, { generation, stampUs })
    await this.#save(state)
    this.#announcedMs = this.#now()
    await this.#store.change(this.#sensorId, change, stampUs)
    return this.#enter(state, 'settle')
  }

  /** Copies one slice, and has readers look there. @param {State} state */
  async #copy(state) {
    const { layouts } = await this.#store.layouts(this.#sensorId)
    const found = pieces(layouts).find(
      ({ layout: { next } }) => next?.generation === state.generation,
    )
    if (!found) return this.#enter(state, state.left.length > 0 ? 'wait' : 'announce')
    const layout = /** @type {Layout & { next: Place }} */ (found.layout)
    // Before the first row of it is: should this process die, it is known what to clean.
    if (!state.left.some((left) => left.generation === state.generation)) {
      noteLeft(state, leftBy(layouts))
      await this.#save(state)
    }
    this.#slice ??= { ms: this.#now(), wallMs: this.#wallNow() }
    const slice = this.#slice
    const toMs = await this.#copySlice(state, layout, found.toMs)
    await this.#requireOurs()
    if (this.#now() - slice.ms > SLICE_MS_MAX) return this.#enter(state, 'announce')
    const { ttlS } = retentionClass(layout.className)
    const lostMs = ttlS > 0 ? slice.wallMs - ttlS * 1000 + SLICE_MS_MAX : undefined
    state.stampUs += 1
    const change = switched(layouts, layout, toMs, lostMs)
    await this.#store.change(this.#sensorId, change, state.stampUs)
    this.#slice = undefined
    state.untilMs = toMs
    if (this.#now() - this.#announcedMs > ANNOUNCED_MS_MAX) return this.#enter(state, 'announce')
    await this.#save(state)
    return 0
  }

  /**
   * @param {State} state
   * @param {Layout & { next: Place }} layout
   * @param {number} endMs  Of the layout.
   * @returns {Promise<number>}  Up to which event time all is copied.
   */
  async #copySlice(state, layout, endMs) {
    const extent = await this.#store.extent(this.#sensorId)
    if (!extent) return endMs
    const lastMs = Math.min(endMs, extent.toMs)
    let atMs = Math.max(layout.fromMs, extent.fromMs)
    for (let copied = 0; atMs < lastMs; ) {
      if (copied >= this.#times.sliceRows) return atMs
      const bucket = bucketOf(layout.bucketS, atMs)
      const toMs = Math.min((bucket + layout.bucketS) * 1000, endMs)
      copied += await this.#copyBucket(state, layout, bucket, { fromMs: atMs, toMs })
      atMs = toMs
    }
    return endMs
  }

  /**
   * @param {State} state
   * @param {Layout & { next: Place }} layout
   * @param {number} bucket
   * @param {import('@sandglass/common/spans').Range} range
   */
  async #copyBucket(state, layout, bucket, { fromMs, toMs }) {
    const number = bucket + generationOffset(layout)
    let copied = 0
    let startMs = this.#now()
    for await (const page of this.#store.rows(this.#sensorId, layout.className, number)) {
      const rows = page.filter(({ timeMs }) => timeMs >= fromMs && timeMs < toMs)
      const lasting = await this.#copyRows(layout, rows)
      copied += rows.length
      state.rows += lasting
      state.expired += rows.length - lasting
      this.#counts.rows += lasting
      this.#counts.expired += rows.length - lasting
      await this.#pause(startMs, page.length)
      startMs = this.#now()
    }
    await this.#pause(startMs, 0)
    return copied
  }

  /**
   * @param {Layout & { next: Place }} layout
   * @param {StoredRow[]} rows
   * @returns {Promise<number>}  How many live on.
   */
  async #copyRows(layout, rows) {
    const nowMs = this.#wallNow()
    /** @type {{ row: StoredRow, ttlS: number, stampUs: number }[]} */
    const copies = []
    /** Those that would expire before readers look elsewhere. @type {typeof copies} */
    const kept = []
    for (const row of rows) {
      const ttlS = ttlLeftS(layout.next.className, row.receivedMs, nowMs)
      if (ttlS === undefined) continue
      copies.push({ row, ttlS, stampUs: row.receivedMs * 1000 })
      const leftS = ttlLeftS(layout.className, row.receivedMs, nowMs) ?? 1
      const enoughS = (2 * SLICE_MS_MAX) / 1000
      const lives = ttlS === 0 ? enoughS : Math.min(ttlS, enoughS)
      if (leftS > 0 && leftS < lives) {
        kept.push({ row, ttlS: lives, stampUs: row.receivedMs * 1000 + 1 })
      }
    }
    await this.#store.put(this.#sensorId, layout.next, copies)
    await this.#store.put(this.#sensorId, layout, kept)
    return copies.length
  }

  /** Deletes what nobody reads any more. @param {State} state */
  async #clean(state) {
    const stampUs = this.#wallNow() * 1000
    const extent = await this.#store.extent(this.#sensorId)
    const { layouts } = await this.#store.layouts(this.#sensorId)
    for (const left of extent ? state.left : []) {
      const { fromMs, toMs } = /** @type {NonNullable<typeof extent>} */ (extent)
      const endMs = Math.min(left.toMs ?? Infinity, toMs)
      for (let atMs = Math.max(left.fromMs, fromMs); atMs < endMs; ) {
        const bucket = bucketOf(left.bucketS, atMs)
        await this.#cleanBucket(layouts, left, bucket, stampUs)
        atMs = (bucket + left.bucketS) * 1000
      }
    }
    await this.#requireOurs()
    state.left = []
    return this.#enter(state, 'announce')
  }

  /**
   * @param {readonly Layout[]} layouts
   * @param {Place} place
   * @param {number} bucket
   * @param {number} stampUs
   */
  async #cleanBucket(layouts, place, bucket, stampUs) {
    const { className } = place
    const number = bucket + generationOffset(place)
    const isDead = isDeadBucket(layouts, place, bucket)
    let startMs = this.#now()
    for await (const page of this.#store.rows(this.#sensorId, className, number)) {
      await this.#requireOurs()
      if (isDead) {
        await this.#store.dropPartition(this.#sensorId, className, number, stampUs)
        this.#counts.deleted++
        break
      }
      const rows = page.filter(({ timeMs }) => isDeadRow(layouts, place, number, timeMs))
      await this.#store.dropRows(this.#sensorId, className, number, rows, stampUs)
      this.#counts.deleted += rows.length
      await this.#pause(startMs, page.length)
      startMs = this.#now()
    }
    await this.#pause(startMs, 0)
  }

  /** Rests as long as it worked, or longer. @param {number} startMs  @param {number} rows */
  async #pause(startMs, rows) {
    const workedMs = this.#now() - startMs
    await this.#rest(Math.max(workedMs, (1000 * rows) / ROWS_PER_S_MAX - workedMs))
    if (this.#isStopped()) throw new Error('the service stops')
  }
}

/** @param {State} state  @param {import('./layouts.js').Left[]} more */
function noteLeft({ left }, more) {
  for (const one of more) {
    const isNoted = left.some(
      (other) => isSamePlace(one, other) && other.fromMs <= one.fromMs && other.toMs >= one.toMs,
    )
    if (!isNoted) left.push(one)
  }
}
