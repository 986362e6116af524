/**
 * Where the work on a shard begins when nothing tells which hours have changed: at the first start,
 * after longer than marks are kept, or when the clock was far ahead. Every hour that holds rows is
 * then marked dirty, which costs a question for each of them and for each empty partition between
 * the first and the last row of a series, and later a read of all raw rows.
 */

import {
  HOUR_MS,
  MARK,
  MARK_AHEAD_MS_MAX,
  SLOT_MS,
  slotFor,
  startOf,
} from '@sandglass/common/rollup'

/** How long marks were kept by versions whose progress has another key, in milliseconds. */
const MARK_MS_BEFORE = 3 * 24 * HOUR_MS

/** How far these may be behind so that all of their marks are there, in milliseconds. */
const BEHIND_MS_MAX = MARK_MS_BEFORE - MARK_AHEAD_MS_MAX - HOUR_MS

/** Marks that are written together. */
const MARKS_AT_ONCE = 100

/** Slots of one question whether they have marks. */
const SLOTS_AT_ONCE = 90

/** @typedef {import('./store.js').Window} Window */

/**
 * @typedef {object} Parts
 * @property {import('./store.js').RollupStore} store
 * @property {number} shard
 * @property {import('./store.js').Progress | undefined} before  What it stood at.
 * @property {import('./slot-clock.js').SlotClock} clock
 * @property {() => Promise<void>} goOn  Throws when the work is not ours any more.
 */

/**
 * @param {Parts} parts
 * @returns {Promise<{ progress: import('./store.js').Progress, hours: number }>}  The progress to
 *   be stored, and how many hours were marked.
 */
export async function beginning(parts) {
  const { store, shard, before, clock } = parts
  const nowMs = clock.now()
  const beforeMs = before ? undefined : await store.progressBefore(shard)
  if (beforeMs !== undefined && beforeMs <= nowMs && beforeMs >= nowMs - BEHIND_MS_MAX) {
    await renew(parts, beforeMs, nowMs + MARK_AHEAD_MS_MAX)
    return { progress: { doneMs: beforeMs, version: beforeMs }, hours: 0 }
  }
  const hours = await markAll(parts)
  const version = Math.max(nowMs, (before?.version ?? 0) + 1)
  // Other processes may have marked hours a little earlier.
  return { progress: { doneMs: startOf(nowMs, SLOT_MS) - SLOT_MS, version }, hours }
}

/**
 * Writes marks again that would expire after three days.
 *
 * @param {Parts} parts
 * @param {number} fromMs
 * @param {number} toMs
 */
async function renew({ store, shard, goOn }, fromMs, toMs) {
  for (let startMs = fromMs; startMs < toMs; startMs += SLOTS_AT_ONCE * SLOT_MS) {
    const slots = Array.from({ length: SLOTS_AT_ONCE }, (_, at) => startMs + at * SLOT_MS)
    for (const slotMs of await store.dirtySlots(shard, slots)) {
      for (const level of Object.values(MARK)) {
        const marks = new Marks(store, shard, level)
        for await (const window of store.dirty(shard, slotMs, level))
          await marks.add(slotMs, window)
        await marks.flush()
      }
    }
    await goOn()
  }
}

/** Marks all hours of a shard. @param {Parts} parts  @returns {Promise<number>}  How many. */
async function markAll({ store, shard, clock, goOn }) {
  const marks = new Marks(store, shard, MARK.hour)
  let hours = 0
  for await (const window of store.hours(shard, store.layouts)) {
    await marks.add(slotFor(window.startMs + HOUR_MS, clock.now()), window)
    if (++hours % MARKS_AT_ONCE === 0) await goOn()
  }
  await marks.flush()
  return hours
}

/** Marks on their way, many at a time. */
class Marks {
  /** @type {Window[]} */
  #windows = []
  #slotMs = 0
  #store
  #shard
  #level

  /**
   * @param {import('./store.js').RollupStore} store
   * @param {number} shard
   * @param {number} level  Of `MARK`.
   */
  constructor(store, shard, level) {
    this.#store = store
    this.#shard = shard
    this.#level = level
  }

  /** @param {number} slotMs  @param {Window} window */
  async add(slotMs, window) {
    if (slotMs !== this.#slotMs || this.#windows.length >= MARKS_AT_ONCE) await this.flush()
    this.#slotMs = slotMs
    this.#windows.push(window)
  }

  async flush() {
    const windows = this.#windows
    this.#windows = []
    if (windows.length > 0) {
      await this.#store.markDirty(this.#shard, this.#slotMs, this.#level, windows)
    }
  }
}
