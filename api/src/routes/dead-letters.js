/** `/v1/dead-letters`: the messages that could not be stored, and why. */

import { adviceOf } from '@sandglass/common/advice/advice'
import { FORMATS, formatName, formatNamed } from '@sandglass/common/formats/registry'
import { decodeCursor, encodeCursor, fieldOf, foreign } from '../cursor.js'
import { arrivedIn, encodingOf, readDeadLetters } from '../dead-letters.js'
import { withinDeadline } from '../deadline.js'
import { parseRange } from '../measurements.js'
import * as schemas from '../schemas.js'
import { checkOf } from '../validator.js'
import { linkNext } from './sensors.js'

/** @typedef {import('../dead-letters.js').LetterFilter} LetterFilter */
/** @typedef {import('../dead-letters.js').Position} Position */
/**
 * @typedef {object} Query
 * @property {string} [reason]
 * @property {string} [topic]
 * @property {string} [client]
 * @property {string} [format]
 * @property {boolean} [replayed]
 * @property {string} [from]
 * @property {string} [to]
 * @property {number} limit
 * @property {string} [cursor]
 */

/** Longest text that is looked for, in characters. */
const PART_LENGTH_MAX = 256

/** @param {string} what */
function part(what) {
  const description = `Only those whose ${what} contains this, in any case.`
  return { type: 'string', minLength: 1, maxLength: PART_LENGTH_MAX, description }
}

const schema = {
  tags: ['ingest'],
  operationId: 'listDeadLetters',
  summary: 'Messages that could not be stored, newest first',
  description:
    'A page ends after about a second of reading, or with 4 MiB: it may have fewer ' +
    'letters than `limit`, or none, and a `next` that goes on from there.',
  querystring: {
    type: 'object',
    properties: {
      reason: part('reason'),
      topic: part('topic'),
      client: part('client'),
      format: {
        type: 'string',
        enum: FORMATS.map(({ name }) => name),
        description: 'Only those that were decoded as this.',
      },
      replayed: {
        type: 'boolean',
        description: 'true: only those that were stored after all; false: only the others.',
      },
      from: {
        ...schemas.time,
        description: `Only what came then or later, by the time in its id. ${schemas.time.description}`,
      },
      to: { ...schemas.time, description: `Only what came before. ${schemas.time.description}` },
      limit: schemas.limit(1_000, 100),
      cursor: schemas.cursor,
    },
    additionalProperties: false,
  },
  response: { 200: schemas.page(schemas.deadLetter), ...schemas.problems },
}

const KIND = 'dead letters'
const TIME_UUID = new RegExp(schemas.timeUuid.pattern)

/** What a cursor may ask for: what could be asked without one. */
const isFilter = /** @type {import('ajv').ValidateFunction<LetterFilter>} */ (
  checkOf({
    type: 'object',
    properties: {
      reason: part('reason'),
      topic: part('topic'),
      client: part('client'),
      format: { type: 'integer', minimum: 0, maximum: 255 },
      replayed: { type: 'boolean' },
      fromMs: schemas.timeMs,
      toMs: schemas.timeMs,
    },
    additionalProperties: false,
  })
)

/**
 * @param {import('fastify').FastifyInstance} app
 * @param {import('../app.js').Parts} parts
 */
export default async function deadLetters(app, { store }) {
  app.get(
    '/v1/dead-letters',
    { schema },
    (/** @type {import('fastify').FastifyRequest<{ Querystring: Query }>} */ request, reply) =>
      withinDeadline(reply, async (signal) => {
        const { filter, after } = parseQuery(request.query)
        const nowMs = Date.now()
        const { limit } = request.query
        const page = await readDeadLetters(store, { filter, after, limit, nowMs, signal })
        const next = page.next ? cursorOf(filter, page.next) : null
        linkNext(request, reply, next)
        return { items: page.letters.map(present), next }
      }),
  )
}

/**
 * What is asked, and where the last page ended; a cursor alone repeats its question.
 *
 * @param {Query} query
 * @returns {{ filter: LetterFilter, after: Position | undefined }}
 * @throws {import('@sandglass/common/problem').Problem}
 */
function parseQuery({ reason, topic, client, format: name, replayed, from, to, cursor }) {
  const format = name === undefined ? undefined : formatNamed(name)?.number
  const asked = { reason, topic, client, format, replayed, ...parseRange({ from, to }) }
  if (cursor === undefined) return { filter: asked, after: undefined }
  const { question, position } = decodeCursor(KIND, cursor)
  const filter = fieldOf(question[0], isFilter)
  for (const [key, value] of Object.entries(asked)) {
    const its = filter[/** @type {keyof LetterFilter} */ (key)]
    if (value !== undefined && value !== its) throw foreign('another filter')
  }
  const [day, before] = position
  const isPlace = Number.isSafeInteger(day) && (before === null || TIME_UUID.test(String(before)))
  if (!isPlace) throw foreign('no place among dead letters')
  return {
    filter,
    after: { day: Number(day), before: before === null ? undefined : String(before) },
  }
}

/** @param {LetterFilter} filter  @param {Position} position */
function cursorOf(filter, { day, before }) {
  return encodeCursor(KIND, [JSON.stringify(filter)], [day, before ?? null])
}

/** @param {import('../store.js').DeadLetter} letter */
function present({
  id,
  receivedMs,
  topic,
  client,
  reason,
  payload: kept,
  replayedMs,
  format: stored,
}) {
  // The column is signed, and a number of a later version may be beyond 127.
  const format = stored === undefined ? undefined : stored & 0xff
  const { decoder, payload } = arrivedIn(kept, format)
  const encoding = encodingOf(payload)
  return {
    id,
    received: receivedMs,
    topic,
    client,
    reason,
    payload: payload.toString(encoding),
    encoding,
    format: format === undefined ? null : formatName(format),
    decoder,
    replayed: replayedMs ?? null,
    advice: adviceOf({ reason, topic, format, decoder, payload }),
  }
}
