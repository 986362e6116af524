/** The dashboard: first whether data flows, how late and how full; then each service by itself. */

import {
  DashboardBuilder,
  DatasourceVariableBuilder,
} from '@grafana/grafana-foundation-sdk/dashboard'
import { lines, number, row } from './panel.js'

/** Each second of this window counts in a rate; several scrapes must fall into it. */
const WINDOW = '$__rate_interval'

/** @param {string} metric  A counter, with its labels. */
const rate = (metric) => `rate(${metric}[${WINDOW}])`

/** @param {number} quantile  @param {string} histogram  Its name without `_bucket`. */
const percentile = (quantile, histogram) =>
  `histogram_quantile(${quantile}, sum by (le) (${rate(`${histogram}_bucket`)}))`

/** @param {string} histogram */
const percentiles = (histogram) => ({
  p50: percentile(0.5, histogram),
  p99: percentile(0.99, histogram),
})

const overview = [
  number({
    title: 'Services down',
    description: 'How many of engine, ingest and api do not answer Prometheus.',
    unit: 'short',
    queries: { down: 'count(up{job=~"engine|ingest|api"} == 0) or vector(0)' },
    badFrom: 1,
  }),
  number({
    title: 'Held',
    description: 'Messages that wait for the database; they are not acknowledged yet.',
    unit: 'short',
    queries: { held: 'sum(sandglass_ingest_messages_held)' },
    badFrom: 10_000,
  }),
  number({
    title: 'Spooled',
    description: 'Messages that were acknowledged and wait on disk for the database.',
    unit: 'short',
    queries: { spooled: 'sum(sandglass_ingest_messages_spooled)' },
    badFrom: 1,
  }),
  number({
    title: 'Dead letters, last hour',
    description: 'Messages that were no measurements. Read why at /v1/dead-letters.',
    unit: 'short',
    queries: { 'dead letters': 'sum(increase(sandglass_ingest_dead_letters_total[1h]))' },
    badFrom: 1,
  }),
  number({
    title: 'Publish to stored, p99',
    description: 'From the arrival of a message to its row being durable.',
    unit: 's',
    queries: { p99: percentile(0.99, 'sandglass_ingest_publish_to_stored_seconds') },
    badFrom: 0.25,
  }),
  number({
    title: 'Dropped (QoS 0), last hour',
    description: 'Messages of QoS 0 that found no room. Devices that matter should use QoS 1.',
    unit: 'short',
    queries: { dropped: 'sum(increase(sandglass_ingest_messages_dropped_total[1h]))' },
    badFrom: 1,
  }),
  number({
    title: 'Server errors of the api, last hour',
    description: 'Answers with a status of 500 and above.',
    unit: 'short',
    queries: {
      errors: 'sum(increase(sandglass_api_requests_total{status=~"5.."}[1h])) or vector(0)',
    },
    badFrom: 1,
  }),
]

const ingest = [
  lines({
    title: 'Messages',
    description:
      'What becomes of messages: received = stored + dead letters + spooled + held + dropped.',
    unit: 'ops',
    queries: {
      received: `sum(${rate('sandglass_ingest_messages_received_total')})`,
      stored: `sum(${rate('sandglass_ingest_messages_stored_total')})`,
      'dead letters': `sum(${rate('sandglass_ingest_dead_letters_total')})`,
      'dropped (QoS 0)': `sum(${rate('sandglass_ingest_messages_dropped_total')})`,
    },
  }),
  lines({
    title: 'Publish to stored',
    description: 'From the arrival of a message to its row being durable.',
    unit: 's',
    queries: percentiles('sandglass_ingest_publish_to_stored_seconds'),
  }),
  lines({
    title: 'Lateness of events',
    description: 'From the time that a device gave to the arrival of its message.',
    unit: 's',
    queries: percentiles('sandglass_ingest_late_seconds'),
  }),
  lines({
    title: 'Held',
    description: 'Bytes of messages that wait; at the limit, clients are read no faster.',
    unit: 'bytes',
    queries: { held: 'sum(sandglass_ingest_held_bytes)' },
  }),
  lines({
    title: 'Spool',
    description: 'Bytes on disk of messages that wait for the database, and the most there may be.',
    unit: 'bytes',
    queries: {
      spooled: 'sum(sandglass_ingest_spool_bytes)',
      most: 'sum(sandglass_ingest_spool_bytes_max)',
    },
  }),
  lines({
    title: 'Age of the spool',
    description: 'How long ago its oldest message arrived.',
    unit: 's',
    queries: { age: 'max(sandglass_ingest_spool_age_seconds)' },
  }),
  lines({
    title: 'Connections',
    description: 'MQTT clients that are connected.',
    unit: 'short',
    queries: { connections: 'sum(sandglass_ingest_connections)' },
  }),
  lines({
    title: 'Rows and failed writes',
    description: 'Rows written of every table, and requests that had to be repeated.',
    unit: 'ops',
    queries: {
      rows: `sum(${rate('sandglass_ingest_rows_total')})`,
      failures: `sum(${rate('sandglass_ingest_database_failures_total')})`,
    },
  }),
  lines({
    title: 'Dead letters by reason',
    description: 'Why messages were refused.',
    unit: 'ops',
    queries: { '{{reason}}': `sum by (reason) (${rate('sandglass_ingest_dead_letters_total')})` },
  }),
]

