/** `/v1/keys`: who may ask what. */

import { SCOPES } from '@sandglass/common/keys'
import { invalid, Problem } from '@sandglass/common/problem'
import { isSensorName, SENSOR_NAME_RULE, sensorId } from '@sandglass/common/sensor'
import { withinDeadline } from '../deadline.js'
import * as schemas from '../schemas.js'
import { parseTime } from '../time.js'

/**
 * @typedef {{ name: string, scopes: string[], sensor?: string,
 *   expires?: string | number }} Body
 */
/** @typedef {{ Body: Body }} Post */

const tags = ['keys']

const key = {
  type: 'object',
  properties: {
    id: { type: 'string' },
    name: { type: 'string' },
    scopes: { type: 'array', items: { type: 'string', enum: SCOPES } },
    sensor: { type: 'string', nullable: true, description: 'The one sensor of its device.' },
    expires: { type: 'integer', nullable: true, description: 'Milliseconds since 1970.' },
  },
  required: ['id', 'name', 'scopes', 'sensor', 'expires'],
}

const listSchema = {
  tags,
  operationId: 'listKeys',
  summary: 'All keys, without their secrets',
  response: {
    200: {
      type: 'object',
      properties: { items: { type: 'array', items: key } },
      required: ['items'],
    },
    ...schemas.problems,
  },
}

const postSchema = {
  tags,
  operationId: 'createKey',
  summary: 'Makes a key, and tells it once',
  body: {
    type: 'object',
    properties: {
      name: { type: 'string', minLength: 1, maxLength: 128, description: 'What it is for.' },
      scopes: {
        type: 'array',
        minItems: 1,
        maxItems: SCOPES.length,
        items: { type: 'string', enum: SCOPES },
      },
      sensor: { ...schemas.sensorName, description: 'Only for the device of this one, over MQTT.' },
      expires: schemas.timeInBody,
    },
    required: ['name', 'scopes'],
    additionalProperties: false,
  },
  response: {
    201: {
      type: 'object',
      properties: { id: { type: 'string' }, key: { type: 'string', description: 'Keep it.' } },
      required: ['id', 'key'],
    },
    ...schemas.problems,
  },
}

const deleteSchema = {
  tags,
  operationId: 'revokeKey',
  summary: 'Takes a key back, within ten seconds',
  params: { type: 'object', properties: { id: { type: 'string', maxLength: 64 } } },
  response: { 204: { type: 'null', description: 'It is gone.' }, ...schemas.problems },
}

/**
 * @param {import('fastify').FastifyInstance} app
 * @param {{ keys: import('@sandglass/common/key-store').KeyStore }} parts
 */
export default async function keysRoutes(app, { keys }) {
  app.get('/v1/keys', { schema: listSchema }, (_request, reply) =>
    withinDeadline(reply, async () => ({
      items: (await keys.list()).map(({ keyId, name, scopes, sensorId: sensor, expiresMs }) => ({
        id: keyId,
        name,
        scopes: [...scopes],
        sensor: sensor ?? null,
        expires: expiresMs ?? null,
      })),
    })),
  )

  app.post(
    '/v1/keys',
    { schema: postSchema },
    (/** @type {import('fastify').FastifyRequest<Post>} */ request, reply) =>
      withinDeadline(reply, async () => {
        const { name, scopes, sensor, expires } = request.body
        const expiresMs = expires === undefined ? undefined : parseTime('expires', expires)
        if (expiresMs !== undefined && expiresMs <= Date.now()) {
          throw invalid('expires', 'must be a time to come')
        }
        if (sensor !== undefined && !isSensorName(sensor)) throw invalid('sensor', SENSOR_NAME_RULE)
        const { keyId, text } = await keys.create({
          name,
          scopes: new Set(scopes),
          expiresMs,
          sensorId: sensor === undefined ? undefined : sensorId(sensor),
        })
        return reply.code(201).send({ id: keyId, key: text })
      }),
  )

  app.delete(
    '/v1/keys/:id',
    { schema: deleteSchema },
    (/** @type {import('fastify').FastifyRequest<{ Params: { id: string } }>} */ request, reply) =>
      withinDeadline(reply, async () => {
        const { id } = request.params
        if (await keys.revoke(id)) return reply.code(204).send()
        throw new Problem('unknown-key', `there is no key ${id}`, { parameter: 'id' })
      }),
  )
}
