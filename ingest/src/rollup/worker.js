/**
 * Works dirty hours off: slot by slot of each shard that is this process's, in order, again from
 * the beginning of a slot after a crash or a failure. Readers hear of it by how far each shard has
 * come.
 */

import {
  DAY_MS,
  MARK,
  MARK_LIFE_MS,
  ROLLUP_SHARDS,
  SLOT_GRACE_MS,
  SLOT_MS,
  SLOTS_AHEAD_MS,
  STEP_BACK_MS_MAX,
  slotFor,
  startOf,
} from '@sandglass/common/rollup'
import { WORKER_TTL_S } from '@sandglass/common/schema'
import { beginning } from './begin.js'
import { shardsOf } from './owners.js'
import { SlotClock } from './slot-clock.js'
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

/** Slots of one question whether they have marks. */
const SLOTS_AT_ONCE = 90

/** @typedef {import('./store.js').RollupStore} RollupStore */
/** @typedef {import('./store.js').Progress} Progress */
/** @typedef {import('./store.js').Window} Window */
/** @typedef {import('@sandglass/common/schema').Layout} Layout */
/** @typedef {{ layouts: Layout[], readMs: number }} KnownLayouts */

export class RollupWorker {
  counts = { windows: 0, expired: 0, failures: 0, begun: 0 }
  #store
  #id
  #logger
  #clock
  #sleep
  /** By the clock that only goes forward, as all times of beats. */
  #startedMs
  #beatMs = Number.NEGATIVE_INFINITY
  /** The shards that are ours. @type {number[]} */
  #shards = []
  /** How far each of them has come. @type {Map<number, number>} */
  #done = new Map()
  #isClosed = false
  /** How often the slot clock had followed when we looked last. @type {number | undefined} */
  #resets
  #ready

  /**
   * @param {object} parts
   * @param {RollupStore} parts.store
   * @param {string} parts.id  A UUID of this run of the process.
   * @param {import('pino').Logger} parts.logger
   * @param {SlotClock} [parts.clock]  By which this process marks hours.
   * @param {(ms: number) => Promise<void>} [parts.sleep]
   */
  constructor({ store, id, logger, clock = new SlotClock(), sleep = sleepMs }) {
    this.#store = store
    this.#id = id
    this.#logger = logger
    this.#clock = clock
    this.#sleep = sleep
    this.#startedMs = clock.steadyNow()
    this.#ready = clock.prepare()
  }

