/**
 * What befalls a message on its way: it is damaged, it comes late, it comes twice. Drawn from the
 * sensor's seed and the number of its reading, so that it is the same whenever it is asked for.
 */

import { hash } from './signals.js'

/** By how much late and repeated messages lag behind, in milliseconds: all equally often. */
export const LAGS_MS = [1_000, 5_000, 30_000, 120_000, 600_000]

/**
 * @typedef {object} Trouble
 * @property {number} malformedPercent  Share of all messages.
 * @property {number} latePercent       Share of those with a time.
 * @property {number} duplicatePercent  Likewise, of those that are not late.
 */

/**
 * @typedef {object} Fate
 * @property {boolean} isMalformed
 * @property {number} late  By which of {@link LAGS_MS}; -1: it is not.
 * @property {number} copy  By which of them a second copy comes; -1: none comes.
 */

/**
 * @param {number} seed   Of the sensor.
 * @param {number} round  How many readings it has had before.
 * @param {boolean} hasTime  Without a time of its own a message cannot be late, for nobody would
 *   know, and is not repeated, for the copy would be another measurement.
 * @param {Trouble} trouble
 * @returns {Fate}
 */
export function fateOf(seed, round, hasTime, { malformedPercent, latePercent, duplicatePercent }) {
  if (hash(seed + 1, round) * 100 < malformedPercent) {
    return { isMalformed: true, late: -1, copy: -1 }
  }
  const draw = (/** @type {number} */ salt, /** @type {number} */ percent) =>
    hasTime && hash(seed + salt, round) * 100 < percent
      ? Math.floor(hash(seed + salt + 1, round) * LAGS_MS.length)
      : -1
  const late = draw(61, latePercent)
  return { isMalformed: false, late, copy: late < 0 ? draw(63, duplicatePercent) : -1 }
}
