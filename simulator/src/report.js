/** What a run is said to have done: the line while it runs, and the last line. */

/** Upper bounds of the latency buckets, in milliseconds: a factor of 1.2 apart, up to a minute. */
const BOUNDS_MS = Array.from({ length: 77 }, (_, index) => 0.05 * 1.2 ** index)

/** How long acknowledgements took, in buckets, so that its size does not grow with the run. */
export class Latencies {
  #counts = new Array(BOUNDS_MS.length + 1).fill(0)
  #total = 0

  /** @param {number} ms */
  add(ms) {
    const index = Math.ceil(Math.log(ms / BOUNDS_MS[0]) / Math.log(1.2))
    this.#counts[Math.min(BOUNDS_MS.length, Math.max(0, index))]++
    this.#total++
  }

  /**
   * The bound under which a share of all acknowledgements stayed, in milliseconds.
   *
   * @param {number} share  0 to 1.
   * @returns {number | undefined}  Undefined before the first.
   */
  percentile(share) {
    if (this.#total === 0) return undefined
    let below = 0
    for (const [index, count] of this.#counts.entries()) {
      below += count
      if (below >= share * this.#total) return BOUNDS_MS[index] ?? Number.POSITIVE_INFINITY
    }
    return undefined
  }
}

/** @param {number | undefined} value */
export function milliseconds(value) {
  if (value === undefined) return '-'
  return value >= 10 ? `${Math.round(value)} ms` : `${value.toFixed(1)} ms`
}

/** @param {number} value */
export const count = (value) => value.toLocaleString('en')

/**
 * The line while it runs.
 *
 * @param {object} state
 * @param {import('./link.js').Totals} state.totals
 * @param {number} state.ratePerS  Acknowledged during the last second.
 * @param {Latencies} state.latencies
 * @param {number} state.links
 * @param {string} state.extra  What the run adds of its own, e.g. how far a replay has come.
 */
export function runningLine({ totals, ratePerS, latencies, links, extra }) {
  if (totals.connections === 0) {
    return `waiting for the broker${totals.trouble ? ` (${totals.trouble})` : ''}${extra}`
  }
  const down = links - totals.connections
  return (
    `published ${count(totals.published)} · acknowledged ${count(totals.acknowledged)} · ` +
    `${count(Math.round(ratePerS))}/s · p50 ${milliseconds(latencies.percentile(0.5))} · ` +
    `p99 ${milliseconds(latencies.percentile(0.99))}` +
    `${down > 0 ? ` · ${down} of ${links} connections down` : ''}${extra}`
  )
}

/**
 * The last line.
 *
 * @param {object} state
 * @param {import('./link.js').Totals} state.totals
 * @param {number} state.elapsedMs
 * @param {Latencies} state.latencies
 * @param {number} state.skipped  Readings too old to be sent when the broker was back.
 */
export function finalLine({ totals, elapsedMs, latencies, skipped }) {
  const { published, acknowledged, reconnects } = totals
  const missing = published - acknowledged
  return (
    `published ${count(published)}, acknowledged ${count(acknowledged)}` +
    `${missing > 0 ? `, NOT acknowledged ${count(missing)}` : ''} in ` +
    `${(elapsedMs / 1000).toFixed(1)} s (` +
    `${count(Math.round((acknowledged * 1000) / elapsedMs))}/s, ` +
    `p50 ${milliseconds(latencies.percentile(0.5))}, ` +
    `p99 ${milliseconds(latencies.percentile(0.99))}, reconnected ${reconnects} times` +
    `${skipped > 0 ? `, skipped ${count(skipped)} readings older than the backlog` : ''})`
  )
}
