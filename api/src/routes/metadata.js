/** `/v1/…/metrics` and `/v1/metadata`: what the numbers of metrics mean, by sensor and by type. */

import { Readable } from 'node:stream'
import { metricsFault } from '@sandglass/common/measurement'
import { isSilent, metadataFault, metadataOf } from '@sandglass/common/metadata'
import { invalid, Problem } from '@sandglass/common/problem'
import { Semaphore } from '@sandglass/common/semaphore'
import { isMetricName, METRIC_NAME_RULE, sensorId } from '@sandglass/common/sensor'
import { withinDeadline } from '../deadline.js'
import { unknownSensor } from '../measurements.js'
import { HEAD, parseLines, printLines, wrong } from '../metadata/csv.js'
import { told } from '../metadata/metadata.js'
import * as schemas from '../schemas.js'

/** Rows of a CSV that are stored at the same time. */
const WRITES_AT_ONCE = 32

/** How long a CSV may take to be stored, in milliseconds. */
const CSV_DEADLINE_MS = 60_000

/** @typedef {import('@sandglass/common/metadata').Metadata} Metadata */
/** @typedef {Record<string, unknown>} Body */
/** @typedef {{ Params: { sensor: string, metric: string }, Body: Body }} OfSensor */
/** @typedef {{ Params: { type: string, metric: string }, Body: Body }} OfType */

const tags = ['metadata']

const metricName = { type: 'string', minLength: 1, description: 'Name of the metric.' }
const typeName = { ...schemas.word, description: 'A type of sensors.' }

/** @param {Record<string, unknown>} properties */
const paramsOf = (properties) => ({
  type: 'object',
  properties,
  required: Object.keys(properties),
})

const sensorMetric = paramsOf({ ...schemas.sensorParams.properties, metric: metricName })
const typeMetric = paramsOf({ type: typeName, metric: metricName })

const body = {
  type: 'object',
  properties: schemas.metadataBody,
  minProperties: 1,
  additionalProperties: false,
}

const said = { type: 'object', properties: schemas.saidMetadata }

const metricOfSensor = {
  type: 'object',
  properties: {
    metric: { type: 'string' },
    ...schemas.metadata,
    said: {
      type: 'object',
      description:
        'Who says what. Field by field, what is said of the `sensor` holds, else of its `type`, ' +
        'else by the `device`, else the unit of the sensor as a whole.',
      properties: { sensor: said, type: said, device: said },
    },
  },
  required: ['metric', 'said'],
}

const metricOfType = {
  type: 'object',
  properties: { metric: { type: 'string' }, ...schemas.metadata },
  required: ['metric'],
}

/** @param {Record<string, unknown>} items */
const listOf = (items) => ({
  200: {
    type: 'object',
    properties: { items: { type: 'array', items } },
    required: ['items'],
  },
  ...schemas.problems,
})

const gone = { 204: { type: 'null', description: 'It is taken back.' }, ...schemas.problems }

const CSV_TYPE = 'text/csv'

const csvSchema = {
  tags,
  operationId: 'exportMetadata',
  summary: 'What was said of metrics of sensors and of types, as CSV',
  response: {
    200: schemas.rawAnswer('Columns: sensor or type, metric, and what is said of it.', [CSV_TYPE]),
    ...schemas.problems,
  },
}

const postSchema = {
  tags,
  operationId: 'importMetadata',
  summary: 'Stores what a CSV says of metrics of sensors and of types',
  description:
    'The columns are those that GET gives, in any order; `metric`, and `sensor` or `type`, are ' +
    'needed. A row replaces all that was said of its metric, and a row that says nothing takes it ' +
    'back. All rows are checked before the first is stored, so a CSV that is refused changes ' +
    'nothing. To send one again is harmless.',
  rawBody: schemas.rawBody([CSV_TYPE]),
  response: {
    200: { type: 'object', properties: { stored: { type: 'integer' } }, required: ['stored'] },
    ...schemas.problems,
  },
}

