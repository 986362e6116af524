/**
 * Everything between what MQTT or HTTP bring and the database, joined but not started.
 */

import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { Evaluator } from '@sandglass/common/expressions/evaluator'
import { Semaphore } from '@sandglass/common/semaphore'
import { Topics } from '@sandglass/common/topics'
import { Counts } from './counts.js'
import { KnownDecoders } from './decoders/known.js'
import { DecoderStage } from './decoders/stage.js'
import { KnownDeletions } from './deletion/known.js'
import { MemoryBudget } from './memory.js'
import { DeadLetterQuota } from './message/dead-letter-quota.js'
import { DeadLetters } from './message/dead-letters.js'
import { Decoder } from './message/decoder.js'
import { InFlight } from './message/in-flight.js'
import { MeasurementWriter } from './message/measurement-writer.js'
import { Pipeline } from './message/pipeline.js'
import { DirtyHours } from './rollup/dirty-hours.js'
import { SlotClock } from './rollup/slot-clock.js'
import { RuleWatch } from './rules/watch.js'
import { Latest } from './sensors/latest.js'
import { Registry } from './sensors/registry.js'
import { Statuses } from './sensors/statuses.js'
import { EdgeNodes } from './sparkplug/edge-nodes.js'
import { spoolIndex } from './spool/directory.js'
import { Diversion } from './spool/diversion.js'
import { Drain } from './spool/drain.js'
import { Spool } from './spool/spool.js'
import { Batcher, CLUSTER_LIMITS } from './write/batcher.js'
import { Hashed } from './write/hashed.js'
import { Past } from './write/past.js'
import { Recent } from './write/recent.js'
import { Rows } from './write/rows.js'
import { Writer } from './write/writer.js'

/** @typedef {import('./write/row.js').Row} Row */

/** Questions about the past that are asked of the database at the same time. */
const PAST_READS_MAX = 128

/**
 * @typedef {{
 *   memoryBytesMax?: number, heldBytesMax?: number, qos0BytesMax?: number, sensorsMax: number,
 *   retentionClass: string, lineTopic: string, spoolDir: string, spoolBytesMax: number,
 *   spoolAfterMs: number, deadLettersMax: number, deadLetterBytesMax: number,
 *   shareSensors?: boolean, rewriteWaitS?: number, topicTemplates?: Topics }} IngestLimits
 */

/**
 * @param {object} parts
 * @param {import('./write/writer.js').Store & import('./sensors/registry.js').SensorReader &
 *   import('./write/past.js').PastReader &
 *   import('./deletion/known.js').DeletionReader} parts.storage
 * @param {string} parts.keyspace
 * @param {IngestLimits} parts.limits
 * @param {import('pino').Logger} parts.logger
 * @param {Recent} [parts.recent]
 * @param {() => number} [parts.now]  Milliseconds since the Unix epoch.
 * @param {SlotClock} [parts.slotClock]
 */
export function buildIngest(parts) {
  const { storage, keyspace, limits, logger, recent = new Recent(), ...clocks } = parts
  const { now, slotClock = new SlotClock({ now }) } = clocks
  const rows = new Rows(keyspace, now)
  const counts = new Counts()
  const memory = memoryOf(limits)
  const inFlight = new InFlight(memory.shares)
  const { spool, diversion } = spoolOf(limits, logger)
  const past = new Past({ reader: storage, recent, semaphore: new Semaphore(PAST_READS_MAX) })
  const places = limits.shareSensors ? new Hashed() : recent
  const dirtyHours = new DirtyHours({ rows, clock: slotClock })
  const rules = new RuleWatch({ rows, clock: slotClock, isShared: limits.shareSensors })
  const reader = readerAfter(slotClock, rules, storage)
  const registry = registryOf({ reader, rows, share: memory.shares.sensors, wallNow: now }, limits)
  const writer = new Writer({
    store: storage,
    outcome: outcomeOf({ counts, diversion, logger, pipeline: () => pipeline }),
  })
  const batcher = batcherOf(writer, counts)
  const write = (/** @type {Row} */ row) => batcher.add(row)
  const latest = new Latest()
  const measurements = new MeasurementWriter({
    registry,
    rows,
    places,
    latest,
    dirtyHours,
    write,
    isWritten: () => batcher.isIdle,
    counts,
    rules,
  })
  const readers = readersOf(limits, { memory, inFlight, logger })
  const deletions = knownDeletionsOf(storage, memory, limits)
  const pipeline = new Pipeline({
    deletions,
    ...readers,
    registry,
    past,
    measurements,
    deadLetters: new DeadLetters({ rows, write, quota: new DeadLetterQuota(limits), counts }),
    dirtyHours,
    rules,
    write,
    unwrite: (isUseless) => batcher.drop(isUseless),
    counts,
    inFlight,
    diversion,
  })
  const drain = spool && joinSpool(spool, pipeline, counts)
  return {
    storage,
    rows,
    counts,
    memory,
    inFlight,
    places,
    past,
    registry,
    latest,
    measurements,
    writer,
    batcher,
    write,
    pipeline,
    ...readers,
    spool,
    diversion,
    drain,
    dirtyHours,
    slotClock,
    deletions,
    rules,
    statuses: new Statuses({ rows, write }),
  }
}

