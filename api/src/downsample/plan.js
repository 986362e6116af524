/**
 * From where each part of a range is read: from the coarsest level that suits the windows and holds
 * all of the part. What is left (both ends, what is young, what has just changed) comes from finer
 * levels, and at last from the raw rows.
 *
 * Where its age alone does not tell whether everything is still there, the plan asks for rollups of
 * those days, and is made again.
 */

import { DAY_MS, HOUR_MS, LEVELS, startOf } from '@sandglass/common/rollup'

/** @typedef {import('@sandglass/common/rollup').Level} Level */
/** @typedef {import('@sandglass/common/spans').Range} Range */
/** @typedef {import('./stored.js').Stored} Stored */
/** @typedef {Range & { level: Level | undefined }} Piece  Raw rows where it has no level. */

/**
 * @typedef {object} Plan
 * @property {Piece[]} pieces  Oldest first and apart from each other. What they leave out is empty.
 * @property {Set<number>} unread  Starts of days whose rollups must be read first.
 * @property {boolean} isComplete  Whether windows of this length can be had at all.
 */

/** @typedef {{ usable: readonly Level[], stored: Stored, plan: Plan }} Work */

const [, HOURS, DAYS] = LEVELS

/**
 * @param {Range} range
 * @param {number} stepMs  Length of the windows that are asked for, from the Unix epoch on.
 * @param {Stored} stored
 * @param {boolean} needsSketch
 * @returns {Plan}
 */
export function plan(range, stepMs, stored, needsSketch) {
  const usable = LEVELS.filter(
    ({ name, windowMs }) => stepMs % windowMs === 0 && !(needsSketch && name === '1m'),
  ).reverse()
  /** @type {Plan} */
  const made = { pieces: [], unread: new Set(), isComplete: true }
  cut(range, usable, { usable, stored, plan: made })
  return made
}

/**
 * @param {Range} range
 * @param {readonly Level[]} levels  From coarse to fine.
 * @param {Work} work
 */
function cut(range, [level, ...finer], work) {
  if (range.fromMs >= range.toMs) return
  if (!level) {
    cutRaw(range, work)
    return
  }
  let { fromMs } = range
  for (const whole of work.stored.clean(level, range)) {
    cutDirty({ fromMs, toMs: whole.fromMs }, level, finer, work)
    const certainMs = between(whole.fromMs, work.stored.certainFromMs(level), whole.toMs)
    byHour({ fromMs: whole.fromMs, toMs: certainMs }, work)
    add({ fromMs: certainMs, toMs: whole.toMs, level }, work.plan)
    fromMs = whole.toMs
  }
  cutDirty({ fromMs, toMs: range.toMs }, level, finer, work)
}

/**
 * A day that still counts hours which have expired is the only one that knows of them: it is
 * never computed again from fewer.
 *
 * @param {Range} range
 * @param {Level} level
 * @param {readonly Level[]} finer
 * @param {Work} work
 */
function cutDirty(range, level, finer, work) {
  const { stored, plan: made } = work
  let { fromMs } = range
  if (level === DAYS) {
    for (let dayMs = startOf(fromMs + DAY_MS - 1, DAY_MS); ; dayMs += DAY_MS) {
      if (dayMs + DAY_MS > range.toMs || !stored.needsDayRow(dayMs)) break
      if (stored.isRawCertain({ fromMs: dayMs, toMs: dayMs + DAY_MS })) continue
      const day = stored.day(dayMs)
      if (!day) made.unread.add(dayMs)
      if (!day?.isPartial) continue
      cut({ fromMs, toMs: dayMs }, finer, work)
      fromMs = dayMs + DAY_MS
      add({ fromMs: dayMs, toMs: fromMs, level }, made)
    }
  }
  cut({ fromMs, toMs: range.toMs }, finer, work)
}

/** @param {Range} range  @param {Work} work */
function cutRaw(range, work) {
  for (const { fromMs, toMs, certainFromMs } of work.stored.byPlace(range)) {
    const certainMs = between(fromMs, certainFromMs, toMs)
    byHour({ fromMs, toMs: certainMs }, work)
    add({ fromMs: certainMs, toMs, level: undefined }, work.plan)
  }
}

/** Decides hour by hour, from what is stored of each. @param {Range} range  @param {Work} work */
function byHour({ fromMs, toMs }, work) {
  for (let partMs = fromMs; partMs < toMs; ) {
    const dayMs = startOf(partMs, DAY_MS)
    const endMs = Math.min(dayMs + DAY_MS, toMs)
    const day = work.stored.day(dayMs)
    if (!day) work.plan.unread.add(dayMs)
    while (partMs < endMs) {
      const hourMs = startOf(partMs, HOUR_MS)
      const part = { fromMs: partMs, toMs: Math.min(hourMs + HOUR_MS, endMs) }
      if (day) addHour(hourMs, part, day, work)
      partMs = part.toMs
    }
  }
}

/**
 * @param {number} hourMs
 * @param {Range} part  Of the hour.
 * @param {import('./stored.js').Day} day
 * @param {Work} work
 */
function addHour(hourMs, part, { hours, isPartial }, { usable, stored, plan: made }) {
  const hour = hours.get(hourMs)
  const isClean = stored.isClean(hourMs)
  const raw = { ...part, level: undefined }
  if (!hour && !isPartial) {
    // Of a clean hour it means that there are no rows; of another, that only raw rows tell.
    if (!isClean) add(raw, made)
    return
  }
  const isRawCertain = stored.isRawCertain({ fromMs: hourMs, toMs: hourMs + HOUR_MS })
  if (!hour || isPartial) {
    if (isRawCertain) add(raw, made)
    else made.isComplete = false
    return
  }
  const hasRaw = isRawCertain || stored.hasRaw(hour)
  // A dirty hour whose raw rows have begun to expire stays as it was summed up.
  const level =
    isClean || !hasRaw
      ? usable.find((one) => isWhole(part, one) && (one === HOURS || stored.hasMinutes(hour)))
      : undefined
  if (level) add({ ...part, level }, made)
  else if (hasRaw) add(raw, made)
  else made.isComplete = false
}

/** @param {Range} part  Of an hour.  @param {Level} level */
function isWhole({ fromMs, toMs }, { windowMs }) {
  return windowMs <= HOUR_MS && fromMs % windowMs === 0 && toMs % windowMs === 0
}

/** @param {Piece} piece  @param {Plan} plan */
function add(piece, { pieces }) {
  if (piece.fromMs >= piece.toMs) return
  const last = pieces.at(-1)
  if (last?.level === piece.level && last?.toMs === piece.fromMs) last.toMs = piece.toMs
  else pieces.push(piece)
}

/** @param {number} fromMs  @param {number} timeMs  @param {number} toMs */
function between(fromMs, timeMs, toMs) {
  return Math.min(toMs, Math.max(fromMs, timeMs))
}
