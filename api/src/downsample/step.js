/** How long the windows are that a range is summed up in. */

import { invalid } from '@sandglass/common/problem'
import { LEVELS, startOf } from '@sandglass/common/rollup'

const S = 1_000
const M = 60 * S
const H = 60 * M
const D = 24 * H

/** Lengths that people expect, in milliseconds; longer ones are whole days. */
const LADDER_MS = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500],
  ...[S, 2 * S, 5 * S, 10 * S, 15 * S, 30 * S],
  ...[M, 2 * M, 5 * M, 10 * M, 15 * M, 30 * M],
  ...[H, 2 * H, 3 * H, 6 * H, 12 * H],
]

const UNITS_MS = new Map([
  ['ms', 1],
  ['s', S],
  ['m', M],
  ['h', H],
  ['d', D],
  ['w', 7 * D],
])

/** Longest window, in milliseconds. */
const STEP_MS_MAX = 3_660 * D

/** What is stored, from fine to coarse: raw rows, and windows of each level, in milliseconds. */
export const GRAINS_MS = [1, ...LEVELS.map(({ windowMs }) => windowMs)]

/** @typedef {import('@sandglass/common/spans').Range} Range */

/**
 * A length of time such as `60s`, `5m` or `1d`, in milliseconds.
 *
 * @param {string} text
 * @throws {import('@sandglass/common/problem').Problem}
 */
export function parseStep(text) {
  const match = /^(\d{1,12})(ms|s|m|h|d|w)$/.exec(text)
  const stepMs = Number(match?.[1]) * (UNITS_MS.get(match?.[2] ?? '') ?? Number.NaN)
  if (!(stepMs >= 1 && stepMs <= STEP_MS_MAX)) {
    throw invalid('step', 'must be a number with ms, s, m, h, d or w, such as 60s or 1d')
  }
  return stepMs
}

/** How many windows of a length touch a range. @param {Range} range  @param {number} stepMs */
export function windowCount({ fromMs, toMs }, stepMs) {
  return Math.max(0, Math.ceil(toMs / stepMs) - Math.floor(fromMs / stepMs))
}

/**
 * The shortest length that people expect of which at most so many windows touch a range.
 *
 * @param {Range} range
 * @param {number} points
 * @param {number} stepMsMin  One of {@link GRAINS_MS}: the length is a multiple of it.
 */
export function stepFor(range, points, stepMsMin) {
  const found = LADDER_MS.find((ms) => ms >= stepMsMin && windowCount(range, ms) <= points)
  if (found !== undefined) return found
  // Windows begin at 1970: no length makes one of what lies before and after.
  const countMax = range.fromMs < 0 && range.toMs > 0 ? Math.max(points, 2) : points
  let days = Math.max(1, Math.floor((range.toMs - range.fromMs) / points / D))
  while (windowCount(range, days * D) > countMax) days++
  return days * D
}

/** A range whose ends are moved outwards to whole windows. */
/** @param {Range} range  @param {number} lengthMs */
export function widen({ fromMs, toMs }, lengthMs) {
  return { fromMs: startOf(fromMs, lengthMs), toMs: startOf(toMs + lengthMs - 1, lengthMs) }
}
