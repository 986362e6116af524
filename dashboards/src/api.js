/** The api: rows to HTTP. */

import { buildDashboard } from './dashboard.js'
import { lines, number } from './panel.js'
import { nodeProcess } from './process.js'
import { lastHour, percentile, percentiles, total, totalBy } from './promql.js'

const now = [
  number({
    title: 'Requests a second',
    description: 'That were answered, of any status.',
    unit: 'reqps',
    queries: { requests: total('sandglass_api_requests_total') },
  }),
  number({
    title: 'Latency, p99',
    description: 'Of requests of five minutes; live streams, exports and imports are not counted.',
    unit: 's',
    queries: { p99: 'sandglass:api_request_seconds:p99_rate5m' },
    warnFrom: 0.25,
    badFrom: 1,
  }),
  number({
    title: 'Errors of ours',
    description: 'The share of answers with a status of 500 and above, of five minutes.',
    unit: 'percentunit',
    queries: { errors: 'sandglass:api_errors:ratio_rate5m' },
    badFrom: 0.01,
  }),
  number({
    title: 'Refused, last hour',
    description: 'Requests over `--rate-limit`.',
    unit: 'short',
    queries: {
      refused: `${lastHour('sandglass_api_requests_total{status="429"}')} or vector(0)`,
    },
    warnFrom: 1,
  }),
  number({
    title: 'Database',
    description: 'How many api processes have no answer from the database.',
    unit: 'short',
    queries: { down: 'count(sandglass_api_database_up == 0) or vector(0)' },
    badFrom: 1,
  }),
  number({
    title: 'Live streams',
    description: 'Open server-sent event streams, of at most `--streams-max`.',
    unit: 'short',
    queries: { streams: 'sum(sandglass_api_streams)' },
  }),
]

const requests = [
  lines({
    title: 'Requests by status',
    description: 'Those from 500 on are our fault, those from 400 on the asker’s.',
    unit: 'reqps',
    stacked: true,
    queries: { '{{status}}': totalBy('status', 'sandglass_api_requests_total') },
  }),
  lines({
    title: 'Requests by route',
    description: 'What is asked for.',
    unit: 'reqps',
    stacked: true,
    queries: { '{{route}}': totalBy('route', 'sandglass_api_requests_total') },
  }),
  lines({
    title: 'Live streams',
    description: 'Open server-sent event streams.',
    unit: 'short',
    queries: { streams: 'sum(sandglass_api_streams)' },
  }),
  lines({
    title: 'Latency',
    description: 'Of requests; live streams, exports and imports are not counted.',
    unit: 's',
    width: 12,
    queries: percentiles('sandglass_api_request_seconds'),
  }),
  lines({
    title: 'Latency by route, p99',
    description: 'Which question takes long.',
    unit: 's',
    width: 12,
    queries: { '{{route}}': percentile(0.99, 'sandglass_api_request_seconds', 'route') },
  }),
  lines({
    title: 'Cut off',
    description:
      'Handshakes of TLS, headers and bodies that did not come, answers not read in time.',
    unit: 'reqps',
    width: 12,
    queries: {
      '{{reason}}': totalBy('reason', 'sandglass_api_connections_cut_total'),
      body: total('sandglass_api_bodies_cut_total'),
      answer: total('sandglass_api_answers_cut_total'),
    },
  }),
  lines({
    title: 'Keys not looked up',
    description: 'Because too many before them were unknown: somebody tries keys.',
    unit: 'reqps',
    width: 12,
    queries: {
      api: total('sandglass_api_keys_unasked_total'),
      ingest: total('sandglass_ingest_keys_unasked_total'),
    },
  }),
]

/** The dashboard as Grafana takes it. */
export const buildApi = () =>
  buildDashboard({
    uid: 'sandglass-api',
    title: 'Sandglass: api',
    description: 'Who asks what, how fast is it answered, and what fails?',
    sections: { Now: now, Requests: requests, Process: nodeProcess('sandglass_api_') },
  })
