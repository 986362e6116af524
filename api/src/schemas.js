/** JSON Schemas that more than one route uses: they validate, and they are the documentation. */

import { DECIMALS_MAX, LABEL_LENGTH_MAX, UNIT_LENGTH_MAX } from '@sandglass/common/metadata'
import { CODES, PROBLEM_TYPES } from '@sandglass/common/problem'
import { NAME_LENGTH_MAX } from '@sandglass/common/sensor'
import { CURSOR_LENGTH_MAX } from './cursor.js'
import { rewriteSchema } from './rewrites.js'
import { TIME_MS_MAX } from './time.js'

/** Most tags of a sensor, and the longest key, value, type or unit, in characters. */
const TAGS_MAX = 64
const WORD_LENGTH_MAX = 256

/** Most metrics that one request may name. */
const METRICS_MAX = 64

export const word = { type: 'string', minLength: 1, maxLength: WORD_LENGTH_MAX }
const optionalWord = { ...word, type: ['string', 'null'] }

/** What a client can say of a sensor. */
export const about = {
  type: { ...optionalWord, description: 'What kind of thing it is; lists can be filtered by it.' },
  unit: { ...optionalWord, description: 'The unit of its values, e.g. °C.' },
  tags: {
    type: 'object',
    maxProperties: TAGS_MAX,
    propertyNames: { minLength: 1, maxLength: WORD_LENGTH_MAX },
    additionalProperties: { type: 'string', maxLength: WORD_LENGTH_MAX },
    description: 'Words of your own, replaced as a whole.',
  },
}

const expected = 'of the range in which values are expected, in the unit.'
const unitDescription = 'As UCUM or SenML spells it, e.g. Cel, %RH, kW.h.'

/** What is said of a metric; each member is there where somebody says it. */
export const saidMetadata = {
  unit: { type: 'string', description: unitDescription },
  label: { type: 'string', description: 'What people call it.' },
  decimals: { type: 'integer', description: 'With how many it is shown.' },
  expected_min: { type: 'number', description: `The lower end ${expected}` },
  expected_max: { type: 'number', description: `The upper end ${expected}` },
}

/** The same as it holds. */
export const metadata = {
  ...saidMetadata,
  symbol: { type: 'string', description: 'The unit as people write it, e.g. °C; empty: none.' },
}

/** The same as a client says it. */
export const metadataBody = {
  unit: {
    type: ['string', 'null'],
    minLength: 1,
    maxLength: UNIT_LENGTH_MAX,
    description: unitDescription,
  },
  label: {
    type: ['string', 'null'],
    minLength: 1,
    maxLength: LABEL_LENGTH_MAX,
    description: saidMetadata.label.description,
  },
  decimals: {
    type: ['integer', 'null'],
    minimum: 0,
    maximum: DECIMALS_MAX,
    description: saidMetadata.decimals.description,
  },
  expected_min: { ...saidMetadata.expected_min, type: ['number', 'null'] },
  expected_max: { ...saidMetadata.expected_max, type: ['number', 'null'] },
}

export const sensorName = {
  type: 'string',
  minLength: 1,
  maxLength: NAME_LENGTH_MAX,
  description:
    'A name without `/`, `+` and `#`, not `.` or `..`; or a UUID: the topic level it publishes under.',
}

/** The path parameter of one sensor. */
export const sensorParams = {
  type: 'object',
  properties: { sensor: { ...sensorName, description: 'Name or id of the sensor.' } },
  required: ['sensor'],
}

export const sensor = {
  type: 'object',
  properties: {
    id: { type: 'string', format: 'uuid' },
    name: { type: 'string' },
    type: { type: 'string', nullable: true },
    unit: { type: 'string', nullable: true },
    tags: { type: 'object', additionalProperties: { type: 'string' } },
    created: { type: 'integer', nullable: true, description: 'Milliseconds since 1970.' },
  },
  required: ['id', 'name', 'type', 'unit', 'tags', 'created'],
}

const layout = {
  type: 'object',
  properties: {
    from: { type: 'integer', description: 'Event time from which on it holds, in ms since 1970.' },
    retention: { type: 'string', description: 'How long measurements are kept.' },
    bucketS: { type: 'integer', description: 'Seconds of one partition in the database.' },
  },
  required: ['from', 'retention', 'bucketS'],
}

/** A sensor, and how its measurements are kept. */
export const sensorInFull = {
  ...sensor,
  properties: {
    ...sensor.properties,
    retention: { type: 'string', description: 'How long measurements of now are kept.' },
    layouts: {
      type: 'array',
      items: layout,
      description: 'How they are kept by event time, oldest first; what is to come is there, too.',
    },
    rewrite: rewriteSchema,
  },
  required: [...sensor.required, 'retention', 'layouts', 'rewrite'],
}

/** An id that tells when it was made (UUID, version 1). */
export const timeUuid = {
  type: 'string',
  format: 'uuid',
  pattern: '^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-1[0-9a-fA-F]{3}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$',
}

export const time = {
  type: 'string',
  maxLength: 40,
  description: 'ISO 8601 (UTC where it names no offset), or s, ms, us or ns since 1970.',
}

/** The same in a body, where it may be a number, too. */
export const timeInBody = { ...time, type: ['string', 'number'] }

/** One that was understood already, as cursors hold it. */
export const timeMs = { type: 'integer', minimum: -TIME_MS_MAX, maximum: TIME_MS_MAX }

