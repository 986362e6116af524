/** Ingest: from MQTT and HTTP to rows, and what waits on the way. */

import { buildDashboard } from './dashboard.js'
import { lines, number } from './panel.js'
import { nodeProcess } from './process.js'
import { percentiles, total } from './promql.js'

const account = [
  number({
    title: 'Unaccounted',
    description:
      'Received + recovered − stored − dead letters − spooled − held − dropped − lost. Never but 0.',
    unit: 'short',
    queries: { '{{instance}}': 'abs(sandglass:ingest_messages_unaccounted:sum)' },
    badFrom: 1,
  }),
  number({
    title: 'Database',
    description: 'How many ingest processes have no answer from the database.',
    unit: 'short',
    queries: { down: 'count(sandglass_ingest_database_up == 0) or vector(0)' },
    badFrom: 1,
  }),
  number({
    title: 'Publish to stored, p99',
    description: 'From the arrival of a message to its row being durable, of five minutes.',
    unit: 's',
    queries: { p99: 'sandglass:ingest_publish_to_stored_seconds:p99_rate5m' },
    badFrom: 0.25,
  }),
  number({
    title: 'Spool full',
    description: 'Its share of `--spool-bytes-max`; when it is full, clients are held.',
    unit: 'percentunit',
    queries: {
      full: 'max(sandglass_ingest_spool_bytes / (sandglass_ingest_spool_bytes_max > 0))',
    },
    warnFrom: 0.5,
    badFrom: 0.8,
  }),
  number({
    title: 'Age of the spool',
    description: 'How long ago its oldest message arrived.',
    unit: 's',
    queries: { age: 'max(sandglass_ingest_spool_age_seconds)' },
    warnFrom: 60,
    badFrom: 300,
  }),
  number({
    title: 'Lost',
    description: 'Messages in files of the spool that a broken disk has damaged.',
    unit: 'short',
    queries: { lost: 'sum(sandglass_ingest_messages_lost_total)' },
    badFrom: 1,
  }),
]

const messages = [
  lines({
    title: 'What becomes of messages',
    description: 'Received + recovered = stored + dead letters + spooled + held + dropped + lost.',
    unit: 'ops',
    queries: {
      received: total('sandglass_ingest_messages_received_total'),
      stored: total('sandglass_ingest_messages_stored_total'),
      'dead letters': total('sandglass_ingest_dead_letters_total'),
      'dropped (QoS 0)': total('sandglass_ingest_messages_dropped_total'),
    },
  }),
  lines({
    title: 'Publish to stored',
    description: 'From the arrival of a message to its row being durable.',
    unit: 's',
    queries: percentiles('sandglass_ingest_publish_to_stored_seconds'),
  }),
  lines({
    title: 'What waits',
    description: 'Held ones are not acknowledged yet, spooled ones are; rows wait for a request.',
    unit: 'short',
    queries: {
      held: 'sum(sandglass_ingest_messages_held)',
      spooled: 'sum(sandglass_ingest_messages_spooled)',
      rows: 'sum(sandglass_ingest_rows_waiting)',
    },
  }),
]

const spool = [
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
    description: 'How long ago its oldest message arrived: it falls once the database is back.',
    unit: 's',
    queries: { age: 'max(sandglass_ingest_spool_age_seconds)' },
  }),
]

const requests = [
  lines({
    title: 'Rows and failed writes',
    description: 'Rows written of every table, and requests that had to be repeated.',
    unit: 'ops',
    queries: {
      rows: total('sandglass_ingest_rows_total'),
      failures: total('sandglass_ingest_database_failures_total'),
    },
  }),
  lines({
    title: 'Rows of a request',
    description: 'A request takes what arrived while the one before was on its way.',
    unit: 'short',
    queries: percentiles('sandglass_ingest_request_rows'),
  }),
  lines({
    title: 'Questions to the past',
    description: 'Times of which the database was asked what it has there already.',
    unit: 'ops',
    queries: { times: total('sandglass_ingest_past_reads_total') },
  }),
]

