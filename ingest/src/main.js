#!/usr/bin/env node
/** The ingest service: MQTT in, rows out. */

import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { Database } from '@sandglass/common/database'
import { KeyStore } from '@sandglass/common/key-store'
import { createRegistry } from '@sandglass/common/metrics'
import { isLoopback, readOptions, requireLoopback, SettingError } from '@sandglass/common/options'
import { ROLLUP_SHARDS } from '@sandglass/common/rollup'
import { run } from '@sandglass/common/service'
import { SANDGLASS_LIMITS } from './batcher.js'
import { Access } from './broker/access.js'
import { clientOptionsOf } from './external/settings.js'
import { healLatest } from './heal.js'
import { buildHttp } from './http.js'
import { buildIngest } from './ingest.js'
import { registerMetrics, stats } from './metrics.js'
import { identityOf, listensOf, options as specs } from './options.js'
import { replay } from './replay.js'
import { createRollupStore } from './rollup/store.js'
import { RollupWorker } from './rollup/worker.js'
import { inside, outside } from './source.js'
import { Storage } from './storage.js'
import { SAMPLE_MS, Widths } from './widths.js'

/** How often values whose turn has come are written to `latest`, in milliseconds. */
const LATEST_MS = 250

/** How often it is looked whether messages wait for too long, in milliseconds. */
const DETOUR_MS = 100

/** How long held messages may take to become durable when the service stops, in milliseconds. */
const STOP_HOLD_MS_MAX = 5_000

/**
 * @typedef {import('@sandglass/common/database').DatabaseOptions &
 *   import('./ingest.js').IngestLimits & import('./broker/gate.js').GateLimits &
 *   import('./external/settings.js').BrokerOptions &
 *   { topicTemplates: import('@sandglass/common/topics').Topics } &
 *   Record<string, any>} IngestOptions
 */

const options = /** @type {IngestOptions} */ (
  readOptions(
    {
      name: 'ingest',
      description: 'An MQTT broker that stores what sensors publish before it acknowledges it.',
      options: specs,
    },
    process.argv,
  )
)

// A broker gives the messages of a sensor to any of the processes.
options.shareSensors ||= options.mqttUrl !== undefined

/** @param {boolean} isUp */
const upOrDown = (isUp) => (isUp ? 'up' : 'down')

/**
 * @param {import('./broker/gate.js').Sink} sink
 * @param {import('./statuses.js').Statuses} statuses
 * @param {Database} database
 * @param {import('pino').Logger} logger
 * @returns {import('./source.js').Source}
 */
function openSource(sink, statuses, database, logger) {
  const { topicTemplates: topics } = options
  if (options.mqttUrl) {
    const client = clientOptionsOf(options, process.env, hostname())
    const { mqttShare: share, lineTopic } = options
    const onEmpty = options.mqttLeave ? () => process.kill(process.pid, 'SIGTERM') : undefined
    return outside({ sink, client, options: { share, topics, lineTopic, onEmpty }, logger })
  }
  const access = options.requireKeys
    ? new Access({ keys: new KeyStore({ database }), topics })
    : undefined
  const identity = identityOf(options)
  const listens = listensOf(options)
  for (const { kind, listen } of listens) {
    requireLoopback(`--${kind}-listen`, listen, options.allowRemote || options.requireKeys)
    const isOpen = !isLoopback(listen) && (kind === 'mqtt' || kind === 'ws')
    if (access && isOpen) logger.warn({ kind }, 'keys travel without encryption: listen with TLS')
  }
  return inside({ sink, limits: options, listens, identity, access, statuses, topics, logger })
}

await run('ingest', async ({ logger, onStop }) => {
  requireLoopback('--ingest-http', options.ingestHttp, options.allowRemote)
  if (options.topicTemplates.touches(options.lineTopic)) {
    throw new SettingError('--topic-templates and --line-topic share topics: change one of them.')
  }
  const database = new Database(options, logger)
  onStop('database', () => database.close())
  const { keyspace } = database
  const storage = new Storage(database)
  const parts = buildIngest({ storage, keyspace, limits: options, logger })
  const { registry, writer, batcher, pipeline, places, counts } = parts
  const { spool, detour, drain, held } = parts
  const source = openSource(pipeline, parts.statuses, database, logger)
  const { external } = source
  onStop('writer', () => writer.stop())
  onStop('registry', () => registry.stop())
  if (spool) {
    counts.recovered = await spool.open()
    counts.spooled = counts.recovered
    onStop('spool', () => spool.close())
  }

  const rollups = new RollupWorker({
    store: createRollupStore(storage, keyspace),
    id: randomUUID(),
    logger,
  })
  const isAlone = () => rollups.shardCount === ROLLUP_SHARDS
  const widths = new Widths({ registry, store: storage, isAlone, logger })
  const metrics = createRegistry('sandglass_ingest_')
  const measured = { ...parts, ...source, rollups, widths, database }
  registerMetrics(metrics, measured)
  const accept = (/** @type {import('./message.js').Message} */ message) => pipeline.accept(message)
  const http = buildHttp({
    sink: pipeline,
    registry: metrics,
    health: () => ({
      ok: database.isUp && (external?.isConnected ?? true),
      database: upOrDown(database.isUp),
      ...(external && { broker: upOrDown(external.isConnected) }),
    }),
    stats: () => stats(measured),
    replay: (ids) => replay(ids, { ...parts, reader: storage, accept }),
    bodyBytesMax: options.bodyBytesMax,
    isLoopback: isLoopback(options.ingestHttp),
  })
  onStop('http', () => http.close())
  await http.listen(options.ingestHttp)

  const mqtt = await source.start()
  const timer = setInterval(() => {
    pipeline.writeLatest()
    places.age()
    counts.age()
  }, LATEST_MS)
  onStop('latest', async () => {
    clearInterval(timer)
    await pipeline.finishLatest(STOP_HOLD_MS_MAX)
  })
  const detourTimer = setInterval(() => detour?.look(held, performance.now()), DETOUR_MS)
  onStop('source', async () => {
    await source.stop(STOP_HOLD_MS_MAX)
    clearInterval(detourTimer)
  })

  database.on('up', () => writer.wake())
  await database.connect({ createSchema: true })
  if (database.isSandglass) batcher.limits = SANDGLASS_LIMITS
  void registry.start()
  void drain?.run()
  void rollups.run()
  onStop('rollups', () => rollups.stop())
  const widthsTimer = setInterval(() => void widths.turn(), SAMPLE_MS)
  onStop('widths', () => {
    clearInterval(widthsTimer)
    widths.stop()
  })
  void healLatest({ ...parts, storage, keyspace, logger })
  const { host, port } = options.ingestHttp
  logger.info({ mqtt, http: `${host}:${port}` }, 'ready')
})
