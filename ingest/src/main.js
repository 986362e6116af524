#!/usr/bin/env node
/** The ingest service: MQTT in, rows out. */

import { Database } from '@sandglass/common/database'
import { createRegistry, serveMetrics } from '@sandglass/common/metrics'
import { readOptions, requireLoopback } from '@sandglass/common/options'
import { run } from '@sandglass/common/service'
import { Batcher, CLUSTER_LIMITS, SANDGLASS_LIMITS } from './batcher.js'
import { Broker } from './broker/broker.js'
import { Gate } from './broker/gate.js'
import { Counts } from './counts.js'
import { healLatest } from './heal.js'
import { Latest } from './latest.js'
import { registerMetrics, stats } from './metrics.js'
import { options as specs } from './options.js'
import { Pipeline } from './pipeline.js'
import { Recent } from './recent.js'
import { Registry } from './registry.js'
import { Rows } from './rows.js'
import { Storage } from './storage.js'
import { Writer } from './writer.js'

/** How often values whose turn has come are written to `latest`, in milliseconds. */
const LATEST_MS = 250

/** How long held messages may take to become durable when the service stops, in milliseconds. */
const STOP_HOLD_MS_MAX = 5_000

/**
 * @typedef {import('@sandglass/common/database').DatabaseOptions &
 *   import('./broker/gate.js').GateLimits & Record<string, any>} IngestOptions
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

/**
 * Everything between MQTT and the database, joined but not started.
 *
 * @param {Database} database
 * @param {import('pino').Logger} logger
 */
function build(database, logger) {
  const storage = new Storage(database)
  const rows = new Rows(database.keyspace)
  const counts = new Counts()
  const recent = new Recent()
  const { sensorsMax, retentionClass: className } = options
  const registry = new Registry({ reader: storage, rows, sensorsMax, className })
  const writer = new Writer({
    store: storage,
    outcome: {
      stored: (row) => {
        counts.rows++
        pipeline.stored(row)
      },
      refused: (row, error) => {
        logger.error({ query: row.query, reason: error.message }, 'the database refuses a row')
        pipeline.refused(row, error)
      },
      failed: (error) => {
        counts.failures++
        logger.debug({ reason: error.message }, 'a request failed and is repeated')
      },
    },
  })
  const onRequest = (/** @type {number} */ count) => counts.requestRows.note(count)
  const batcher = new Batcher({ writer, limits: CLUSTER_LIMITS, onRequest })
  const { heldBytesMax, qos0BytesMax } = options
  const pipeline = new Pipeline({
    ...{ registry, rows, recent, latest: new Latest(), counts },
    write: (row) => batcher.add(row),
    isWritten: () => batcher.isIdle,
    limits: { heldBytesMax, qos0BytesMax },
  })
  const broker = new Broker({ logger })
  const gate = new Gate({ broker, sink: pipeline, limits: options, logger })
  return { storage, rows, counts, recent, registry, writer, batcher, pipeline, broker, gate }
}

await run('ingest', async ({ logger, onStop }) => {
  requireLoopback('--mqtt-listen', options.mqttListen, options.allowRemote)
  requireLoopback('--ingest-http', options.ingestHttp, options.allowRemote)
  const database = new Database(options, logger)
  onStop('database', () => database.close())
  const parts = build(database, logger)
  const { registry, writer, batcher, pipeline, broker, gate, recent, storage, rows } = parts
  onStop('writer', () => writer.stop())
  onStop('registry', () => registry.stop())

  const metrics = createRegistry('sandglass_ingest_')
  const measured = { ...parts, database }
  registerMetrics(metrics, measured)
  const http = await serveMetrics({
    listen: options.ingestHttp,
    registry: metrics,
    health: () => ({ ok: database.isUp, database: database.isUp ? 'up' : 'down' }),
    documents: { '/stats': () => stats(measured) },
  })
  onStop('http', () => http.stop())

  await broker.start()
  onStop('broker', () => broker.stop())
  const port = await gate.start(options.mqttListen)
  const timer = setInterval(() => {
    pipeline.writeLatest()
    recent.age()
  }, LATEST_MS)
  onStop('latest', async () => {
    clearInterval(timer)
    await pipeline.finishLatest(STOP_HOLD_MS_MAX)
  })
  onStop('gate', () => gate.stop(STOP_HOLD_MS_MAX))

  database.on('up', () => writer.wake())
  await database.connect({ createSchema: true })
  if (database.isSandglass) batcher.limits = SANDGLASS_LIMITS
  void registry.start()
  const { keyspace } = database
  void healLatest({ storage, rows, logger, keyspace, write: (row) => batcher.add(row) })
  const { host } = options.mqttListen
  logger.info({ mqtt: `${host}:${port}`, http: http.port }, 'ready')
})
