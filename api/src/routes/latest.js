/** The newest value of each series: of one sensor, and of all that fit. */

import { sensorId } from '@sandglass/common/sensor'
import { withinDeadline } from '../deadline.js'
import { unknownSensor } from '../measurements.js'
import * as schemas from '../schemas.js'
import { Turns } from '../turns.js'
import { valueJson } from '../value.js'
import { linkNext, listCursor, listProperties, parseList } from './sensors.js'

/** @typedef {import('../store.js').Store} Store */
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
  description:
    'A cursor of `/v1/sensors` is one of this list, and the other way round. A page ends early, ' +
    'with a `next`, at the sensor with which it has 4 MiB.',
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

/** A page ends with the sensor with which it has so many bytes. */
const PAGE_BYTES_MAX = 4 * 2 ** 20

/** Sensors whose values are read at the same time; the engine answers a mebibyte at once. */
const SENSORS_AT_ONCE = 32

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
      withinDeadline(reply, async (signal) => {
        const { metric } = request.query
        const id = sensorId(request.params.sensor)
        const [sensor, part] = await Promise.all([store.sensor(id), store.latestPart(id, metric)])
        if (!sensor || sensor.hidden) throw unknownSensor()
        const items = new Items({ store, metrics: metric, signal })
        await items.add({ id, start: '{', part, known: await metadata.ofSensor(sensor) })
        reply.type(JSON_TYPE)
        return `{"items":[${items.text}]}`
      }),
  )

  app.get(
    '/v1/latest',
    { schema: allSchema },
    (/** @type {import('fastify').FastifyRequest<{ Querystring: AllQuery }>} */ request, reply) =>
      withinDeadline(reply, async (signal) => {
        const { limit, metric } = request.query
        const { filter, after } = parseList(request.query)
        const { sensors, next: end, asOfMs, positionOf } = await catalog.list(filter, after, limit)
        const items = new Items({ store, metrics: metric, signal })
        /** @param {import('../store.js').Sensor} sensor */
        const begin = async (sensor) => {
          const read = () =>
            Promise.all([store.latestPart(sensor.id, metric), metadata.ofSensor(sensor)])
          const [part, known] = await gate.run(read, signal)
          const start = `{"sensor":${JSON.stringify(sensor.name)},"id":"${sensor.id}",`
          return { id: sensor.id, start, part, known }
        }
        let count = 0
        while (count < sensors.length && !items.isFull) {
          const some = sensors.slice(count, count + SENSORS_AT_ONCE)
          for (const one of await Promise.all(some.map(begin))) {
            if (items.isFull) break
            await items.add(one)
            count += 1
          }
        }
        const last = count < sensors.length ? positionOf(sensors[count - 1]) : end
        const next = last ? listCursor(filter, last) : null
        linkNext(request, reply, next)
        reply.type(JSON_TYPE)
        return `{"items":[${items.text}],"next":${JSON.stringify(next)},"as_of":${asOfMs}}`
      }),
  )
}

/**
 * A sensor whose values are begun to be read.
 *
 * @typedef {object} Begun
 * @property {string} id
 * @property {string} start  Of each of its items, as JSON.
 * @property {Awaited<ReturnType<Store['latestPart']>>} part
 * @property {import('../metadata/metadata.js').SensorMetadata} known
 */

/** The items of an answer as JSON, written in short turns. */
class Items {
  #store
  #metrics
  #turns
  /** @type {string[]} */
  #texts = []
  #bytes = 0

  /** @param {{ store: Store, metrics: string[] | undefined, signal: AbortSignal }} parts */
  constructor({ store, metrics, signal }) {
    this.#store = store
    this.#metrics = metrics
    this.#turns = new Turns(signal)
  }

  get isFull() {
    return this.#bytes >= PAGE_BYTES_MAX
  }

  get text() {
    return this.#texts.join(',')
  }

  /** All values of a sensor; those that it is not begun with are read here. @param {Begun} one */
  async add({ id, start, part, known }) {
    for (let at = part; ; at = await this.#store.latestPart(id, this.#metrics, at.next)) {
      for (const row of at.rows) {
        const text = `${start}${latestJson(row, known)}}`
        this.#texts.push(text)
        this.#bytes += Buffer.byteLength(text)
        await this.#turns.pause()
      }
      if (at.next === undefined) return
    }
  }
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
