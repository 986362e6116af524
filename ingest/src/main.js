#!/usr/bin/env node
/** The ingest service: MQTT in, rows out. */

import cluster from 'node:cluster'
import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { Database } from '@sandglass/common/database'
import { DESIRED_LEVEL } from '@sandglass/common/desired'
import { DecoderStore } from '@sandglass/common/expressions/decoder-store'
import { KeyStore } from '@sandglass/common/key-store'
import { createRegistry } from '@sandglass/common/metrics'
import { isLoopback, readOptions, requireLoopback, SettingError } from '@sandglass/common/options'
import { ROLLUP_SHARDS } from '@sandglass/common/rollup'
import { byParent, run } from '@sandglass/common/service'
import { Access } from './broker/entrance/access.js'
import { followDecoders } from './decoder-followers.js'
import { Belongings } from './deletion/belongings.js'
import { letterSensors } from './deletion/letters.js'
import { DeletionStore } from './deletion/store.js'
import { DeletionWorker } from './deletion/worker.js'
import { clientOptionsOf } from './external/settings.js'
import { buildHttp } from './http/app.js'
import { replay } from './http/replay.js'
import { buildIngest, openLeftSpools, openSpool } from './ingest.js'
import { sleepMs } from './jobs/jobs.js'
import { registerMetrics, stats } from './metrics.js'
import { carriersOf } from './notify/carriers.js'
import { Sender } from './notify/sender.js'
import {
  identityOf,
  listensOf,
  processesOf,
  shareOf,
  sharesSensors,
  options as specs,
} from './options.js'
import { DIRECTORY_VARIABLE, INDEX_VARIABLE } from './processes/first.js'
import { Member } from './processes/member.js'
import { RemoteBroker } from './processes/remote-broker.js'
import { joinHealth, joinMetrics, joinStats } from './processes/reports.js'
import { RewriteStore } from './rewrite/store.js'
import { RewriteWorker } from './rewrite/worker.js'
import { createRollupStore } from './rollup/store.js'
import { RollupWorker } from './rollup/worker.js'
import { Hearing } from './rules/hearing.js'
import { RuleStore } from './rules/store.js'
import { RuleWorker } from './rules/worker.js'
import { BucketWidths, SAMPLE_MS } from './sensors/bucket-widths.js'
import { DesiredStates } from './sensors/desired.js'
import { LATEST_SLOT_MS } from './sensors/latest.js'
import { repairLatest } from './sensors/repair-latest.js'
import { runFirst } from './several.js'
import { inside, outside } from './source.js'
import { SANDGLASS_LIMITS } from './write/batcher.js'
import { Storage } from './write/storage.js'

/** How often what is remembered for a while is looked at, in milliseconds. */
const AGE_MS = 250

/** Connections that come in in a turn of the event loop, where many wait: ADR 0067. */
const DOORS = 16

/** How often it is looked whether messages wait for too long, in milliseconds. */
const DIVERSION_MS = 100

/** How long messages in flight may take to become durable when the service stops, in ms. */
const STOP_HOLD_MS_MAX = 5_000

/**
 * @typedef {import('@sandglass/common/database').DatabaseOptions &
 *   import('./ingest.js').IngestLimits & import('./broker/server.js').ServerLimits &
 *   import('./external/settings.js').BrokerOptions &
 *   { topicTemplates: import('@sandglass/common/topics').Topics, smtpUrl?: string,
 *     mailFrom?: string } &
 *   Record<string, any>} IngestOptions
 */

const given = /** @type {IngestOptions} */ (
  readOptions(
    {
      name: 'ingest',
      description: 'An MQTT broker that stores what sensors publish before it acknowledges it.',
      options: specs,
    },
    process.argv,
  )
)

const count = processesOf(given)

/** This process as one of several. */
const member = cluster.isWorker
  ? new Member({
      index: Number(process.env[INDEX_VARIABLE]),
      count,
      directory: String(process.env[DIRECTORY_VARIABLE]),
    })
  : undefined

const options = member ? shareOf(given, member.index, count) : given

// A broker gives the messages of a sensor to any of the processes.
options.shareSensors = sharesSensors(options)

/** @typedef {import('./http/app.js').Health} Health */

/** @param {boolean} isUp */
const upOrDown = (isUp) => (isUp ? 'up' : 'down')

