/** `/v1/receivers`: who can be told of alerts. Their secrets are told once, when they are made. */

import { randomUUID } from 'node:crypto'
import { Problem } from '@sandglass/common/problem'
import {
  checkReceiver,
  RECEIVER_KINDS,
  RECEIVERS_MAX,
  withoutSecret,
} from '@sandglass/common/rules/receiver'
import { withinDeadline } from '../deadline.js'
import { uuid } from '../rules/schemas.js'
import { newTest } from '../rules/tests.js'
import * as schemas from '../schemas.js'

/** @typedef {import('@sandglass/common/rules/receiver').ReceiverBody} ReceiverBody */
/** @typedef {{ Params: { receiver: string } }} One */
/** @typedef {{ Body: ReceiverBody }} Post */

const tags = ['alerts']

/** What a test of a receiver by itself names. @type {Parameters<typeof newTest>[0]} */
const NO_RULE = { id: '', name: 'test', kind: 'threshold', severity: 'info' }

const shown = {
  name: { type: 'string', minLength: 1, maxLength: 128, description: 'For people.' },
  kind: { type: 'string', enum: RECEIVER_KINDS },
  url: { type: 'string', maxLength: 2_048, description: 'Of a webhook: where it is told.' },
  topic: { type: 'string', maxLength: 256, description: 'Of MQTT: where it is published.' },
  to: {
    type: 'array',
    maxItems: 32,
    items: { type: 'string', maxLength: 320 },
    description: 'Of mail: addresses.',
  },
}

const secret = {
  type: 'string',
  maxLength: 128,
  description:
    'Of a webhook: what it is told is signed with this. `whsec_` and 24 to 64 bytes in base64; left ' +
    'out, one is made. Told once.',
}

const body = {
  type: 'object',
  properties: { ...shown, secret },
  required: ['name', 'kind'],
  additionalProperties: false,
}

const receiver = {
  type: 'object',
  ...schemas.having(
    {
      id: uuid,
      ...shown,
      told: {
        type: 'integer',
        nullable: true,
        description: 'When it last took something, milliseconds since 1970.',
      },
      failed: { type: 'integer', nullable: true, description: 'When it last did not.' },
      error: { type: 'string', nullable: true, description: 'Why.' },
    },
    ['url', 'topic', 'to'],
  ),
}

const withSecret = { ...receiver, properties: { ...receiver.properties, secret } }
const params = { type: 'object', properties: { receiver: uuid }, required: ['receiver'] }

const SCHEMAS = {
  list: {
    tags,
    operationId: 'listReceivers',
    summary: 'All receivers, without their secrets',
    response: {
      200: {
        type: 'object',
        properties: { items: { type: 'array', items: receiver } },
        required: ['items'],
      },
      ...schemas.problems,
    },
  },
  one: {
    tags,
    operationId: 'getReceiver',
    summary: 'One receiver',
    params,
    response: { 200: receiver, ...schemas.problems },
  },
  post: {
    tags,
    operationId: 'createReceiver',
    summary: 'Makes a receiver, and tells its secret once',
    body,
    response: { 201: withSecret, ...schemas.problems },
  },
  put: {
    tags,
    operationId: 'replaceReceiver',
    summary: 'Replaces a receiver; its secret stays if none is given',
    params,
    body,
    response: { 200: receiver, ...schemas.problems },
  },
  test: {
    tags,
    operationId: 'testReceiver',
    summary: 'Tells a receiver something of no matter',
    description: '`told` or `failed` of the receiver says afterwards whether it was taken.',
    params,
    response: {
      202: {
        type: 'object',
        properties: { notification: uuid, created: { type: 'integer' } },
        required: ['notification', 'created'],
      },
      ...schemas.problems,
    },
  },
  remove: {
    tags,
    operationId: 'deleteReceiver',
    summary: 'Deletes a receiver: it is told nothing more',
    description: 'One that alert rules name is not deleted (409): take it out of them first.',
    params,
    response: { 204: { type: 'null', description: 'It is gone.' }, ...schemas.problems },
  },
}

