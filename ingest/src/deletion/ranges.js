/**
 * Which partitions a deletion reaches, and what must be summed up again. Pure. ADR 0046 has the
 * reasons.
 */

import { DAY_MS, HOUR_MS, startOf } from '@sandglass/common/rollup'
import { bucketOf, generationOffset } from '@sandglass/common/schema'
import { pieces } from '../rewrite/layouts.js'

/** @typedef {import('@sandglass/common/schema').Layout} Layout */
/** @typedef {import('@sandglass/common/schema').Place} Place */
/** @typedef {import('@sandglass/common/spans').Range} Range */
/** @typedef {import('@sandglass/common/spans').Span} Span */
/** @typedef {import('../rewrite/layouts.js').Left} Left */

/** Event time that is deleted in one step: the partitions of one step are a bounded number. */
export const CHUNK_MS = 7 * DAY_MS

/**
 * The part of a range that is deleted next, up to the end of a week.
 *
 * @param {Range} range
 * @returns {Range | undefined}
 */
export function nextChunk({ fromMs, toMs }) {
  if (fromMs >= toMs) return undefined
  return { fromMs, toMs: Math.min(toMs, startOf(fromMs, CHUNK_MS) + CHUNK_MS) }
}

/**
 * Both halves of a range, cut at a whole hour; none of what lies in one hour.
 *
 * @param {Range} range
 * @returns {[Range, Range] | undefined}
 */
export function halvesOf({ fromMs, toMs }) {
  const firstMs = startOf(fromMs, HOUR_MS)
  const cutMs = firstMs + Math.ceil((toMs - firstMs) / HOUR_MS / 2) * HOUR_MS
  if (cutMs >= toMs) return undefined
  return [
    { fromMs, toMs: cutMs },
    { fromMs: cutMs, toMs },
  ]
}

/** What two ranges share. @param {Range} a  @param {Range} b  @returns {Range} */
export function overlap(a, b) {
  return { fromMs: Math.max(a.fromMs, b.fromMs), toMs: Math.min(a.toMs, b.toMs) }
}

/**
 * Parts of all partitions in which rows of a range lie, or may be left: also of those to which a
 * rewrite copies, and of those that it has left.
 *
 * @param {readonly Layout[]} layouts  Ordered by `fromMs`.
 * @param {readonly Left[]} left
 * @param {Range} range
 * @returns {Span[]}
 */
export function partitionsOf(layouts, left, range) {
  /** @type {(Place & Range)[]} */
  const places = [...left]
  for (const [at, { layout, toMs }] of pieces(layouts).entries()) {
    const fromMs = at === 0 ? Number.NEGATIVE_INFINITY : layout.fromMs
    for (const place of [layout, layout.next]) if (place) places.push({ ...place, fromMs, toMs })
  }
  /** @type {Map<string, Span>} */
  const found = new Map()
  for (const place of places) {
    const { fromMs, toMs } = overlap(range, place)
    for (let atMs = fromMs; atMs < toMs; ) {
      const bucket = bucketOf(place.bucketS, atMs)
      const endMs = Math.min((bucket + place.bucketS) * 1000, toMs)
      const number = bucket + generationOffset(place)
      const span = { className: place.className, bucket: number, fromMs: atMs, toMs: endMs }
      found.set(`${place.className} ${number} ${atMs} ${endMs}`, span)
      atMs = endMs
    }
  }
  return [...found.values()]
}

/**
 * What is to be summed up again around a deleted range: rollups of these are deleted as a whole.
 *
 * @param {Range} range
 * @returns {{ hours: Range, days: Range, cutDays: { dayMs: number, hourMs: number }[] }}  `cutDays`
 *   have other hours, too; `hourMs` is an hour of each.
 */
export function touched({ fromMs, toMs }) {
  const hours = { fromMs: startOf(fromMs, HOUR_MS), toMs: ceilTo(toMs, HOUR_MS) }
  const days = { fromMs: startOf(fromMs, DAY_MS), toMs: ceilTo(toMs, DAY_MS) }
  const cutDays = []
  if (days.fromMs < fromMs) cutDays.push({ dayMs: days.fromMs, hourMs: hours.fromMs })
  if (days.toMs > toMs) {
    cutDays.push({ dayMs: days.toMs - DAY_MS, hourMs: hours.toMs - HOUR_MS })
  }
  return { hours, days, cutDays }
}

/** @param {number} timeMs  @param {number} lengthMs */
function ceilTo(timeMs, lengthMs) {
  return Math.ceil(timeMs / lengthMs) * lengthMs
}
