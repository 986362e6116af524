/** `/v1/import`: a file of measurements, however large, is stored while it arrives. */

import { PassThrough, pipeline } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { Problem } from '@sandglass/common/problem'
import { CLASS_DEFAULT, CLASS_NAMES } from '@sandglass/common/schema'
import { restore } from '../about.js'
import { clientOf, mayManage } from '../auth.js'
import { importRecords, patiently, sendToIngest } from '../import/import.js'
import { Keeping } from '../import/keeping.js'
import { Preview } from '../import/preview.js'
import { Progress } from '../import/progress.js'
import { csvRecords, FileError, ndjsonRecords } from '../import/records.js'
import { understand } from '../import/understand.js'
import * as schemas from '../schemas.js'

/** Imports that run at once: each has ingest busy all the time. */
const IMPORTS_MAX = 2

/** How often an import says how far it has come, in milliseconds. */
const PROGRESS_MS = 1_000

/**
 * @typedef {object} Query
 * @property {'csv' | 'ndjson'} format
 * @property {boolean} dry_run
 * @property {string} [sensor]
 * @property {string} [retention]
 * @property {number} from_line
 */

const count = { type: 'integer' }
const progress = {
  type: 'object',
  properties: {
    line: { ...count, description: 'All lines up to this one are durable, or refused.' },
    rows: count,
    stored: { ...count, description: 'In a dry run: would be.' },
    refused_rows: count,
    refused: {
      type: 'array',
      description: 'The first of these.',
      items: { type: 'object', properties: { line: count, reason: { type: 'string' } } },
    },
    done: {
      type: 'boolean',
      description: 'In the last line: whether the file was read to its end.',
    },
    problem: {
      type: 'object',
      description: 'If it was not: why not, and from which line to go on.',
    },
    retention: {
      type: 'array',
      description: 'By class: how much, of how many sensors, and when that expires, in words, too.',
      items: {
        type: 'object',
        properties: {
          retention: { type: 'string' },
          sensors: count,
          new_sensors: count,
          measurements: count,
          expires: { ...count, nullable: true, description: 'null: never.' },
          says: { type: 'string' },
        },
      },
    },
    kept: { type: 'array', description: 'Sensors that exist, and keep another class than asked.' },
    kept_note: { type: 'string' },
    retention_unknown: {
      ...count,
      description: 'Of so many it is not known: the database was away.',
    },
    preview: { type: 'object', description: 'Of a dry run: series, how many, from when to when.' },
  },
}

const schema = {
  tags: ['ingest'],
  operationId: 'importMeasurements',
  summary: 'Stores a file of measurements while it arrives, however large it is',
  description:
    'CSV: columns `sensor`, `metric`, `t`, `v`, or a time and one column a metric, with a column ' +
    '`sensor` or the parameter. NDJSON: objects as `POST /v1/measurements` takes them. Each has a ' +
    'time: ISO 8601, or s, ms, us or ns since 1970. Answers at once with lines of JSON that say ' +
    'how far it has come, every second and at the end. To send lines again is harmless. ' +
    '`Content-Encoding: gzip` is understood.',
  rawBody: schemas.rawBody(['text/csv', 'application/x-ndjson', 'application/octet-stream']),
  querystring: {
    type: 'object',
    properties: {
      format: { type: 'string', enum: ['csv', 'ndjson'] },
      dry_run: { type: 'boolean', default: false, description: 'Says what it would store.' },
      sensor: { ...schemas.sensorName, description: 'Of lines that name none.' },
      retention: {
        type: 'string',
        enum: CLASS_NAMES,
        description:
          'How long measurements of new sensors are kept; else as the file tells, else as ingest ' +
          'does. Sensors that exist keep their class: `kept` names them.',
      },
      from_line: {
        type: 'integer',
        minimum: 1,
        default: 1,
        description: 'Leaves the lines before this one out: those that are stored already.',
      },
    },
    required: ['format'],
    additionalProperties: false,
  },
  response: {
    200: { description: 'Progress', content: { 'application/x-ndjson': { schema: progress } } },
    ...schemas.problems,
  },
}

/** @typedef {import('fastify').FastifyRequest<{ Querystring: Query }>} Request */

/**
 * @param {import('fastify').FastifyInstance} app
 * @param {import('../app.js').Parts & {
 *   catalog: import('../catalog.js').Catalog,
 *   metadata: import('../metadata/metadata.js').MetadataReader,
 * }} parts
 */
