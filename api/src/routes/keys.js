/** `/v1/keys`: who may ask what; `/v1/access`: what the asker may. */

import { SCOPES } from '@sandglass/common/keys'
import { invalid, Problem } from '@sandglass/common/problem'
import { isSensorName, SENSOR_NAME_RULE, sensorId } from '@sandglass/common/sensor'
import { grantOf } from '../auth.js'
import { withinDeadline } from '../deadline.js'
import { PagedList } from '../paged-list.js'
import * as schemas from '../schemas.js'
import { pageByText, textPage, textQuery } from '../text-page.js'
import { parseTime } from '../time.js'
import { linkNext } from './sensors.js'

/**
 * @typedef {{ name: string, scopes: string[], sensor?: string,
 *   expires?: string | number }} Body
 */
/** @typedef {{ Body: Body }} Post */
/** @typedef {{ Querystring: import('../text-page.js').TextQuery }} List */

const tags = ['keys']

/** Sensors whose names are asked for at once. */
const NAMES_AT_ONCE = 100

const key = {
  type: 'object',
  properties: {
    id: { type: 'string' },
    name: { type: 'string' },
    scopes: { type: 'array', items: { type: 'string', enum: SCOPES } },
    sensor: {
      type: 'string',
      nullable: true,
      description: 'The id of the one sensor of its device.',
    },
    sensor_name: { type: 'string', nullable: true, description: 'null: it was never heard of.' },
    expires: { type: 'integer', nullable: true, description: 'Milliseconds since 1970.' },
  },
  required: ['id', 'name', 'scopes', 'sensor', 'sensor_name', 'expires'],
}

const { sensor_name: _, ...ownKey } = key.properties

const accessSchema = {
  tags,
  operationId: 'getAccess',
  summary: 'What whoever asks may do',
  response: {
    200: {
      type: 'object',
      properties: {
        keys_required: { type: 'boolean', description: 'false: everybody may do everything.' },
        key: {
          type: 'object',
          nullable: true,
          description: 'The one that came with the request.',
          properties: ownKey,
        },
      },
      required: ['keys_required', 'key'],
    },
    ...schemas.problems,
  },
}

const listSchema = {
  tags,
  operationId: 'listKeys',
  summary: 'Keys by name, without their secrets',
  querystring: textQuery('the name contains this, or the sensor is called so'),
  response: { 200: textPage(key), ...schemas.problems },
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
 * @param {import('../app.js').Parts & {
 *   gate: import('@sandglass/common/semaphore').Semaphore,
 * }} parts
 */
export default async function keysRoutes(app, { keys, store, gate, requireKeys }) {
  const all = new PagedList(() => keys.list(), keyOf)

  /** @param {readonly string[]} ids  @param {AbortSignal} signal */
  async function namesOf(ids, signal) {
    const parts = []
    for (let at = 0; at < ids.length; at += NAMES_AT_ONCE) {
      const some = ids.slice(at, at + NAMES_AT_ONCE)
      parts.push(gate.run(() => store.names(some), signal))
    }
    return new Map((await Promise.all(parts)).flatMap((names) => [...names]))
  }

  app.get('/v1/access', { schema: accessSchema }, async (request) => {
    const grant = grantOf(request)
    return { keys_required: requireKeys, key: grant ? present(grant) : null }
  })

  app.get(
    '/v1/keys',
    { schema: listSchema },
    (/** @type {import('fastify').FastifyRequest<List>} */ request, reply) =>
      withinDeadline(reply, async (signal) => {
        const { q = '' } = request.query
        const ofSensor = isSensorName(q) ? sensorId(q) : undefined
        const found = (await all.for(request.query)).filter(
          ({ name, grant }) =>
            name.includes(q) || (ofSensor !== undefined && grant().sensorId === ofSensor),
        )
        const { items, ...page } = pageByText(found, request.query, {
          kind: 'keys',
          keyOf,
        })
        linkNext(request, reply, page.next)
        const shown = items.map(({ grant }) => present(grant()))
        const names = await namesOf(
          shown.flatMap(({ sensor }) => sensor ?? []),
          signal,
        )
        const named = shown.map((one) => ({
          ...one,
          sensor_name: (one.sensor && names.get(one.sensor)) ?? null,
        }))
        return { items: named, ...page }
      }),
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
        return reply.code(201).header('cache-control', 'no-store').send({ id: keyId, key: text })
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

/** @param {{ name: string, keyId: string }} key  @returns {[string, string]} */
const keyOf = ({ name, keyId }) => [name, keyId]

/** @param {import('@sandglass/common/keys').Grant} grant */
function present({ keyId, name, scopes, sensorId: sensor, expiresMs }) {
  return {
    id: keyId,
    name,
    scopes: [...scopes],
    sensor: sensor ?? null,
    expires: expiresMs ?? null,
  }
}
