/** What every service tells Prometheus. */

import { collectDefaultMetrics, Registry } from 'prom-client'

/**
 * A registry that already has the process's own metrics.
 *
 * @param {string} prefix  e.g. `sandglass_ingest_`.
 */
export function createRegistry(prefix) {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry, prefix })
  return registry
}