export const metrics = {
  type: 'array',
  maxItems: METRICS_MAX,
  items: { type: 'string', minLength: 1, maxLength: 512 },
  description: 'Only this metric; give it several times for several.',
}

export const cursor = {
  type: 'string',
  maxLength: CURSOR_LENGTH_MAX,
  description: 'The `next` of the page before.',
}

/** @param {number} max  @param {number} initial */
export function limit(max, initial) {
  return {
    type: 'integer',
    minimum: 1,
    maximum: max,
    default: initial,
    description: 'Most items of the page.',
  }
}

export const asOf = {
  type: 'integer',
  description:
    'When the list of sensors was read, in ms since 1970; what this api changed later is in it. It ' +
    'is read anew while it is asked for.',
}

const next = {
  type: 'string',
  nullable: true,
  description: 'Give it as `cursor` for the next page; null at the end.',
}

/**
 * Properties of an answer, most of which it always has. That is only described: what writes the
 * answer would put what it requires before all else.
 *
 * @param {Record<string, unknown>} properties
 * @param {readonly string[]} [perhaps]  Those that it does not always have.
 */
export function having(properties, perhaps = []) {
  return { properties, 'x-always': Object.keys(properties).filter((key) => !perhaps.includes(key)) }
}

/**
 * An array of objects.
 *
 * @param {Record<string, unknown>} properties
 * @param {readonly string[]} [perhaps]  Those that not all of them have.
 */
export function objects(properties, perhaps) {
  return { type: 'array', items: { type: 'object', ...having(properties, perhaps) } }
}

/** @param {Record<string, unknown>} items */
export function page(items) {
  return {
    type: 'object',
    properties: { items: { type: 'array', items }, next },
    required: ['items', 'next'],
  }
}

const value = {
  description:
    'The value: a number, true or false, a string, or {"lat": …, "lon": …}. ' +
    'An integer of 64 bits keeps all its digits.',
}

export const measurement = {
  type: 'object',
  properties: {
    metric: { type: 'string' },
    t: { type: 'integer', description: 'Event time, milliseconds since 1970.' },
    seq: {
      type: 'integer',
      description: 'Tells values of the same millisecond apart; left out where it is 0.',
    },
    v: value,
  },
  required: ['metric', 't', 'v'],
  example: { metric: 'temperature', t: 1767225600000, v: 21.5 },
}

export const latest = {
  type: 'object',
  properties: {
    metric: { type: 'string' },
    t: measurement.properties.t,
    v: value,
    ...metadata,
    received: {
      type: 'integer',
      nullable: true,
      description: 'When ingest received it, milliseconds since 1970.',
    },
  },
  required: ['metric', 't', 'v', 'received'],
}

export const advice = {
  type: 'string',
  nullable: true,
  description: 'What would make it right, in a sentence for people; null where nobody can say.',
}

export const deadLetter = {
  type: 'object',
  properties: {
    id: { type: 'string', format: 'uuid' },
    received: { type: 'integer', description: 'Milliseconds since 1970.' },
    topic: { type: 'string' },
    client: { type: 'string', description: 'The MQTT client that sent it.' },
    reason: { type: 'string', description: 'Why it could not be stored.' },
    payload: { type: 'string', description: 'Perhaps cut; see `encoding`.' },
    encoding: { type: 'string', enum: ['utf8', 'base64'] },
    format: {
      type: 'string',
      nullable: true,
      description: 'As what it was decoded. A number is a format of another version.',
    },
    decoder: {
      type: 'string',
      nullable: true,
      description: 'Whose expression was asked, where the format is `expression`.',
    },
    replayed: { type: 'integer', nullable: true, description: 'When it was stored after all.' },
    advice,
  },
  required: [
    'id',
    'received',
    'topic',
    'client',
    'reason',
    'payload',
    'encoding',
    'format',
    'decoder',
    'replayed',
    'advice',
  ],
}

/** An answer that is not the one hoped for. */
export const problemDocument = {
  type: 'object',
  description: 'A problem document (RFC 9457).',
  properties: {
    type: {
      type: 'string',
      enum: Object.keys(CODES).map((code) => `${PROBLEM_TYPES}${code}`),
      description: 'Stable. What each means stands in `title`.',
    },
    title: { type: 'string', description: 'The same for every occurrence of the type.' },
    status: { type: 'integer', description: 'The status of the answer.' },
    detail: { type: 'string', description: 'What is wrong, and what would be right.' },
    parameter: { type: 'string', description: 'What to mend, where one thing is at fault.' },
  },
  required: ['type', 'title', 'status', 'detail'],
}

const problem = {
  description: problemDocument.description,
  content: { 'application/problem+json': { schema: problemDocument } },
}

/**
 * A body that its route reads as bytes: described, not validated here.
 *
 * @param {readonly string[]} types  Media types.
 * @param {ReadonlyMap<string, Record<string, unknown>>} [known]  Schemas of some of these; what is
 *   in the others is said in words.
 */
export function rawBody(types, known = new Map()) {
  const content = types.map((type) => [type, { schema: known.get(type) ?? { type: 'string' } }])
  return { content: Object.fromEntries(content) }
}

/**
 * An answer that is no JSON.
 *
 * @param {string} description
 * @param {readonly string[]} types  Media types.
 */
export function rawAnswer(description, types) {
  const content = Object.fromEntries(types.map((type) => [type, { schema: { type: 'string' } }]))
  return { description, content }
}

/** The answers that every route may give besides its own. */
export const problems = { '4xx': problem, '5xx': problem }
