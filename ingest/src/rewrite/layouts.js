/**
 * What a rewrite does to the layouts of a sensor. Pure. ADR 0021 says why this hides no row.
 *
 * ```text
 * before       from 0: 30d                                  from F: keep
 * announced    from 0: 30d, and keep/1 next      from H: 30d  from F: keep
 * a slice on   from 0: keep/1   from S: 30d, and keep/1 next …
 * ```
 */

import { bucketAt, layoutAt, retentionClass } from '@sandglass/common/schema'

/** @typedef {import('@sandglass/common/schema').Layout} Layout */
/** @typedef {import('@sandglass/common/schema').Place} Place */
/** @typedef {import('@sandglass/common/spans').Range} Range */

/** Layouts that are written, and those that go, by where they begin: in one step. */
/** @typedef {{ put: Layout[], drop: number[] }} Change */

/** A place that is left, and the event times of the rows that may still be there. */
/** @typedef {Place & Range} Left */

/** @param {Place} a  @param {Place} b */
export function isSamePlace(a, b) {
  return isSameCopy(a, b) && a.bucketS === b.bucketS
}

/** Whether their partitions may have the same key. @param {Place} a  @param {Place} b */
function isSameCopy(a, b) {
  return a.className === b.className && (a.generation ?? 0) === (b.generation ?? 0)
}

/**
 * Layouts with the times at which they end.
 *
 * @param {readonly Layout[]} layouts  Ordered by `fromMs`.
 */
export function pieces(layouts) {
  return layouts.map((layout, at) => ({ layout, toMs: layouts[at + 1]?.fromMs ?? Infinity }))
}

/**
 * The event time at which a class begins to hold by itself: what lies before it is rewritten.
 *
 * @param {readonly Layout[]} layouts  Ordered by `fromMs`.
 * @param {string} className
 * @param {number} otherwiseMs  Where another class holds at the end.
 */
export function rewriteUntil(layouts, className, otherwiseMs) {
  const last = layouts.findLastIndex((layout) => layout.className !== className)
  if (last === layouts.length - 1) return otherwiseMs
  return last < 0 ? Number.NEGATIVE_INFINITY : layouts[last + 1].fromMs
}

/**
 * A generation that the sensor has not had.
 *
 * @param {readonly Layout[]} layouts
 * @param {number} g  The last one of which is known besides.
 */
export function generationAfter(layouts, g) {
  const used = layouts.flatMap(({ generation, next }) => [generation ?? 0, next?.generation ?? 0])
  return Math.max(g, ...used) + 1
}

/**
 * Has every row of another class stored in the new one, too, from now on.
 *
 * @param {readonly Layout[]} layouts
 * @param {string} className  The new one.
 * @param {number} toMs  Only what lies before this event time.
 * @param {number} generation
 * @returns {Change}
 */
export function announced(layouts, className, toMs, generation) {
  /** @type {Layout[]} */
  const put = []
  for (const { layout, toMs: endMs } of pieces(layouts)) {
    const { next: _, ...plain } = layout
    if (layout.className === className || layout.fromMs >= toMs) {
      if (layout.next) put.push(plain)
      continue
    }
    put.push({ ...plain, next: { className, bucketS: widthIn(className, layout), generation } })
    if (endMs > toMs) put.push({ ...plain, fromMs: toMs })
  }
  return { put, drop: [] }
}

/** Buckets that were made narrower stay so. @param {string} className  @param {Layout} layout */
function widthIn(className, layout) {
  const ownS = retentionClass(className).bucketS
  const isNarrowed = layout.bucketS < retentionClass(layout.className).bucketS
  return isNarrowed ? Math.min(layout.bucketS, ownS) : ownS
}

/**
 * Has readers look in the new class from a layout's begin on.
 *
 * @param {readonly Layout[]} layouts
 * @param {Layout & { next: Place }} layout  One of these.
 * @param {number} toMs  Up to this event time all is copied; not after its end.
 * @param {number | undefined} lostMs
 * @returns {Change}
 */
export function switched(layouts, layout, toMs, lostMs) {
  const at = layouts.indexOf(layout)
  const endMs = layouts[at + 1]?.fromMs ?? Infinity
  const before = layouts[at - 1]
  /** @type {Change} */
  const change = { put: [], drop: [] }
  const lost = [layout.lostMs, lostMs].filter((one) => one !== undefined)
  if (before && !before.next && isSamePlace(before, layout.next)) {
    change.drop.push(layout.fromMs)
    if (before.lostMs !== undefined) lost.push(before.lostMs)
    change.put.push(withLost(before, lost))
  } else {
    change.put.push(withLost({ fromMs: layout.fromMs, ...layout.next }, lost))
  }
  if (toMs < endMs) change.put.push({ ...layout, fromMs: toMs })
  return change
}

/** @param {Layout} layout  @param {number[]} lost */
function withLost(layout, lost) {
  return lost.length > 0 ? { ...layout, lostMs: Math.max(...lost) } : layout
}

/**
 * What may be left of a rewrite, or of one that was given up: by this time readers look elsewhere.
 *
 * @param {readonly Layout[]} layouts  As announced.
 * @returns {Left[]}
 */
export function leftBy(layouts) {
  return pieces(layouts).flatMap(({ layout, toMs }) => {
    const { fromMs, className, bucketS, generation = 0, next } = layout
    if (!next) return []
    const range = { fromMs, toMs }
    return [
      { className, bucketS, generation, ...range },
      { ...next, ...range },
    ]
  })
}

/**
 * Whether no row of a partition can be read, or be written by those who know these layouts.
 *
 * @param {readonly Layout[]} layouts
 * @param {Place} place
 * @param {number} startS  Of the bucket.
 */
export function isDeadBucket(layouts, place, startS) {
  const startMs = startS * 1000
  return pieces(layouts).every(({ layout, toMs }) =>
    [layout, layout.next].every((live) => {
      if (!live || !isSameCopy(live, place)) return true
      const isOfIt = startS % live.bucketS === 0
      const endMs = Math.min(startMs + live.bucketS * 1000, toMs)
      return !isOfIt || Math.max(startMs, layout.fromMs) >= endMs
    }),
  )
}

/**
 * The same of one row.
 *
 * @param {readonly Layout[]} layouts
 * @param {Place} place
 * @param {number} bucket  As in the table.
 * @param {number} timeMs
 */
export function isDeadRow(layouts, place, bucket, timeMs) {
  const layout = layoutAt(layouts, timeMs)
  return [layout, layout.next].every(
    (live) => !live || !isSameCopy(live, place) || bucketAt(live, timeMs) !== bucket,
  )
}
