/** `/v1/alerts`: what rules found, newest first; acknowledged and silenced here. */

import { createHash } from 'node:crypto'
import { Problem } from '@sandglass/common/problem'
import { Semaphore } from '@sandglass/common/semaphore'
import { sensorId } from '@sandglass/common/sensor'
import { broken, decodeCursor, encodeCursor, foreign } from '../cursor.js'
import { withinDeadline } from '../deadline.js'
import { parseRange } from '../measurements.js'
import { readAlerts } from '../rules/alerts.js'
import { silenceBody, uuid } from '../rules/schemas.js'
import * as schemas from '../schemas.js'
import { checkOf } from '../validator.js'
import { silencedUntil } from './rules.js'
import { linkNext } from './sensors.js'

/** @typedef {import('@sandglass/common/rules/alert').Alert} Alert */
/** @typedef {{ state?: 'firing' | 'resolved', sensor?: string[], rule?: string,
 *   acknowledged?: boolean, from?: string, to?: string, limit: number, cursor?: string }} Query */
/** @typedef {{ Params: { alert: string } }} One */
/** @typedef {One & { Body: { by?: string, note?: string } | null }} Acknowledge */
/** @typedef {One & { Body: { until: string | number | null } }} Silence */

const tags = ['alerts']
const KIND = 'alerts'
const TEXT_LENGTH_MAX = 1_024

/** Most sensors whose alerts are asked for at once: as many as a chart of ours has series. */
const SENSORS_MAX = 200

/** Of how many series it is asked at the same time until when they are silenced. */
const SILENCES_AT_ONCE_MAX = 16

const time = { type: 'integer', nullable: true, description: 'Milliseconds since 1970.' }

const alert = {
  type: 'object',
  ...schemas.having({
    id: uuid,
    state: { type: 'string', enum: ['firing', 'resolved'] },
    rule: {
      type: 'object',
      properties: {
        id: uuid,
        name: { type: 'string' },
        kind: { type: 'string' },
        severity: { type: 'string' },
      },
      required: ['id', 'name', 'kind', 'severity'],
    },
    sensor: {
      type: 'object',
      properties: { id: uuid, name: { type: 'string' } },
      required: ['id', 'name'],
    },
    metric: { type: 'string', nullable: true, description: 'null: of the sensor as a whole.' },
    value: { type: 'number', nullable: true, description: 'By which it began; a rate of a rate.' },
    text: { type: 'string', description: 'All of that in a sentence.' },
    fired: { type: 'integer', description: 'When it began, by event time, in ms since 1970.' },
    resolved: { ...time, description: 'When it ended; null: it has not.' },
    why: {
      type: 'string',
      nullable: true,
      description: 'Why it ended: `values`, or in words what happened to the rule or the sensor.',
    },
    acknowledged: time,
    by: { type: 'string', nullable: true, description: 'Who acknowledged it.' },
    note: { type: 'string', nullable: true },
    silenced: {
      ...time,
      description:
        'Until when its rule tells nobody of this sensor and metric; null: that is not ' +
        'silenced. The rule may be, as a whole.',
    },
    told: {
      type: 'array',
      description: 'Who was told.',
      items: {
        type: 'object',
        properties: {
          receiver: uuid,
          change: { type: 'string', enum: ['fired', 'resolved'] },
          state: { type: 'string', enum: ['delivered', 'given up', 'dropped'] },
          at: time,
          attempts: { type: 'integer' },
          error: { type: 'string', nullable: true },
        },
        required: ['receiver', 'change', 'state', 'at', 'attempts', 'error'],
      },
    },
  }),
}

const params = { type: 'object', properties: { alert: uuid }, required: ['alert'] }

const SCHEMAS = {
  list: {
    tags,
    operationId: 'listAlerts',
    summary: 'Alerts, newest first',
    querystring: {
      type: 'object',
      properties: {
        state: { type: 'string', enum: ['firing', 'resolved'] },
        sensor: {
          type: 'array',
          maxItems: SENSORS_MAX,
          items: schemas.sensorName,
          description: 'Only of this sensor, by name or id; give it several times for several.',
        },
        rule: { ...uuid, description: 'Only of this rule.' },
        acknowledged: { type: 'boolean' },
        from: {
          ...schemas.time,
          description: `Only if it began then or later. ${schemas.time.description}`,
        },
        to: {
          ...schemas.time,
          description: `Only if it began before. ${schemas.time.description}`,
        },
        limit: schemas.limit(1_000, 100),
        cursor: schemas.cursor,
      },
      additionalProperties: false,
    },
    response: { 200: schemas.page(alert), ...schemas.problems },
  },
  one: {
    tags,
    operationId: 'getAlert',
    summary: 'One alert',
    params,
    response: { 200: alert, ...schemas.problems },
  },
  acknowledge: {
    tags,
    operationId: 'acknowledgeAlert',
    summary: 'Says that somebody takes care of an alert',
    params,
    body: {
      type: ['object', 'null'],
      properties: {
        by: { type: 'string', maxLength: 128, description: 'Who.' },
        note: { type: 'string', maxLength: TEXT_LENGTH_MAX },
      },
      additionalProperties: false,
    },
    response: { 200: alert, ...schemas.problems },
  },
  silence: {
    tags,
    operationId: 'silenceAlert',
    summary: 'Lets the rule of an alert tell nobody of its sensor and metric until a time',
    description: 'What still fires then is told. That something ended is told at once.',
    params,
    body: silenceBody,
    response: { 200: alert, ...schemas.problems },
  },
}

