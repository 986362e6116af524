#!/usr/bin/env node
/** The ingest service: MQTT in, rows out. */

import { Database } from '@sandglass/common/database'
import { createRegistry } from '@sandglass/common/metrics'
import { isLoopback, readOptions, requireLoopback } from '@sandglass/common/options'
import { run } from '@sandglass/common/service'
import { SANDGLASS_LIMITS } from './batcher.js'
import { healLatest } from './heal.js'
import { buildHttp } from './http.js'
import { buildIngest } from './ingest.js'
import { registerMetrics, stats } from './metrics.js'
import { options as specs } from './options.js'
import { replay } from './replay.js'
import { Storage } from './storage.js'

/** How often values whose turn has come are written to `latest`, in milliseconds. */
const LATEST_MS = 250

/** How often it is looked whether messages wait for too long, in milliseconds. */
const DETOUR_MS = 100

/** How long held messages may take to become durable when the service stops, in milliseconds. */
const STOP_HOLD_MS_MAX = 5_000

/**
 * @typedef {import('@sandglass/common/database').DatabaseOptions &
 *   import('./ingest.js').IngestLimits & Record<string, any>} IngestOptions
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

await run('ingest', async ({ logger, onStop }) => {
  requireLoopback('--mqtt-listen', options.mqttListen, options.allowRemote)
  requireLoopback('--ingest-http', options.ingestHttp, options.allowRemote)
  const database = new Database(options, logger)
  onStop('database', () => database.close())
  const { keyspace } = database
  const storage = new Storage(database)
  const parts = buildIngest({ storage, keyspace, limits: options, logger })
  const { registry, writer, batcher, pipeline, broker, gate, recent, counts } = parts
  const { spool, detour, drain, held } = parts
  onStop('writer', () => writer.stop())
  onStop('registry', () => registry.stop())
  if (spool) {
    counts.recovered = await spool.open()
    counts.spooled = counts.recovered
    onStop('spool', () => spool.close())
  }

  const metrics = createRegistry('sandglass_ingest_')
  const measured = { ...parts, database }
  registerMetrics(metrics, measured)
  const accept = (/** @type {import('./message.js').Message} */ message) => pipeline.accept(message)
  const http = buildHttp({
    sink: pipeline,
    registry: metrics,
    health: () => ({ ok: database.isUp, database: database.isUp ? 'up' : 'down' }),
    stats: () => stats(measured),
    replay: (ids) => replay(ids, { ...parts, reader: storage, accept }),
    isLoopback: isLoopback(options.ingestHttp),
  })
  onStop('http', () => http.close())
  await http.listen(options.ingestHttp)

  await broker.start()
  onStop('broker', () => broker.stop())
  const port = await gate.start(options.mqttListen)
  const timer = setInterval(() => {
    pipeline.writeLatest()
    recent.age()
    counts.age()
  }, LATEST_MS)
  onStop('latest', async () => {
    clearInterval(timer)
    await pipeline.finishLatest(STOP_HOLD_MS_MAX)
  })
  const detourTimer = setInterval(() => detour?.look(held, performance.now()), DETOUR_MS)
  onStop('gate', async () => {
    await gate.stop(STOP_HOLD_MS_MAX)
    clearInterval(detourTimer)
  })

  database.on('up', () => writer.wake())
  await database.connect({ createSchema: true })
  if (database.isSandglass) batcher.limits = SANDGLASS_LIMITS
  void registry.start()
  void drain?.run()
  void healLatest({ ...parts, storage, keyspace, logger })
  const { host } = options.mqttListen
  logger.info(
    { mqtt: `${host}:${port}`, http: `${options.ingestHttp.host}:${options.ingestHttp.port}` },
    'ready',
  )
})