export default async function imports(app, { ingest, limits, store, catalog, metadata }) {
  let running = 0
  // A body is read by whom it is for, as it arrives.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, _payload, done) => done(null))

  // What tells how far it has come is not to wait in a compressor.
  app.post(
    '/v1/import',
    { schema, compress: false },
    async (/** @type {Request} */ request, reply) => {
      const { query } = request
      if (running >= IMPORTS_MAX) {
        drain(request)
        throw new Problem('too-many-imports', `${IMPORTS_MAX} imports run already`)
      }
      const controller = new AbortController()
      running += 1
      reply.raw.once('close', () => {
        running -= 1
        controller.abort()
      })
      const arriving = new PassThrough()
      request.raw.on('error', (error) => arriving.destroy(error))
      request.raw.pipe(arriving)
      const records = await recordsOf(request, arriving, limits.importBytesMax).catch((error) => {
        drain(request)
        throw error
      })
      const state = new Progress(query.from_line - 1)
      const preview = query.dry_run ? new Preview() : undefined
      const newClass = await newClassOf(ingest)
      const keeping = new Keeping({ store, wanted: query.retention, newClass })
      const answer = new ProgressAnswer(state)
      const send = preview
        ? (/** @type {import('../import/import.js').Items} */ items) => preview.take(items)
        : sendToIngest(ingest, clientOf(request), controller.signal, query.retention)
      void importRecords({
        records: from(records, query.from_line),
        understand: (object) => understand(object, query.sensor, Date.now()),
        send: async (items) => {
          await keeping.note(items)
          return send(items)
        },
        restore: async (told) => {
          const retention = keeping.classOf(told.sensor, told.about.retention)
          if (preview) return
          const how = { retention, mayChange: mayManage(request) }
          await patiently(() => restore(store, told, how), controller.signal)
          catalog.expire()
          metadata.expire()
        },
        onDecided: (decided) => state.add(decided),
      }).then(
        () => answer.end({ done: true, ...keeping.toJSON(), preview }),
        (error) => {
          const problem = explain(error, state.nextLine)
          answer.end({ done: false, problem, ...keeping.toJSON(), preview })
          if (!isKnown(error)) request.log.error({ err: error }, 'an import failed')
          drain(request)
        },
      )
      return reply.type('application/x-ndjson; charset=utf-8').send(answer.stream)
    },
  )
}

/**
 * The class of sensors that register themselves.
 *
 * @param {import('../ingest-client.js').IngestClient} ingest
 */
async function newClassOf(ingest) {
  /** @type {Record<string, unknown>} */
  const none = {}
  const { retentionClass = CLASS_DEFAULT } = await ingest.stats().catch(() => none)
  return String(retentionClass)
}

/**
 * Reads on what nobody wants any more: else many a client would never read its answer.
 *
 * @param {Request} request
 */
function drain({ raw }) {
  raw.unpipe()
  raw.resume()
}

/**
 * @param {Request} request
 * @param {PassThrough} arriving  Its body.
 * @param {number} bytesMax
 */
async function recordsOf({ headers, query }, arriving, bytesMax) {
  const packed = headers['content-encoding'] ?? 'identity'
  if (packed !== 'identity' && packed !== 'gzip') {
    throw new Problem('unsupported-media-type', 'Content-Encoding must be gzip, or none')
  }
  const bytes = limited(
    // Its errors come to whoever reads what was unpacked.
    packed === 'gzip' ? pipeline(arriving, createGunzip(), () => {}) : arriving,
    bytesMax,
  )
  return query.format === 'csv' ? csvRecords(bytes, query.sensor) : ndjsonRecords(bytes)
}

/** @param {AsyncIterable<Uint8Array>} bytes  @param {number} bytesMax */
async function* limited(bytes, bytesMax) {
  let length = 0
  for await (const chunk of bytes) {
    length += chunk.length
    if (length > bytesMax) {
      throw new FileError(`a file has at most ${bytesMax} bytes, unpacked: send several`)
    }
    yield chunk
  }
}

/**
 * @param {AsyncIterable<import('../import/records.js').FileRecord>} records
 * @param {number} line
 */
async function* from(records, line) {
  for await (const record of records) if (record.line >= line) yield record
}

/** @param {unknown} error */
function isKnown(error) {
  const code = /** @type {NodeJS.ErrnoException} */ (error).code ?? ''
  return error instanceof Problem || error instanceof FileError || /^Z_|ECONNRESET|ABORT/.test(code)
}

/** @param {unknown} error  @param {number} nextLine */
function explain(error, nextLine) {
  const { message } = /** @type {Error} */ (error)
  const problem =
    error instanceof Problem
      ? error
      : new Problem(isKnown(error) ? 'invalid-body' : 'internal', message)
  return { ...problem.toJSON(), from_line: nextLine }
}

/** The answer of an import: a line now and then. */
class ProgressAnswer {
  stream = new PassThrough()
  #state
  #timer

  /** @param {Progress} state */
  constructor(state) {
    this.#state = state
    this.#tell({})
    this.#timer = setInterval(() => {
      // Whoever does not read hears less.
      if (!this.stream.writableNeedDrain) this.#tell({})
    }, PROGRESS_MS)
    this.stream.once('close', () => clearInterval(this.#timer))
    this.stream.on('error', () => {})
  }

  /** @param {Record<string, unknown>} more */
  #tell(more) {
    this.stream.write(`${JSON.stringify({ ...this.#state.toJSON(), ...more })}\n`)
  }

  /** @param {Record<string, unknown>} result */
  end(result) {
    clearInterval(this.#timer)
    if (this.stream.destroyed) return
    this.#tell(result)
    this.stream.end()
  }
}