/** @param {Alert} found  @param {number} silencedMs */
function present({ about, told, ...found }, silencedMs) {
  const { rule: name, kind, severity, sensor, value, text } = about
  return {
    id: found.id,
    state: found.resolvedMs === null ? 'firing' : 'resolved',
    rule: { id: found.ruleId, name, kind, severity },
    sensor: { id: found.sensorId, name: sensor },
    metric: found.metric === '' ? null : found.metric,
    value,
    text,
    fired: found.firedMs,
    resolved: found.resolvedMs,
    why: found.resolvedWhy,
    acknowledged: found.acknowledgedMs,
    by: found.acknowledgedBy,
    note: found.note,
    silenced: silencedMs > Date.now() ? silencedMs : null,
    told: Object.entries(told).map(([to, { at, state, attempts, error = null }]) => {
      const [change, receiver] = to.split(' ')
      return { receiver, change, state, at, attempts, error }
    }),
  }
}

/**
 * With what is silenced of each. It is asked once for a series, of which there may be many alerts.
 *
 * @param {import('../app.js').Parts['store']} store
 * @param {Alert[]} alerts
 * @param {AbortSignal} [signal]
 */
function presentAll(store, alerts, signal) {
  const gate = new Semaphore(SILENCES_AT_ONCE_MAX)
  /** @type {Map<string, Promise<number>>} */
  const silenced = new Map()
  return Promise.all(
    alerts.map(async (found) => {
      const key = `${found.ruleId} ${found.sensorId} ${found.metric}`
      const silencedMs = silenced.get(key) ?? gate.run(() => store.silencedMs(found), signal)
      silenced.set(key, silencedMs)
      return present(found, await silencedMs)
    }),
  )
}

const isTime = /** @type {import('ajv').ValidateFunction<number>} */ (checkOf(schemas.timeMs))
const isId = /** @type {import('ajv').ValidateFunction<string>} */ (checkOf(uuid))

/** @param {import('../cursor.js').Fields} position  @throws {Problem} */
function positionIn([firedMs, id]) {
  if (!isTime(firedMs) || !isId(id)) throw broken()
  return { firedMs, id }
}

/** @param {Query} query */
function filterOf({ state, sensor, rule, acknowledged }) {
  const ids = sensor && new Set(sensor.map(sensorId))
  return (/** @type {Alert} */ one) =>
    (state === undefined || (one.resolvedMs === null) === (state === 'firing')) &&
    (ids === undefined || ids.has(one.sensorId)) &&
    (rule === undefined || one.ruleId === rule.toLowerCase()) &&
    (acknowledged === undefined || (one.acknowledgedMs !== null) === acknowledged)
}

/**
 * @param {import('fastify').FastifyInstance} app
 * @param {import('../app.js').Parts} parts
 */
export default async function alerts(app, { store }) {
  /** @param {string} id */
  async function known(id) {
    const found = await store.alert(id)
    if (!found)
      throw new Problem('unknown-alert', `there is no alert ${id}`, { parameter: 'alert' })
    return found
  }
  /** @param {string} id */
  const presentOne = async (id) => (await presentAll(store, [await known(id)]))[0]

  app.get(
    '/v1/alerts',
    { schema: SCHEMAS.list },
    (/** @type {import('fastify').FastifyRequest<{ Querystring: Query }>} */ request, reply) =>
      withinDeadline(reply, async (signal) => {
        const { limit, cursor, ...filter } = request.query
        const { state = null, rule = null, acknowledged = null } = filter
        // Two hundred ids would make the cursor longer than an address may be.
        const sensor = filter.sensor
          ? createHash('sha256').update(filter.sensor.join()).digest('base64url')
          : null
        const { fromMs, toMs } = parseRange(filter)
        const question = [
          ...[state, sensor, rule, acknowledged === null ? null : String(acknowledged)],
          ...[fromMs ?? null, toMs ?? null],
        ]
        const decoded = cursor === undefined ? undefined : decodeCursor(KIND, cursor)
        if (decoded && JSON.stringify(decoded.question) !== JSON.stringify(question)) {
          throw foreign('another filter')
        }
        const page = await readAlerts(store, {
          after: decoded && positionIn(decoded.position),
          fromMs,
          toMs,
          limit,
          nowMs: Date.now(),
          isWanted: filterOf(request.query),
          signal,
        })
        const next = page.next
          ? encodeCursor(KIND, question, [page.next.firedMs, page.next.id])
          : null
        linkNext(request, reply, next)
        return { items: await presentAll(store, page.alerts, signal), next }
      }),
  )

  app.get(
    '/v1/alerts/:alert',
    { schema: SCHEMAS.one },
    (/** @type {import('fastify').FastifyRequest<One>} */ request, reply) =>
      withinDeadline(reply, () => presentOne(request.params.alert)),
  )

  app.post(
    '/v1/alerts/:alert/acknowledge',
    { schema: SCHEMAS.acknowledge },
    (/** @type {import('fastify').FastifyRequest<Acknowledge>} */ request, reply) =>
      withinDeadline(reply, async () => {
        const { id } = await known(request.params.alert)
        const { by = null, note = null } = request.body ?? {}
        await store.acknowledge(id, { atMs: Date.now(), by, note })
        return presentOne(id)
      }),
  )

  app.post(
    '/v1/alerts/:alert/silence',
    { schema: SCHEMAS.silence },
    (/** @type {import('fastify').FastifyRequest<Silence>} */ request, reply) =>
      withinDeadline(reply, async () => {
        const found = await known(request.params.alert)
        await store.silenceSeries(found, silencedUntil(request.body.until))
        return presentOne(found.id)
      }),
  )
}
