/** JSON Schemas of alert rules: they validate, and they are the documentation. */

import {
  RULE_KINDS,
  RULE_RECEIVERS_MAX,
  RULE_SENSORS_MAX,
  SEVERITIES,
} from '@sandglass/common/rules/rule'
import * as schemas from '../schemas.js'

const tags = ['alerts']

export const uuid = { type: 'string', format: 'uuid' }

const bodyProperties = {
  name: { type: 'string', minLength: 1, maxLength: 128, description: 'For people.' },
  kind: {
    type: 'string',
    enum: RULE_KINDS,
    description:
      'threshold: a value is above or below a limit. rate: it changes faster than a limit. range: ' +
      'it is outside the expected range of its metadata. silence: nothing comes any more.',
  },
  metric: {
    type: 'string',
    minLength: 1,
    maxLength: 128,
    description: 'Left out: all metrics (range), or the sensor as a whole (silence).',
  },
  sensors: {
    type: 'array',
    maxItems: RULE_SENSORS_MAX,
    items: schemas.sensorName,
    description: 'Names or ids. Left out: all sensors that `type` and `tags` fit.',
  },
  type: { ...schemas.word, description: 'Only sensors of this type.' },
  tags: {
    type: 'object',
    maxProperties: 16,
    additionalProperties: { type: 'string', maxLength: 256 },
    description: 'Only sensors that have all of these tags.',
  },
  above: { type: 'number', description: 'A higher value, or faster rise, is wrong.' },
  below: { type: 'number', description: 'A lower value, or faster fall (below 0), is wrong.' },
  clear: { type: 'number', description: 'The alert ends there. Left out: at the limit itself.' },
  per_s: { type: 'number', description: 'Of a rate: the time it is told for, 60 if left out.' },
  for_s: {
    type: 'number',
    description: 'How long it must last before the alert begins. Of silence: how long that is.',
  },
  late_s: {
    type: 'number',
    description:
      'A value that arrives later than this after its time wakes nobody; 600 if left out.',
  },
  severity: { type: 'string', enum: SEVERITIES, description: 'warning if left out.' },
  receivers: {
    type: 'array',
    maxItems: RULE_RECEIVERS_MAX,
    items: uuid,
    description: 'Ids of who is told. Left out: nobody, alerts are only listed.',
  },
  enabled: { type: 'boolean', description: 'true if left out.' },
}

const body = {
  type: 'object',
  properties: bodyProperties,
  required: ['name', 'kind'],
  additionalProperties: false,
}

const rule = {
  type: 'object',
  ...schemas.having(
    {
      id: uuid,
      ...bodyProperties,
      changed: { type: 'integer', description: 'Milliseconds since 1970.' },
      silenced: {
        type: 'integer',
        nullable: true,
        description: 'Nobody is told until then, in milliseconds since 1970.',
      },
    },
    Object.keys(bodyProperties).filter((key) => !body.required.includes(key)),
  ),
}

const params = { type: 'object', properties: { rule: uuid }, required: ['rule'] }

export const silenceBody = {
  type: 'object',
  properties: {
    until: {
      ...schemas.timeInBody,
      type: [...schemas.timeInBody.type, 'null'],
      description: `Nobody is told until then; null: silence ends now. ${schemas.time.description}`,
    },
  },
  required: ['until'],
  additionalProperties: false,
}

export const RULE_SCHEMAS = {
  list: {
    tags,
    operationId: 'listRules',
    summary: 'All alert rules, by name',
    response: {
      200: {
        type: 'object',
        properties: { items: { type: 'array', items: rule } },
        required: ['items'],
      },
      ...schemas.problems,
    },
  },
  one: {
    tags,
    operationId: 'getRule',
    summary: 'One alert rule',
    params,
    response: { 200: rule, ...schemas.problems },
  },
  post: {
    tags,
    operationId: 'createRule',
    summary: 'Makes an alert rule',
    body,
    response: { 201: rule, ...schemas.problems },
  },
  put: {
    tags,
    operationId: 'replaceRule',
    summary: 'Replaces an alert rule',
    params,
    body,
    response: { 200: rule, ...schemas.problems },
  },
  remove: {
    tags,
    operationId: 'deleteRule',
    summary: 'Deletes an alert rule, and ends its alerts',
    params,
    response: { 204: { type: 'null', description: 'It is gone.' }, ...schemas.problems },
  },
  silence: {
    tags,
    operationId: 'silenceRule',
    summary: 'Lets a rule tell nobody until a time',
    description: 'What still fires then is told. That something ended is told at once.',
    params,
    body: silenceBody,
    response: { 200: rule, ...schemas.problems },
  },
  test: {
    tags,
    operationId: 'testRule',
    summary: 'Tells the receivers of a rule that this is a test',
    description: 'GET /v1/receivers says whether they took it.',
    params,
    response: {
      202: {
        type: 'object',
        properties: { notifications: schemas.objects({ id: uuid, receiver: uuid }) },
        required: ['notifications'],
      },
      ...schemas.problems,
    },
  },
}