/**
 * @param {import('fastify').FastifyInstance} app
 * @param {import('../app.js').Parts & {
 *   metadata: import('../metadata/metadata.js').MetadataReader,
 * }} parts
 */
export default async function metadataRoutes(app, parts) {
  routesOfSensors(app, parts)
  routesOfTypes(app, parts)
  await app.register(csvRoutes, parts)
}

/**
 * @param {import('fastify').FastifyInstance} app
 * @param {Parameters<typeof metadataRoutes>[1]} parts
 */
function routesOfSensors(app, { store, metadata }) {
  /** @param {string} nameOrId */
  async function known(nameOrId) {
    const sensor = await store.sensor(sensorId(nameOrId))
    if (!sensor || sensor.hidden) throw unknownSensor()
    return sensor
  }

  /** @param {string} nameOrId  @param {string} metric */
  async function oneOf(nameOrId, metric) {
    const all = await metadata.ofSensor(await known(nameOrId))
    if (!all.metrics.includes(metric)) throw unknownMetric(metric)
    return present(all, metric)
  }

  const summary = 'What the metrics of a sensor mean, as it holds'
  const path = '/v1/sensors/:sensor/metrics'
  app.get(
    path,
    {
      schema: {
        tags,
        operationId: 'listSensorMetrics',
        summary,
        params: schemas.sensorParams,
        response: listOf(metricOfSensor),
      },
    },
    (/** @type {import('fastify').FastifyRequest<OfSensor>} */ request, reply) =>
      withinDeadline(reply, async () => {
        const all = await metadata.ofSensor(await known(request.params.sensor))
        return { items: all.metrics.map((metric) => present(all, metric)) }
      }),
  )

  const response = { 200: metricOfSensor, ...schemas.problems }
  const one = { tags, params: sensorMetric }
  app.get(
    `${path}/:metric`,
    {
      schema: {
        ...one,
        operationId: 'getSensorMetric',
        summary: 'What a metric of a sensor means',
        response,
      },
    },
    (/** @type {import('fastify').FastifyRequest<OfSensor>} */ request, reply) =>
      withinDeadline(reply, () => oneOf(request.params.sensor, request.params.metric)),
  )

  const putSummary = 'Says what a metric of a sensor means; what was said of it before is replaced'
  app.put(
    `${path}/:metric`,
    { schema: { ...one, operationId: 'putSensorMetric', summary: putSummary, body, response } },
    (/** @type {import('fastify').FastifyRequest<OfSensor>} */ request, reply) =>
      withinDeadline(reply, async () => {
        const { sensor, metric } = request.params
        const words = checked(metric, request.body)
        const { id } = await known(sensor)
        requireRoom(metric, await store.metricsOfSensor(id))
        await store.putMetricOfSensor(id, metric, words)
        metadata.expire()
        return oneOf(id, metric)
      }),
  )

  const deleteSummary = 'Takes back what was said of a metric of a sensor'
  app.delete(
    `${path}/:metric`,
    {
      schema: { ...one, operationId: 'deleteSensorMetric', summary: deleteSummary, response: gone },
    },
    (/** @type {import('fastify').FastifyRequest<OfSensor>} */ request, reply) =>
      withinDeadline(reply, async () => {
        const { sensor, metric } = request.params
        const { id } = await known(sensor)
        const all = await store.metricsOfSensor(id)
        // Else a metric would be there from now on of which nobody ever heard.
        if (all.some((other) => other.metric === metric)) {
          await store.putMetricOfSensor(id, metric, {})
        }
        metadata.expire()
        return reply.code(204).send()
      }),
  )
}

/**
 * @param {import('fastify').FastifyInstance} app
 * @param {Parameters<typeof metadataRoutes>[1]} parts
 */
