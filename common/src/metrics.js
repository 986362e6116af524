/** What every service tells Prometheus. */

import { collectDefaultMetrics, Registry } from 'prom-client'

/**
 * How often the event loop is looked at, in milliseconds. prom-client's default of 10 wakes an idle
 * process a hundred times a second, for half a percent of a core. Its percentiles are of times from
 * one look to the next: what is over this is how late the loop was.
 */
export const LOOP_LOOK_MS = 100

/**
 * A registry that already has the process's own metrics.
 *
 * @param {string} prefix  e.g. `sandglass_ingest_`.
 */
export function createRegistry(prefix) {
  const registry = new Registry()
  collectDefaultMetrics({
    register: registry,
    prefix,
    eventLoopMonitoringPrecision: LOOP_LOOK_MS,
  })
  return registry
}
