/**
 * How the layout of a sensor changes without hiding a row.
 *
 * What is stored already is rewritten by ingest (`ingest/src/rewrite`, ADR 0021).
 *
 * Writers and readers both choose by event time, so they agree on a row whenever both know the
 * layouts that begin before it. An event is taken up to {@link EVENT_AHEAD_MS_MAX} before its time;
 * a layout that begins later than that, and {@link LAYOUT_LEAD_MS} more, is therefore in the
 * database for so long before the first row of it can come. ADR 0016 has the whole argument.
 */

import { EVENT_AHEAD_MS_MAX } from './measurement.js'
import { firstLayout, retentionClass } from './schema.js'

/** @typedef {import('./schema.js').Layout} Layout */

const HOUR_MS = 3_600_000

/** How long before its first row a layout is in the database, in milliseconds; or a little more. */
export const LAYOUT_LEAD_MS = HOUR_MS

/**
 * How much of that is left to be durable, to a slow request, and to clocks that differ, in
 * milliseconds: far more than each of them needs.
 */
const SETTLE_MS_MAX = LAYOUT_LEAD_MS / 2

/** Layouts begin at full hours, so that processes that decide the same write the same row. */
const START_MS = HOUR_MS

/** Most layouts of a sensor that do not hold yet. */
export const LAYOUTS_AHEAD_MAX = 4

/**
 * Bucket widths that are chosen from, in seconds. Each is a whole fraction of the next, and all up
 * to a class's own width are of its compaction window.
 *
 * @type {readonly number[]}
 */
export const WIDTHS_S = [900, 3_600, 21_600, 86_400, 604_800]

/**
 * The event time until which the layouts are known that were in the database at a time. Of what
 * lies at or after it, the database must be asked again.
 *
 * @param {number} readMs  When reading them began, milliseconds since the Unix epoch.
 */
export function layoutsKnownUntil(readMs) {
  return readMs + EVENT_AHEAD_MS_MAX + LAYOUT_LEAD_MS - SETTLE_MS_MAX
}

/**
 * From which event time on a layout can hold that is added now.
 *
 * @param {number} nowMs
 */
export function layoutStart(nowMs) {
  return Math.ceil((nowMs + EVENT_AHEAD_MS_MAX + LAYOUT_LEAD_MS) / START_MS) * START_MS
}

/** The layouts that do not hold yet. @param {readonly Layout[]} layouts  @param {number} nowMs */
export function layoutsAhead(layouts, nowMs) {
  return layouts.filter(({ fromMs }) => fromMs > nowMs)
}

/**
 * Rows of a range that were received before this may have expired before they were rewritten into
 * the class in which they are now.
 *
 * @param {readonly Layout[]} layouts  Ordered by `fromMs`.
 * @param {import('./spans.js').Range} range
 * @returns {number}  Milliseconds since the Unix epoch; -Infinity if there are none.
 */
export function lostBefore(layouts, { fromMs, toMs }) {
  const overlapping = layouts.filter(
    (layout, at) => layout.fromMs < toMs && (layouts[at + 1]?.fromMs ?? Infinity) > fromMs,
  )
  return Math.max(...overlapping.map(({ lostMs = Number.NEGATIVE_INFINITY }) => lostMs))
}

/**
 * The layout to be added so that a sensor's measurements are kept in another class.
 *
 * @param {readonly Layout[]} layouts  Ordered by `fromMs`.
 * @param {string} className
 * @param {number} nowMs
 * @returns {Layout | undefined}  Nothing where that is, or will be, so already.
 */
export function layoutOfClass(layouts, className, nowMs) {
  const last = layouts.at(-1)
  if (!last) return firstLayout(className)
  if (last.className === className) return undefined
  // Never at the time of another one: that would be its row.
  const fromMs = Math.max(layoutStart(nowMs), last.fromMs + START_MS)
  const ownS = retentionClass(className).bucketS
  const isNarrowed = last.bucketS < retentionClass(last.className).bucketS
  return { fromMs, className, bucketS: isNarrowed ? Math.min(last.bucketS, ownS) : ownS }
}

/**
 * The layout to be added so that a sensor's buckets have another width.
 *
 * @param {readonly Layout[]} layouts  Ordered by `fromMs`.
 * @param {number} bucketS
 * @param {number} nowMs
 * @returns {Layout | undefined}  Nothing where a change is under way already.
 */
export function layoutOfWidth(layouts, bucketS, nowMs) {
  const last = layouts.at(-1)
  if (!last || last.fromMs > nowMs || last.bucketS === bucketS) return undefined
  return { fromMs: layoutStart(nowMs), className: last.className, bucketS }
}

/**
 * The timestamp of a layout that a service adds of itself, in microseconds: of two for the same
 * time the narrower wins, and one that a person asked for wins over both.
 *
 * @param {Layout} layout
 */
export function layoutTimestampUs({ fromMs, bucketS }) {
  const earliestMs = fromMs - EVENT_AHEAD_MS_MAX - LAYOUT_LEAD_MS - START_MS
  const narrower = WIDTHS_S.filter((widthS) => widthS > bucketS).length
  return (earliestMs - 1) * 1000 + narrower
}
