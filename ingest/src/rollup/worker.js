/**
 * Works marks off: slot by slot of each shard that is this process's, in order, again from the
 * beginning of a slot after a crash or a failure. What is done is told to readers by how far each
 * shard has come.
 */

import {
  DAY_MS,
  HOUR_MS,
  MARK,
  MARK_TTL_S,
  ROLLUP_SHARDS,
  SLOT_GRACE_MS,
  SLOT_MS,
  shardOf,
  slotFor,
  startOf,
} from '@sandglass/common/rollup'
import { WORKER_TTL_S } from '@sandglass/common/schema'
import { shardsOf } from './owners.js'
import { rollDay, rollHour } from './windows.js'

/** How often it is looked whether a slot is over, in milliseconds. */
const TURN_MS = 1_000

/** How often a process says that it lives, in milliseconds. */
const BEAT_MS = (WORKER_TTL_S * 1000) / 3

/** How long a process waits until others have heard of it, in milliseconds. */
const SETTLE_MS = BEAT_MS + 2_000

/** Pause after a failure, in milliseconds. */
const RETRY_MS = 1_000

/** Windows that are computed at the same time. */
const WINDOWS_AT_ONCE = 2

/**
 * How long layouts are believed that were read, in milliseconds: far less than it takes until a
 * rewrite deletes what they tell of (`READERS_MS`).
 */
const LAYOUTS_MS_MAX = 600_000

/** Longest rest after a window, in milliseconds: live traffic goes first. */
const REST_MS_MAX = 50

/** @typedef {import('./store.js').RollupStore} RollupStore */
/** @typedef {import('./store.js').Window} Window */
/** @typedef {import('@sandglass/common/schema').Layout} Layout */
/** @typedef {{ layouts: Layout[], readMs: number }} KnownLayouts */

export class RollupWorker {
  /**
   * @param {object} parts
   * @param {RollupStore} parts.store
   * @param {string} parts.id  A UUID of this run of the process.
   * @param {import('pino').Logger} parts.logger
   * @param {() => number} [parts.now]  Milliseconds since the Unix epoch.
   * @param {(ms: number) => Promise<void>} [parts.sleep]
   */
  constructor({ store, id, logger, now = Date.now, sleep = sleepMs }) {
    this.counts = { windows: 0, expired: 0, failures: 0 }
    /** @private */
    this.store = store
    /** @private */
    this.id = id
    /** @private */
    this.logger = logger
    /** @private */
    this.now = now
    /** @private */
    this.sleep = sleep
    /** @private */
    this.startedMs = now()
    /** @private */
    this.beatMs = Number.NEGATIVE_INFINITY
    /** The shards that are ours. @private @type {number[]} */
    this.shards = []
    /** How far each of them has come. @private @type {Map<number, number>} */
    this.done = new Map()
    /** @private */
    this.isClosed = false
  }

  /** How long ago the slots ended that are not worked off, in seconds; of the worst shard. */
  get lagS() {
    if (this.done.size === 0) return 0
    return Math.max(0, this.now() - Math.min(...this.done.values())) / 1000
  }

  /** Whether a shard is ours. @param {number} shard */
  owns(shard) {
    return this.shards.includes(shard)
  }

  /** How many shards are ours. */
  get shardCount() {
    return this.shards.length
  }

  /** Works until it is stopped. */
  async run() {
    while (!this.isClosed) {
      try {
        await this.turn()
        await this.sleep(TURN_MS)
      } catch (error) {
        this.counts.failures++
        const { message } = /** @type {Error} */ (error)
        if (!this.isClosed) this.logger.debug({ reason: message }, 'rollups have to wait')
        await this.sleep(RETRY_MS)
      }
    }
  }

  /** Hands the work over to the others. */
  async stop() {
    this.isClosed = true
    await this.store.leave(this.id).catch(() => {})
  }

  /** Works off what is due. */
  async turn() {
    await this.meet()
    for (const shard of this.shards) {
      await this.advance(shard)
      await this.meet()
    }
  }

  /** Says that this process lives, and hears which others do. @private */
  async meet() {
    const nowMs = this.now()
    if (nowMs - this.beatMs < BEAT_MS) return
    await this.store.beat(this.id, this.startedMs)
    const ids = (await this.store.workers()).sort()
    this.beatMs = nowMs
    const isAlone = ids.length === 1
    const isHeardOf = isAlone || nowMs - this.startedMs >= SETTLE_MS
    this.shards = isHeardOf ? shardsOf(this.id, ids) : []
    for (const shard of this.done.keys()) {
      if (!this.shards.includes(shard)) this.done.delete(shard)
    }
  }

