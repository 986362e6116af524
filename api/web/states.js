/** States over time: what a metric of texts or of true and false was, from when to when. */

import { printValue } from './format.js'

/** Narrowest bar of one state, in pixels; what is shorter is one bar with its neighbours. */
const BAR_PX_MIN = 3

/** States that have a colour of their own. */
export const COLORED_MAX = 8

/**
 * @typedef {object} Run
 * @property {string} state  As it is shown.
 * @property {number} fromMs
 * @property {number} toMs
 *
 * @typedef {object} Bar
 * @property {string | undefined} state  Undefined: several, too short to be told apart.
 * @property {number} count  Of runs.
 * @property {number} x
 * @property {number} width
 */

/**
 * A state lasts until another is measured, and the last one until now.
 *
 * @param {import('./history.js').History} history
 * @param {{ fromMs: number, toMs: number }} range
 * @param {number} nowMs
 * @returns {Run[]}
 */
export function runsOf({ rows, before }, { fromMs, toMs }, nowMs) {
  const endMs = Math.min(toMs, Math.max(nowMs, rows.at(-1)?.t ?? 0))
  const all = before ? [{ t: fromMs, v: before.v }, ...rows] : rows
  /** @type {Run[]} */
  const runs = []
  for (const [index, { t, v }] of all.entries()) {
    const state = printValue(v)
    const untilMs = Math.max(t, Math.min(endMs, all[index + 1]?.t ?? endMs))
    const last = runs.at(-1)
    if (last?.state === state) last.toMs = untilMs
    else runs.push({ state, fromMs: t, toMs: untilMs })
  }
  return runs
}

/**
 * Of values as they came, those that hold in a range: what was before it lasts into it.
 *
 * @param {readonly { t: number, v: any }[]} rows  Oldest first.
 * @param {number} fromMs
 * @returns {import('./history.js').History}
 */
export function historyFrom(rows, fromMs) {
  const at = rows.findLastIndex(({ t }) => t < fromMs)
  return { rows: rows.slice(at + 1), before: rows[at], isCut: false }
}

/**
 * What is drawn of the runs.
 *
 * @param {readonly Run[]} runs
 * @param {{ fromMs: number, toMs: number }} range
 * @param {number} widthPx
 * @returns {Bar[]}
 */
export function barsOf(runs, { fromMs, toMs }, widthPx) {
  const x = (/** @type {number} */ timeMs) => ((timeMs - fromMs) / (toMs - fromMs)) * widthPx
  /** @type {Bar[]} */
  const bars = []
  for (const run of runs) {
    const left = x(run.fromMs)
    const width = x(run.toMs) - left
    const last = bars.at(-1)
    if (last && (last.width < BAR_PX_MIN || (width < BAR_PX_MIN && last.state === undefined))) {
      last.state = last.state === run.state ? run.state : undefined
      last.count += 1
      last.width = left + width - last.x
    } else {
      bars.push({ state: run.state, count: 1, x: left, width })
    }
  }
  return bars
}

/**
 * How long each state lasted in all, by name, as long as they have colours; the others are one.
 *
 * @param {readonly Run[]} runs
 * @returns {{ state: string, ms: number, share: number }[]}
 */
export function totalsOf(runs) {
  /** @type {Map<string, number>} */
  const sums = new Map()
  for (const { state, fromMs, toMs } of runs) {
    sums.set(state, (sums.get(state) ?? 0) + toMs - fromMs)
  }
  const allMs = [...sums.values()].reduce((sum, ms) => sum + ms, 0)
  return [...sums]
    .sort(([a], [b]) => a.localeCompare(b, undefined, { numeric: true }))
    .map(([state, ms]) => ({ state, ms, share: allMs > 0 ? ms / allMs : 0 }))
}
