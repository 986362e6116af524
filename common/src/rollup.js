/**
 * Rollups: what every reader and writer of them must agree on. `docs/data-model.md` says how they
 * are kept true.
 *
 * An hour of a series is marked dirty when a row of it is stored, before that is acknowledged: in
 * the slot in which the hour ends, or, once that is over, in the slot of the present. A slot is
 * worked off when it has been over for {@link SLOT_GRACE_MS}: its dirty hours are read again, as a
 * whole.
 */

import { EVENT_AHEAD_MS_MAX } from './measurement.js'

const MINUTE_MS = 60_000
export const HOUR_MS = 60 * MINUTE_MS
export const DAY_MS = 24 * HOUR_MS
const DAY_S = DAY_MS / 1000

/**
 * @typedef {object} Level
 * @property {string} name
 * @property {number} windowMs  What one row sums up.
 * @property {number} bucketS  Seconds of one partition of one sensor.
 * @property {number} ttlS  Seconds that a row is kept; 0 is for ever.
 * @property {number} windowDays  The compaction window, in days.
 */

/** From fine to coarse; each window is a whole number of those before. @type {readonly Level[]} */
export const LEVELS = [
  { name: '1m', windowMs: MINUTE_MS, bucketS: 7 * DAY_S, ttlS: 90 * DAY_S, windowDays: 3 },
  { name: '1h', windowMs: HOUR_MS, bucketS: 365 * DAY_S, ttlS: 3 * 365 * DAY_S, windowDays: 42 },
  { name: '1d', windowMs: DAY_MS, bucketS: 3_650 * DAY_S, ttlS: 0, windowDays: 364 },
]

/** @param {string} name  Of a level, without its keyspace. */
export function rollupTable(name) {
  return `rollup_${name}`
}

/** The time between two slots, in milliseconds. An hour and a day are whole numbers of them. */
export const SLOT_MS = 60_000

/**
 * How long a slot has been over when it is worked off, in milliseconds. Clocks of processes may
 * differ by a fourth of it; a row may become durable half of it after the slot of its mark.
 */
export const SLOT_GRACE_MS = 20_000

/** Parts of the work, each of which one process does: a sensor belongs to one of them. */
export const ROLLUP_SHARDS = 16

/**
 * How long a dirty hour stays marked, in seconds, if nobody works it off: longer than ingest is
 * ever away. Ninety days of marks are a few percent of the rollups that they lead to.
 */
export const MARK_TTL_S = 90 * DAY_S

/**
 * How far the clock may step back and rollups are believed on, in milliseconds. Until it is where
 * it was, hours are marked in the slot that it had reached, so readers look that far ahead.
 */
export const STEP_BACK_MS_MAX = HOUR_MS

/**
 * How far it may step back without rollups being computed anew, in milliseconds. No round number:
 * of a step by hours or days all processes must think the same.
 */
export const STEP_BACK_WAIT_MS_MAX = 25 * HOUR_MS + 20 * MINUTE_MS

/** How far ahead of a reader's clock a slot may be that has marks, in milliseconds. */
export const SLOTS_AHEAD_MS = STEP_BACK_MS_MAX + 5 * MINUTE_MS

/** How long before its slot an hour can be marked: its time may be ahead, the clock step back. */
export const MARK_AHEAD_MS_MAX = EVENT_AHEAD_MS_MAX + HOUR_MS + STEP_BACK_WAIT_MS_MAX

/** How long after its slot no mark has expired, in milliseconds. Clocks may differ by an hour. */
export const MARK_LIFE_MS = MARK_TTL_S * 1000 - MARK_AHEAD_MS_MAX - HOUR_MS

/** What a mark is for, as the column `late_mark.level` says it. The numbers are stored. */
export const MARK = Object.freeze({ hour: 0, day: 1 })

/** @param {string} sensorId  A UUID in lower case. */
export function shardOf(sensorId) {
  let hash = 0
  for (let at = 0; at < sensorId.length; at++) hash = (hash * 31 + sensorId.charCodeAt(at)) | 0
  return (hash >>> 16) % ROLLUP_SHARDS
}

/**
 * The key of a shard's row in `rollup_progress`. The rows 0 to 15 are of versions whose marks lived
 * for three days.
 *
 * @param {number} shard
 */
export function progressKey(shard) {
  return 256 + shard
}

/** The start of what a time lies in. @param {number} timeMs  @param {number} lengthMs */
export function startOf(timeMs, lengthMs) {
  return Math.floor(timeMs / lengthMs) * lengthMs
}

/**
 * The slots whose marks tell which hours have changed since rollups were computed. Undefined where
 * no marks can tell: they may have expired, or the clock was ahead when slots were worked off. Then
 * no rollup may be believed.
 *
 * @param {number | undefined} doneMs  Slots that ended until then are worked off.
 * @param {number} nowMs
 * @returns {import('./spans.js').Range | undefined}
 */
export function unfinishedSlots(doneMs, nowMs) {
  if (doneMs === undefined) return undefined
  if (doneMs < nowMs - MARK_LIFE_MS || doneMs > nowMs + STEP_BACK_MS_MAX) return undefined
  return { fromMs: doneMs, toMs: nowMs + SLOTS_AHEAD_MS }
}

/**
 * The slot in which a window is to be marked.
 *
 * @param {number} endMs  Where the window ends.
 * @param {number} nowMs  By a clock that does not step back.
 */
export function slotFor(endMs, nowMs) {
  return Math.max(startOf(nowMs, SLOT_MS), endMs - SLOT_MS)
}

/**
 * The timestamp of a mark, in microseconds. Versions whose marks lived for three days wrote the
 * slot itself: of two marks of one hour the one that lives longer stays.
 *
 * @param {number} slotMs
 */
export function markTimestampUs(slotMs) {
  return slotMs * 1000 + 1
}

/**
 * Until when a row may become durable whose mark lies in a slot; later it is marked once more.
 *
 * @param {number} slotMs
 */
export function markedUntil(slotMs) {
  return slotMs + SLOT_MS + SLOT_GRACE_MS / 2
}

/**
 * The times of a range at which the rows of a level say all that raw rows say: whole windows of
 * hours that have been over when their marks were worked off, and were not marked again.
 *
 * @param {Level} level
 * @param {import('./spans.js').Range} range
 * @param {number} doneMs  Slots that ended until then are worked off.
 * @param {Iterable<number>} markedHours  Starts of hours with a mark in a later slot.
 * @returns {import('./spans.js').Range[]}  Oldest first and apart from each other.
 */
export function believed({ windowMs }, range, doneMs, markedHours) {
  const unitMs = Math.max(windowMs, HOUR_MS)
  const endMs = Math.min(startOf(range.toMs, windowMs), startOf(doneMs, unitMs))
  let fromMs = startOf(range.fromMs + windowMs - 1, windowMs)
  /** @type {import('./spans.js').Range[]} */
  const ranges = []
  const marked = new Set([...markedHours].map((hourMs) => startOf(hourMs, unitMs)))
  for (const markedMs of [...marked].sort((a, b) => a - b)) {
    if (markedMs >= endMs) break
    if (markedMs > fromMs) ranges.push({ fromMs, toMs: markedMs })
    fromMs = Math.max(fromMs, markedMs + unitMs)
  }
  if (fromMs < endMs) ranges.push({ fromMs, toMs: endMs })
  return ranges
}