const rollups = [
  lines({
    title: 'Behind',
    description:
      'How far rollups are behind, in the worst part of the work. Raw rows fill the gap.',
    unit: 's',
    queries: { '{{instance}}': 'sandglass_ingest_rollup_lag_seconds' },
  }),
  lines({
    title: 'Hours and days',
    description:
      'Summed up; to be summed up again because something came late; and left as they were, for ' +
      'their raw rows may be gone.',
    unit: 'ops',
    queries: {
      'summed up': total('sandglass_ingest_rollup_windows_total'),
      late: total('sandglass_ingest_rollup_late_marks_total'),
      'left as they were': total('sandglass_ingest_rollup_expired_total'),
    },
  }),
  lines({
    title: 'Work',
    description:
      'Parts that each process does, how often the work had to wait or be redone, and parts of ' +
      'which everything is computed anew.',
    unit: 'short',
    queries: {
      'parts of {{instance}}': 'sandglass_ingest_rollup_shards',
      'waits a second': total('sandglass_ingest_rollup_failures_total'),
      'marked again a second': total('sandglass_ingest_rollup_again_total'),
      'anew a second': total('sandglass_ingest_rollup_begun_total'),
    },
  }),
]

const rules = [
  lines({
    title: 'Rules behind',
    description:
      'How far the evaluation of alert rules is behind, and how old what is known of them.',
    unit: 's',
    queries: {
      behind: 'max(sandglass_ingest_rule_lag_seconds)',
      'known for': 'max(sandglass_ingest_rules_known_age_seconds)',
    },
  }),
  lines({
    title: 'Alerts',
    description: 'Alerts that began and ended, and series that were evaluated.',
    unit: 'ops',
    queries: {
      began: total('sandglass_ingest_alerts_fired_total'),
      ended: total('sandglass_ingest_alerts_resolved_total'),
      evaluated: total('sandglass_ingest_rule_evaluations_total'),
    },
  }),
  lines({
    title: 'Who is told',
    description:
      'Notifications that wait for their receiver, those taken and the attempts that failed a ' +
      'second, and those given up after three days.',
    unit: 'short',
    queries: {
      waiting: 'sum(sandglass_ingest_notifications_waiting)',
      'taken a second': total('sandglass_ingest_notifications_delivered_total'),
      'failed a second': total('sandglass_ingest_notification_failures_total'),
      'given up': 'sum(sandglass_ingest_notifications_given_up_total)',
    },
  }),
]

const decoders = [
  lines({
    title: 'Expressions',
    description:
      'Payloads given to expressions of decoders; those that took too much time or memory, and ' +
      'those refused because of others of their client.',
    unit: 'ops',
    width: 12,
    queries: {
      evaluated: total('sandglass_ingest_expressions_total'),
      'too slow': total('sandglass_ingest_expressions_slow_total'),
      'too large': total('sandglass_ingest_expressions_large_total'),
      refused: total('sandglass_ingest_expressions_unasked_total'),
    },
  }),
  lines({
    title: 'Decoders',
    description: 'Those that are followed, those that are not, and messages that wait.',
    unit: 'short',
    width: 12,
    queries: {
      followed: 'max(sandglass_ingest_decoders)',
      'not followed': 'max(sandglass_ingest_decoders_refused)',
      'messages that wait': 'sum(sandglass_ingest_expressions_waiting)',
    },
  }),
]

const broker = [
  lines({
    title: 'Broker',
    description: 'Processes that messages can come to. The broker inside is always there.',
    unit: 'short',
    queries: {
      connected: 'sum(sandglass_ingest_broker_connected)',
      'not connected': 'count(sandglass_ingest_broker_connected == 0) or vector(0)',
    },
  }),
  lines({
    title: 'Not acknowledged',
    description: 'Messages that an external broker still has, too: it would send them again.',
    unit: 'short',
    queries: { messages: 'sum(sandglass_ingest_broker_unacknowledged)' },
  }),
  lines({
    title: 'Came again',
    description:
      'Connections to an external broker after the first, what it then sent again, and retained ' +
      'messages that have no time of their own.',
    unit: 'ops',
    queries: {
      connections: total('sandglass_ingest_broker_reconnects_total'),
      redeliveries: total('sandglass_ingest_broker_redeliveries_total'),
      'retained, not stored': total('sandglass_ingest_broker_retained_ignored_total'),
    },
  }),
]

/** The dashboard as Grafana takes it. */
export const buildIngest = () =>
  buildDashboard({
    uid: 'sandglass-ingest',
    title: 'Sandglass: ingest',
    description: 'From messages to rows: is each accounted for, and what waits?',
    sections: {
      'Is each message accounted for?': account,
      Messages: messages,
      'Held and spooled': spool,
      'Requests to the database': requests,
      Rollups: rollups,
      'Alert rules': rules,
      Decoders: decoders,
      'The broker, if it is another one': broker,
      Process: nodeProcess('sandglass_ingest_'),
    },
  })