/**
 * @param {ReturnType<typeof buildIngest>} parts
 * @param {Database} database
 * @param {import('pino').Logger} logger
 * @returns {import('./source.js').Source}
 */
function openSource({ pipeline: sink, statuses, memory, edgeNodes }, database, logger) {
  const { topicTemplates: topics, sparkplugHost: host } = options
  if (options.mqttUrl) {
    const client = clientOptionsOf(options, process.env, hostname())
    const { mqttShare: share, lineTopic } = options
    const onEmpty = options.mqttLeave ? () => process.kill(process.pid, 'SIGTERM') : undefined
    const external = { share, topics, lineTopic, onEmpty }
    return outside({ sink, memory, client, options: external, edgeNodes, host, logger })
  }
  const access = options.requireKeys
    ? new Access({ keys: new KeyStore({ database, logger }), topics })
    : undefined
  const identity = identityOf(options)
  const listens = listensOf(options)
  for (const { kind, listen } of listens) {
    requireLoopback(`--${kind}-listen`, listen, options.allowRemote || options.requireKeys)
    const isOpen = !isLoopback(listen) && (kind === 'mqtt' || kind === 'ws')
    if (access && isOpen) logger.warn({ kind }, 'keys travel without encryption: listen with TLS')
  }
  return inside({
    broker: member && new RemoteBroker(member.hub),
    member,
    doors: DOORS,
    sink,
    memory,
    limits: options,
    listens,
    identity,
    access,
    statuses,
    edgeNodes,
    host,
    topics,
    logger,
  })
}

/**
 * @param {object} what
 * @param {ReturnType<typeof buildIngest>} what.parts
 * @param {Storage} what.storage
 * @param {{ contentType: string, metrics: () => Promise<string> }} what.metrics
 * @param {() => unknown} what.stats
 * @param {() => Health | Promise<Health>} what.health
 * @param {DesiredStates} what.desired
 */
function openHttp({ parts, storage, metrics, stats: tell, health, desired }) {
  const { pipeline } = parts
  const accept = (/** @type {import('./message/message.js').Message} */ message) =>
    pipeline.accept(message)
  return buildHttp({
    sink: pipeline,
    registry: metrics,
    health,
    stats: tell,
    publishDesired: (id) => desired.publish(id),
    replay: (ids, retention) => replay(ids, { ...parts, reader: storage, accept, retention }),
    bodies: parts.memory.shares.bodies,
    bodyBytesMax: options.bodyBytesMax,
    isLoopback: isLoopback(options.ingestHttp),
  })
}

/**
 * What ingest tells about itself; one of several processes asks all of them.
 *
 * @param {Parameters<typeof stats>[0]} measured
 */
function reportsOf(measured) {
  const { database, external } = measured
  const metrics = createRegistry('sandglass_ingest_')
  registerMetrics(metrics, measured)
  const own = {
    metrics,
    stats: () => ({ ...stats(measured), pid: process.pid }),
    health: () => ({
      ok: database.isUp && (external?.isConnected ?? true),
      database: upOrDown(database.isUp),
      ...(external && { broker: upOrDown(external.isConnected) }),
    }),
  }
  if (!member) return own
  member.answer({ ...own, metrics: () => metrics.getMetricsAsJSON() })
  return {
    metrics: {
      contentType: metrics.contentType,
      metrics: async () => joinMetrics(await member.ask('metrics')),
    },
    stats: async () => joinStats(await member.ask('stats')),
    health: async () => joinHealth(await member.ask('health'), count),
  }
}

/**
 * What is done besides storing, now and then.
 *
 * @param {object} parts
 * @param {import('./sensors/registry.js').Registry} parts.registry
 * @param {import('./rollup/slot-clock.js').SlotClock} parts.slotClock
 * @param {import('./deletion/known.js').KnownDeletions} parts.deletions
 * @param {DesiredStates} parts.desired
 * @param {import('./write/rows.js').Rows} parts.rows
 * @param {import('./rules/watch.js').RuleWatch} parts.rules
 * @param {import('./rules/hearing.js').Held} parts.held
 * @param {(() => number | undefined) | undefined} parts.brokerMs  When an external broker sent
 *   something last.
 * @param {import('./notify/mqtt.js').Publish} parts.publish
 * @param {Storage} parts.storage
 * @param {string} parts.keyspace
 * @param {import('pino').Logger} parts.logger
 */
