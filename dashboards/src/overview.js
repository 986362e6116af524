/** The first dashboard: on one screen whether data flows, how late and how full. */

import { buildDashboard } from './dashboard.js'
import { lines, number } from './panel.js'
import { lastHour, percentiles, total } from './promql.js'

const flow = [
  number({
    title: 'Alerts',
    description: 'How many alerts fire. docs/operating.md says of each what to do.',
    unit: 'short',
    queries: {
      alerts: 'count(ALERTS{alertname=~"Sandglass.*",alertstate="firing"}) or vector(0)',
    },
    badFrom: 1,
  }),
  number({
    title: 'Services down',
    description: 'How many of engine, ingest and api do not answer Prometheus.',
    unit: 'short',
    queries: { down: 'count(up{job=~"engine|ingest|api"} == 0) or vector(0)' },
    badFrom: 1,
  }),
  number({
    title: 'Unaccounted',
    description:
      'Received + recovered − stored − dead letters − spooled − held − dropped − lost. Never but 0.',
    unit: 'short',
    queries: { messages: 'sum(abs(sandglass:ingest_messages_unaccounted:sum))' },
    badFrom: 1,
    leadsTo: 'sandglass-ingest',
  }),
  number({
    title: 'Held',
    description: 'Messages that wait for the database; they are not acknowledged yet.',
    unit: 'short',
    queries: { held: 'sum(sandglass_ingest_messages_held)' },
    badFrom: 10_000,
    leadsTo: 'sandglass-ingest',
  }),
  number({
    title: 'Spooled',
    description: 'Messages that were acknowledged and wait on disk for the database.',
    unit: 'short',
    queries: { spooled: 'sum(sandglass_ingest_messages_spooled)' },
    badFrom: 1,
    leadsTo: 'sandglass-ingest',
  }),
  number({
    title: 'Publish to stored, p99',
    description: 'From the arrival of a message to its row being durable, of five minutes.',
    unit: 's',
    queries: { p99: 'sandglass:ingest_publish_to_stored_seconds:p99_rate5m' },
    badFrom: 0.25,
    leadsTo: 'sandglass-ingest',
  }),
  number({
    title: 'Dead letters, last hour',
    description: 'Messages that were no measurements. Read why at /v1/dead-letters.',
    unit: 'short',
    queries: { 'dead letters': lastHour('sandglass_ingest_dead_letters_total') },
    badFrom: 1,
    leadsTo: 'sandglass-fleet',
  }),
  number({
    title: 'Dropped (QoS 0), last hour',
    description: 'Messages of QoS 0 that found no room. Devices that matter should use QoS 1.',
    unit: 'short',
    queries: { dropped: lastHour('sandglass_ingest_messages_dropped_total') },
    badFrom: 1,
    leadsTo: 'sandglass-fleet',
  }),
  number({
    title: 'Server errors of the api, last hour',
    description: 'Answers with a status of 500 and above.',
    unit: 'short',
    queries: { errors: `${lastHour('sandglass_api_requests_total{status=~"5.."}')} or vector(0)` },
    badFrom: 1,
    leadsTo: 'sandglass-api',
  }),
  number({
    title: 'Misuse of the database',
    description: 'The largest share of requests that could cost less; see the dashboard CQL.',
    unit: 'percentunit',
    queries: { share: 'max(sandglass:cql_misuse:ratio_rate5m{kind!="misrouted"})' },
    badFrom: 0.1,
    leadsTo: 'sandglass-cql',
  }),
  number({
    title: 'Sensors',
    description: 'How many are registered.',
    unit: 'short',
    queries: { sensors: 'max(sandglass_ingest_sensors)' },
    leadsTo: 'sandglass-fleet',
  }),
  number({
    title: 'Disk of the engine',
    description: 'Bytes of sstables and of the log.',
    unit: 'bytes',
    queries: {
      disk: 'sum(sandglass_db_sstables_disk_bytes) + sum(sandglass_db_commitlog_disk_total_bytes)',
    },
    leadsTo: 'sandglass-engine',
  }),
]

const course = [
  lines({
    title: 'Messages',
    description: 'What arrives, what becomes rows, and what becomes dead letters.',
    unit: 'ops',
    queries: {
      received: total('sandglass_ingest_messages_received_total'),
      stored: total('sandglass_ingest_messages_stored_total'),
      'dead letters': total('sandglass_ingest_dead_letters_total'),
    },
  }),
  lines({
    title: 'Publish to stored',
    description: 'From the arrival of a message to its row being durable.',
    unit: 's',
    queries: percentiles('sandglass_ingest_publish_to_stored_seconds'),
  }),
  lines({
    title: 'Requests to the api',
    description: 'From the arrival of a request to the end of its answer.',
    unit: 's',
    queries: percentiles('sandglass_api_request_seconds'),
  }),
]

const processes = [
  lines({
    title: 'CPU',
    description: 'Cores that each process uses.',
    unit: 'short',
    width: 12,
    queries: {
      engine: total('process_cpu_seconds_total{job="engine"}'),
      ingest: total('sandglass_ingest_process_cpu_seconds_total'),
      api: total('sandglass_api_process_cpu_seconds_total'),
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

/** The dashboard as Grafana takes it. */
export const buildOverview = () =>
  buildDashboard({
    uid: 'sandglass',
    title: 'Sandglass',
    description: 'From sensors to queries: is data flowing, how late, how full.',
    sections: { 'Does data flow?': flow, 'How it went': course, Processes: processes },
  })
