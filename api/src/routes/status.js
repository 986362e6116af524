/** `/v1/sensors/{sensor}/status`: when a device came and went. */

import { bucketOf, STATUS_BUCKET_S, STATUS_TTL_S } from '@sandglass/common/schema'
import { sensorId } from '@sandglass/common/sensor'
import { withinDeadline } from '../deadline.js'
import { unknownSensor } from '../measurements.js'
import * as schemas from '../schemas.js'
import { parseTime } from '../time.js'

/** @typedef {{ limit: number, before?: string }} Querystring */
/** @typedef {{ Params: { sensor: string }, Querystring: Querystring }} Query */

const schema = {
  tags: ['sensors'],
  operationId: 'listStatus',
  summary: 'Connection states of a device, newest first, of the last 90 days',
  description:
    'Known of a device whose key is bound to the sensor, whose will is on a topic of it, or ' +
    'whose client id is its name. `lost` came without a DISCONNECT.',
  params: schemas.sensorParams,
  querystring: {
    type: 'object',
    properties: {
      limit: schemas.limit(1_000, 100),
      before: { ...schemas.time, description: 'Only earlier ones: `t` of the last one you have.' },
    },
    additionalProperties: false,
  },
  response: {
    200: {
      type: 'object',
      properties: {
        items: schemas.objects({
          t: { type: 'integer', description: 'Milliseconds since 1970.' },
          state: { type: 'string', enum: ['online', 'offline', 'lost', 'unknown'] },
          client: { type: 'string' },
          reason: { type: 'string' },
        }),
      },
      required: ['items'],
    },
    ...schemas.problems,
  },
}

/**
 * @param {import('fastify').FastifyInstance} app
 * @param {import('../app.js').Parts} parts
 */
export default async function status(app, { store }) {
  app.get(
    '/v1/sensors/:sensor/status',
    { schema },
    (/** @type {import('fastify').FastifyRequest<Query>} */ request, reply) =>
      withinDeadline(reply, async (signal) => {
        const id = sensorId(request.params.sensor)
        const { limit, before } = request.query
        if (!(await store.isKnown(id))) throw unknownSensor()
        const nowMs = Date.now()
        const untilMs = before === undefined ? nowMs : parseTime('before', before) - 1
        const oldest = bucketOf(STATUS_BUCKET_S, nowMs - STATUS_TTL_S * 1000)
        /** @type {import('../store.js').Status[]} */
        const items = []
        const newest = bucketOf(STATUS_BUCKET_S, Math.min(untilMs, nowMs))
        for (let bucket = newest; bucket >= oldest; bucket -= STATUS_BUCKET_S) {
          signal.throwIfAborted()
          items.push(...(await store.statuses(id, bucket, untilMs, limit - items.length)))
          if (items.length >= limit) break
        }
        return { items }
      }),
  )
}
