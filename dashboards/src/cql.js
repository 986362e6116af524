/**
 * CQL: whether clients use the database as it wants to be used. A share is red where they do not:
 * what they ask for could cost less, and an alert says so.
 */

import { buildDashboard } from './dashboard.js'
import { lines, number } from './panel.js'
import { percentiles, total } from './promql.js'

/** The share from which use is misuse: as in the alert SandglassCqlMisused. */
const SHARE_MAX = 0.1

/**
 * The share of one kind of misuse, over five minutes.
 *
 * @param {string} title
 * @param {string} kind  As the recording rules name it.
 * @param {string} description
 * @param {import('./panel.js').Bounds} [bounds]
 */
const share = (title, kind, description, bounds = { badFrom: SHARE_MAX }) =>
  number({
    title,
    description,
    unit: 'percentunit',
    queries: { share: `sandglass:cql_misuse:ratio_rate5m{kind="${kind}"}` },
    ...bounds,
  })

const misuse = [
  share(
    'Unprepared',
    'unprepared',
    'Requests that came as text: each is parsed and planned anew. Prepare them.',
  ),
  share(
    'Unpaged',
    'unpaged',
    'Reads that may find many rows and asked for no pages: they come as one message.',
  ),
  share(
    'Filtering',
    'filtering',
    'Reads that look at rows which they do not want (ALLOW FILTERING). Ask another table.',
  ),
  share(
    'Cache-filling',
    'cache_filling',
    'Pages of reads that name no partition and came from disk. Say BYPASS CACHE, or name partitions.',
  ),
  share(
    'Consistency',
    'consistency',
    'Requests at ANY, which promises nothing, or ALL and EACH_QUORUM, which fail with one node.',
  ),
  share(
    'Wrongly routed',
    'misrouted',
    'Requests that another shard must answer: a hop more. A driver that knows shards sends none; ' +
      'for others it is (shards − 1) / shards, which is no fault of theirs.',
    { warnFrom: SHARE_MAX },
  ),
]

const course = [
  lines({
    title: 'Shares',
    description: 'Of requests (unprepared, misrouted, consistency), of reads, or of their pages.',
    unit: 'percentunit',
    queries: { '{{kind}}': 'sandglass:cql_misuse:ratio_rate5m' },
  }),
  lines({
    title: 'Requests that could cost less',
    description: 'The same by the second: few of many may still be many.',
    unit: 'ops',
    queries: { '{{kind}}': 'sandglass:cql_misuse:rate5m' },
  }),
  lines({
    title: 'Reads that name no partition',
    description: 'Scans, those without BYPASS CACHE, and their pages that came into the cache.',
    unit: 'ops',
    queries: {
      scans: total('sandglass_db_cql_select_partition_range_scan_total'),
      'without BYPASS CACHE': total(
        'sandglass_db_cql_select_partition_range_scan_no_bypass_cache_total',
      ),
      'pages into the cache': total('sandglass_db_cache_scan_fills_total'),
    },
  }),
]

const levels = [
  lines({
    title: 'Share of each consistency level',
    description: 'Of one replica all mean the same; on a cluster it is what a request can survive.',
    unit: 'percentunit',
    width: 12,
    stacked: true,
    queries: { '{{consistency_level}}': 'sandglass:cql_consistency:ratio_rate5m' },
  }),
  lines({
    title: 'Requests by consistency level',
    description: 'Reads and writes; a batch is one.',
    unit: 'ops',
    width: 12,
    stacked: true,
    queries: { '{{consistency_level}}': 'sandglass:cql_queries:rate5m' },
  }),
]

const statements = [
  lines({
    title: 'Statements prepared',
    description: 'A second. Drivers do it once: a steady rate is a client that prepares each time.',
    unit: 'ops',
    queries: { prepared: total('sandglass_db_query_processor_statements_prepared_total') },
  }),
  lines({
    title: 'Statements remembered',
    description: 'Without room in their share of memory the one unused longest is forgotten.',
    unit: 'short',
    queries: { remembered: 'max(sandglass_db_query_processor_prepared_statements)' },
  }),
  lines({
    title: 'Time of a request',
    description: 'p50 and p99 of reads, as the engine sees them.',
    unit: 's',
    queries: percentiles('sandglass_db_storage_proxy_coordinator_read_latency_seconds'),
  }),
]

/** The dashboard as Grafana takes it. */
export const buildCql = () =>
  buildDashboard({
    uid: 'sandglass-cql',
    title: 'Sandglass: CQL',
    description: 'Do clients use the database as it wants to be used?',
    sections: {
      'Misuse, of five minutes': misuse,
      'How it went': course,
      'Consistency levels': levels,
      Statements: statements,
    },
  })
