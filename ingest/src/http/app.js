/**
 * Ingest over HTTP: measurements in any of the formats of `bodies.js`, InfluxDB's own paths for
 * Telegraf, and what ingest tells about itself. An answer says what is durable, as a PUBACK does.
 */

import {
  bodyFormat,
  CLIENT_HEADER,
  itemsOf,
  KEPT_HEADER,
  MEDIA_TYPES,
  REPLAY_MAX,
} from '@sandglass/common/bodies'
import { isDecoderName, NAME_RULE } from '@sandglass/common/expressions/decoder'
import { ownItem } from '@sandglass/common/expressions/envelope'
import { foreignRequest } from '@sandglass/common/origin'
import { PayloadError } from '@sandglass/common/payload'
import { invalid, PROBLEM_TYPE, Problem } from '@sandglass/common/problem'
import { CLASS_NAMES } from '@sandglass/common/schema'
import Fastify from 'fastify'
import { BodyLease, readBody } from './body.js'
import { deliver } from './delivery.js'

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
const TIME_UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-1[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** Refused items that an answer tells of. */
const REFUSED_SHOWN_MAX = 100

/** Sensors of which an answer tells that they keep their class. */
const KEPT_SHOWN_MAX = 100

/** How long a request may take to arrive whole, and how often that is looked at, in ms. */
const REQUEST_MS_MAX = 30_000
const REQUEST_LOOK_MS = 1_000

/** @typedef {import('@sandglass/common/memory-share').MemoryShare} MemoryShare */
/** @typedef {import('fastify').FastifyRequest<{ Querystring: {
 *   precision?: string, retention?: string, decoder?: string } }>} Request */
/** @typedef {import('./delivery.js').Sink} Sink */
/** @typedef {{ ok: boolean, [detail: string]: unknown }} Health */

/**
 * @param {object} parts
 * @param {Sink} parts.sink
 * @param {{ contentType: string, metrics: () => Promise<string> }} parts.registry
 * @param {() => Health | Promise<Health>} parts.health  200 if `ok`, else 503.
 * @param {() => unknown} parts.stats
 * @param {(sensorId: string) => Promise<void>} [parts.publishDesired]  What is desired
 *   of a device.
 * @param {(ids: string[],
 *   retention?: string) => Promise<import('./replay.js').Replayed>} parts.replay
 * @param {MemoryShare} parts.bodies  In which bodies are counted.
 * @param {number} parts.bodyBytesMax  Largest body as it arrives.
 * @param {number} [parts.requestMsMax]  How long a request may take to arrive whole.
 * @param {boolean} parts.isLoopback  Only this machine can reach it; then `Host` must say so too.
 */
export function buildHttp(parts) {
  const { sink, registry, health, stats, replay, bodies, bodyBytesMax, isLoopback } = parts
  const { requestMsMax = REQUEST_MS_MAX } = parts
  const app = Fastify({
    bodyLimit: bodyBytesMax,
    forceCloseConnections: true,
    requestTimeout: requestMsMax,
    // Of the two limits Node takes the larger one for the whole request.
    http: { headersTimeout: requestMsMax, connectionsCheckingInterval: REQUEST_LOOK_MS },
  })
  takeBodies(app, bodies, bodyBytesMax)
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
      const state = await health()
      return reply.code(state.ok ? 200 : 503).send(state)
    })
  }
  app.get('/stats', async () => stats())

  app.post('/v1/measurements', async (/** @type {Request} */ request, reply) => {
    const items = itemsOfRequest(request, requireRoom)
    const lease = leaseOf(request, bodies)
    lease.takeItems(items.length)
    const from = {
      path: '/v1/measurements',
      client: clientOf(request),
      retention: retentionOf(request),
    }
    const delivered = await lease.during(() => deliver(sink, items, from))
    const { refused, fields, fieldCount, kept, ...counts } = delivered
    const shown = refused.slice(0, REFUSED_SHOWN_MAX)
    const members = { ...counts, refused: shown, ...lost(fields, fieldCount), ...tell(kept) }
    if (refused.length === 0) return reply.send(members)
    const detail = `${refused.length} of ${items.length} are refused, and are dead letters`
    throw new Problem('refused-items', detail, { members })
  })

  app.post('/v1/dead-letters/replay', async (/** @type {Request} */ request, reply) => {
    const ids = idsOf(bytesOf(request).toString())
    requireRoom()
    const retention = retentionOf(request)
    return reply.send(await leaseOf(request, bodies).during(() => replay(ids, retention)))
  })

  if (parts.publishDesired) takeDesired(app, parts.publishDesired)

  // What Telegraf's outputs `influxdb_v2` and `influxdb` ask.
  app.get('/ping', async (_request, reply) => reply.code(204).send())
  for (const path of ['/api/v2/write', '/write']) {
    app.post(path, async (/** @type {Request} */ request, reply) => {
      requireRoom()
      const items = itemsOf('line', bytesOf(request), request.query.precision)
      const lease = leaseOf(request, bodies)
      lease.takeItems(items.length)
      const from = { path, client: clientOf(request), retention: retentionOf(request) }
      const delivered = await lease.during(() => deliver(sink, items, from))
      // An answer to Telegraf has no body.
      if (delivered.kept.length > 0) reply.header(KEPT_HEADER, delivered.kept.length)
      const message = partialWrite(delivered)
      if (message === undefined) return reply.code(204).send()
      return reply.code(400).send({ code: 'invalid', message, error: message })
    })
  }
  return app
}

