/** Measurements over HTTP, and what they would become; how ingest is. */

import {
  bodyFormat,
  FORMAT,
  itemsOf,
  KEPT_HEADER,
  lineItems,
  MEDIA_TYPES,
  NOWHERE,
  REPLAY_MAX,
} from '@sandglass/common/bodies'
import { EXPRESSION_FORMAT } from '@sandglass/common/expressions/envelope'
import { formatNamed, NAMED_FORMATS } from '@sandglass/common/formats/registry'
import { PRECISIONS } from '@sandglass/common/line-protocol'
import { KIND } from '@sandglass/common/measurement'
import { PayloadError } from '@sandglass/common/payload'
import { Problem } from '@sandglass/common/problem'
import { CLASS_NAMES } from '@sandglass/common/schema'
import { isLineTopic } from '@sandglass/common/topics'
import { clientOf } from '../auth.js'
import { decodeAll, LISTED_MAX } from '../decode.js'
import * as schemas from '../schemas.js'
import { Turns } from '../turns.js'
import { bodyProperties } from './decoders.js'

/** @typedef {import('fastify').FastifyRequest<{ Body: Buffer | undefined }>} Write */
/** @typedef {import('fastify').FastifyRequest<{ Body: Buffer | undefined,
 *   Querystring: { topic?: string, format?: string, precision?: string, decoder?: string } }>
 *   } Decode */
/** @typedef {import('fastify').FastifyRequest<{ Body: { expression: string, topic?: string,
 *   reads: import('@sandglass/common/expressions/decoder').Decoder['reads'], template?: string,
 *   payload: string, encoding: 'utf8' | 'base64' } }>} Try */

const tags = ['ingest']
const consumes = [...MEDIA_TYPES.keys()]

const precision = {
  type: 'string',
  enum: [...PRECISIONS.keys()],
  default: 'ns',
  description: 'Of the times of line protocol.',
}
const retention = {
  type: 'string',
  enum: CLASS_NAMES,
  description:
    'How long measurements of sensors are kept that register themselves by this request. Sensors ' +
    'that exist keep their class; `kept` in the answer names them.',
}
const decoderName = {
  type: 'string',
  minLength: 1,
  maxLength: 64,
  description:
    'The body, of whatever type, is one payload for the decoder of this name: `/v1/decoders`. Its ' +
    'expression names the sensor.',
}
const kept = {
  ...schemas.objects({ sensor: { type: 'string' }, retention: { type: 'string' } }),
  description:
    'Sensors that exist with another class than `retention`, and keep it: the first of ' +
    '`kept_sensors`. PATCH /v1/sensors/{sensor} with `retention`, and `rewrite`, changes it.',
}
const refused = {
  ...schemas.objects({ item: { type: 'integer' }, reason: { type: 'string' } }),
  description: 'What is no measurement: its place in the body, from 0, and why.',
}
const refusedFields = {
  ...schemas.objects({
    item: { type: 'integer' },
    field: { type: 'string' },
    reason: { type: 'string' },
  }),
  description:
    'Fields that are no measurements, of items whose other fields are: such an item is stored, and ' +
    'is a dead letter, too.',
}
const outcome = {
  type: 'object',
  properties: {
    received: { type: 'integer' },
    stored: { type: 'integer' },
    refused,
    refused_fields: refusedFields,
    refused_field_count: { type: 'integer' },
    kept,
    kept_sensors: { type: 'integer' },
  },
  required: ['received', 'stored', 'refused'],
}

const measured = {
  type: 'object',
  description: 'What is no `sensor`, `t` or `seq` is a metric and its value.',
  properties: {
    sensor: schemas.sensorName,
    t: {
      type: ['number', 'string', 'null'],
      description: 'Event time; left out: the time of receipt.',
    },
  },
  required: ['sensor'],
  additionalProperties: true,
  example: { sensor: 'kitchen', t: 1767225600000, temperature: 21.5 },
}
const oneOrMany = { anyOf: [measured, { type: 'array', items: measured }] }

/** Schemas of bodies that are JSON. @type {ReadonlyMap<string, Record<string, unknown>>} */
const JSON_BODIES = new Map().set('application/json', oneOrMany).set('application/senml+json', {
  type: 'array',
  minItems: 1,
  items: { type: 'object' },
  description: 'A pack (RFC 8428).',
  example: [{ bn: 'kitchen/', n: 'temperature', u: 'Cel', v: 21.5 }],
})

