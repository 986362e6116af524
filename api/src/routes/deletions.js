/** Deletions of what a sensor measured, for good: asked for here, done by ingest. */

import { invalid, Problem } from '@sandglass/common/problem'
import { sensorId } from '@sandglass/common/sensor'
import { withinDeadline } from '../deadline.js'
import { askFor, dryRun, newDeletion, presentDeletion, requireWholeSums } from '../deletions.js'
import { parseRange, unknownSensor } from '../measurements.js'
import * as schemas from '../schemas.js'

/**
 * @typedef {{ Params: { sensor: string },
 *   Querystring: { metric?: string[], from?: string, to?: string, dry_run: boolean } }} Delete
 */
/** @typedef {{ Params: { sensor: string } }} All */
/** @typedef {{ Params: { sensor: string, deletion: string } }} One */

const tags = ['deletions']
const time = { type: 'integer', nullable: true }

export const deletion = {
  type: 'object',
  properties: {
    id: { type: 'string', format: 'uuid' },
    state: {
      type: 'string',
      enum: ['asked', 'deleting', 'checking', 'done'],
      description:
        'asked: no ingest has begun. deleting: it goes week by week. checking: no answer holds it; ' +
        'in some minutes it is deleted once more, for what was on its way. done: that is over.',
    },
    sensor: { type: 'boolean', description: 'Whether the sensor goes, with all it has.' },
    metrics: {
      type: 'array',
      nullable: true,
      items: { type: 'string' },
      description: 'null: all.',
    },
    from: { ...time, description: 'First time. null: from the beginning.' },
    to: { ...time, description: 'First time after. null: to the end.' },
    asked: { type: 'integer', description: 'What was received until then is deleted.' },
    at: {
      type: 'object',
      nullable: true,
      description: 'How far it has come: `until` is an event time, null at the end of the metric.',
      properties: { metric: { type: 'string' }, until: time },
    },
    gone: { ...time, description: 'Since then no answer holds it.' },
    waits_for: {
      type: 'string',
      nullable: true,
      enum: ['broker', null],
      description:
        'broker: the MQTT broker is away, and still retains what is desired of the device. All ' +
        'else goes on; this is cleared when the broker is back.',
    },
    forgettable: {
      ...time,
      description:
        'From then on a compaction of the database may forget, too, that it was deleted: ' +
        '`npm run db -- ctl --data-dir data/db compact`, on a cluster `nodetool compact`.',
    },
    updated: { ...time, description: 'When ingest last said so.' },
  },
}

export const dryRunAnswer = {
  type: 'object',
  description: 'Of a dry run.',
  properties: {
    dry_run: { type: 'boolean' },
    metrics: { type: 'array', nullable: true, items: { type: 'string' } },
    from: time,
    to: time,
    complete: { type: 'boolean', description: 'false: there are more, which took too long.' },
    rows: { type: 'integer' },
    items: {
      type: 'array',
      items: {
        type: 'object',
        properties: {
          metric: { type: 'string' },
          rows: { type: 'integer' },
          first: { type: 'integer' },
          last: { type: 'integer' },
        },
      },
    },
  },
}

const deleteSchema = {
  tags,
  operationId: 'deleteMeasurements',
  summary: 'Deletes measurements for good',
  description:
    'Of all metrics, or those named; at all times, or of a range: at least one of `metric`, `from` ' +
    'and `to` must be given. What is received later stays, also of the same times. It cannot be ' +
    'undone: `dry_run` says what would go.',
  params: schemas.sensorParams,
  querystring: {
    type: 'object',
    properties: {
      metric: schemas.metrics,
      from: { ...schemas.time, description: `First time. ${schemas.time.description}` },
      to: { ...schemas.time, description: `First time after. ${schemas.time.description}` },
      dry_run: { type: 'boolean', default: false, description: 'Says what would be deleted.' },
    },
    additionalProperties: false,
  },
  response: {
    200: dryRunAnswer,
    202: deletion,
    ...schemas.problems,
  },
}

const listSchema = {
  tags,
  operationId: 'listDeletions',
  summary: 'What is deleted of a sensor, newest first',
  params: schemas.sensorParams,
  response: {
    200: {
      type: 'object',
      properties: { items: { type: 'array', items: deletion } },
      required: ['items'],
    },
    ...schemas.problems,
  },
}

const oneSchema = {
  tags,
  operationId: 'getDeletion',
  summary: 'How far a deletion has come',
  params: {
    type: 'object',
    properties: {
      ...schemas.sensorParams.properties,
      deletion: schemas.timeUuid,
    },
  },
  response: { 200: deletion, ...schemas.problems },
}

/**
 * @param {import('fastify').FastifyInstance} app
 * @param {import('../app.js').Parts & {
 *   downsampler: import('../downsample/reader.js').SeriesDownsampler }} parts
 */
export default async function deletions(app, { store, downsampler }) {
  /** @param {string} nameOrId */
  async function known(nameOrId) {
    const id = sensorId(nameOrId)
    if (!(await store.isKnown(id))) throw unknownSensor()
    return id
  }

  app.delete(
    '/v1/sensors/:sensor/measurements',
    { schema: deleteSchema },
    (/** @type {import('fastify').FastifyRequest<Delete>} */ request, reply) =>
      withinDeadline(reply, async (signal) => {
        const id = await known(request.params.sensor)
        const { metric, from, to, dry_run: isDry } = request.query
        if (metric === undefined && from === undefined && to === undefined) {
          throw invalid('metric', 'or `from` or `to` must say what is deleted: `from=0` is all')
        }
        const { fromMs = null, toMs = null } = parseRange({ from, to })
        const metrics = metric ? [...new Set(metric)].sort() : null
        const wanted = newDeletion(id, { metrics, fromMs, toMs })
        await requireWholeSums(downsampler, store, wanted, signal)
        if (isDry) return dryRun(store, wanted, signal)
        return askFor(store, wanted, request.params.sensor, reply)
      }),
  )

  app.get(
    '/v1/sensors/:sensor/deletions',
    { schema: listSchema },
    (/** @type {import('fastify').FastifyRequest<All>} */ request, reply) =>
      withinDeadline(reply, async () => {
        const id = sensorId(request.params.sensor)
        const all = await store.deletions(id)
        // Of a sensor that was deleted they are still there.
        if (all.length === 0) await known(id)
        return { items: all.reverse().map(presentDeletion) }
      }),
  )

  app.get(
    '/v1/sensors/:sensor/deletions/:deletion',
    { schema: oneSchema },
    (/** @type {import('fastify').FastifyRequest<One>} */ request, reply) =>
      withinDeadline(reply, async () => {
        const id = sensorId(request.params.sensor)
        const found = await store.deletion(id, request.params.deletion)
        if (!found) await known(id)
        if (!found) throw new Problem('unknown-path', 'the sensor has no deletion of this id')
        return presentDeletion(found)
      }),
  )
}