/**
 * The api says whose desired state was changed; what it is now is in the database.
 *
 * @param {import('fastify').FastifyInstance} app
 * @param {(sensorId: string) => Promise<void>} publish
 */
function takeDesired(app, publish) {
  app.post('/v1/desired', async (/** @type {Request} */ request, reply) => {
    const id = bytesOf(request).toString()
    if (!UUID.test(id)) throw new PayloadError('json', 'the body must be the id of a sensor')
    try {
      await publish(id)
    } catch (error) {
      const { message } = /** @type {Error} */ (error)
      throw new Problem('ingest-away', `it is not published: ${message}`)
    }
    return reply.code(204).send()
  })
}

/** The class of sensors that register themselves by a request. @param {Request} request */
function retentionOf({ query: { retention } }) {
  if (retention === undefined || CLASS_NAMES.includes(retention)) return retention
  throw invalid('retention', `must be one of ${CLASS_NAMES.join(', ')}`)
}

/**
 * Fields that stored items lose.
 *
 * @param {import('./delivery.js').LostField[]} fields
 * @param {number} count  Of all.
 */
function lost(fields, count) {
  if (count === 0) return {}
  return { refused_fields: fields.slice(0, REFUSED_SHOWN_MAX), refused_field_count: count }
}

/**
 * What InfluxDB says where not all is stored; undefined where it is.
 *
 * @param {import('./delivery.js').Delivered} delivered
 */
function partialWrite({ refused, fields, fieldCount }) {
  const first = refused[0] ?? fields[0]
  if (!first) return undefined
  const what = refused.length > 0 ? `${refused.length} lines` : `${fieldCount} fields`
  return `partial write: ${what} are refused; line ${first.item + 1}: ${first.reason}`
}

/**
 * @param {Request} request
 * @param {() => void} requireRoom  Before a body is taken apart.
 * @returns {import('@sandglass/common/bodies').Item[]}
 */
function itemsOfRequest(request, requireRoom) {
  const { decoder, precision } = request.query
  if (decoder !== undefined) {
    if (!isDecoderName(decoder)) throw invalid('decoder', NAME_RULE)
    requireRoom()
    return [ownItem(decoder, bytesOf(request))]
  }
  const format = bodyFormat(request.headers['content-type'])
  if (!format) {
    const known = [...MEDIA_TYPES.keys()].join(', ')
    throw new Problem('unsupported-media-type', `Content-Type must be one of ${known}`)
  }
  requireRoom()
  return itemsOf(format, bytesOf(request), precision)
}

/** What a wish of a class could not change. @param {import('./delivery.js').Kept[]} kept */
function tell(kept) {
  return kept.length > 0 ? { kept: kept.slice(0, KEPT_SHOWN_MAX), kept_sensors: kept.length } : {}
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

/**
 * Has bodies arrive unpacked, counted until the answer has left or the client is gone.
 *
 * @param {import('fastify').FastifyInstance} app
 * @param {import('@sandglass/common/memory-share').MemoryShare} bodies
 * @param {number} bodyBytesMax
 */
function takeBodies(app, bodies, bodyBytesMax) {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(
    '*',
    async (
      /** @type {import('fastify').FastifyRequest} */ request,
      /** @type {import('node:http').IncomingMessage} */ arriving,
    ) => {
      const lease = leaseOf(request, bodies)
      return readBody(arriving, request.headers['content-encoding'], lease, bodyBytesMax)
    },
  )
  app.addHook('onRequest', async (request) =>
    leasesOf(request.raw.socket).add(leaseOf(request, bodies)),
  )
  app.addHook('onResponse', async (request) => {
    const lease = leaseOf(request, bodies)
    leasesOf(request.raw.socket).delete(lease)
    lease.end()
  })
}

/** What the bodies of requests cost. @type {WeakMap<object, BodyLease>} */
const leases = new WeakMap()

/** @param {object} request  @param {import('@sandglass/common/memory-share').MemoryShare} bodies */
function leaseOf(request, bodies) {
  const lease = leases.get(request) ?? new BodyLease(bodies)
  leases.set(request, lease)
  return lease
}

/** Of requests that are not answered yet. @type {WeakMap<object, Set<BodyLease>>} */
const unanswered = new WeakMap()

/**
 * Those of a connection; they end with it. Nothing is told of a request that has arrived whole and
 * whose client leaves before the answer: not by Fastify, and not even by Node where the request
 * waits for the answer to the one before it.
 *
 * @param {import('node:net').Socket} socket
 */
function leasesOf(socket) {
  const known = unanswered.get(socket)
  if (known) return known
  /** @type {Set<BodyLease>} */
  const added = new Set()
  unanswered.set(socket, added)
  socket.once('close', () => {
    for (const lease of added) lease.end()
  })
  return added
}

/** The body as it came; what is taken out of it says whether it is UTF-8. */
/** @param {Request} request */
function bytesOf({ body }) {
  return /** @type {Buffer | undefined} */ (body) ?? Buffer.alloc(0)
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
