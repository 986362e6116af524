/** The database engine: its latencies, memory, disk and log. */

import { buildDashboard } from './dashboard.js'
import { lines, number } from './panel.js'
import { engineProcess } from './process.js'
import { lastHour, percentile, percentiles, total, totalBy } from './promql.js'

const WRITE_LATENCY = 'sandglass_db_storage_proxy_coordinator_write_latency_seconds'
const READ_LATENCY = 'sandglass_db_storage_proxy_coordinator_read_latency_seconds'
const LOG_WRITE = 'sandglass_db_commitlog_write_seconds'
const NO_SPACE = 'sandglass_db_database_total_writes_rejected_due_to_out_of_space_prevention'

const now = [
  number({
    title: 'Write, p99',
    description: "From a write's arrival to its acknowledgement, when it is on disk.",
    unit: 's',
    queries: { p99: percentile(0.99, WRITE_LATENCY) },
    warnFrom: 0.1,
    badFrom: 0.5,
  }),
  number({
    title: 'Read, p99',
    description: "From a read's arrival to its answer.",
    unit: 's',
    queries: { p99: percentile(0.99, READ_LATENCY) },
    warnFrom: 0.1,
    badFrom: 0.5,
  }),
  number({
    title: 'Shed, last hour',
    description: 'Requests refused because too much was asked.',
    unit: 'short',
    queries: { shed: lastHour('sandglass_db_transport_requests_shed_total') },
    badFrom: 1,
  }),
  number({
    title: 'Failed reads, last hour',
    description: 'Data could not be read, or is damaged: look at the disk.',
    unit: 'short',
    queries: { failed: lastHour('sandglass_db_database_failed_reads_total') },
    badFrom: 1,
  }),
  number({
    title: 'Out of space',
    description: 'Shards that refuse writes because the disk is full.',
    unit: 'short',
    queries: { shards: 'sum(sandglass_db_database_out_of_space)' },
    badFrom: 1,
  }),
  number({
    title: 'On disk',
    description: 'Bytes of sstables and of the log.',
    unit: 'bytes',
    queries: {
      disk: 'sum(sandglass_db_sstables_disk_bytes) + sum(sandglass_db_commitlog_disk_total_bytes)',
    },
  }),
]

const statements = [
  lines({
    title: 'Reads and writes',
    description: 'Statements that the engine ran, in batches or not.',
    unit: 'ops',
    queries: {
      reads: total('sandglass_db_cql_reads_total'),
      writes: total('sandglass_db_cql_writes_total'),
      batches: total('sandglass_db_cql_batches_total'),
    },
  }),
  lines({
    title: 'Write latency',
    description: "From a write's arrival to its acknowledgement, when it is on disk.",
    unit: 's',
    queries: percentiles(WRITE_LATENCY),
  }),
  lines({
    title: 'Read latency',
    description: "From a read's arrival to its answer.",
    unit: 's',
    queries: percentiles(READ_LATENCY),
  }),
]

const reading = [
  lines({
    title: 'Rows',
    description: 'Looked at and returned. Many more of the first: old versions, or filtering.',
    unit: 'ops',
    queries: {
      'looked at': total('sandglass_db_database_rows_scanned_total'),
      returned: total('sandglass_db_cql_rows_read_total'),
    },
  }),
  lines({
    title: 'Blocks',
    description: 'Of sstables, found in memory or read from disk, and reads that waited for one.',
    unit: 'ops',
    queries: {
      'in memory': total('sandglass_db_cache_block_hits_total'),
      'from disk': total('sandglass_db_cache_block_misses_total'),
      'reads that waited': total('sandglass_db_database_disk_reads_total'),
    },
  }),
  lines({
    title: 'Cache',
    description: 'Bytes of blocks in memory.',
    unit: 'bytes',
    queries: { blocks: 'sum(sandglass_db_cache_bytes_used)' },
  }),
]

