/**
 * Everything between what MQTT or HTTP bring and the database, joined but not started.
 */

import { Gate } from '@sandglass/common/gate'
import { Topics } from '@sandglass/common/topics'
import { Batcher, CLUSTER_LIMITS } from './batcher.js'
import { Counts } from './counts.js'
import { Detour } from './detour.js'
import { Hashed } from './hashed.js'
import { Held } from './held.js'
import { Latest } from './latest.js'
import { LetterBudget } from './letter-budget.js'
import { Marks } from './marks.js'
import { Past } from './past.js'
import { Pipeline } from './pipeline.js'
import { Recent } from './recent.js'
import { Registry } from './registry.js'
import { Rows } from './rows.js'
import { Drain } from './spool/drain.js'
import { Spool } from './spool/spool.js'
import { Statuses } from './statuses.js'
import { Writer } from './writer.js'

/** @typedef {import('./row.js').Row} Row */

/** Questions about the past that are asked of the database at the same time. */
const PAST_READS_MAX = 128

/**
 * @typedef {import('./held.js').HeldLimits & {
 *   sensorsMax: number, retentionClass: string, lineTopic: string, spoolDir: string,
 *   spoolBytesMax: number, spoolAfterMs: number, deadLettersMax: number,
 *   deadLetterBytesMax: number, shareSensors?: boolean, topicTemplates?: Topics }} IngestLimits
 */

/**
 * @param {object} parts
 * @param {import('./writer.js').Store & import('./registry.js').SensorReader &
 *   import('./past.js').PastReader} parts.storage
 * @param {string} parts.keyspace
 * @param {IngestLimits} parts.limits
 * @param {import('pino').Logger} parts.logger
 * @param {Recent} [parts.recent]
 * @param {() => number} [parts.now]  Milliseconds since the Unix epoch.
 */
export function buildIngest({ storage, keyspace, limits, logger, recent = new Recent(), now }) {
  const rows = new Rows(keyspace)
  const counts = new Counts()
  const held = new Held(limits)
  const { spoolDir: directory, spoolBytesMax, spoolAfterMs: afterMs } = limits
  const spool =
    spoolBytesMax > 0 ? new Spool({ directory, bytesMax: spoolBytesMax, logger }) : undefined
  const detour = spool && new Detour({ spool, afterMs })
  const past = new Past({ reader: storage, recent, gate: new Gate(PAST_READS_MAX) })
  const places = limits.shareSensors ? new Hashed() : recent
  const marks = new Marks({ rows, now })
  const { sensorsMax, retentionClass: className } = limits
  const registry = new Registry({ reader: storage, rows, sensorsMax, className, wallNow: now })
  const writer = new Writer({
    store: storage,
    outcome: {
      stored: (row) => {
        counts.rows++
        pipeline.stored(row)
      },
      wrote: (ms) => detour?.wrote(ms),
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
    ...{ registry, rows, places, past, latest: new Latest(), marks, counts, held, detour, write },
    topics: limits.topicTemplates ?? new Topics(),
    lineTopic: limits.lineTopic,
    letterBudget: new LetterBudget(limits),
    unwrite: (isUseless) => batcher.drop(isUseless),
    isWritten: () => batcher.isIdle,
  })
  const drain = spool && joinSpool(spool, pipeline, counts)
  return {
    ...{ storage, rows, counts, held, places, past, registry, writer, batcher, write, pipeline },
    ...{ spool, detour, drain, marks },
    statuses: new Statuses({ rows, write }),
  }
}

/**
 * @param {Spool} spool
 * @param {Pipeline} pipeline
 * @param {Counts} counts
 */
function joinSpool(spool, pipeline, counts) {
  spool.outcome = {
    durable: (messages) => pipeline.spooled(messages),
    failed: (messages) => pipeline.notSpooled(messages),
  }
  return new Drain({
    spool,
    accept: (message) => pipeline.take(message),
    lost: (messages) => {
      counts.spooled -= messages
      counts.lost += messages
    },
  })
}
