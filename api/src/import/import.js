/**
 * An import: the records of a file go to ingest in batches, one on its way while the next one is
 * read. Nothing is read ahead beyond that, so a file arrives as fast as it is stored.
 *
 * What can be decided here is decided here: a line that is no measurement is told, and does not
 * become a dead letter. What is sent has a time of its own, so it is the same row however often it
 * is sent, and a batch of which nothing was heard is sent again.
 */

import { setTimeout as delay } from 'node:timers/promises'
import { PayloadError } from '@sandglass/common/payload'
import { Problem } from '@sandglass/common/problem'
import { isAbout, parseAbout } from '../about.js'
import { REFUSED_SHOWN_MAX } from './progress.js'

/** Records of one batch, and their bytes: less than ingest takes in one body. */
const BATCH_ROWS_MAX = 5_000
const BATCH_BYTES_MAX = 786_432

/** How long an import waits for an ingest that is away or full, in ms, and how often it asks. */
const PATIENCE_MS = 30_000
const RETRY_MS = 500

/** What is waited for: ingest, and the database where what is known of sensors is restored. */
const AWAY = new Set(['ingest-away', 'database-away'])

/** Answers of ingest that another attempt may change. */
const AGAIN = new Set([408, 429, 502, 503, 504])

/** @typedef {import('./progress.js').Decided} Decided */
/** @typedef {import('./progress.js').Refused} Refused */
/** @typedef {import('./records.js').FileRecord} FileRecord */
/** @typedef {import('./understand.js').Understood} Understood */

/** Records that follow each other, and what was decided of them so far. */
class Batch {
  line = 0
  rows = 0
  bytes = 0
  refusedRows = 0
  /** @type {Refused[]} */
  refused = []
  /** @type {{ line: number, understood: Understood }[]} */
  items = []

  get isFull() {
    return this.rows >= BATCH_ROWS_MAX || this.bytes >= BATCH_BYTES_MAX
  }

  /** @param {number} line  @param {Understood} understood */
  add(line, understood) {
    this.items.push({ line, understood })
    this.bytes += understood.payload.length + 1
  }

  /** @param {number} line  @param {string} reason */
  refuse(line, reason) {
    this.refusedRows += 1
    if (this.refused.length < REFUSED_SHOWN_MAX) this.refused.push({ line, reason })
  }
}

/** @typedef {{ line: number, understood: Understood }[]} Items */
/** @typedef {{ stored: number, refused: Refused[], refusedRows: number }} Sent */

/**
 * Resolves when all records are decided; `onDecided` hears of each batch, in the order of the file.
 *
 * @param {object} parts
 * @param {AsyncIterable<FileRecord>} parts.records
 * @param {(object: Record<string, unknown>) => Understood} parts.understand
 * @param {(items: Items) => Promise<Sent>} parts.send
 * @param {(told: ReturnType<typeof parseAbout>) => Promise<void>} parts.restore  What is known of a
 *   sensor, before its rows.
 * @param {(decided: Decided) => void} parts.onDecided
 * @throws  What `records` or `send` threw; what came before it is decided.
 */
export async function importRecords({ records, understand, send, restore, onDecided }) {
  /** @param {Batch} batch */
  const finish = async ({ items, line, rows, refused, refusedRows }) => {
    const sent = items.length > 0 ? await send(items) : undefined
    onDecided({
      line,
      rows,
      stored: sent?.stored ?? 0,
      refusedRows: refusedRows + (sent?.refusedRows ?? 0),
      refused: [...refused, ...(sent?.refused ?? [])].sort((a, b) => a.line - b.line),
    })
  }
  let batch = new Batch()
  let underWay = Promise.resolve()
  const next = async () => {
    await underWay
    if (batch.rows === 0) return
    underWay = finish(batch)
    // It is awaited later: until then nobody else looks at its failure.
    underWay.catch(() => {})
    batch = new Batch()
  }
  /** @type {{ error: unknown } | undefined} */
  let failed
  try {
    for await (const record of records) {
      if (record.object && isAbout(record.object)) await tell(batch, record, restore)
      else decide(batch, record, understand)
      if (batch.isFull) await next()
    }
  } catch (error) {
    failed = { error }
  }
  await next()
  await underWay
  if (failed) throw failed.error
}

/**
 * @param {Batch} batch
 * @param {FileRecord} record
 * @param {(object: Record<string, unknown>) => Understood} understand
 */
function decide(batch, { line, object, fault }, understand) {
  batch.line = line
  batch.rows += 1
  if (!object) {
    batch.refuse(line, fault ?? 'this is no object')
    return
  }
  try {
    const understood = understand(object)
    if (understood.payload.length < BATCH_BYTES_MAX) batch.add(line, understood)
    else batch.refuse(line, `as JSON it has more than ${BATCH_BYTES_MAX} bytes`)
  } catch (error) {
    if (!(error instanceof PayloadError)) throw error
    batch.refuse(line, error.message)
  }
}

/**
 * @param {Batch} batch
 * @param {FileRecord} record  That tells of a sensor.
 * @param {(told: ReturnType<typeof parseAbout>) => Promise<void>} restore
 */
async function tell(batch, { line, object = {} }, restore) {
  batch.line = line
  try {
    await restore(parseAbout(object))
  } catch (error) {
    if (!(error instanceof PayloadError)) throw error
    batch.rows += 1
    batch.refuse(line, error.message)
  }
}

/**
 * What sends batches to ingest, and waits for it if it is away or full.
 *
 * @param {import('../ingest-client.js').IngestClient} ingest
 * @param {string} client  In whose name.
 * @param {AbortSignal} signal
 * @param {string} [retention]  Of sensors that are new.
 * @returns {(items: Items) => Promise<Sent>}
 */
export function sendToIngest(ingest, client, signal, retention) {
  const query = retention === undefined ? '' : `?retention=${retention}`
  return async (items) => {
    const body = Buffer.concat(
      items.flatMap(({ understood }) => [understood.payload, Buffer.from('\n')]),
    )
    const answer = await patiently(() => post(ingest, client, query, body), signal)
    const { stored, refused } = answer
    return {
      stored,
      refusedRows: items.length - stored,
      refused: refused.map(({ item, reason }) => ({ line: items[item].line, reason })),
    }
  }
}

/**
 * @param {import('../ingest-client.js').IngestClient} ingest
 * @param {string} client
 * @param {string} query
 * @param {Buffer} body
 * @returns {Promise<{ stored: number, refused: { item: number, reason: string }[] }>}
 * @throws {Problem}
 */
async function post(ingest, client, query, body) {
  const headers = { 'content-type': 'application/x-ndjson' }
  const answer = await ingest.post(`/v1/measurements${query}`, headers, body, client)
  const says = JSON.parse(answer.body)
  // 400 says that some are refused, and which.
  if (Array.isArray(says.refused)) return says
  const code = AGAIN.has(answer.status) ? 'ingest-away' : 'internal'
  throw new Problem(code, `ingest: ${says.detail ?? answer.status}`)
}

/**
 * @template T
 * @param {() => Promise<T>} ask
 * @param {AbortSignal} signal
 * @returns {Promise<T>}
 */
export async function patiently(ask, signal) {
  const untilMs = performance.now() + PATIENCE_MS
  for (;;) {
    try {
      return await ask()
    } catch (error) {
      const isAway = error instanceof Problem && AWAY.has(error.code)
      if (!isAway || performance.now() > untilMs) throw error
      await delay(RETRY_MS, undefined, { signal })
    }
  }
}
