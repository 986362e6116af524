/** `/v1/sensors/{sensor}/desired`: what a device is to be, and what it reports beside that. */

import { DESIRED_BYTES_MAX, desiredTopic, isAsWanted, leavesOf } from '@sandglass/common/desired'
import { jsonText } from '@sandglass/common/json'
import { Problem } from '@sandglass/common/problem'
import { sensorId } from '@sandglass/common/sensor'
import { withinDeadline } from '../deadline.js'
import { unknownSensor } from '../measurements.js'
import * as schemas from '../schemas.js'
import { valueJson } from '../value.js'

/** @typedef {{ Params: { sensor: string } }} One */
/** @typedef {One & { Body: Record<string, unknown> }} Put */

const tags = ['sensors']
const params = schemas.sensorParams

/** Of a body, spaces and all, in bytes. */
const BODY_BYTES_MAX = 4 * DESIRED_BYTES_MAX

const answer = {
  type: 'object',
  description: 'What is desired, and each value of it beside the one that is reported.',
  properties: {
    topic: { type: 'string', description: 'On which it is retained for the device.' },
    desired: { type: 'object', nullable: true, additionalProperties: true },
    changed: { type: 'integer', nullable: true, description: 'Milliseconds since 1970.' },
    reached: { type: 'boolean', description: 'Whether all is reported as it is desired.' },
    fields: schemas.objects({
      metric: { type: 'string', description: 'By which the device reports it.' },
      desired: {},
      reported: { description: 'The newest value of that metric.' },
      t: { type: 'integer', nullable: true, description: 'Of when it is.' },
      reached: { type: 'boolean' },
    }),
  },
  required: ['topic', 'desired', 'changed', 'reached', 'fields'],
}

const getSchema = {
  tags,
  params,
  operationId: 'getDesired',
  summary: 'What is desired of a device, and what it reports',
  response: { 200: answer, ...schemas.problems },
}

const putSchema = {
  tags,
  params,
  operationId: 'putDesired',
  summary: 'Says what a device is to be: kept, and retained on its topic',
  description:
    `A JSON object of at most ${DESIRED_BYTES_MAX} bytes, which replaces the one of before. It is ` +
    'stored first. 503 `ingest-away`: it is stored, and published when the broker is there again.',
  body: { type: 'object', additionalProperties: true },
  response: { 204: { type: 'null', description: 'The broker has it.' }, ...schemas.problems },
}

const deleteSchema = {
  tags,
  params,
  operationId: 'deleteDesired',
  summary: 'Takes back what was desired of a device',
  response: { 204: { type: 'null', description: 'Nothing is retained.' }, ...schemas.problems },
}

/**
 * @param {import('fastify').FastifyInstance} app
 * @param {import('../app.js').Parts} parts
 */
export default async function desired(app, { store, ingest }) {
  /** @param {string} nameOrId */
  async function known(nameOrId) {
    const sensor = await store.sensor(sensorId(nameOrId))
    if (!sensor || sensor.hidden) throw unknownSensor()
    return sensor
  }

  /**
   * @param {string} sensor
   * @param {string | null} state
   * @param {string} client
   */
  async function change(sensor, state, client) {
    const { id, name } = await known(sensor)
    await store.putDesired(id, name, state)
    const headers = { 'content-type': 'text/plain' }
    const { status, body } = await ingest.post('/v1/desired', headers, Buffer.from(id), client)
    if (status >= 300) {
      throw new Problem(
        'ingest-away',
        `it is stored, and not published yet: send it again${whyOf(body)}`,
      )
    }
  }

  app.get(
    '/v1/sensors/:sensor/desired',
    { schema: getSchema },
    (/** @type {import('fastify').FastifyRequest<One>} */ request, reply) =>
      withinDeadline(reply, async () => {
        const { id, name } = await known(request.params.sensor)
        const [row, latest] = await Promise.all([store.desired(id), store.latest(id)])
        reply.type('application/json; charset=utf-8')
        return present(name, row, latest)
      }),
  )

  app.put(
    '/v1/sensors/:sensor/desired',
    { schema: putSchema, bodyLimit: BODY_BYTES_MAX },
    (/** @type {import('fastify').FastifyRequest<Put>} */ request, reply) =>
      withinDeadline(reply, async () => {
        await change(request.params.sensor, stateOf(request.body), request.ip)
        return reply.code(204).send()
      }),
  )

  app.delete(
    '/v1/sensors/:sensor/desired',
    { schema: deleteSchema },
    (/** @type {import('fastify').FastifyRequest<One>} */ request, reply) =>
      withinDeadline(reply, async () => {
        await change(request.params.sensor, null, request.ip)
        return reply.code(204).send()
      }),
  )
}

/** What ingest says of it. @param {string} body  A problem, as JSON. */
function whyOf(body) {
  try {
    const { detail } = JSON.parse(body)
    return typeof detail === 'string' ? `. ${detail}` : ''
  } catch {
    return ''
  }
}

/** As it is stored and published. @param {Record<string, unknown>} body  @throws {Problem} */
function stateOf(body) {
  try {
    leavesOf(body)
  } catch (error) {
    if (error instanceof RangeError) throw new Problem('invalid-body', error.message)
    throw error
  }
  const text = JSON.stringify(body)
  const bytes = Buffer.byteLength(text)
  if (bytes > DESIRED_BYTES_MAX) {
    throw new Problem('body-too-large', `it has ${bytes} bytes, of ${DESIRED_BYTES_MAX} at most`)
  }
  return text
}

/**
 * @param {string} name
 * @param {import('../store.js').Desired | undefined} row
 * @param {readonly import('../store.js').Latest[]} latest
 */
function present(name, row, latest) {
  const reported = new Map(latest.map((one) => [one.metric, one]))
  const leaves = row ? leavesOf(JSON.parse(row.state)) : []
  const fields = leaves.map(({ metric, value }) => {
    const { value: is = null, t = null } = reported.get(metric) ?? {}
    return { metric, value, is, t, isReached: isAsWanted(value, is) }
  })
  const items = fields.map(
    ({ metric, value, is, t, isReached }) =>
      `{"metric":${JSON.stringify(metric)},"desired":${jsonText(value)},` +
      `"reported":${valueJson(is)},"t":${t},"reached":${isReached}}`,
  )
  const topic = JSON.stringify(desiredTopic(name))
  return (
    `{"topic":${topic},"desired":${row?.state ?? null},"changed":${row?.changedMs ?? null},` +
    `"reached":${fields.every(({ isReached }) => isReached)},"fields":[${items.join(',')}]}`
  )
}