  /** @private @param {number} shard */
  async advance(shard) {
    let doneMs = this.done.get(shard) ?? (await this.store.progress(shard))
    if (doneMs === undefined) {
      await this.begin()
      doneMs = /** @type {number} */ (await this.store.progress(shard))
    }
    // DirtyHours of before have expired.
    doneMs = Math.max(doneMs, startOf(this.now() - MARK_TTL_S * 1000, SLOT_MS))
    this.done.set(shard, doneMs)
    const fromMs = doneMs
    while (!this.isClosed && doneMs + SLOT_MS + SLOT_GRACE_MS <= this.now()) {
      const hadMarks = await this.workOff(shard, doneMs)
      doneMs += SLOT_MS
      if (hadMarks) await this.store.setProgress(shard, doneMs)
      this.done.set(shard, doneMs)
      await this.meet()
      if (!this.shards.includes(shard)) return
    }
    if (doneMs > fromMs) await this.store.setProgress(shard, doneMs)
  }

  /**
   * The first time ever: rows of before there were rollups have no marks.
   *
   * @private
   */
  async begin() {
    /** @type {Set<number>} */
    const fresh = new Set()
    for (let shard = 0; shard < ROLLUP_SHARDS; shard++) {
      if ((await this.store.progress(shard)) === undefined) fresh.add(shard)
    }
    await this.pool(this.store.hours(), async (window) => {
      const shard = shardOf(window.sensorId)
      if (!fresh.has(shard)) return
      const slotMs = slotFor(window.startMs + HOUR_MS, this.now())
      await this.store.mark(shard, slotMs, MARK.hour, window)
    })
    // Other processes may have begun to mark a little earlier.
    const doneMs = startOf(this.startedMs, SLOT_MS) - SLOT_MS
    for (const shard of fresh) await this.store.setProgress(shard, doneMs)
  }

  /**
   * @private
   * @param {number} shard
   * @param {number} slotMs
   * @returns {Promise<boolean>}  Whether there was something to do.
   */
  async workOff(shard, slotMs) {
    /** @type {Map<string, KnownLayouts>} */
    const layouts = new Map()
    /** @type {Map<string, Window>} */
    const days = new Map()
    let hadMarks = false
    await this.pool(this.store.marks(shard, slotMs, MARK.hour), async (window) => {
      hadMarks = true
      const result = await this.rollHour(window, layouts)
      if (result !== 'written') return
      const day = { ...window, startMs: startOf(window.startMs, DAY_MS) }
      const daySlotMs = slotFor(day.startMs + DAY_MS, slotMs)
      if (daySlotMs > slotMs) await this.store.mark(shard, daySlotMs, MARK.day, day)
      else days.set(`${day.sensorId} ${day.startMs} ${day.metric}`, day)
    })
    await this.pool(this.store.marks(shard, slotMs, MARK.day), async (day) => {
      hadMarks = true
      days.set(`${day.sensorId} ${day.startMs} ${day.metric}`, day)
    })
    await this.pool(generate(days.values()), async (day) => {
      this.note(await rollDay(this.store, day, this.now()))
    })
    return hadMarks
  }

  /** @private @param {Window} window  @param {Map<string, KnownLayouts>} known */
  async rollHour(window, known) {
    const before = known.get(window.sensorId)
    const isKnown = before && performance.now() - before.readMs < LAYOUTS_MS_MAX
    const readMs = isKnown ? before.readMs : performance.now()
    const layouts = isKnown ? before.layouts : await this.store.layouts(window.sensorId)
    known.set(window.sensorId, { layouts, readMs })
    if (layouts.length === 0) return 'empty'
    const startMs = performance.now()
    const result = this.note(await rollHour(this.store, window, layouts, this.now()))
    await this.sleep(Math.min(performance.now() - startMs, REST_MS_MAX))
    return result
  }

  /** @private @param {import('./windows.js').Result} result */
  note(result) {
    if (result === 'written') this.counts.windows++
    if (result === 'expired') this.counts.expired++
    return result
  }

  /**
   * Does something for each of many, a few at a time.
   *
   * @template T
   * @param {AsyncGenerator<T>} many
   * @param {(one: T) => Promise<unknown>} work
   * @private
   */
  async pool(many, work) {
    const one = async () => {
      for (;;) {
        const { value, done } = await many.next()
        if (done) return
        if (this.isClosed) throw new Error('the service stops')
        await work(value)
        await this.meet()
      }
    }
    await Promise.all(Array.from({ length: WINDOWS_AT_ONCE }, one))
  }
}

/** @template T  @param {Iterable<T>} many  @returns {AsyncGenerator<T>} */
async function* generate(many) {
  yield* many
}

/** @param {number} ms  @returns {Promise<void>} */
function sleepMs(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