const storeSchema = {
  tags,
  rawBody: schemas.rawBody(consumes, JSON_BODIES),
  operationId: 'storeMeasurements',
  summary: 'Stores measurements; answers when they are durable',
  description:
    'JSON: `{"sensor":"kitchen","t":1767225600000,"temperature":21.5}`, or an array of these; ' +
    'NDJSON: one a line; CSV: columns `sensor`, `t` and one a metric, or `sensor`, `metric`, `t`, ' +
    '`v` and `kind`; text: InfluxDB line protocol; CBOR and MessagePack: what JSON takes; SenML: a ' +
    'pack, which is one item. Each is stored or refused by itself; refused ones are dead letters, ' +
    'and make it 400. A field that is no measurement is lost alone.',
  querystring: {
    type: 'object',
    properties: { precision, retention, decoder: decoderName },
    additionalProperties: false,
  },
  response: { 200: outcome, ...schemas.problems },
}

const idsBody = {
  type: 'object',
  properties: {
    ids: {
      type: 'array',
      minItems: 1,
      maxItems: REPLAY_MAX,
      items: schemas.timeUuid,
    },
  },
  required: ['ids'],
}

const replaySchema = {
  tags,
  rawBody: schemas.rawBody(['application/json'], new Map([['application/json', idsBody]])),
  querystring: { type: 'object', properties: { retention }, additionalProperties: false },
  operationId: 'replayDeadLetters',
  summary: 'Takes dead letters once more: `{"ids": ["…"]}`; those that are stored now are marked',
  response: {
    200: {
      type: 'object',
      properties: {
        replayed: { type: 'integer' },
        refused: schemas.objects({ id: { type: 'string' }, reason: { type: 'string' } }),
        unknown: { type: 'array', items: { type: 'string' } },
      },
      required: ['replayed', 'refused', 'unknown'],
    },
    ...schemas.problems,
  },
}

/**
 * The same list, each with what would make it right.
 *
 * @param {{ items: Record<string, any>, description: string }} list
 */
function advised({ items, ...list }) {
  const properties = { ...items.properties, advice: schemas.advice }
  return { ...list, items: { ...items, ...schemas.having(properties) } }
}

const decodeSchema = {
  tags,
  rawBody: schemas.rawBody([...consumes, 'application/octet-stream'], JSON_BODIES),
  operationId: 'decodePayload',
  summary: 'Says what a payload would become; stores nothing',
  description: `Each list has its first ${LISTED_MAX}; the counts say how many there are.`,
  querystring: {
    type: 'object',
    properties: {
      precision,
      decoder: decoderName,
      topic: {
        type: 'string',
        maxLength: 1_024,
        description: 'The body is the payload of an MQTT message on this topic.',
      },
      format: {
        type: 'string',
        enum: NAMED_FORMATS.map(({ name }) => name),
        description:
          'The body is a payload of this format, whatever the template of the topic says: ' +
          NAMED_FORMATS.map(({ name, help }) => `\`${name}\`: ${help}`).join('; '),
      },
    },
    additionalProperties: false,
  },
  response: {
    200: {
      type: 'object',
      properties: {
        items: schemas.objects(
          {
            sensor: { type: 'string' },
            id: { type: 'string', format: 'uuid' },
            metric: { type: 'string' },
            t: { type: 'integer', nullable: true, description: 'null: the time of receipt.' },
            kind: { type: 'string', enum: Object.keys(KIND) },
            v: schemas.measurement.properties.v,
            unit: { type: 'string', description: 'That the payload tells.' },
          },
          ['unit'],
        ),
        refused: advised(refused),
        refused_fields: advised(refusedFields),
        item_count: { type: 'integer' },
        refused_count: { type: 'integer' },
        refused_field_count: { type: 'integer' },
      },
      required: [
        ...['items', 'refused', 'refused_fields'],
        ...['item_count', 'refused_count', 'refused_field_count'],
      ],
    },
    ...schemas.problems,
  },
}

const trySchema = {
  tags,
  operationId: 'tryExpression',
  summary: 'Says what an expression would make of a payload, before it is saved; stores nothing',
  body: {
    type: 'object',
    properties: {
      ...bodyProperties,
      topic: {
        type: 'string',
        maxLength: 1_024,
        description: 'On which the message is; it fits the template, if one is given.',
      },
      payload: { type: 'string', description: 'Of the message.' },
      encoding: {
        type: 'string',
        enum: ['utf8', 'base64'],
        default: 'utf8',
        description: 'Of `payload`, as dead letters have it.',
      },
    },
    required: ['expression', 'payload'],
    additionalProperties: false,
  },
  response: decodeSchema.response,
}

const statsSchema = {
  tags,
  operationId: 'getIngest',
  summary: 'How ingest is: messages received, stored, dead-lettered, spooled, held, dropped',
  response: { 200: { type: 'object', additionalProperties: true }, ...schemas.problems },
}

