/**
 * What ingest tells about itself: the names, labels and units of its metrics, and the document
 * `/stats`. Everything is read from plain numbers when it is asked for.
 */

import { formatName } from '@sandglass/common/formats/registry'
import { Counter, Gauge } from 'prom-client'
import { registerDecoders } from './decoders/metrics.js'
import { registerJobs } from './jobs-metrics.js'
import { registerRules } from './rules/metrics.js'

/** @typedef {import('./counts.js').Counts} Counts */
/** @typedef {import('./histogram.js').Histogram} Histogram */
/** @typedef {import('./broker/server.js').MqttServer} MqttServer */
/** @typedef {import('./external/external.js').External} External */

/**
 * @typedef {import('./jobs-metrics.js').MeasuredJobs &
 *   import('./rules/metrics.js').MeasuredRules &
 *   import('./decoders/metrics.js').MeasuredDecoders & OwnMeasured} Measured
 */

/**
 * @typedef {object} OwnMeasured
 * @property {Counts} counts
 * @property {MqttServer} [server]  Of the broker inside,
 * @property {import('./source.js').AnyBroker} [broker]  and that.
 * @property {External} [external]  The broker in their place.
 * @property {import('./message/in-flight.js').InFlight} inFlight
 * @property {import('./sparkplug/edge-nodes.js').EdgeNodes} edgeNodes
 * @property {{ shares: Partial<import('./memory.js').MemoryBudget['shares']> }} memory
 * @property {import('./spool/spool.js').Spool | undefined} spool
 * @property {import('./write/hashed.js').Places} places
 * @property {import('./write/past.js').Past} past
 * @property {import('./sensors/registry.js').Registry} registry
 * @property {import('./write/batcher.js').Batcher} batcher
 * @property {import('./sensors/statuses.js').Statuses} statuses
 * @property {import('./rollup/dirty-hours.js').DirtyHours} dirtyHours
 * @property {import('./rollup/worker.js').RollupWorker} rollups
 * @property {Pick<import('./sensors/bucket-widths.js').BucketWidths, 'counts'>} widths
 * @property {{ isUp: boolean }} database
 */

const PREFIX = 'sandglass_ingest_'

/** Upper bounds of the histogram of latencies, in seconds. */
const LATENCY_BOUNDS_S = [
  ...[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300],
]

/** Upper bounds of the histogram of lateness, in seconds. */
const LATE_BOUNDS_S = [0.1, 1, 10, 60, 600, 3_600, 21_600, 86_400, 604_800]

/** Upper bounds of the histogram of requests, in rows. */
const ROWS_BOUNDS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000]

/**
 * @param {import('prom-client').Registry} registry
 * @param {Measured} measured
 */
export function registerMetrics(registry, measured) {
  const { counts, inFlight, places, batcher, database } = measured
  const counter = define(Counter, registry, PREFIX)
  const gauge = define(Gauge, registry, PREFIX)
  counter('messages_received_total', 'MQTT messages on measurement topics', () => counts.received)
  counter('messages_stored_total', 'messages whose rows are durable', () => counts.storedMessages)
  counter('messages_dropped_total', 'QoS 0 messages over the limit', () => counts.droppedQos0)
  counter('messages_duplicate_total', 'redeliveries that were recognised', () => {
    return duplicates(measured)
  })
  counter('messages_passed_total', 'messages on other topics, not stored', () => counts.passed)
  gauge('messages_held', 'messages that wait to be durable', () => inFlight.count)
  gauge('held_bytes', 'bytes of messages that wait to be durable', () => inFlight.bytes)
  counter('same_time_total', 'values that found another one at their millisecond', () => {
    return places.sameTime
  })
  counter('past_reads_total', 'times of which the database was asked what it has there', () => {
    return measured.past.reads
  })
  counter('rows_total', 'rows written, of every table', () => counts.rows)
  counter('database_failures_total', 'requests that failed and were repeated', () => {
    return counts.failures
  })
  gauge('rows_waiting', 'rows that wait for a request', () => batcher.waiting)
  gauge('database_up', '1 if the database answers', () => Number(database.isUp))
  gauge('sensors', 'sensors that are registered', () => measured.registry.count)
  registerMemory(registry, measured)
  registerServer(registry, measured)
  registerBroker(registry, measured)
  registerSparkplug(registry, measured)
  registerSpool(registry, measured)
  registerRollups(registry, measured)
  registerJobs(measured, define(Counter, registry, PREFIX), define(Gauge, registry, PREFIX))
  registerRules(measured, define(Counter, registry, PREFIX), define(Gauge, registry, PREFIX))
  registerDecoders(measured, define(Counter, registry, PREFIX), define(Gauge, registry, PREFIX))
  registerWidths(registry, measured)
  registerDeadLetters(registry, counts)
  registerRefusedFields(registry, counts)
  registerHistogram(registry, {
    name: `${PREFIX}publish_to_stored_seconds`,
    help: 'from the arrival of a message to its being durable',
    bounds: LATENCY_BOUNDS_S,
    scale: 1000,
    values: counts.publishToStored,
  })
  counter('events_ahead_total', 'events whose time was ahead of ours when they arrived', () => {
    return counts.ahead
  })
  counter('dead_letters_unkept_total', 'dead letters that were too many of their client', () => {
    return counts.unkeptLetters
  })
  counter('dead_letters_replayed_total', 'dead letters that were stored after all', () => {
    return counts.replayed
  })
  registerHistogram(registry, {
    name: `${PREFIX}late_seconds`,
    help: 'from the time of an event to its arrival',
    bounds: LATE_BOUNDS_S,
    scale: 1,
    values: counts.late,
  })
  registerHistogram(registry, {
    name: `${PREFIX}request_rows`,
    help: 'rows of a request to the database',
    bounds: ROWS_BOUNDS,
    scale: 1,
    values: counts.requestRows,
  })
}