function routesOfTypes(app, { store, metadata }) {
  const summary = 'What is said of the metrics of all sensors of a type'
  const path = '/v1/types/:type/metrics'
  const params = paramsOf({ type: typeName })
  app.get(
    path,
    {
      schema: {
        tags,
        operationId: 'listTypeMetrics',
        summary,
        params,
        response: listOf(metricOfType),
      },
    },
    (/** @type {import('fastify').FastifyRequest<OfType>} */ request, reply) =>
      withinDeadline(reply, async () => {
        const all = await store.metricsOfType(request.params.type)
        return { items: all.map((one) => ({ metric: one.metric, ...told(one.said) })) }
      }),
  )

  const response = { 200: metricOfType, ...schemas.problems }
  const one = { tags, params: typeMetric }
  app.get(
    `${path}/:metric`,
    {
      schema: {
        ...one,
        operationId: 'getTypeMetric',
        summary: 'What is said of a metric of a type',
        response,
      },
    },
    (/** @type {import('fastify').FastifyRequest<OfType>} */ request, reply) =>
      withinDeadline(reply, async () => {
        const { type, metric } = request.params
        const found = (await store.metricsOfType(type)).find((other) => other.metric === metric)
        if (!found) throw unknownMetric(metric)
        return { metric, ...told(found.said) }
      }),
  )

  const putSummary =
    'Says what a metric of all sensors of a type means; what was said before is replaced'
  app.put(
    `${path}/:metric`,
    { schema: { ...one, operationId: 'putTypeMetric', summary: putSummary, body, response } },
    (/** @type {import('fastify').FastifyRequest<OfType>} */ request, reply) =>
      withinDeadline(reply, async () => {
        const { type, metric } = request.params
        const words = checked(metric, request.body)
        requireRoom(metric, await store.metricsOfType(type))
        await store.putMetricOfType(type, metric, words)
        metadata.expire()
        return { metric, ...told(words) }
      }),
  )

  app.delete(
    `${path}/:metric`,
    {
      schema: {
        ...one,
        operationId: 'deleteTypeMetric',
        summary: 'Takes back what was said of a metric',
        response: gone,
      },
    },
    (/** @type {import('fastify').FastifyRequest<OfType>} */ request, reply) =>
      withinDeadline(reply, async () => {
        await store.deleteMetricOfType(request.params.type, request.params.metric)
        metadata.expire()
        return reply.code(204).send()
      }),
  )
}

/**
 * @param {import('fastify').FastifyInstance} app
 * @param {Parameters<typeof metadataRoutes>[1]} parts
 */
