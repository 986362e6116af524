/**
 * Between which times a series can have rows. That is known from its first and last event time, so
 * the scan of a sensor that has been silent for years ends at once.
 *
 * Those two times may lag a little behind the rows. The last minutes up to now are therefore looked
 * at besides, so that a row is found as soon as it is stored.
 */

/** @typedef {import('@sandglass/common/spans').Range} Range */

/** How long the first and last time of a series may lag behind its rows, in milliseconds. */
export const EXTENT_LAG_MS = 15 * 60_000

/** How far ahead of our clock a device's clock is expected to be, in milliseconds. */
export const CLOCK_AHEAD_MS = 5 * 60_000

/**
 * The times at which a series can have rows, oldest first and apart from each other.
 *
 * @param {{ firstMs: number, lastMs: number } | undefined} extent  Undefined if the series is
 *   not known (yet).
 * @param {Range} asked
 * @param {number} nowMs
 * @returns {Range[]}
 */
export function occupied(extent, asked, nowMs) {
  const recent = { fromMs: nowMs - EXTENT_LAG_MS, toMs: nowMs + CLOCK_AHEAD_MS }
  const known = extent && {
    fromMs: extent.firstMs - EXTENT_LAG_MS,
    toMs: extent.lastMs + EXTENT_LAG_MS,
  }
  return joined(known ? [known, recent] : [recent])
    .map(({ fromMs, toMs }) => ({
      fromMs: Math.max(fromMs, asked.fromMs),
      toMs: Math.min(toMs, asked.toMs),
    }))
    .filter(({ fromMs, toMs }) => fromMs < toMs)
}

/**
 * The same times as ranges that are apart from each other, oldest first.
 *
 * @param {readonly Range[]} ranges
 * @returns {Range[]}
 */
export function joined(ranges) {
  /** @type {Range[]} */
  const apart = []
  for (const { fromMs, toMs } of [...ranges].sort((a, b) => a.fromMs - b.fromMs)) {
    const last = apart.at(-1)
    if (last && fromMs <= last.toMs) last.toMs = Math.max(last.toMs, toMs)
    else apart.push({ fromMs, toMs })
  }
  return apart
}