/**
 * The broker in a process of its own.
 *
 * @param {import('prom-client').Registry} registry
 * @param {Pick<Measured, 'memory'>} measured
 * @param {{ dropped: number }} broker
 */
export function registerBrokerAlone(registry, measured, broker) {
  registerMemory(registry, measured)
  registerFanout(registry, broker)
}

/** @param {import('prom-client').Registry} registry  @param {{ dropped: number }} [broker] */
function registerFanout(registry, broker) {
  const help = 'messages that subscribers had no room for'
  define(Counter, registry, PREFIX)('fanout_dropped_total', help, () => broker?.dropped ?? 0)
}

/**
 * @param {typeof Counter | typeof Gauge} Kind
 * @param {import('prom-client').Registry} registry
 * @param {string} prefix
 */
function define(Kind, registry, prefix) {
  return (
    /** @type {string} */ name,
    /** @type {string} */ help,
    /** @type {() => number} */ read,
  ) =>
    new Kind({
      name: prefix + name,
      help,
      registers: [registry],
      collect() {
        this.reset()
        this.inc(read())
      },
    })
}

/** @param {import('prom-client').Registry} registry  @param {Pick<Measured, 'memory'>} measured */
function registerMemory(registry, { memory }) {
  const shares = Object.entries(memory.shares)
  /** @type {[typeof Counter | typeof Gauge, string, string, 'bytes' | 'bytesMax' | 'refused'][]} */
  const metrics = [
    [Gauge, 'memory_bytes', 'memory that clients make ingest hold, by kind', 'bytes'],
    [Gauge, 'memory_bytes_max', 'most memory that clients can make it hold, by kind', 'bytesMax'],
    [Counter, 'memory_refused_total', 'times that a kind had no room', 'refused'],
  ]
  for (const [Kind, name, help, property] of metrics) {
    new Kind({
      name: PREFIX + name,
      help,
      labelNames: ['kind'],
      registers: [registry],
      collect() {
        this.reset()
        for (const [kind, share] of shares) this.inc({ kind }, Number(share[property]))
      },
    })
  }
}

/** @param {import('prom-client').Registry} registry  @param {Measured} measured */
function registerServer(registry, { server, broker, statuses }) {
  const counter = define(Counter, registry, PREFIX)
  const gauge = define(Gauge, registry, PREFIX)
  gauge('connections', 'MQTT connections', () => server?.connectionCount ?? 0)
  gauge('connections_blocked', 'MQTT connections that are not read because of a limit', () => {
    return server?.blockedCount ?? 0
  })
  counter('connections_unauthorized_total', 'MQTT clients without a key that lets them in', () => {
    return server?.access?.refused ?? 0
  })
  counter('keys_unasked_total', 'keys not looked up: too many before them were unknown', () => {
    return server?.access?.unasked ?? 0
  })
  counter('statuses_dropped_total', 'comings and goings of devices that were not kept', () => {
    return statuses.dropped
  })
  counter(
    'connections_refused_total',
    'MQTT connections over the limit',
    () => server?.refused ?? 0,
  )
  counter('keys_ended_total', 'keys that were revoked, changed or expired while in use', () => {
    return server?.keysEnded ?? 0
  })
  gauge('sessions', 'MQTT clients of which something is remembered', () => {
    return server?.sessions.count ?? 0
  })
  counter('sessions_evicted_total', 'sessions ended because they took too much memory', () => {
    return server?.sessions.evicted ?? 0
  })
  counter('subscriptions_refused_total', 'subscriptions and wills that were too much', () => {
    return server?.sessions.subscriptionsRefused ?? 0
  })
  registerCut(registry, server)
  registerFanout(registry, broker)
}