function buildWork({ registry, slotClock: clock, deletions: known, rows, rules, ...parts }) {
  const { storage, keyspace, logger, desired, publish, held, brokerMs } = parts
  const store = createRollupStore(storage, keyspace)
  const rollups = new RollupWorker({ store, id: randomUUID(), clock, logger })
  const settled = {
    id: randomUUID(),
    owns: (/** @type {number} */ shard) => rollups.owns(shard),
    settleMs: Number(options.rewriteWaitS) * 1000,
    logger,
  }
  const rewrites = new RewriteWorker({ ...settled, store: new RewriteStore(storage, keyspace) })
  const deletions = new DeletionWorker({
    ...settled,
    store: new DeletionStore({ storage, keyspace, rows }),
    belongings: new Belongings({
      storage,
      keyspace,
      sensorOf: letterSensors(options.topicTemplates),
      desired,
    }),
    rollups: store,
    clock,
    registry,
    known,
  })
  const isAlone = () => rollups.shardCount === ROLLUP_SHARDS
  const widths = new BucketWidths({ registry, store: storage, isAlone, logger })
  return {
    rollups,
    rewrites,
    deletionWorker: deletions,
    widths,
    ...buildRules({
      rules,
      store: new RuleStore(storage, keyspace),
      owns: settled.owns,
      clock,
      held,
      brokerMs,
      logger,
      carriers: carriersOf({ options, env: process.env, publish }),
    }),
  }
}

/**
 * @param {object} parts
 * @param {import('./rules/watch.js').RuleWatch} parts.rules
 * @param {RuleStore} parts.store
 * @param {(shard: number) => boolean} parts.owns
 * @param {import('./rollup/slot-clock.js').SlotClock} parts.clock
 * @param {import('./rules/hearing.js').Held} parts.held
 * @param {(() => number | undefined) | undefined} parts.brokerMs  When an external broker sent
 *   something last.
 * @param {ReturnType<typeof carriersOf>} parts.carriers
 * @param {import('pino').Logger} parts.logger
 */
function buildRules({ rules: watch, carriers, held, brokerMs, ...parts }) {
  watch.prepare()
  const { store, clock } = parts
  const hearing = new Hearing({ store, id: randomUUID(), clock, held, brokerMs })
  const now = () => parts.clock.wallNow()
  return {
    ruleWorker: new RuleWorker({ ...parts, watch, hearing, sleep: sleepMs }),
    sender: new Sender({ ...parts, carriers, now, sleep: sleepMs }),
  }
}

/**
 * @param {ReturnType<typeof buildWork>} work
 * @param {(name: string, stop: () => unknown) => void} onStop
 */
function startWork({ rollups, rewrites, deletionWorker, widths, ruleWorker, sender }, onStop) {
  void rollups.run()
  onStop('rollups', () => rollups.stop())
  void rewrites.run()
  onStop('rewrites', () => rewrites.stop())
  void deletionWorker.run()
  onStop('deletions', () => deletionWorker.stop())
  void ruleWorker.listen()
  void ruleWorker.run()
  onStop('alert rules', () => ruleWorker.stop())
  void sender.run()
  onStop('notifications', () => sender.stop())
  const widthsTimer = setInterval(() => void widths.turn(), SAMPLE_MS)
  onStop('widths', () => {
    clearInterval(widthsTimer)
    widths.stop()
  })
}

/** @param {Storage} storage  @param {string} keyspace */
function decoderReader(storage, keyspace) {
  return new DecoderStore(keyspace, (query, params) => storage.read(query, params))
}

/**
 * Writes newest values when their turn has come, while any wait for it; gives what ends that.
 *
 * @param {Pick<ReturnType<typeof buildIngest>, 'latest' | 'measurements'>} parts
 */
function keepLatest({ latest, measurements }) {
  /** @type {NodeJS.Timeout | undefined} */
  let timer
  const wait = () => {
    timer = setTimeout(write, LATEST_SLOT_MS)
  }
  const write = () => {
    measurements.writeLatest()
    if (latest.isWaiting) wait()
  }
  latest.onWaiting = wait
  return () => {
    latest.onWaiting = () => {}
    clearTimeout(timer)
  }
}

