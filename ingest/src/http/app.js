/**
 * Ingest over HTTP: measurements in any of the formats of `bodies.js`, InfluxDB's own paths for
 * Telegraf, and what ingest tells about itself. An answer says what is durable, as a PUBACK does.
 */

import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import { bodyFormat, CLIENT_HEADER, itemsOf, MEDIA_TYPES } from '@sandglass/common/bodies'
import { foreignRequest } from '@sandglass/common/origin'
import { PayloadError } from '@sandglass/common/payload'
import { PROBLEM_TYPE, Problem } from '@sandglass/common/problem'
import Fastify from 'fastify'
import { deliver } from './delivery.js'

/** Largest body once it is unpacked, in bytes. */
export const UNPACKED_BYTES_MAX = 16 * 2 ** 20

/** Dead letters that one request replays. */
const REPLAY_MAX = 1_000

const TIME_UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-1[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** Refused items that an answer tells of. */
const REFUSED_SHOWN_MAX = 100

const unpack = promisify(gunzip)

/** @typedef {import('fastify').FastifyRequest<{ Querystring: { precision?: string } }>} Request */
/** @typedef {import('./delivery.js').Sink} Sink */

/**
 * @param {object} parts
 * @param {Sink} parts.sink
 * @param {import('prom-client').Registry} parts.registry
 * @param {() => { ok: boolean, [detail: string]: unknown }} parts.health  200 if `ok`, else 503.
 * @param {() => unknown} parts.stats
 * @param {(ids: string[]) => Promise<import('./replay.js').Replayed>} parts.replay
 * @param {number} parts.bodyBytesMax  Largest body as it arrives.
 * @param {boolean} parts.isLoopback  Only this machine can reach it; then `Host` must say so too.
 */
export function buildHttp({ sink, registry, health, stats, replay, bodyBytesMax, isLoopback }) {
  const app = Fastify({ bodyLimit: bodyBytesMax, forceCloseConnections: true })
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body))
  app.addHook('onRequest', async (request) => {
    const foreign = foreignRequest(request, isLoopback)
    if (foreign) throw foreign
  })
  app.setErrorHandler((error, _request, reply) => {
    const problem = explain(/** @type {any} */ (error), bodyBytesMax)
    if (problem.retryAfterS !== undefined) reply.header('retry-after', problem.retryAfterS)
    return reply.code(problem.status).type(PROBLEM_TYPE).send(JSON.stringify(problem))
  })

  function requireRoom() {
    if (sink.isFull) throw new Problem('too-much-held', 'try again in a moment')
  }

  app.get('/metrics', async (_request, reply) =>
    reply.type(registry.contentType).send(await registry.metrics()),
  )
  for (const path of ['/health', '/ready']) {
    app.get(path, async (_request, reply) => {
      const state = health()
      return reply.code(state.ok ? 200 : 503).send(state)
    })
  }
  app.get('/stats', async () => stats())

  app.post('/v1/measurements', async (/** @type {Request} */ request, reply) => {
    const format = bodyFormat(request.headers['content-type'])
    if (!format) {
      const known = [...MEDIA_TYPES.keys()].join(', ')
      throw new Problem('unsupported-media-type', `Content-Type must be one of ${known}`)
    }
    requireRoom()
    const items = itemsOf(format, await textOf(request), request.query.precision)
    const { refused, ...counts } = await deliver(sink, items, {
      path: '/v1/measurements',
      client: clientOf(request),
    })
    const members = { ...counts, refused: refused.slice(0, REFUSED_SHOWN_MAX) }
    if (refused.length === 0) return reply.send(members)
    const detail = `${refused.length} of ${items.length} are refused, and are dead letters`
    throw new Problem('refused-items', detail, { members })
  })

  app.post('/v1/dead-letters/replay', async (/** @type {Request} */ request, reply) => {
    const ids = idsOf(await textOf(request))
    requireRoom()
    return reply.send(await replay(ids))
  })

  // What Telegraf's outputs `influxdb_v2` and `influxdb` ask.
  app.get('/ping', async (_request, reply) => reply.code(204).send())
  for (const path of ['/api/v2/write', '/write']) {
    app.post(path, async (/** @type {Request} */ request, reply) => {
      requireRoom()
      const items = itemsOf('line', await textOf(request), request.query.precision)
      const { refused } = await deliver(sink, items, { path, client: clientOf(request) })
      if (refused.length === 0) return reply.code(204).send()
      const [{ item, reason }] = refused
      const message = `partial write: ${refused.length} lines are refused; line ${item + 1}: ${reason}`
      return reply.code(400).send({ code: 'invalid', message, error: message })
    })
  }
  return app
}

/** @param {string} body  JSON. @returns {string[]} */
function idsOf(body) {
  /** @type {unknown} */
  let value
  try {
    value = JSON.parse(body)
  } catch {
    value = undefined
  }
  const { ids } = /** @type {{ ids?: unknown }} */ (value ?? {})
  const isList = Array.isArray(ids) && ids.length > 0 && ids.length <= REPLAY_MAX
  if (!isList || !ids.every((id) => typeof id === 'string' && TIME_UUID.test(id))) {
    throw new PayloadError(
      'json',
      `the body must be {"ids": [1 to ${REPLAY_MAX} ids of dead letters]}`,
    )
  }
  return ids
}

/** In whose name it is sent: the api says that of those behind it. @param {Request} request */
function clientOf({ headers, ip }) {
  return String(headers[CLIENT_HEADER] ?? ip)
}

/** The body as text; unpacked if it is packed. @param {Request} request */
async function textOf(request) {
  const body = /** @type {Buffer | undefined} */ (request.body) ?? Buffer.alloc(0)
  const encoding = request.headers['content-encoding']
  if (encoding === undefined || encoding === 'identity') return body.toString()
  if (encoding !== 'gzip') throw new PayloadError('json', 'Content-Encoding must be gzip, or none')
  try {
    return (await unpack(body, { maxOutputLength: UNPACKED_BYTES_MAX })).toString()
  } catch (error) {
    const { message } = /** @type {Error} */ (error)
    throw new PayloadError('json', `the body cannot be unpacked: ${message}`)
  }
}

/** @param {Error & { statusCode?: number }} error  @param {number} bodyBytesMax */
function explain(error, bodyBytesMax) {
  if (error instanceof Problem) return error
  if (error instanceof PayloadError) return new Problem('invalid-body', error.message)
  if (error.statusCode === 413) {
    return new Problem(
      'body-too-large',
      `a body has at most ${bodyBytesMax} bytes (--body-bytes-max)`,
    )
  }
  const isOurs = error.statusCode === undefined || error.statusCode >= 500
  return isOurs
    ? new Problem('internal', error.message)
    : new Problem('invalid-request', error.message)
}
