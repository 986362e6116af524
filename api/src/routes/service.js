/** What the api tells about itself. */

import { gzipSync } from 'node:zlib'
import * as schemas from '../schemas.js'

const tags = ['service']
const state = {
  type: 'object',
  properties: { ok: { type: 'boolean' }, database: { type: 'string', enum: ['up', 'down'] } },
  required: ['ok', 'database'],
}

/**
 * @param {import('fastify').FastifyInstance} app
 * @param {import('../app.js').Parts} parts
 */
export default async function service(app, { isDatabaseUp, registry }) {
  for (const [path, operationId, summary] of [
    ['/health', 'getHealth', 'Whether the api runs and reaches the database, for supervisors'],
    ['/ready', 'getReady', 'Whether the api can answer, for load balancers'],
  ]) {
    const response = { 200: state, 503: state, ...schemas.problems }
    const schema = { tags, operationId, summary, response }
    app.get(path, { schema }, async (_request, reply) => {
      const ok = isDatabaseUp()
      if (!ok) reply.code(503).header('retry-after', '1')
      return { ok, database: ok ? 'up' : 'down' }
    })
  }

  const metricsSchema = {
    tags,
    operationId: 'getMetrics',
    summary: 'For Prometheus',
    response: {
      200: schemas.rawAnswer('What is counted and measured.', ['text/plain']),
      ...schemas.problems,
    },
  }
  app.get('/metrics', { schema: metricsSchema }, async (_request, reply) =>
    reply.type(registry.contentType).send(await registry.metrics()),
  )

  // Whoever can reach the api may ask for it, and it stays the same: it is written once.
  /** @type {{ text: string, packed: Buffer } | undefined} */
  let described
  app.get('/openapi.json', { schema: { hide: true }, compress: false }, async (request, reply) => {
    described ??= packedOnce(JSON.stringify(app.swagger()))
    reply.type('application/json; charset=utf-8').header('vary', 'accept-encoding')
    const { 'accept-encoding': accepted = '' } = request.headers
    if (!/\bgzip\b(?!\s{0,9};\s{0,9}q=0)/.test(String(accepted))) return described.text
    return reply.header('content-encoding', 'gzip').send(described.packed)
  })
}

/** @param {string} text */
function packedOnce(text) {
  return { text, packed: gzipSync(text) }
}