/** @param {import('../rules/store.js').KnownReceiver} known */
function present({ id, body: said, toldMs: told, failedMs: failed, error }) {
  return { ...withoutSecret({ ...said, id }), told, failed, error }
}

/** Most rules that are named to who would delete their receiver. */
const RULES_NAMED_MAX = 5

/** @param {string} name  @param {import('@sandglass/common/rules/rule').Rule[]} rules */
function inUse(name, rules) {
  const shown = rules.slice(0, RULES_NAMED_MAX).map((rule) => rule.name)
  const more = rules.length > shown.length ? [`${rules.length - shown.length} more`] : []
  const named = [...shown, ...more].join(', ')
  const detail = `${name} is told by ${named}: take it out of these rules, or delete them, first`
  return new Problem('receiver-in-use', detail)
}

/**
 * @param {import('fastify').FastifyInstance} app
 * @param {import('../app.js').Parts} parts
 */
export default async function receivers(app, { store }) {
  /** @param {string} id */
  async function known(id) {
    const found = await store.receiver(id)
    if (found) return found
    throw new Problem('unknown-receiver', `there is no receiver ${id}`, { parameter: 'receiver' })
  }

  app.get('/v1/receivers', { schema: SCHEMAS.list }, (_request, reply) =>
    withinDeadline(reply, async () => ({ items: (await store.receivers()).map(present) })),
  )

  app.get(
    '/v1/receivers/:receiver',
    { schema: SCHEMAS.one },
    (/** @type {import('fastify').FastifyRequest<One>} */ request, reply) =>
      withinDeadline(reply, async () => present(await known(request.params.receiver))),
  )

  app.post(
    '/v1/receivers',
    { schema: SCHEMAS.post },
    (/** @type {import('fastify').FastifyRequest<Post>} */ request, reply) =>
      withinDeadline(reply, async () => {
        const said = checkReceiver(request.body)
        if ((await store.receivers()).length >= RECEIVERS_MAX) {
          const reason = `there are ${RECEIVERS_MAX} receivers, which is the limit`
          throw new Problem('too-many-changes', reason)
        }
        const id = randomUUID()
        await store.putReceiver(id, said)
        reply.code(201).header('location', `/v1/receivers/${id}`)
        return { ...present(await known(id)), secret: said.secret }
      }),
  )

  app.put(
    '/v1/receivers/:receiver',
    { schema: SCHEMAS.put },
    (/** @type {import('fastify').FastifyRequest<One & Post>} */ request, reply) =>
      withinDeadline(reply, async () => {
        const { id, body: before } = await known(request.params.receiver)
        const isSigned = request.body.kind === 'webhook' && before.kind === 'webhook'
        const kept = isSigned ? { secret: before.secret } : {}
        await store.putReceiver(id, checkReceiver({ ...kept, ...request.body }))
        return present(await known(id))
      }),
  )

  app.post(
    '/v1/receivers/:receiver/test',
    { schema: SCHEMAS.test },
    (/** @type {import('fastify').FastifyRequest<One>} */ request, reply) =>
      withinDeadline(reply, async () => {
        const { id } = await known(request.params.receiver)
        const test = newTest(NO_RULE, id, 'This is a test.')
        await store.notifyTest(test)
        return reply.code(202).send({ notification: test.id, created: test.createdMs })
      }),
  )

  app.delete(
    '/v1/receivers/:receiver',
    { schema: SCHEMAS.remove },
    (/** @type {import('fastify').FastifyRequest<One>} */ request, reply) =>
      withinDeadline(reply, async () => {
        const { id, body } = await known(request.params.receiver)
        const rules = (await store.rules()).filter(({ receivers }) => receivers?.includes(id))
        if (rules.length > 0) throw inUse(body.name, rules)
        await store.dropReceiver(id)
        return reply.code(204).send()
      }),
  )
}