  /** How long ago the slots ended that are not worked off, in seconds; of the worst shard. */
  get lagS() {
    if (this.#done.size === 0) return 0
    return Math.max(0, this.#clock.wallNow() - Math.min(...this.#done.values())) / 1000
  }

  /** Whether a shard is ours. @param {number} shard */
  owns(shard) {
    return this.#shards.includes(shard)
  }

  /** How long nothing is worked off because the clock stepped back, in seconds. */
  get clockWaitS() {
    return this.#clock.waitMs / 1000
  }

  /** How many shards are ours. */
  get shardCount() {
    return this.#shards.length
  }

  /** Works until it is stopped. */
  async run() {
    while (!this.#isClosed) {
      try {
        await this.turn()
        await this.#sleep(TURN_MS)
      } catch (error) {
        this.counts.failures++
        const { message } = /** @type {Error} */ (error)
        if (!this.#isClosed) this.#logger.debug({ reason: message }, 'rollups have to wait')
        await this.#sleep(RETRY_MS)
      }
    }
  }

  /** Hands the work over to the others. */
  async stop() {
    this.#isClosed = true
    await this.#store.leave(this.#id).catch(() => {})
  }

  /** Works off what is due. */
  async turn() {
    this.#clock.now()
    if (this.#resets !== this.#clock.resets) await this.#look()
    await this.#meet()
    for (const shard of this.#shards) {
      try {
        await this.#advance(shard)
      } catch (error) {
        // How far it has come in memory may not be durable, or not be true.
        this.#done.delete(shard)
        throw error
      }
      await this.#meet()
    }
  }

  /**
   * Hears how far all shards have come, whoever works on them, before this process marks hours: the
   * clock may have stepped back since. By too much, no shard has come anywhere.
   */
  async #look() {
    const clock = this.#clock
    const { resets } = clock
    for (let shard = 0; shard < ROLLUP_SHARDS; shard++) {
      const progress = await this.#store.progress(shard)
      if (!progress) continue
      if (this.#resets === undefined) clock.noteDone(progress.doneMs)
      if (!this.#isAhead(progress)) continue
      const version = Math.max(progress.version, progress.doneMs) + SLOT_MS
      await this.#store.setProgress(shard, { doneMs: 0, version })
      this.#done.delete(shard)
    }
    this.#resets = resets
    this.#ready()
  }

  /** Whether slots were worked off that are still to come. @param {Progress} progress */
  #isAhead({ doneMs }) {
    return doneMs > this.#clock.now() + SLOT_MS
  }

  /** Whether nothing tells which hours have changed. @param {{ doneMs: number }} progress */
  #isLost({ doneMs }) {
    const wallMs = this.#clock.wallNow()
    const isBehind = this.#clock.waitMs >= SLOTS_AHEAD_MS && doneMs <= wallMs + STEP_BACK_MS_MAX
    // Marks have expired; or some lie too far ahead for readers, who do not know of the step.
    return doneMs < wallMs - MARK_LIFE_MS || isBehind
  }

  /** Says that this process lives, and hears which others do. */
  async #meet() {
    const nowMs = this.#clock.steadyNow()
    if (nowMs - this.#beatMs < BEAT_MS) return
    await this.#store.beat(this.#id, this.#clock.wallNow())
    const ids = (await this.#store.workers()).sort()
    this.#beatMs = nowMs
    const isAlone = ids.length === 1
    const isHeardOf = isAlone || nowMs - this.#startedMs >= SETTLE_MS
    this.#shards = isHeardOf ? shardsOf(this.#id, ids) : []
    for (const shard of this.#done.keys()) {
      if (!this.#shards.includes(shard)) this.#done.delete(shard)
    }
  }

  /** @param {number} shard */
  async #advance(shard) {
    const clock = this.#clock
    clock.now()
    const { stepsBack } = clock
    const nowMs = clock.wallNow()
    const known = this.#done.get(shard) ?? Number.NEGATIVE_INFINITY
    if (known + SLOT_MS + SLOT_GRACE_MS > nowMs && !this.#isLost({ doneMs: known })) return
    /** @param {Progress} progress */
    const save = async (progress) => {
      clock.now()
      // What is stored since may lie in slots that were looked at before the step.
      if (clock.stepsBack !== stepsBack) throw new Error('the clock stepped back')
      await this.#store.setProgress(shard, progress)
      this.#done.set(shard, progress.doneMs)
    }
    let progress = await this.#store.progress(shard)
    if (!progress || this.#isAhead(progress) || this.#isLost(progress)) {
      progress = await this.#begin(shard, progress, save)
    }
    this.#done.set(shard, progress.doneMs)
    await this.#workOffSlots(shard, progress, save)
  }

  /**
   * Works off the slots that are over, until the shard is another's.
   *
   * @param {number} shard
   * @param {Progress} progress
   * @param {(progress: Progress) => Promise<void>} save
   */
  async #workOffSlots(shard, progress, save) {
    let { doneMs, version } = progress
    let savedMs = doneMs
    const isOver = () => doneMs + SLOT_MS + SLOT_GRACE_MS <= this.#clock.wallNow()
    while (!this.#isClosed && isOver() && this.#shards.includes(shard)) {
      // While long ago is worked off, marks of not so long ago may expire.
      if (this.#isLost({ doneMs })) return
      const slots = [doneMs]
      const overMs = this.#clock.wallNow() - SLOT_MS - SLOT_GRACE_MS
      while (slots.length < SLOTS_AT_ONCE && slots[slots.length - 1] + SLOT_MS <= overMs) {
        slots.push(slots[slots.length - 1] + SLOT_MS)
      }
      const dirty = await this.#store.dirtySlots(shard, slots)
      for (const slotMs of slots) {
        if (this.#isClosed || !this.#shards.includes(shard)) return
        version = Math.max(slotMs + SLOT_MS + SLOT_GRACE_MS, version + 1)
        if (dirty.has(slotMs)) await this.#workOff(shard, slotMs, version, dirty)
        doneMs = slotMs + SLOT_MS
        if (dirty.has(slotMs)) {
          await save({ doneMs, version })
          savedMs = doneMs
        }
        await this.#meet()
      }
    }
    if (doneMs > savedMs) await save({ doneMs, version })
  }

  /**
   * Begins the work on a shard, or begins it anew.
   *
   * @param {number} shard
   * @param {Progress | undefined} before
   * @param {(progress: Progress) => Promise<void>} save
   */
  async #begin(shard, before, save) {
    const { progress, hours } = await beginning({
      store: this.#store,
      shard,
      before,
      clock: this.#clock,
      goOn: async () => {
        if (this.#isClosed) throw new Error('the service stops')
        await this.#meet()
        if (!this.#shards.includes(shard)) throw new Error('the shard is another process’s now')
      },
    })
    await save(progress)
    if (hours > 0) {
      this.counts.begun++
      this.#logger.info({ shard, hours }, 'all rollups of a part of the sensors are computed anew')
    }
    return progress
  }

  /**
   * @param {number} shard
   * @param {number} slotMs
   * @param {number} version  Of what is written.
   * @param {Set<number>} dirty  Slots that have marks. Those of days are added.
   */
  async #workOff(shard, slotMs, version, dirty) {
    /** @type {Map<string, KnownLayouts>} */
    const layouts = new Map()
    /** @type {Map<string, Window>} */
    const days = new Map()
    await this.#pool(this.#store.dirty(shard, slotMs, MARK.hour), async (window) => {
      const result = await this.#rollHour(window, layouts, version)
      // One that has expired may have been written before a crash, and its day not.
      if (result === 'empty') return
      const day = { ...window, startMs: startOf(window.startMs, DAY_MS) }
      const daySlotMs = slotFor(day.startMs + DAY_MS, slotMs)
      if (daySlotMs > slotMs) {
        await this.#store.markDirty(shard, daySlotMs, MARK.day, [day])
        dirty.add(daySlotMs)
      } else {
        days.set(`${day.sensorId} ${day.startMs} ${day.metric}`, day)
      }
    })
    await this.#pool(this.#store.dirty(shard, slotMs, MARK.day), async (day) => {
      days.set(`${day.sensorId} ${day.startMs} ${day.metric}`, day)
    })
    await this.#pool(generate(days.values()), async (day) => {
      const sumUpHour = (/** @type {Window} */ hour) => this.#rollHour(hour, layouts, version)
      const now = () => this.#clock.wallNow()
      this.#note(await rollDay(this.#store, day, version, { sumUpHour, now }))
    })
  }

  /** @param {Window} window  @param {Map<string, KnownLayouts>} known  @param {number} version */
  async #rollHour(window, known, version) {
    const before = known.get(window.sensorId)
    const isKnown = before && performance.now() - before.readMs < LAYOUTS_MS_MAX
    const readMs = isKnown ? before.readMs : performance.now()
    const layouts = isKnown ? before.layouts : await this.#store.layouts(window.sensorId)
    known.set(window.sensorId, { layouts, readMs })
    if (layouts.length === 0) return 'empty'
    const startMs = performance.now()
    const now = () => this.#clock.wallNow()
    const result = this.#note(await rollHour(this.#store, window, layouts, version, now))
    await this.#sleep(Math.min(performance.now() - startMs, REST_MS_MAX))
    return result
  }

  /** @param {import('./windows.js').Result} result */
  #note(result) {
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
   */
  async #pool(many, work) {
    const one = async () => {
      for (;;) {
        const { value, done } = await many.next()
        if (done) return
        if (this.#isClosed) throw new Error('the service stops')
        await work(value)
        await this.#meet()
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