/** @param {import('prom-client').Registry} registry  @param {MqttServer | undefined} server */
function registerCut(registry, server) {
  new Counter({
    name: `${PREFIX}connections_cut_total`,
    help: 'MQTT connections ended by their own fault, by reason',
    labelNames: ['reason'],
    registers: [registry],
    collect() {
      this.reset()
      this.inc({ reason: 'handshake' }, server?.handshakesFailed ?? 0)
      this.inc({ reason: 'memory' }, server?.cutOff ?? 0)
    },
  })
}

/** @param {import('prom-client').Registry} registry  @param {Measured} measured */
function registerBroker(registry, { external }) {
  const counter = define(Counter, registry, PREFIX)
  const gauge = define(Gauge, registry, PREFIX)
  gauge(
    'broker_connected',
    '1 if messages can come from the broker; always from the one inside',
    () => {
      return Number(external?.isConnected ?? true)
    },
  )
  counter('broker_reconnects_total', 'connections to the external broker after the first', () => {
    return external?.reconnects ?? 0
  })
  counter('broker_redeliveries_total', 'messages that the external broker sent again', () => {
    return external?.redeliveries ?? 0
  })
  counter('broker_retained_ignored_total', 'retained messages without a time of their own', () => {
    return external?.retainedIgnored ?? 0
  })
  gauge(
    'broker_unacknowledged',
    'messages of the external broker that are not acknowledged',
    () => {
      return external?.unacknowledged ?? 0
    },
  )
}

/** @param {import('prom-client').Registry} registry  @param {Measured} measured */
function registerSparkplug(registry, { edgeNodes }) {
  const counter = define(Counter, registry, PREFIX)
  const { counts } = edgeNodes
  counter('sparkplug_births_total', 'births of edge nodes and devices of Sparkplug', () => {
    return counts.births
  })
  counter(
    'sparkplug_gaps_total',
    'messages of edge nodes that did not follow the one before',
    () => {
      return counts.gaps
    },
  )
  counter('sparkplug_rebirths_total', 'births that edge nodes were asked for', () => {
    return counts.rebirths
  })
  counter('sparkplug_unnamed_total', 'metrics of Sparkplug whose name no birth told', () => {
    return counts.unnamed
  })
  new Gauge({
    name: `${PREFIX}sparkplug_edge_nodes`,
    help: 'edge nodes of Sparkplug that are followed, by state',
    labelNames: ['state'],
    registers: [registry],
    collect() {
      this.reset()
      for (const state of /** @type {const} */ (['online', 'offline', 'unknown'])) {
        this.set({ state }, edgeNodes.countOf(state))
      }
    },
  })
}

/** Redeliveries that were recognised. @param {Measured} measured */
function duplicates({ counts, server }) {
  return counts.duplicates + (server?.duplicates ?? 0)
}

/** @param {import('prom-client').Registry} registry  @param {Measured} measured */
function registerSpool(registry, { counts, spool }) {
  const counter = define(Counter, registry, PREFIX)
  const gauge = define(Gauge, registry, PREFIX)
  gauge('messages_spooled', 'messages on disk that wait for the database', () => counts.spooled)
  counter('messages_recovered_total', 'messages that an earlier run left in the spool', () => {
    return counts.recovered
  })
  counter(
    'messages_lost_total',
    'messages that the spool lost: their file is damaged or gone',
    () => {
      return counts.lost
    },
  )
  gauge('spool_bytes', 'bytes on disk of the spool', () => spool?.bytes ?? 0)
  gauge('spool_bytes_max', 'most bytes on disk of the spool', () => spool?.bytesMax ?? 0)
  gauge('spool_age_seconds', 'how long ago the oldest message of the spool arrived', () => {
    return spool?.oldestMs === undefined ? 0 : Math.max(0, Date.now() - spool.oldestMs) / 1000
  })
  counter('spool_failures_total', 'attempts to write to the spool that failed', () => {
    return spool?.failures ?? 0
  })
  counter(
    'spool_read_failures_total',
    'attempts to read the spool that failed and are repeated',
    () => {
      return spool?.readFailures ?? 0
    },
  )
  counter('spool_damaged_total', 'files of the spool that are damaged, cut or missing', () => {
    return spool?.damaged ?? 0
  })
}