const engine = [
  lines({
    title: 'Reads and writes',
    description: 'Statements that the engine ran, in batches or not.',
    unit: 'ops',
    queries: {
      reads: `sum(${rate('sandglass_db_cql_reads_total')})`,
      writes: `sum(${rate('sandglass_db_cql_writes_total')})`,
    },
  }),
  lines({
    title: 'Write latency',
    description: "From a write's arrival to its acknowledgement, when it is on disk.",
    unit: 's',
    queries: percentiles('sandglass_db_storage_proxy_coordinator_write_latency_seconds'),
  }),
  lines({
    title: 'Read latency',
    description: "From a read's arrival to its answer.",
    unit: 's',
    queries: percentiles('sandglass_db_storage_proxy_coordinator_read_latency_seconds'),
  }),
  lines({
    title: 'Memory of rows',
    description: 'Rows that no sstable has yet.',
    unit: 'bytes',
    queries: { memtables: 'sum(sandglass_db_memtables_bytes)' },
  }),
  lines({
    title: 'Disk',
    description: 'Bytes on disk: sstables, and log segments that are still needed.',
    unit: 'bytes',
    queries: {
      sstables: 'sum(sandglass_db_sstables_disk_bytes)',
      log: 'sum(sandglass_db_commitlog_disk_total_bytes)',
    },
  }),
  lines({
    title: 'Log',
    description: 'Bytes made durable a second, and blocks: writes that shared one sync.',
    unit: 'short',
    queries: {
      'bytes/s': `sum(${rate('sandglass_db_commitlog_written_bytes_total')})`,
      'blocks/s': `sum(${rate('sandglass_db_commitlog_blocks_total')})`,
    },
  }),
  lines({
    title: 'Refused',
    description: 'Requests shed because too much was asked, and errors sent to clients.',
    unit: 'ops',
    queries: {
      shed: `sum(${rate('sandglass_db_transport_requests_shed_total')})`,
      errors: `sum(${rate('sandglass_db_transport_cql_errors_total')})`,
      'out of space': `sum(${rate(
        'sandglass_db_database_total_writes_rejected_due_to_out_of_space_prevention',
      )})`,
    },
  }),
  lines({
    title: 'Clients',
    description: 'Open connections of CQL clients.',
    unit: 'short',
    queries: { connections: 'sum(sandglass_db_transport_current_connections)' },
  }),
  lines({
    title: 'Turns by shard',
    description: 'Turns of the event loops: none when there is nothing to do.',
    unit: 'ops',
    queries: { 'shard {{shard}}': rate('sandglass_db_reactor_turns_total') },
  }),
]

const api = [
  lines({
    title: 'Requests',
    description: 'Requests by status.',
    unit: 'reqps',
    queries: { '{{status}}': `sum by (status) (${rate('sandglass_api_requests_total')})` },
  }),
  lines({
    title: 'Latency',
    description: 'Of requests; live streams are not counted.',
    unit: 's',
    queries: percentiles('sandglass_api_request_seconds'),
  }),
  lines({
    title: 'Live streams',
    description: 'Open server-sent event streams.',
    unit: 'short',
    queries: { streams: 'sum(sandglass_api_streams)' },
  }),
]

const processes = [
  lines({
    title: 'CPU',
    description: 'Cores that each process uses.',
    unit: 'short',
    width: 12,
    queries: {
      engine: `sum(${rate('process_cpu_seconds_total{job="engine"}')})`,
      ingest: `sum(${rate('sandglass_ingest_process_cpu_seconds_total')})`,
      api: `sum(${rate('sandglass_api_process_cpu_seconds_total')})`,
    },
  }),
  lines({
    title: 'Memory',
    description: 'Memory of each process that is in RAM.',
    unit: 'bytes',
    width: 12,
    queries: {
      engine: 'sum(process_resident_memory_bytes{job="engine"})',
      ingest: 'sum(sandglass_ingest_process_resident_memory_bytes)',
      api: 'sum(sandglass_api_process_resident_memory_bytes)',
    },
  }),
]

const SECTIONS = Object.entries({
  'Does data flow?': overview,
  'Ingest: MQTT to rows': ingest,
  'Engine: the database': engine,
  'Api: rows to HTTP': api,
  Processes: processes,
})

/** The dashboard as Grafana takes it. */
export function buildDashboard() {
  const builder = new DashboardBuilder('Sandglass')
    .uid('sandglass')
    .description('From sensors to queries: is data flowing, how late, how full.')
    .tags(['sandglass'])
    .refresh('10s')
    .time({ from: 'now-30m', to: 'now' })
    .timezone('browser')
    .editable()
    .withVariable(
      new DatasourceVariableBuilder('datasource').label('Data source').type('prometheus'),
    )
  for (const [title, panels] of SECTIONS) {
    builder.withRow(row(title))
    for (const panel of panels) builder.withPanel(panel)
  }
  const dashboard = builder.build()
  // Grafana numbers panels itself when they are edited; links to a panel need numbers that stay.
  for (const [index, panel] of (dashboard.panels ?? []).entries()) panel.id = index + 1
  return dashboard
}