async function csvRoutes(app, { store, metadata }) {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(CSV_TYPE, { parseAs: 'buffer' }, (_request, bytes, done) =>
    done(null, bytes),
  )

  app.get('/v1/metadata', { schema: csvSchema }, async (_request, reply) => {
    reply.type(`${CSV_TYPE}; charset=utf-8`)
    reply.header('content-disposition', 'attachment; filename="sandglass-metadata.csv"')
    return reply.send(Readable.from(lines()))
  })

  app.post(
    '/v1/metadata',
    { schema: postSchema },
    (
      /** @type {import('fastify').FastifyRequest<{ Body: Buffer | undefined }>} */ request,
      reply,
    ) =>
      withinDeadline(
        reply,
        async () => {
          const all = parseLines(request.body ?? Buffer.alloc(0))
          await requireSensors(all)
          await atOnce(all, ({ sensor, type = '', metric, said: words }) => {
            if (sensor !== undefined) {
              return store.putMetricOfSensor(sensorId(sensor), metric, words)
            }
            if (isSilent(words)) return store.deleteMetricOfType(type, metric)
            return store.putMetricOfType(type, metric, words)
          })
          metadata.expire()
          return { stored: all.length }
        },
        CSV_DEADLINE_MS,
      ),
  )

  async function* lines() {
    yield HEAD
    for await (const some of store.metricsOfTypes()) yield printLines(some)
    for await (const some of store.metricsOfSensors()) {
      const said = some.filter((row) => !isSilent(row.said))
      const names = await namesOf(store, new Set(said.map((row) => row.sensorId)))
      const known = said.filter((row) => names.has(row.sensorId))
      yield printLines(known.map((row) => ({ ...row, sensor: names.get(row.sensorId) })))
    }
  }

  /**
   * That they exist, and do not get too many metrics.
   *
   * @param {readonly import('../metadata/csv.js').Line[]} all
   */
  async function requireSensors(all) {
    /** @type {Map<string, import('../metadata/csv.js').Line[]>} */
    const byOwner = new Map()
    for (const line of all) {
      const { sensor, type } = line
      const owner = sensor === undefined ? `t${type}` : `s${sensorId(sensor)}`
      const lines = byOwner.get(owner)
      if (lines) lines.push(line)
      else byOwner.set(owner, [line])
    }
    await atOnce([...byOwner.values()], async (rows) => {
      const [{ line, sensor, type = '' }] = rows
      if (sensor !== undefined) {
        const found = await store.sensor(sensorId(sensor))
        if (!found || found.hidden) throw wrong(line, 'sensor', `${sensor} does not exist`)
      }
      const known = await (sensor === undefined
        ? store.metricsOfType(type)
        : store.metricsOfSensor(sensorId(sensor)))
      const metrics = new Set([...known, ...rows].map(({ metric }) => metric))
      const fault = metricsFault(metrics.size)
      if (fault !== undefined) throw wrong(line, 'metric', `is one too many: ${fault}`)
    })
  }
}

/**
 * Names of sensors by id, without those that were deleted.
 *
 * @param {import('../app.js').Parts['store']} store
 * @param {ReadonlySet<string>} ids
 */
async function namesOf(store, ids) {
  /** @type {Map<string, string>} */
  const names = new Map()
  await atOnce([...ids], async (id) => {
    const sensor = await store.sensor(id)
    if (sensor && !sensor.hidden) names.set(id, sensor.name)
  })
  return names
}

/**
 * @template T
 * @param {readonly T[]} all
 * @param {(one: T) => Promise<unknown>} action
 */
async function atOnce(all, action) {
  const semaphore = new Semaphore(WRITES_AT_ONCE)
  await Promise.all(all.map((one) => semaphore.run(() => action(one))))
}

/**
 * @param {string} metric
 * @param {Record<string, unknown>} words
 * @returns {Metadata}
 * @throws {Problem}  Names the field.
 */
function checked(metric, words) {
  if (!isMetricName(metric)) throw invalid('metric', METRIC_NAME_RULE)
  const metadata = metadataOf(words)
  const fault = metadataFault(metadata)
  if (fault) {
    const { field, rule } = fault
    throw new Problem('invalid-body', `${field} ${rule}`, { parameter: field })
  }
  if (!isSilent(metadata)) return metadata
  throw new Problem('invalid-body', 'the body says nothing: DELETE takes back what was said')
}

/** @param {string} metric  @param {readonly { metric: string }[]} known  @throws {Problem} */
function requireRoom(metric, known) {
  if (known.some((other) => other.metric === metric)) return
  const fault = metricsFault(known.length + 1)
  if (fault !== undefined) throw invalid('metric', `is one too many: ${fault}`)
}

/** @param {string} metric */
function unknownMetric(metric) {
  return new Problem('unknown-metric', `nothing is known of the metric ${metric}`, {
    parameter: 'metric',
  })
}

/** @param {import('../metadata/metadata.js').SensorMetadata} all  @param {string} metric */
function present(all, metric) {
  const { sensor, type, device } = all.said(metric)
  const words = {
    ...(sensor && !isSilent(sensor) && { sensor }),
    ...(type && !isSilent(type) && { type }),
    ...(device !== undefined && { device: { unit: device } }),
  }
  return { metric, ...all.of(metric), said: words }
}
