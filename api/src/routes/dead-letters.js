/** `/v1/dead-letters`: the messages that could not be stored, and why. */

import { isUtf8 } from 'node:buffer'
import { EXPRESSION_FORMAT, readEnvelope } from '@sandglass/common/expressions/envelope'
import { formatName } from '@sandglass/common/formats/registry'
import { PayloadError } from '@sandglass/common/payload'
import { decodeCursor, encodeCursor } from '../cursor.js'
import { readDeadLetters } from '../dead-letters.js'
import { withinDeadline } from '../deadline.js'
import * as schemas from '../schemas.js'
import { linkNext } from './sensors.js'

const schema = {
  tags: ['ingest'],
  operationId: 'listDeadLetters',
  summary: 'Messages that could not be stored, newest first',
  querystring: {
    type: 'object',
    properties: { limit: schemas.limit(1_000, 100), cursor: schemas.cursor },
    additionalProperties: false,
  },
  response: { 200: schemas.page(schemas.deadLetter), ...schemas.problems },
}

const KIND = 'dead letters'

/**
 * @param {import('fastify').FastifyInstance} app
 * @param {import('../app.js').Parts} parts
 */
export default async function deadLetters(app, { store }) {
  /** @typedef {{ Querystring: { limit: number, cursor?: string } }} Page */
  app.get(
    '/v1/dead-letters',
    { schema },
    (/** @type {import('fastify').FastifyRequest<Page>} */ request, reply) =>
      withinDeadline(reply, async () => {
        const { limit, cursor } = request.query
        const position = cursor === undefined ? undefined : decodeCursor(KIND, cursor).position
        const after = position && { day: Number(position[0]), id: String(position[1]) }
        const page = await readDeadLetters(store, { after, limit, nowMs: Date.now() })
        const next = page.next ? encodeCursor(KIND, [], [page.next.day, page.next.id]) : null
        linkNext(request, reply, next)
        return { items: page.letters.map(present), next }
      }),
  )
}

/** What arrived. @param {Buffer} payload  @param {number | undefined} format */
function contentOf(payload, format) {
  if (format !== EXPRESSION_FORMAT) return { payload, decoder: null }
  try {
    const { decoder, original } = readEnvelope(payload)
    return { payload: original, decoder: decoder || null }
  } catch (error) {
    if (error instanceof PayloadError) return { payload, decoder: null }
    throw error
  }
}

/** @param {import('../store.js').DeadLetter} letter */
function present({ id, receivedMs, topic, client, reason, payload: kept, replayedMs, format }) {
  const { decoder, payload } = contentOf(kept, format)
  const encoding = isUtf8(payload) ? 'utf8' : 'base64'
  return {
    id,
    received: receivedMs,
    topic,
    client,
    reason,
    payload: payload.toString(encoding),
    encoding,
    // A number of a later version may be beyond 127.
    format: format === undefined ? null : formatName(format & 0xff),
    decoder,
    replayed: replayedMs ?? null,
  }
}