/**
 * @param {import('fastify').FastifyInstance} app
 * @param {import('../app.js').Parts & { decoders: import('../decoders.js').Decoders,
 *   topics: import('@sandglass/common/topics').Topics, lineTopic: string }} parts
 */
export default async function ingest(app, parts) {
  const { ingest: client, topics, lineTopic, decoders } = parts
  // Ingest takes bodies apart, and so does decoding: here they are bytes.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body))

  app.get('/v1/ingest', { schema: statsSchema }, async () => client.stats())

  /** @param {Write} request  @param {import('fastify').FastifyReply} reply */
  async function forward(request, reply) {
    const { headers, body } = request
    const answer = await client.post(pathOf(request), headers, body, clientOf(request))
    reply.code(answer.status)
    if (answer.retryAfter) reply.header('retry-after', answer.retryAfter)
    if (answer.kept) reply.header(KEPT_HEADER, answer.kept)
    if (answer.type) reply.type(answer.type)
    // It is text already: no serializer is to look at it.
    return reply.serializer((/** @type {string} */ text) => text).send(answer.body)
  }
  app.post('/v1/measurements', { schema: storeSchema }, forward)
  app.post('/v1/dead-letters/replay', { schema: replaySchema }, forward)
  const hide = { schema: { hide: true } }
  app.post('/api/v2/write', hide, forward)
  app.post('/write', hide, forward)
  app.get('/ping', hide, async (_request, reply) => reply.code(204).send())

  app.post('/v1/decode', { schema: decodeSchema }, async (/** @type {Decode} */ request, reply) => {
    const turns = turnsUntilGone(reply)
    const { topic, format: name, decoder } = request.query
    const payload = request.body ?? Buffer.alloc(0)
    const isOfTopic = topic !== undefined && name === undefined
    if (decoder !== undefined || isOfTopic) await decoders.refresh()
    if (decoder !== undefined) {
      return decodeAll([await decoders.ofName(decoder, payload, clientOf(request))], turns)
    }
    if (topic === undefined && name === undefined)
      return decodeAll(itemsOfBody(request, payload), turns)
    const format = name === undefined ? formatOf(topic ?? '') : formatNamed(name)?.number
    if (format === FORMAT.line) return decodeAll(lineItems(payload), turns)
    if (format === EXPRESSION_FORMAT) {
      return decodeAll([await decoders.ofTopic(topic ?? '', payload, clientOf(request))], turns)
    }
    const number = format ?? FORMAT.topic
    const placeOf = () => (topic === undefined ? NOWHERE : topics.place(topic, number))
    return decodeAll([{ format: number, payload }], turns, placeOf, topic)
  })

  /** @param {string} topic */
  const formatOf = (topic) =>
    topics.formatOf(topic) ?? (isLineTopic(lineTopic, topic) ? FORMAT.line : undefined)
}

/**
 * @param {import('fastify').FastifyInstance} app
 * @param {{ decoders: import('../decoders.js').Decoders }} parts
 */
export async function tries(app, { decoders }) {
  app.post(
    '/v1/decode/expression',
    { schema: trySchema },
    async (/** @type {Try} */ request, reply) => {
      const { topic = '', payload, encoding, ...draft } = request.body
      const original = Buffer.from(payload, encoding)
      const client = clientOf(request)
      const one = await decoders.ofDraft(draft, { topic, original, client })
      return decodeAll([one], turnsUntilGone(reply))
    },
  )
}

/**
 * The path of a request as its route has it, with its query. As its client wrote it, it may be an
 * address in full, of another server: HTTP allows that.
 *
 * @param {import('fastify').FastifyRequest<any>} request
 */
function pathOf({ url, routeOptions }) {
  const queryAt = url.indexOf('?')
  return `${routeOptions.url}${queryAt < 0 ? '' : url.slice(queryAt)}`
}

/**
 * Turns of work that ends when its client is gone.
 *
 * @param {import('fastify').FastifyReply} reply
 */
function turnsUntilGone(reply) {
  const controller = new AbortController()
  reply.raw.once('close', () => controller.abort())
  return new Turns(controller.signal)
}

/** @param {Decode} request  @param {Buffer} body  @throws {Problem} */
function itemsOfBody({ headers, query }, body) {
  if ((headers['content-encoding'] ?? 'identity') !== 'identity') {
    throw new Problem('unsupported-media-type', 'send what is to be decoded unpacked')
  }
  const format = bodyFormat(headers['content-type'])
  if (!format) {
    throw new Problem('unsupported-media-type', `Content-Type must be one of ${consumes}`)
  }
  try {
    return itemsOf(format, body, query.precision)
  } catch (error) {
    if (error instanceof PayloadError) throw new Problem('invalid-body', error.message)
    throw error
  }
}
