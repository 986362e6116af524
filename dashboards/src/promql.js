/** The few forms of PromQL that our panels are made of. */

/** Each second of this window counts in a rate; several scrapes must fall into it. */
const WINDOW = '$__rate_interval'

/** By the second. @param {string} metric  A counter, with its labels. */
export const rate = (metric) => `rate(${metric}[${WINDOW}])`

/** By the second, of all processes and shards. @param {string} metric  A counter. */
export const total = (metric) => `sum(${rate(metric)})`

/** As `total`, by a label. @param {string} label  @param {string} metric  A counter. */
export const totalBy = (label, metric) => `sum by (${label}) (${rate(metric)})`

/** How many there were in the last hour. @param {string} metric  A counter. */
export const lastHour = (metric) => `sum(increase(${metric}[1h]))`

/**
 * @param {number} quantile
 * @param {string} histogram  Its name without `_bucket`.
 * @param {string} [label]  For each value of it one.
 */
export function percentile(quantile, histogram, label) {
  const labels = label === undefined ? 'le' : `le, ${label}`
  return `histogram_quantile(${quantile}, sum by (${labels}) (${rate(`${histogram}_bucket`)}))`
}

/** The usual two, by legend. @param {string} histogram  Its name without `_bucket`. */
export const percentiles = (histogram) => ({
  p50: percentile(0.5, histogram),
  p99: percentile(0.99, histogram),
})