/** Refuses settings that contradict each other. @throws {SettingError} */
function requireFit() {
  if (options.mqttUrl && options.ingestProcesses > 1) {
    throw new SettingError(
      '--ingest-processes is for devices that connect here: with --mqtt-url start several, each ' +
        'with its own --spool-dir and --ingest-http.',
    )
  }
  requireLoopback('--ingest-http', options.ingestHttp, options.allowRemote)
  if (options.topicTemplates.touches(DESIRED_LEVEL) || options.lineTopic === DESIRED_LEVEL) {
    throw new SettingError(`--topic-templates and --line-topic leave ${DESIRED_LEVEL}/… to us.`)
  }
  if (options.topicTemplates.touches(options.lineTopic)) {
    throw new SettingError('--topic-templates and --line-topic share topics: change one of them.')
  }
}

/** @param {Parameters<Parameters<typeof run>[1]>[0]} life */
async function serve({ logger, onStop }) {
  requireFit()
  const database = new Database(options, logger)
  onStop('database', () => database.close())
  const { keyspace } = database
  const storage = new Storage(database)
  const parts = buildIngest({ storage, keyspace, limits: options, logger })
  const { registry, measurements, writer, batcher, places, counts } = parts
  const { spool, diversion, drain, inFlight, knownDecoders, evaluator } = parts
  const source = openSource(parts, database, logger)
  onStop('expressions', () => evaluator.stop())
  onStop('writer', () => writer.stop())
  onStop('registry', () => registry.stop())
  if (spool) {
    await openSpool(spool, counts)
    onStop('spool', () => spool.close())
  }
  followDecoders(knownDecoders, source)
  await knownDecoders.load()
  const isFirst = spool !== undefined && (member?.index ?? 0) === 0
  const left = isFirst
    ? await openLeftSpools({ ...parts, directory: spool.directory, count, logger })
    : []
  onStop('spools that were left', () => Promise.all(left.map(({ spool: one }) => one.close())))

  const desired = new DesiredStates({ storage, keyspace, tell: source.retain, logger })
  const connected = new Promise((resolve) => database.once('up', resolve))
  source.onReady(() => void connected.then(() => desired.publishAll()))
  onStop('desired states', () => desired.stop())
  const { publish, external } = source
  const spools = [...(spool ? [spool] : []), ...left.map(({ spool: one }) => one)]
  const held = { inFlight, spools }
  const brokerMs = external && (() => external.heardMs)
  const told = { publish, held, brokerMs }
  const work = buildWork({ ...parts, ...told, storage, keyspace, desired, logger })
  const reports = reportsOf({ ...parts, ...source, ...work, desired, database })
  const http = openHttp({ parts, storage, desired, ...reports })
  onStop('http', () => http.close())
  await http.listen(options.ingestHttp)

  const leaveLatest = keepLatest(parts)
  const mqtt = await source.start()
  const ageTimer = setInterval(() => {
    registry.age()
    places.age()
    counts.age()
  }, AGE_MS)
  onStop('latest', async () => {
    leaveLatest()
    clearInterval(ageTimer)
    await measurements.finishLatest(STOP_HOLD_MS_MAX)
  })
  const diversionTimer = setInterval(
    () => diversion?.look(inFlight, performance.now()),
    DIVERSION_MS,
  )
  onStop('source', async () => {
    await source.stop(STOP_HOLD_MS_MAX)
    clearInterval(diversionTimer)
  })

  database.on('up', () => writer.wake())
  await database.connect({ createSchema: true })
  if (database.isSandglass) batcher.limits = SANDGLASS_LIMITS
  void knownDecoders.follow(decoderReader(storage, keyspace))
  onStop('decoders', () => knownDecoders.stop())
  void registry.start()
  void drain?.run()
  for (const { drain: one } of left) void one.run()
  startWork(work, onStop)
  void repairLatest({ ...parts, storage, keyspace, logger })
  const { host, port } = options.ingestHttp
  logger.info({ mqtt, http: `${host}:${port}` }, 'ready')
}

if (count > 1 && !member) await run('ingest', (life) => runFirst({ ...life, options, count }))
else await run('ingest', serve, member && byParent)
