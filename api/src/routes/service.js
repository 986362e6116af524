/** What the api tells about itself. */

const tags = ['service']
const state = {
  type: 'object',
  properties: { ok: { type: 'boolean' }, database: { type: 'string', enum: ['up', 'down'] } },
}

/**
 * @param {import('fastify').FastifyInstance} app
 * @param {import('../app.js').Parts} parts
 */
export default async function service(app, { isDatabaseUp, registry }) {
  for (const [path, summary] of [
    ['/health', 'Whether the api runs and reaches the database, for supervisors'],
    ['/ready', 'Whether the api can answer, for load balancers'],
  ]) {
    const schema = { tags, summary, response: { 200: state, 503: state } }
    app.get(path, { schema }, async (_request, reply) => {
      const ok = isDatabaseUp()
      if (!ok) reply.code(503).header('retry-after', '1')
      return { ok, database: ok ? 'up' : 'down' }
    })
  }

  app.get('/metrics', { schema: { tags, summary: 'For Prometheus' } }, async (_request, reply) =>
    reply.type(registry.contentType).send(await registry.metrics()),
  )

  app.get('/openapi.json', { schema: { hide: true } }, async () => app.swagger())
}
