/**
 * From where each part of a range is read: as coarse as the windows allow, and only where rollups
 * say all that raw rows say. What is left (both ends, what is young, what has just changed) comes
 * from finer levels, and at last from the raw rows.
 */

import { believed, LEVELS } from '@sandglass/common/rollup'

/** @typedef {import('@sandglass/common/rollup').Level} Level */
/** @typedef {import('@sandglass/common/spans').Range} Range */
/** @typedef {Range & { level: Level | undefined }} Piece  Raw rows where it has no level. */

/**
 * @typedef {object} Progress  Of the rollups of one sensor.
 * @property {number} doneMs
 * @property {ReadonlySet<number>} markedHours
 */

/**
 * @param {Range} range
 * @param {number} stepMs  Length of the windows that are asked for, from the Unix epoch on.
 * @param {Progress} progress
 * @param {boolean} needsSketch
 * @returns {Piece[]}  Apart from each other; together they are the range.
 */
export function plan(range, stepMs, progress, needsSketch) {
  const usable = LEVELS.filter(
    ({ name, windowMs }) => stepMs % windowMs === 0 && !(needsSketch && name === '1m'),
  )
  return [...cut(range, usable.reverse(), progress)]
}

/**
 * @param {Range} range
 * @param {readonly Level[]} levels  From coarse to fine.
 * @param {Progress} progress
 * @returns {Generator<Piece, void, undefined>}
 */
function* cut(range, [level, ...finer], progress) {
  if (range.fromMs >= range.toMs) return
  if (!level) {
    yield { ...range, level: undefined }
    return
  }
  let { fromMs } = range
  for (const whole of believed(level, range, progress.doneMs, progress.markedHours)) {
    yield* cut({ fromMs, toMs: whole.fromMs }, finer, progress)
    yield { ...whole, level }
    fromMs = whole.toMs
  }
  yield* cut({ fromMs, toMs: range.toMs }, finer, progress)
}
