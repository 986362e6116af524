/** `/v1/sensors/{sensor}/measurements`: what a sensor measured, page by page. */

import { sensorId } from '@sandglass/common/sensor'
import { withinDeadline } from '../deadline.js'
import { cursorOf, parseQuestion } from '../measurements.js'
import * as schemas from '../schemas.js'
import { rowsJson } from '../value.js'
import { linkNext } from './sensors.js'

/**
 * @typedef {object} Page
 * @property {{ sensor: string }} Params
 * @property {import('../measurements.js').Parameters & { limit: number }} Querystring
 */

const schema = {
  tags: ['measurements'],
  operationId: 'listMeasurements',
  summary: 'Measurements of a sensor, newest first, all metrics merged by time',
  description:
    'After long gaps a page may hold fewer items than `limit` and still have a `next`. ' +
    'A cursor alone repeats the question it came from, and outlives restarts and new rows.',
  params: schemas.sensorParams,
  querystring: {
    type: 'object',
    properties: {
      metric: schemas.metrics,
      from: { ...schemas.time, description: `First time. ${schemas.time.description}` },
      to: { ...schemas.time, description: `First time after. ${schemas.time.description}` },
      order: {
        type: 'string',
        enum: ['asc', 'desc'],
        description: 'Oldest first, or newest first (which it is if nothing is said).',
      },
      limit: schemas.limit(10_000, 1_000),
      cursor: schemas.cursor,
    },
    additionalProperties: false,
  },
  response: { 200: schemas.page(schemas.measurement), ...schemas.problems },
}

/**
 * @param {import('fastify').FastifyInstance} app
 * @param {{ reader: import('../measurements.js').MeasurementReader }} parts
 */
export default async function measurements(app, { reader }) {
  app.get(
    '/v1/sensors/:sensor/measurements',
    { schema },
    (/** @type {import('fastify').FastifyRequest<Page>} */ request, reply) =>
      withinDeadline(reply, async (signal) => {
        const { limit } = request.query
        const { question, after } = parseQuestion(sensorId(request.params.sensor), request.query)
        const page = await reader.read(question, { after, limit, signal })
        const next = page.next ? cursorOf(question, page.next) : null
        linkNext(request, reply, next)
        reply.type('application/json; charset=utf-8')
        return `{"items":${rowsJson(page.rows)},"next":${next === null ? 'null' : `"${next}"`}}`
      }),
  )
}
