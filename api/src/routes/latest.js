/** The newest value of each series: of one sensor, and of all that fit. */

import { sensorId } from '@sandglass/common/sensor'
import { withinDeadline } from '../deadline.js'
import { unknownSensor } from '../measurements.js'
import * as schemas from '../schemas.js'
import { valueJson } from '../value.js'
import { linkNext, listCursor, listProperties, parseList } from './sensors.js'

/** @typedef {{ Params: { sensor: string }, Querystring: { metric?: string[] } }} One */
/** @typedef {import('./sensors.js').ListQuery & { metric?: string[] }} AllQuery */

const tags = ['latest']

const oneSchema = {
  tags,
  operationId: 'getLatest',
  summary: 'The newest value of each metric of a sensor',
  params: schemas.sensorParams,
  querystring: {
    type: 'object',
    properties: { metric: schemas.metrics },
    additionalProperties: false,
  },
  response: {
    200: {
      type: 'object',
      properties: { items: { type: 'array', items: schemas.latest } },
      required: ['items'],
    },
    ...schemas.problems,
  },
}

const latestPage = schemas.page({
  ...schemas.latest,
  properties: {
    sensor: { type: 'string', description: 'Its name.' },
    id: { type: 'string', format: 'uuid' },
    ...schemas.latest.properties,
  },
})

const allSchema = {
  tags,
  operationId: 'listLatest',
  summary: 'The newest values of many sensors',
  description: 'Pages are those of `/v1/sensors`: a cursor of one is a cursor of the other.',
  querystring: {
    type: 'object',
    properties: {
      ...listProperties,
      metric: schemas.metrics,
      limit: { ...schemas.limit(1_000, 100), description: 'Most sensors of the page.' },
      cursor: schemas.cursor,
    },
    additionalProperties: false,
  },
  response: {
    200: {
      ...latestPage,
      properties: { ...latestPage.properties, as_of: schemas.asOf },
      required: [...latestPage.required, 'as_of'],
    },
    ...schemas.problems,
  },
}

const JSON_TYPE = 'application/json; charset=utf-8'

/**
 * @param {import('fastify').FastifyInstance} app
 * @param {import('../app.js').Parts & {
 *   catalog: import('../catalog.js').Catalog,
 *   gate: import('@sandglass/common/semaphore').Semaphore,
 *   metadata: import('../metadata/metadata.js').MetadataReader,
 * }} parts
 */
export default async function latest(app, { store, catalog, gate, metadata }) {
  app.get(
    '/v1/sensors/:sensor/latest',
    { schema: oneSchema },
    (/** @type {import('fastify').FastifyRequest<One>} */ request, reply) =>
      withinDeadline(reply, async () => {
        const id = sensorId(request.params.sensor)
        const [sensor, rows] = await Promise.all([store.sensor(id), store.latest(id)])
        if (!sensor || sensor.hidden) throw unknownSensor()
        const known = await metadata.ofSensor(sensor)
        const wanted = wants(request.query.metric)
        reply.type(JSON_TYPE)
        return `{"items":[${rows
          .filter(wanted)
          .map((row) => `{${latestJson(row, known)}}`)
          .join(',')}]}`
      }),
  )

  app.get(
    '/v1/latest',
    { schema: allSchema },
    (/** @type {import('fastify').FastifyRequest<{ Querystring: AllQuery }>} */ request, reply) =>
      withinDeadline(reply, async (signal) => {
        const { limit, metric } = request.query
        const { filter, after } = parseList(request.query)
        const { sensors, next: end, asOfMs } = await catalog.list(filter, after, limit)
        const answers = await Promise.all(
          sensors.map((sensor) =>
            gate.run(
              () => Promise.all([store.latest(sensor.id), metadata.ofSensor(sensor)]),
              signal,
            ),
          ),
        )
        const items = sensors.flatMap(({ id, name }, index) => {
          const start = `{"sensor":${JSON.stringify(name)},"id":"${id}",`
          const [rows, known] = answers[index]
          return rows.filter(wants(metric)).map((row) => `${start}${latestJson(row, known)}}`)
        })
        const next = end ? listCursor(filter, end) : null
        linkNext(request, reply, next)
        reply.type(JSON_TYPE)
        return `{"items":[${items.join(',')}],"next":${JSON.stringify(next)},"as_of":${asOfMs}}`
      }),
  )
}

/** @param {string[] | undefined} metrics  @returns {(row: { metric: string }) => boolean} */
function wants(metrics) {
  return metrics ? ({ metric }) => metrics.includes(metric) : () => true
}

/**
 * The members of an item; metadata where something is known.
 *
 * @param {import('../store.js').Latest} latest
 * @param {import('../metadata/metadata.js').SensorMetadata} known
 */
function latestJson({ metric, t, value, receivedMs }, known) {
  return (
    `"metric":${JSON.stringify(metric)},"t":${t},"v":${valueJson(value)},` +
    `"received":${receivedMs ?? null}${known.json(metric)}`
  )
}
