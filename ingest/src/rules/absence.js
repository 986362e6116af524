/** When nobody worked on alert rules: what was not received then is no silence. Pure. */

import { FOR_S_MAX } from '@sandglass/common/rules/rule'

/** How many absences are remembered; of more, those that lie closest become one. */
export const ABSENCES_MAX = 64

/** @typedef {{ fromMs: number, toMs: number }} Absence */

/**
 * Absences with one more. What lies before the longest silence of a rule is forgotten.
 *
 * @param {readonly Absence[]} absences  In order.
 * @param {Absence} one
 * @param {number} nowMs
 * @returns {Absence[]}  In order; none touches another.
 */
export function withAbsence(absences, one, nowMs) {
  const earliestMs = nowMs - FOR_S_MAX * 1000
  const inOrder = [...absences, one]
    .filter(({ toMs }) => toMs > earliestMs)
    .sort((a, b) => a.fromMs - b.fromMs)
  /** @type {Absence[]} */
  const merged = []
  for (const { fromMs, toMs } of inOrder) {
    const last = merged.at(-1)
    if (last && fromMs <= last.toMs) last.toMs = Math.max(last.toMs, toMs)
    else merged.push({ fromMs, toMs })
  }
  while (merged.length > ABSENCES_MAX) joinClosest(merged)
  return merged
}

/** A little more counts as absence: silence is told later, never falsely. */
/** @param {Absence[]} absences */
function joinClosest(absences) {
  const gapMs = (/** @type {number} */ at) => absences[at].fromMs - absences[at - 1].toMs
  let closest = 1
  for (let at = 2; at < absences.length; at++) if (gapMs(at) < gapMs(closest)) closest = at
  const [{ toMs }] = absences.splice(closest, 1)
  absences[closest - 1].toMs = toMs
}

/**
 * For how long of the time from one moment to another nothing could be received, in milliseconds.
 *
 * @param {readonly Absence[]} absences
 * @param {number} sinceMs
 * @param {number} untilMs
 */
export function awayFor(absences, sinceMs, untilMs) {
  return absences.reduce(
    (sumMs, { fromMs, toMs }) =>
      sumMs + Math.max(0, Math.min(toMs, untilMs) - Math.max(fromMs, sinceMs)),
    0,
  )
}
