/** What every process has: what it takes of the machine, and how long it keeps others waiting. */

import { LOOP_LOOK_MS } from '@sandglass/common/metrics'
import { lines } from './panel.js'
import { rate, total } from './promql.js'

/** Panels of a Node process. @param {string} prefix  Of its metrics. */
export const nodeProcess = (prefix) => [
  lines({
    title: 'CPU',
    description: 'Cores in use. One thread does the work: at one, it is the limit.',
    unit: 'short',
    queries: { cores: total(`${prefix}process_cpu_seconds_total`) },
  }),
  lines({
    title: 'Memory',
    description: 'In RAM, and what of it is the heap of JavaScript.',
    unit: 'bytes',
    queries: {
      resident: `sum(${prefix}process_resident_memory_bytes)`,
      heap: `sum(${prefix}nodejs_heap_size_used_bytes)`,
    },
  }),
  lines({
    title: 'Event loop',
    description: 'How much later than asked timers run, and the share of time in the collector.',
    unit: 's',
    queries: {
      'lag, p99': `max(${prefix}nodejs_eventloop_lag_p99_seconds) - ${LOOP_LOOK_MS / 1000}`,
      'collecting a second': total(`${prefix}nodejs_gc_duration_seconds_sum`),
    },
  }),
]

/** Panels of the engine's process. */
export const engineProcess = () => [
  lines({
    title: 'CPU',
    description: 'Cores in use; each shard has one at most.',
    unit: 'short',
    queries: { cores: total('process_cpu_seconds_total{job="engine"}') },
  }),
  lines({
    title: 'Memory',
    description: 'In RAM. `--db-memory` bounds what rows, cache and requests take of it.',
    unit: 'bytes',
    queries: { resident: 'sum(process_resident_memory_bytes{job="engine"})' },
  }),
  lines({
    title: 'Turns by shard',
    description: 'Turns of the event loops: none when there is nothing to do.',
    unit: 'ops',
    queries: { 'shard {{shard}}': rate('sandglass_db_reactor_turns_total') },
  }),
]
