/** `/v1/claims`: claim keys; and `/v1/claim`, where a device that has one gets its own key. */

import { CLAIM_SCOPES, ClaimRefused } from '@sandglass/common/claim-store'
import { TooManyUnknownKeys } from '@sandglass/common/key-store'
import { invalid, Problem, RETRY_AFTER_S } from '@sandglass/common/problem'
import { isSensorName, SENSOR_NAME_RULE, sensorId } from '@sandglass/common/sensor'
import { keyIn } from '../auth.js'
import { withinDeadline } from '../deadline.js'
import { PagedList } from '../paged-list.js'
import * as schemas from '../schemas.js'
import { explain as awayOr } from '../store.js'
import { pageByText, textPage, textQuery } from '../text-page.js'
import { parseTime } from '../time.js'
import { linkNext } from './sensors.js'

/**
 * @typedef {{ sensor: string, name?: string, scopes: string[],
 *   expires?: string | number }} Body
 */
/** @typedef {{ Body: Body }} Post */
/** @typedef {{ Params: { id: string } }} One */
/** @typedef {{ Querystring: import('../text-page.js').TextQuery }} List */

const tags = ['keys']

/** Of the body of a claim, which has none: anybody may send one. */
const CLAIM_BYTES_MAX = 1_024

const time = { type: 'integer', nullable: true, description: 'Milliseconds since 1970.' }
const params = { type: 'object', properties: { id: { type: 'string', maxLength: 64 } } }
const scopes = { type: 'array', items: { type: 'string', enum: CLAIM_SCOPES } }

const listSchema = {
  tags,
  operationId: 'listClaims',
  summary: 'Claim keys by sensor, without their secrets',
  querystring: textQuery('the name or the sensor contains this'),
  response: {
    200: textPage({
      type: 'object',
      ...schemas.having({
        id: { type: 'string' },
        name: { type: 'string' },
        sensor: { type: 'string' },
        scopes,
        expires: time,
        claimed: { ...time, description: 'When a device got its key. null: none has yet.' },
        key: { type: 'string', nullable: true, description: 'The id of that key.' },
      }),
    }),
    ...schemas.problems,
  },
}

const postSchema = {
  tags,
  operationId: 'createClaim',
  summary: 'Makes a claim key, and tells it once',
  description: 'With it the device of the sensor gets its own key, once: `POST /v1/claim`.',
  body: {
    type: 'object',
    properties: {
      sensor: { ...schemas.sensorName, description: 'The one whose device may claim a key.' },
      name: { type: 'string', minLength: 1, maxLength: 128, description: 'What it is for.' },
      scopes: {
        ...scopes,
        minItems: 1,
        maxItems: CLAIM_SCOPES.length,
        default: [...CLAIM_SCOPES],
        description: "Of the device's key.",
      },
      expires: { ...schemas.timeInBody, description: `Until when. ${schemas.time.description}` },
    },
    required: ['sensor'],
    additionalProperties: false,
  },
  response: {
    201: {
      type: 'object',
      properties: { id: { type: 'string' }, claim: { type: 'string', description: 'Keep it.' } },
      required: ['id', 'claim'],
    },
    ...schemas.problems,
  },
}

const deleteSchema = {
  tags,
  operationId: 'revokeClaim',
  summary: 'Takes a claim key back; a key that was got by it stays',
  params,
  response: { 204: { type: 'null', description: 'It is gone.' }, ...schemas.problems },
}

const resetSchema = {
  tags,
  operationId: 'resetClaim',
  summary: 'Makes a claim key good again, and takes back the key that was got by it',
  description: 'For a device that never heard the answer to its claim, or has lost its key.',
  params,
  response: { 204: { type: 'null', description: 'It can be used.' }, ...schemas.problems },
}

const claimSchema = {
  tags,
  operationId: 'claimKey',
  summary: 'Gives a device its own key, once',
  description:
    'The claim key comes as `Authorization: Bearer sgc_…`. Of several who send the same one, one ' +
    'gets a key; the others get 409. A claim that was answered with 503 may be sent again.',
  response: {
    201: {
      type: 'object',
      properties: {
        key: { type: 'string', description: 'Keep it: it is not told again.' },
        id: { type: 'string', description: 'By which it is listed and taken back.' },
        sensor: { type: 'string', description: 'Below `sensors/` and this name it publishes.' },
      },
      required: ['key', 'id', 'sensor'],
    },
    ...schemas.problems,
  },
}

