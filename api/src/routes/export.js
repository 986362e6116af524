/** `/v1/export`: all measurements of some sensors as a file, however many there are. */

import { Readable } from 'node:stream'
import { Problem } from '@sandglass/common/problem'
import { sensorId } from '@sandglass/common/sensor'
import { aboutOf } from '../about.js'
import { withinDeadline } from '../deadline.js'
import { exported, FORMATS, TIMES } from '../export.js'
import { attachment } from '../file-name.js'
import { parseRange, unknownSensor } from '../measurements.js'
import * as schemas from '../schemas.js'
import { filterProperties } from './sensors.js'

/** Exports that run at once; each reads as fast as its client. */
const EXPORTS_MAX = 4

/** Sensors of one page of the catalog. */
const SENSORS_AT_ONCE = 1_000

/**
 * @typedef {object} Query
 * @property {keyof typeof FORMATS} format
 * @property {string[]} [sensor]
 * @property {string} [type]
 * @property {string[]} [tag]
 * @property {string[]} [metric]
 * @property {string} [from]
 * @property {string} [to]
 * @property {boolean} unit
 * @property {keyof typeof TIMES} times
 */

const schema = {
  tags: ['measurements'],
  operationId: 'exportMeasurements',
  summary: 'All measurements, sensor by sensor, oldest first, to take away',
  description:
    'Of the sensors that are named, or fit, or else of all. `POST /v1/import` takes CSV and ' +
    'NDJSON as they are. Arrow is an IPC stream with the columns sensor (its id), name, metric, t, seq, ' +
    'and number, integer, boolean, text, lat, lon, of which those of the value are set. If the ' +
    'database stays away the transfer is broken off, never ended early.',
  querystring: {
    type: 'object',
    properties: {
      format: { type: 'string', enum: Object.keys(FORMATS), default: 'csv' },
      sensor: {
        type: 'array',
        maxItems: 64,
        items: schemas.sensorName,
        description: 'Only this sensor, by name or id; give it several times for several.',
      },
      ...filterProperties,
      metric: schemas.metrics,
      from: { ...schemas.time, description: `First time. ${schemas.time.description}` },
      to: { ...schemas.time, description: `First time after. ${schemas.time.description}` },
      unit: {
        type: 'boolean',
        default: false,
        description: 'Each row tells its unit, in one more column, the last.',
      },
      times: {
        type: 'string',
        enum: Object.keys(TIMES),
        default: 'ms',
        description: 'Of CSV and NDJSON: milliseconds since 1970, or ISO 8601 for spreadsheets.',
      },
    },
    additionalProperties: false,
  },
  response: {
    200: schemas.rawAnswer(
      'The measurements, in the format that was asked for.',
      Object.values(FORMATS).map(({ type }) => type.split(';')[0]),
    ),
    ...schemas.problems,
  },
}

/**
 * @param {import('fastify').FastifyInstance} app
 * @param {import('../app.js').Parts & {
 *   catalog: import('../catalog.js').Catalog,
 *   reader: import('../measurements.js').MeasurementReader,
 *   metadata: import('../metadata/metadata.js').MetadataReader,
 * }} parts
 */
export default async function exports(app, { store, catalog, reader, metadata }) {
  let running = 0

  app.get(
    '/v1/export',
    { schema },
    async (
      /** @type {import('fastify').FastifyRequest<{ Querystring: Query }>} */ request,
      reply,
    ) => {
      const { format: name, sensor: names, type, tag: tags, metric } = request.query
      const metrics = metric && [...new Set(metric)].sort()
      const question = { metrics, ...parseRange(request.query) }
      if (running >= EXPORTS_MAX) {
        throw new Problem('too-many-exports', `${EXPORTS_MAX} exports run already`)
      }
      // The place is taken before anything is waited for, and given back when the answer ends.
      const controller = new AbortController()
      running += 1
      reply.raw.once('close', () => {
        running -= 1
        controller.abort()
      })
      const chosen = names && (await withinDeadline(reply, () => named(names)))
      const format = FORMATS[name]
      const aboutSensor = async (/** @type {import('../store.js').Sensor} */ sensor) => {
        const [layouts, known] = await Promise.all([
          store.layouts(sensor.id),
          metadata.ofSensor(sensor),
        ])
        return {
          about: aboutOf(sensor, layouts, known, metrics),
          unitOf: (/** @type {string} */ one) => known.of(one).unit ?? '',
        }
      }
      const parts = {
        format,
        sensors: chosen ?? fitting({ type, tags }),
        hasUnit: request.query.unit,
        times: request.query.times,
        aboutOf: aboutSensor,
        reader,
        question,
        signal: controller.signal,
      }
      reply.type(format.type)
      const about = { sensors: (chosen ?? []).map((sensor) => sensor.name), ...question }
      reply.header('content-disposition', attachment(about, format.ending))
      return reply.send(Readable.from(exported(parts)))
    },
  )

  /** @param {string[]} names */
  async function named(names) {
    const ids = [...new Set(names.map(sensorId))]
    const sensors = await Promise.all(ids.map((id) => store.sensor(id)))
    return sensors.map((sensor) => {
      if (!sensor || sensor.hidden) throw unknownSensor()
      return sensor
    })
  }

  /** @param {import('../catalog.js').Filter} filter */
  async function* fitting(filter) {
    /** @type {import('../catalog.js').Position | undefined} */
    let after
    do {
      const page = await catalog.list(filter, after, SENSORS_AT_ONCE)
      yield* page.sensors
      after = page.next
    } while (after)
  }
}
