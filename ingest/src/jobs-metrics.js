/** What is measured of what was asked for: rewrites, deletions, desired states. */

/**
 * @typedef {object} MeasuredJobs
 * @property {Pick<import('./rewrite/worker.js').RewriteWorker, 'counts' | 'active'>} rewrites
 * @property {Pick<import('./deletion/worker.js').DeletionWorker, 'counts' | 'active'>
 *   } deletionWorker
 * @property {Pick<import('./deletion/known.js').KnownDeletions, 'dropped'>} deletions
 * @property {Pick<import('./sensors/desired.js').DesiredStates, 'counts'>} desired
 */

/** @typedef {(name: string, help: string, value: () => number) => unknown} Define */

/**
 * @param {MeasuredJobs} measured
 * @param {Define} counter
 * @param {Define} gauge
 */
export function registerJobs({ rewrites, deletionWorker, deletions, desired }, counter, gauge) {
  gauge('rewrites', 'rewrites into another retention class that are not over', () => {
    return rewrites.active
  })
  const rewritten = rewrites.counts
  counter('rewrite_rows_total', 'rows that were copied into another class', () => rewritten.rows)
  counter('rewrite_expired_total', 'rows left out: too old for their new class', () => {
    return rewritten.expired
  })
  counter('rewrite_deleted_total', 'partitions and rows that a rewrite left', () => {
    return rewritten.deleted
  })
  counter('rewrite_failures_total', 'times that a rewrite had to wait', () => rewritten.failures)
  gauge('deletions', 'deletions of measurements that are not over', () => deletionWorker.active)
  const deleted = deletionWorker.counts
  counter('deletion_partitions_total', 'parts of partitions that were deleted', () => {
    return deleted.partitions
  })
  counter('deletion_failures_total', 'times that a deletion had to wait', () => deleted.failures)
  counter(
    'deletion_spooled_total',
    'measurements that were deleted while they were spooled',
    () => {
      return deletions.dropped
    },
  )
  const { counts } = desired
  counter('desired_published_total', 'desired states given to the broker', () => counts.published)
  counter('desired_failures_total', 'times that all could not be published yet', () => {
    return counts.failures
  })
}