/** @param {string} id */
function unknownClaim(id) {
  return new Problem('unknown-claim', `there is no claim key ${id}`, { parameter: 'id' })
}

/**
 * @param {import('fastify').FastifyInstance} app
 * @param {{ claims: import('@sandglass/common/claim-store').ClaimStore }} parts
 */
export default async function claimsRoutes(app, { claims }) {
  const all = new PagedList(() => claims.list(), keyOf)

  app.get(
    '/v1/claims',
    { schema: listSchema },
    (/** @type {import('fastify').FastifyRequest<List>} */ request, reply) =>
      withinDeadline(reply, async () => {
        const { q = '' } = request.query
        const found = (await all.for(request.query)).filter(
          ({ name, sensor }) => name.includes(q) || sensor.includes(q),
        )
        const { items, ...page } = pageByText(found, request.query, {
          kind: 'claims',
          keyOf,
        })
        linkNext(request, reply, page.next)
        return { items: items.map(present), ...page }
      }),
  )

  app.post(
    '/v1/claims',
    { schema: postSchema },
    (/** @type {import('fastify').FastifyRequest<Post>} */ request, reply) =>
      withinDeadline(reply, async () => {
        const { claimId, text } = await claims.create(aboutOf(request.body))
        return reply
          .code(201)
          .header('cache-control', 'no-store')
          .send({ id: claimId, claim: text })
      }),
  )

  app.delete(
    '/v1/claims/:id',
    { schema: deleteSchema },
    (/** @type {import('fastify').FastifyRequest<One>} */ request, reply) =>
      withinDeadline(reply, async () => {
        if (!(await claims.revoke(request.params.id))) throw unknownClaim(request.params.id)
        return reply.code(204).send()
      }),
  )

  app.post(
    '/v1/claims/:id/reset',
    { schema: resetSchema },
    (/** @type {import('fastify').FastifyRequest<One>} */ request, reply) =>
      withinDeadline(reply, async () => {
        if (!(await claims.reset(request.params.id))) throw unknownClaim(request.params.id)
        return reply.code(204).send()
      }),
  )

  app.post('/v1/claim', { schema: claimSchema, bodyLimit: CLAIM_BYTES_MAX }, (request, reply) =>
    withinDeadline(reply, async () => {
      const text = keyIn(request.headers.authorization)
      if (text === undefined) throw new Problem('no-key', 'send `Authorization: Bearer sgc_…`')
      const { claim, keyId, text: key } = await claims.claim(text, request.ip).catch(explain)
      reply.code(201).header('cache-control', 'no-store')
      return { key, id: keyId, sensor: claim.sensor }
    }),
  )
}

/** @param {Body} body */
function aboutOf({ sensor, name = sensor, scopes: wanted, expires }) {
  const expiresMs = expires === undefined ? undefined : parseTime('expires', expires)
  if (expiresMs !== undefined && expiresMs <= Date.now()) {
    throw invalid('expires', 'must be a time to come')
  }
  if (!isSensorName(sensor)) throw invalid('sensor', SENSOR_NAME_RULE)
  return { name, sensor, sensorId: sensorId(sensor), scopes: new Set(wanted), expiresMs }
}

/** @param {{ sensor: string, claimId: string }} claim  @returns {[string, string]} */
const keyOf = ({ sensor, claimId }) => [sensor, claimId]

/** @param {import('@sandglass/common/claim-store').Claim} claim */
function present({ claimId, name, sensor, scopes: its, expiresMs, claimedMs, keyId }) {
  return {
    id: claimId,
    name,
    sensor,
    scopes: [...its],
    expires: expiresMs ?? null,
    claimed: claimedMs ?? null,
    key: keyId ?? null,
  }
}

/** @param {unknown} error  @returns {never} */
function explain(error) {
  if (error instanceof TooManyUnknownKeys) {
    throw new Problem('too-many-requests', 'too many claim keys were refused: wait', {
      retryAfterS: RETRY_AFTER_S,
    })
  }
  if (!(error instanceof ClaimRefused)) throw awayOr(/** @type {Error} */ (error))
  if (error.why === 'claimed') {
    throw new Problem(
      'already-claimed',
      'a device has got its key by this claim key: if it was this one, and it heard no answer, ' +
        'whoever made the claim key can reset it',
    )
  }
  throw new Problem('no-key', 'there is no such claim key, or it has expired or was taken back')
}