/** @param {import('prom-client').Registry} registry  @param {Measured} measured */
function registerRollups(registry, { dirtyHours, rollups }) {
  const counter = define(Counter, registry, PREFIX)
  const gauge = define(Gauge, registry, PREFIX)
  gauge('rollup_lag_seconds', 'how far rollups are behind, in the worst part of ours', () => {
    return rollups.lagS
  })
  gauge('rollup_shards', 'parts of the work on rollups that this process does', () => {
    return rollups.shardCount
  })
  counter('rollup_windows_total', 'hours and days that were summed up', () => {
    return rollups.counts.windows
  })
  counter('rollup_expired_total', 'hours and days left as they were: raw rows may be gone', () => {
    return rollups.counts.expired
  })
  counter('rollup_failures_total', 'times that the work on rollups had to wait', () => {
    return rollups.counts.failures
  })
  counter('rollup_begun_total', 'parts of the work of which all hours were marked dirty', () => {
    return rollups.counts.begun
  })
  gauge('rollup_clock_wait_seconds', 'how far the clock is behind the slots worked off', () => {
    return rollups.clockWaitS
  })
  counter('rollup_late_marks_total', 'hours marked dirty that were over', () => dirtyHours.late)
  counter('rollup_again_total', 'messages durable too late for their marks', () => dirtyHours.again)
}

/** @param {import('prom-client').Registry} registry  @param {Measured} measured */
function registerWidths(registry, { widths }) {
  new Counter({
    name: `${PREFIX}layouts_total`,
    help: 'layouts added because of what a sensor sends, by whether buckets get narrower or wider',
    labelNames: ['change'],
    registers: [registry],
    collect() {
      this.reset()
      const { narrower, wider } = widths.counts
      this.inc({ change: 'narrower' }, narrower)
      this.inc({ change: 'wider' }, wider)
    },
  })
  define(Counter, registry, PREFIX)(
    'layout_failures_total',
    'layouts that could not be added, and are decided anew',
    () => widths.counts.failures,
  )
}

/** @param {import('prom-client').Registry} registry  @param {Counts} counts */
function registerDeadLetters(registry, counts) {
  new Counter({
    name: `${PREFIX}dead_letters_total`,
    help: 'messages that became dead letters, by the kind of reason',
    labelNames: ['reason'],
    registers: [registry],
    collect() {
      this.reset()
      for (const [reason, count] of Object.entries(counts.deadLetters)) this.inc({ reason }, count)
    },
  })
}

/** @param {import('prom-client').Registry} registry  @param {Counts} counts */
function registerRefusedFields(registry, counts) {
  for (const [name, help, byFormat] of /** @type {const} */ ([
    [
      'partial_messages_total',
      'messages stored without some of their fields, by format; each is kept as a dead letter, too',
      counts.partialMessages,
    ],
    ['refused_fields_total', 'those fields, by format', counts.refusedFields],
  ])) {
    new Counter({
      name: `${PREFIX}${name}`,
      help,
      labelNames: ['format'],
      registers: [registry],
      collect() {
        this.reset()
        for (const [format, count] of byFormat) this.inc({ format: formatName(format) }, count)
      },
    })
  }
}

/**
 * @param {import('prom-client').Registry} registry
 * @param {{ name: string, help: string, bounds: number[], scale: number,
 *   values: Histogram }} histogram  `scale` is the size of a bound in the unit of the values.
 */
function registerHistogram(registry, { name, help, bounds, scale, values }) {
  const metric = {
    name,
    get: async () => ({
      name,
      help,
      type: 'histogram',
      aggregator: 'sum',
      values: [
        ...bounds.map((bound) => ({
          metricName: `${name}_bucket`,
          labels: { le: bound },
          value: values.countUpTo(bound * scale),
        })),
        { metricName: `${name}_bucket`, labels: { le: '+Inf' }, value: values.count },
        { metricName: `${name}_sum`, labels: {}, value: values.sum / scale },
        { metricName: `${name}_count`, labels: {}, value: values.count },
      ],
    }),
  }
  registry.registerMetric(/** @type {any} */ (metric))
}

/**
 * The document `/stats`: counts of messages since the start.
 * received + recovered = stored + deadLettered + spooled + held + droppedQos0 + lost.
 *
 * @param {Measured} measured
 */
export function stats(measured) {
  const { counts, server, inFlight, spool, rollups, database } = measured
  const { publishToStored } = counts
  return {
    received: counts.received,
    stored: counts.storedMessages,
    deadLettered: counts.deadLettered,
    held: inFlight.count,
    spooled: counts.spooled,
    recovered: counts.recovered,
    droppedQos0: counts.droppedQos0,
    lost: counts.lost,
    duplicates: duplicates(measured),
    connections: server?.connectionCount ?? 0,
    heldBytes: inFlight.bytes,
    spoolBytes: spool?.bytes ?? 0,
    publishToStoredMs: { p50: publishToStored.quantile(0.5), p99: publishToStored.quantile(0.99) },
    rollupLagS: rollups.lagS,
    retentionClass: measured.registry.className,
    database: database.isUp ? 'up' : 'down',
    uptimeS: Math.floor(process.uptime()),
  }
}