const storing = [
  lines({
    title: 'Memory of rows',
    description: 'Bytes of rows that no sstable has yet, and what is written to sstables a second.',
    unit: 'bytes',
    queries: {
      memtables: 'sum(sandglass_db_memtables_bytes)',
      'flushed a second': total('sandglass_db_memtables_flushed_bytes_total'),
    },
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
    title: 'Files',
    description: 'Sstables that are read from, and segments of the log.',
    unit: 'short',
    queries: {
      sstables: 'sum(sandglass_db_sstables_count)',
      segments: 'sum(sandglass_db_commitlog_segments)',
    },
  }),
  lines({
    title: 'Compaction',
    description: 'Bytes of sstables that compactions read and write a second.',
    unit: 'Bps',
    queries: {
      read: total('sandglass_db_compaction_manager_read_bytes_total'),
      written: total('sandglass_db_compaction_manager_written_bytes_total'),
    },
  }),
  lines({
    title: 'Left to compact',
    description: 'Bytes to be written until each time window has one sstable, about.',
    unit: 'bytes',
    queries: { backlog: 'sum(sandglass_db_compaction_manager_backlog)' },
  }),
  lines({
    title: 'Log',
    description: 'Bytes made durable a second.',
    unit: 'Bps',
    queries: { bytes: total('sandglass_db_commitlog_written_bytes_total') },
  }),
  lines({
    title: 'Blocks of the log',
    description: 'Writes that shared one sync are one block.',
    unit: 'ops',
    queries: { blocks: total('sandglass_db_commitlog_blocks_total') },
  }),
  lines({
    title: 'Time of a block',
    description: 'From its submission to its being durable: what the disk takes.',
    unit: 's',
    queries: percentiles(LOG_WRITE),
  }),
  lines({
    title: 'Slow blocks',
    description:
      'Blocks of the log that took over 10 ms, a minute: all writes in them waited as long.',
    unit: 'short',
    queries: {
      'over 10 ms': `60 * (${total(`${LOG_WRITE}_count`)} - ${total(`${LOG_WRITE}_bucket{le="0.01"}`)})`,
    },
  }),
]

const wire = [
  lines({
    title: 'Refused',
    description: 'Requests shed because too much was asked, and writes for which there is no disk.',
    unit: 'ops',
    queries: {
      shed: total('sandglass_db_transport_requests_shed_total'),
      'out of space': total(NO_SPACE),
      'broken frames': total('sandglass_db_transport_protocol_errors_total'),
    },
  }),
  lines({
    title: 'Errors by code',
    description: 'Sent to clients; 0x2500 asks a driver to prepare again and is no fault.',
    unit: 'ops',
    queries: { '{{code}}': totalBy('code', 'sandglass_db_transport_cql_errors_total') },
  }),
  lines({
    title: 'Clients',
    description: 'Open connections, and requests that are not answered yet.',
    unit: 'short',
    queries: {
      connections: 'sum(sandglass_db_transport_current_connections)',
      'under way': 'sum(sandglass_db_transport_requests_serving)',
    },
  }),
  lines({
    title: 'Network',
    description: 'Bytes read from clients and sent to them.',
    unit: 'Bps',
    queries: {
      received: total('sandglass_db_transport_received_bytes_total'),
      sent: total('sandglass_db_transport_sent_bytes_total'),
    },
  }),
  lines({
    title: 'Between shards',
    description: 'Messages that shards sent each other, and how often one had to be woken.',
    unit: 'ops',
    queries: {
      messages: total('sandglass_db_reactor_hops_total'),
      woken: total('sandglass_db_reactor_rings_total'),
    },
  }),
  lines({
    title: 'Not read',
    description: 'Connections that had to wait because of their own limits, a second.',
    unit: 'ops',
    queries: { waits: total('sandglass_db_transport_requests_blocked_total') },
  }),
]

/** The dashboard as Grafana takes it. */
export const buildEngine = () =>
  buildDashboard({
    uid: 'sandglass-engine',
    title: 'Sandglass: engine',
    description: 'The database: how fast, how full, and what it refuses.',
    sections: {
      Now: now,
      Statements: statements,
      Reading: reading,
      Storing: storing,
      'Clients and shards': wire,
      Process: engineProcess(),
    },
  })
