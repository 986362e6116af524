/**
 * Everything between MQTT and the database, joined but not started.
 */

import { Batcher, CLUSTER_LIMITS } from './batcher.js'
import { Broker } from './broker/broker.js'
import { Gate } from './broker/gate.js'
import { Counts } from './counts.js'
import { Latest } from './latest.js'
import { Pipeline } from './pipeline.js'
import { Recent } from './recent.js'
import { Registry } from './registry.js'
import { Rows } from './rows.js'
import { Writer } from './writer.js'

/** @typedef {import('./row.js').Row} Row */

/**
 * @typedef {import('./broker/gate.js').GateLimits & import('./pipeline.js').PipelineLimits & {
 *   sensorsMax: number, retentionClass: string }} IngestLimits
 */

/**
 * @param {object} parts
 * @param {import('./writer.js').Store & import('./registry.js').SensorReader} parts.storage
 * @param {string} parts.keyspace
 * @param {IngestLimits} parts.limits
 * @param {import('pino').Logger} parts.logger
 */
export function buildIngest({ storage, keyspace, limits, logger }) {
  const rows = new Rows(keyspace)
  const counts = new Counts()
  const recent = new Recent()
  const { sensorsMax, retentionClass: className } = limits
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
  const write = (/** @type {Row} */ row) => batcher.add(row)
  const pipeline = new Pipeline({
    ...{ registry, rows, recent, latest: new Latest(), counts, limits, write },
    isWritten: () => batcher.isIdle,
  })
  const broker = new Broker({ logger })
  const gate = new Gate({ broker, sink: pipeline, limits, logger })
  return { storage, rows, counts, recent, registry, writer, batcher, write, pipeline, broker, gate }
}
