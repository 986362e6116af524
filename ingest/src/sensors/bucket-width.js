/**
 * How wide the buckets of a sensor should be, by how much it sends. Pure.
 *
 * A partition is one sensor for one bucket: it should be a good piece of work for a database, not
 * its trouble. The widest width is right that keeps it below {@link PARTITION_ROWS_MAX} and
 * {@link PARTITION_BYTES_MAX}; a class's own width is the widest there is.
 */

import { WIDTHS_S } from '@sandglass/common/layout'
import { retentionClass } from '@sandglass/common/schema'

/** What a partition should hold at most: rows, and bytes. */
export const PARTITION_ROWS_MAX = 100_000
export const PARTITION_BYTES_MAX = 10_000_000

/** How much more than that it must be before buckets become narrower: rates waver. */
const EXCESS_MIN = 1.2

/** How little of that wider buckets must hold, so that the next busy day does not undo it. */
const CALM_MAX = 0.25

/** @typedef {import('@sandglass/common/schema').Layout} Layout */
/** @typedef {{ rowsPerS: number, bytesPerS: number }} Load */

/**
 * What a partition would hold, as a part of what it should hold at most.
 *
 * @param {number} bucketS
 * @param {Load} load
 */
export function fill(bucketS, { rowsPerS, bytesPerS }) {
  const [rows, bytes] = [bucketS * rowsPerS, bucketS * bytesPerS]
  return Math.max(rows / PARTITION_ROWS_MAX, bytes / PARTITION_BYTES_MAX)
}

/**
 * The width that buckets should have.
 *
 * @param {Pick<Layout, 'bucketS'>} layout  As it is.
 * @param {Load} load
 */
export function fittingWidth({ bucketS }, load) {
  if (fill(bucketS, load) <= EXCESS_MIN) return bucketS
  const narrower = WIDTHS_S.filter((widthS) => widthS < bucketS)
  return narrower.findLast((widthS) => fill(widthS, load) <= 1) ?? narrower[0] ?? bucketS
}

/**
 * The widest width that buckets may have again, if the load stays what it is.
 *
 * @param {Pick<Layout, 'className' | 'bucketS'>} layout  As it is.
 * @param {Load} load
 */
export function widerWidth({ className, bucketS }, load) {
  const { bucketS: widestS } = retentionClass(className)
  const wider = WIDTHS_S.filter((widthS) => widthS > bucketS && widthS <= widestS)
  return wider.findLast((widthS) => fill(widthS, load) <= CALM_MAX) ?? bucketS
}
