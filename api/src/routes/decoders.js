/** `/v1/decoders`: formats of people's own, each a topic template and an expression of JSONata. */

import {
  EXPRESSION_BYTES_MAX,
  NAME_BYTES_MAX,
  NAME_RULE,
  READINGS,
  TEMPLATE_BYTES_MAX,
} from '@sandglass/common/expressions/decoder'
import { Problem } from '@sandglass/common/problem'
import { withinDeadline } from '../deadline.js'
import * as schemas from '../schemas.js'

/** @typedef {import('@sandglass/common/expressions/decoder').Decoder} Decoder */
/** @typedef {{ Params: { decoder: string } }} One */
/** @typedef {import('@sandglass/common/expressions/decoder').DecoderBody} Body */
/** @typedef {One & { Body: Body }} Put */

const tags = ['ingest']

const params = {
  type: 'object',
  properties: {
    decoder: {
      type: 'string',
      minLength: 1,
      maxLength: NAME_BYTES_MAX,
      pattern: '^[A-Za-z0-9][A-Za-z0-9._-]*$',
      description: `Its name ${NAME_RULE}.`,
    },
  },
  required: ['decoder'],
}

/** What a decoder is, but for its name. */
export const bodyProperties = {
  template: {
    type: 'string',
    minLength: 1,
    maxLength: TEMPLATE_BYTES_MAX,
    description: 'Of its topics, e.g. `plant/{area}/{sensor}`; no other template may fit them.',
  },
  expression: {
    type: 'string',
    minLength: 1,
    maxLength: EXPRESSION_BYTES_MAX,
    description:
      'JSONata (https://jsonata.org) that makes of a payload what the format `json` takes: an ' +
      'object of metrics, an array of these, or null where a message is no measurement, e.g. ' +
      '`{"t": at, "temperature": temp / 10}`. A member ' +
      '`sensor` names the sensor, `t` the time. `$topic`, `$sensor` and `$metric` are what the ' +
      'topic says.',
  },
  reads: {
    type: 'string',
    enum: READINGS,
    default: 'json',
    description: 'How a payload is read that the expression is given. bytes: an array of numbers.',
  },
}

const decoder = {
  type: 'object',
  ...schemas.having({
    name: { type: 'string' },
    ...bodyProperties,
    version: { type: 'integer', description: 'Another one with each change.' },
    changed: { type: 'integer', description: 'Milliseconds since 1970.' },
    refused: {
      type: 'string',
      nullable: true,
      description: 'Why it is not used: another template has its topics. null: it is used.',
    },
  }),
}

const answers = { 200: decoder, ...schemas.problems }

const SCHEMAS = {
  list: {
    tags,
    operationId: 'listDecoders',
    summary: 'Formats of your own, in the order in which they were made',
    response: {
      200: {
        type: 'object',
        properties: { items: { type: 'array', items: decoder } },
        required: ['items'],
      },
      ...schemas.problems,
    },
  },
  one: { tags, params, operationId: 'getDecoder', summary: 'One decoder', response: answers },
  put: {
    tags,
    params,
    operationId: 'putDecoder',
    summary: 'Makes a decoder, or changes it; ingest uses it within two seconds',
    description:
      'What was received before stays as it was decoded then. `POST /v1/decode/expression` tries ' +
      'an expression on a payload first.',
    body: {
      type: 'object',
      properties: bodyProperties,
      required: ['template', 'expression'],
      additionalProperties: false,
    },
    response: { 201: decoder, ...answers },
  },
  remove: {
    tags,
    params,
    operationId: 'deleteDecoder',
    summary: 'Deletes a decoder: messages on its topics are no measurements any more',
    response: { 204: { type: 'null', description: 'It is gone.' }, ...schemas.problems },
  },
}

/** @param {Decoder} decoder  @param {ReadonlyMap<string, string>} refused */
function present({ name, template, expression, reads, version, changedMs }, refused) {
  return {
    name,
    template,
    expression,
    reads,
    version,
    changed: changedMs,
    refused: refused.get(name) ?? null,
  }
}

/** @param {string} name */
function unknownDecoder(name) {
  return new Problem('unknown-decoder', `there is no decoder ${name}`, { parameter: 'decoder' })
}

/**
 * @param {import('fastify').FastifyInstance} app
 * @param {{ decoders: import('../decoders.js').Decoders }} parts
 */
export default async function decoderRoutes(app, { decoders }) {
  app.get('/v1/decoders', { schema: SCHEMAS.list }, (_request, reply) =>
    withinDeadline(reply, async () => {
      const { set, refused } = await decoders.list()
      return { items: set.map((one) => present(one, refused)) }
    }),
  )

  app.get(
    '/v1/decoders/:decoder',
    { schema: SCHEMAS.one },
    (/** @type {import('fastify').FastifyRequest<One>} */ { params: { decoder: name } }, reply) =>
      withinDeadline(reply, async () => {
        const { set, refused } = await decoders.list()
        const found = set.find((one) => one.name === name)
        if (!found) throw unknownDecoder(name)
        return present(found, refused)
      }),
  )

  app.put(
    '/v1/decoders/:decoder',
    { schema: SCHEMAS.put },
    (/** @type {import('fastify').FastifyRequest<Put>} */ { params: of, body }, reply) =>
      withinDeadline(reply, async () => {
        const { decoder: stored, isNew } = await decoders.put(of.decoder, body)
        if (isNew) reply.code(201).header('location', `/v1/decoders/${of.decoder}`)
        return present(stored, new Map())
      }),
  )

  app.delete(
    '/v1/decoders/:decoder',
    { schema: SCHEMAS.remove },
    (/** @type {import('fastify').FastifyRequest<One>} */ { params: { decoder: name } }, reply) =>
      withinDeadline(reply, async () => {
        if (!(await decoders.remove(name))) throw unknownDecoder(name)
        return reply.code(204).send()
      }),
  )
}
