/** The devices: are they all there, are their clocks right, and what do they say that is wrong. */

import { buildDashboard } from './dashboard.js'
import { lines, number } from './panel.js'
import { lastHour, percentile, percentiles, total, totalBy } from './promql.js'

const now = [
  number({
    title: 'Sensors',
    description: 'How many are registered. Beyond `--sensors-max` new ones become dead letters.',
    unit: 'short',
    queries: { sensors: 'max(sandglass_ingest_sensors)' },
  }),
  number({
    title: 'Connections',
    description: 'MQTT clients that are connected.',
    unit: 'short',
    queries: { connections: 'sum(sandglass_ingest_connections)' },
  }),
  number({
    title: 'Messages a second',
    description: 'That arrive on topics of measurements, over five minutes.',
    unit: 'ops',
    queries: { received: 'sum(sandglass:ingest_messages_received:rate5m)' },
  }),
  number({
    title: 'Dead letters',
    description: 'Their share of all messages, over five minutes.',
    unit: 'percentunit',
    queries: { 'dead letters': 'sandglass:ingest_dead_letters:ratio_rate5m' },
    badFrom: 0.01,
  }),
  number({
    title: 'Late, p99',
    description: 'From the time that a device gave to the arrival of its message.',
    unit: 's',
    queries: { p99: percentile(0.99, 'sandglass_ingest_late_seconds') },
    warnFrom: 600,
  }),
  number({
    title: 'Refused, last hour',
    description: 'Connections over `--connections-max`, which were closed.',
    unit: 'short',
    queries: { refused: lastHour('sandglass_ingest_connections_refused_total') },
    badFrom: 1,
  }),
]

const presence = [
  lines({
    title: 'Connections',
    description: 'MQTT clients, and those that are not read for the moment because of a limit.',
    unit: 'short',
    queries: {
      connected: 'sum(sandglass_ingest_connections)',
      'not read': 'sum(sandglass_ingest_connections_blocked)',
      'refused a second': total('sandglass_ingest_connections_refused_total'),
      'cut off a second': total('sandglass_ingest_connections_cut_total'),
    },
  }),
  lines({
    title: 'Messages',
    description: 'Of measurements; on other topics; and those that subscribers had no room for.',
    unit: 'ops',
    queries: {
      received: total('sandglass_ingest_messages_received_total'),
      'on other topics': total('sandglass_ingest_messages_passed_total'),
      'not taken by subscribers': total('sandglass_ingest_fanout_dropped_total'),
    },
  }),
  lines({
    title: 'Sent again, or dropped',
    description:
      'Redeliveries that were recognised: many mean links that break. Dropped are those of QoS 0.',
    unit: 'ops',
    queries: {
      redelivered: total('sandglass_ingest_messages_duplicate_total'),
      dropped: total('sandglass_ingest_messages_dropped_total'),
    },
  }),
]

const clocks = [
  lines({
    title: 'Lateness of events',
    description: 'From the time that a device gave to the arrival of its message.',
    unit: 's',
    queries: percentiles('sandglass_ingest_late_seconds'),
  }),
  lines({
    title: 'Clocks ahead of ours',
    description: 'Events from the future: of devices whose clocks are wrong, or of our own.',
    unit: 'ops',
    queries: { ahead: total('sandglass_ingest_events_ahead_total') },
  }),
  lines({
    title: 'Values at one millisecond',
    description:
      'Which found another value of their series there; both are kept. Processes that share ' +
      'sensors do not know.',
    unit: 'ops',
    queries: { 'same time': total('sandglass_ingest_same_time_total') },
  }),
]

const letters = [
  lines({
    title: 'Dead letters by reason',
    description: 'Why messages were refused. Read them at /v1/dead-letters.',
    unit: 'ops',
    width: 12,
    stacked: true,
    queries: { '{{reason}}': totalBy('reason', 'sandglass_ingest_dead_letters_total') },
  }),
  lines({
    title: 'Replayed, or not kept',
    description: 'Dead letters that were stored after all, and those too many of one client.',
    unit: 'ops',
    width: 12,
    queries: {
      replayed: total('sandglass_ingest_dead_letters_replayed_total'),
      'not kept': total('sandglass_ingest_dead_letters_unkept_total'),
    },
  }),
]

/** The dashboard as Grafana takes it. */
export const buildFleet = () =>
  buildDashboard({
    uid: 'sandglass-fleet',
    title: 'Sandglass: fleet',
    description: 'Are the devices there, are their clocks right, and what do they say wrong?',
    sections: {
      Now: now,
      'Are they there?': presence,
      'Are their clocks right?': clocks,
      'What is no measurement': letters,
    },
  })
