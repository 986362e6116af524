/** What several processes tell about themselves, as one document each. Pure. */

import { Registry } from 'prom-client'

/** What of `/stats` is the sum of all. */
const SUMMED = /** @type {const} */ ([
  'received',
  'stored',
  'deadLettered',
  'held',
  'spooled',
  'recovered',
  'droppedQos0',
  'lost',
  'duplicates',
  'connections',
  'heldBytes',
  'spoolBytes',
])

/** @typedef {ReturnType<typeof import('../metrics.js').stats>} Stats */
/** @typedef {import('../http/app.js').Health} Health */

/** A process and what it says. @template Value @typedef {{ process: string, value: Value }} Said */

/** The document `/stats`. @param {Said<Stats & { pid: number }>[]} said  At least one. */
export function joinStats(said) {
  const values = said.map(({ value }) => value)
  /** @param {(of: Stats) => number | null} read  Null: it does not know. */
  const worst = (read) => {
    const known = values.map(read).filter((value) => value !== null)
    return known.length > 0 ? Math.max(...known) : null
  }
  const sums = SUMMED.map((name) => [name, values.reduce((sum, value) => sum + value[name], 0)])
  return {
    ...values[0],
    ...Object.fromEntries(sums),
    publishToStoredMs: {
      p50: worst(({ publishToStoredMs: { p50 } }) => p50),
      p99: worst(({ publishToStoredMs: { p99 } }) => p99),
    },
    rollupLagS: worst(({ rollupLagS }) => rollupLagS),
    database: values.every(({ database }) => database === 'up') ? 'up' : 'down',
    uptimeS: Math.min(...values.map(({ uptimeS }) => uptimeS)),
    processes: said.map(({ process, value: { pid, received, connections } }) => ({
      process,
      pid,
      received,
      connections,
    })),
  }
}

/** `/health`: all of them have to be well. @param {Said<Health>[]} said  @param {number} count */
export function joinHealth(said, count) {
  const isWell = said.length === count && said.every(({ value }) => value.ok)
  const [unwell] = said.filter(({ value }) => !value.ok)
  return { ...(unwell ?? said[0])?.value, ok: isWell, processes: `${said.length} of ${count}` }
}

/**
 * The page `/metrics`: each value with the process that says so.
 *
 * @param {Said<any[]>[]} said  As `Registry.getMetricsAsJSON` gives them.
 * @returns {Promise<string>}
 */
export function joinMetrics(said) {
  /** @type {Map<string, any>} */
  const families = new Map()
  for (const { process, value } of said) {
    for (const { values, ...family } of value) {
      const known = families.get(family.name) ?? { ...family, values: [] }
      for (const one of values) {
        known.values.push({ ...one, labels: { ...one.labels, process } })
      }
      families.set(family.name, known)
    }
  }
  const joined = new Registry()
  for (const [name, family] of families) {
    joined.registerMetric(/** @type {any} */ ({ name, get: async () => family }))
  }
  return joined.metrics()
}