/**
 * @param {import('./deletion/known.js').DeletionReader} reader
 * @param {MemoryBudget} memory
 * @param {IngestLimits} limits
 */
function knownDeletionsOf(reader, { shares }, { rewriteWaitS: settleS }) {
  return new KnownDeletions({ reader, share: shares.sensors, settleS })
}

/** @param {Writer} writer  @param {Counts} counts */
function batcherOf(writer, counts) {
  const onRequest = (/** @type {number} */ count) => counts.requestRows.note(count)
  return new Batcher({ writer, limits: CLUSTER_LIMITS, onRequest })
}

/**
 * @param {Pick<ConstructorParameters<typeof Registry>[0], 'reader' | 'rows' | 'share' | 'wallNow'>
 *   } parts
 * @param {IngestLimits} limits
 */
function registryOf(parts, { sensorsMax, retentionClass: className, rewriteWaitS }) {
  return new Registry({ ...parts, sensorsMax, className, rewriteWaitS })
}

/** @param {IngestLimits} limits */
function memoryOf({ memoryBytesMax, heldBytesMax: inFlight, qos0BytesMax: qos0 }) {
  return new MemoryBudget(memoryBytesMax, { inFlight, qos0 })
}

/**
 * What reads messages.
 *
 * @param {IngestLimits} limits
 * @param {{ memory: MemoryBudget, inFlight: InFlight, logger: import('pino').Logger }} parts
 */
function readersOf(limits, { memory: { shares }, inFlight, logger }) {
  const { topicTemplates: topics = new Topics(), lineTopic, spoolDir, spoolBytesMax } = limits
  const decoder = new Decoder({ topics, lineTopic, share: shares.sensors })
  const directory = spoolBytesMax > 0 ? spoolDir : undefined
  const known = new KnownDecoders({ topics, lineTopic, directory, logger })
  known.onChange.push(() => decoder.forget())
  const evaluator = new Evaluator({ logger })
  return {
    decoder,
    edgeNodes: new EdgeNodes({ topics, share: shares.edgeNodes }),
    knownDecoders: known,
    evaluator,
    decoders: new DecoderStage({ known, topics, evaluator, inFlight }),
  }
}

/**
 * What becomes of rows.
 *
 * @param {object} parts
 * @param {Counts} parts.counts
 * @param {Diversion | undefined} parts.diversion
 * @param {import('pino').Logger} parts.logger
 * @param {() => Pipeline} parts.pipeline
 * @returns {import('./write/writer.js').Outcome}
 */
function outcomeOf({ counts, diversion, logger, pipeline }) {
  return {
    stored(row) {
      counts.rows++
      pipeline().stored(row)
    },
    wrote: (ms) => diversion?.wrote(ms),
    refused(row, error) {
      logger.error({ query: row.query, reason: error.message }, 'the database refuses a row')
      pipeline().refused(row, error)
    },
    failed(error) {
      counts.failures++
      logger.debug({ reason: error.message }, 'a request failed and is repeated')
    },
  }
}

/** @param {IngestLimits} limits  @param {import('pino').Logger} logger */
function spoolOf({ spoolDir: directory, spoolBytesMax: bytesMax, spoolAfterMs: afterMs }, logger) {
  const spool = bytesMax > 0 ? new Spool({ directory, bytesMax, logger }) : undefined
  return { spool, diversion: spool && new Diversion({ spool, afterMs }) }
}

/**
 * Sensors are read only once hours can be marked dirty and rules are known: nothing is stored
 * before.
 *
 * @param {SlotClock} slotClock
 * @param {RuleWatch} rules
 * @param {import('./sensors/registry.js').SensorReader} storage
 * @returns {import('./sensors/registry.js').SensorReader}
 */
function readerAfter(slotClock, rules, storage) {
  return {
    async readSensors(ids) {
      await slotClock.ready
      await rules.ready
      return storage.readSensors(ids)
    },
    countSensors: () => storage.countSensors(),
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
    lost(messages) {
      counts.spooled -= messages
      counts.lost += messages
    },
  }
  return new Drain({ spool, accept: (message) => pipeline.take(message) })
}

/**
 * Opens the spool and counts what an earlier run left there.
 *
 * @param {Spool} spool
 * @param {Counts} counts
 */
export async function openSpool(spool, counts) {
  const { messages, lost } = await spool.open()
  counts.recovered += messages
  counts.spooled += messages - lost
  counts.lost += lost
}

/**
 * Opens what processes left that there are no more, since there are fewer than before.
 *
 * @param {object} parts
 * @param {Pipeline} parts.pipeline
 * @param {Counts} parts.counts
 * @param {string} parts.directory  Of the spool of the first process.
 * @param {number} parts.count  Of processes.
 * @param {import('pino').Logger} parts.logger
 * @returns {Promise<{ spool: Spool, drain: Drain }[]>}
 */
export async function openLeftSpools({ pipeline, counts, directory, count, logger }) {
  const opened = []
  for (const name of await readdir(directory)) {
    const index = spoolIndex(name)
    if (index === undefined || index < count) continue
    const spool = new Spool({ directory: join(directory, name), bytesMax: 0, logger })
    const drain = joinSpool(spool, pipeline, counts)
    await openSpool(spool, counts)
    opened.push({ spool, drain })
  }
  return opened
}
