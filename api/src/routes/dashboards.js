/** `/v1/dashboards`: charts that people saved, several together, opened by their address. */

import { randomUUID } from 'node:crypto'
import { Problem } from '@sandglass/common/problem'
import { withinDeadline } from '../deadline.js'
import { uuid } from '../rules/schemas.js'
import * as schemas from '../schemas.js'

/** @typedef {import('../dashboards/store.js').DashboardBody} DashboardBody */
/** @typedef {import('../dashboards/store.js').Dashboard} Dashboard */
/** @typedef {{ Params: { dashboard: string } }} One */
/** @typedef {{ Body: DashboardBody & { changed?: number } }} Put */

/** Largest body of one dashboard, and of all together, in bytes. */
const BYTES_MAX = 65_536
const ALL_BYTES_MAX = 8 * 1_024 * 1_024

/** Most series of a chart: more cannot be told apart. */
const SERIES_MAX = 8

const tags = ['dashboards']

const bodyProperties = {
  name: { type: 'string', minLength: 1, maxLength: 128, description: 'For people.' },
  range: {
    type: 'string',
    enum: ['5m', '1h', '1d', '1w', '30d', '1y'],
    description: 'The time that it opens with, up to now; 1h if left out.',
  },
  charts: {
    type: 'array',
    description: 'From top to bottom.',
    items: {
      type: 'object',
      properties: {
        title: { type: 'string', maxLength: 128 },
        series: {
          type: 'array',
          minItems: 1,
          maxItems: SERIES_MAX,
          items: {
            type: 'object',
            properties: {
              sensor: schemas.sensorName,
              metric: { type: 'string', minLength: 1, maxLength: 512 },
            },
            required: ['sensor', 'metric'],
            additionalProperties: false,
          },
        },
      },
      required: ['series'],
      additionalProperties: false,
    },
  },
}

/** The same in an answer. */
const charts = {
  ...bodyProperties.charts,
  items: {
    type: 'object',
    ...schemas.having(bodyProperties.charts.items.properties, ['title']),
  },
}

const changed = { type: 'integer', description: 'Milliseconds since 1970.' }

const dashboard = {
  type: 'object',
  ...schemas.having({ id: uuid, ...bodyProperties, charts, changed }, ['range']),
}

const required = ['name', 'charts']
const body = { type: 'object', properties: bodyProperties, required, additionalProperties: false }
const params = { type: 'object', properties: { dashboard: uuid }, required: ['dashboard'] }

const SCHEMAS = {
  list: {
    tags,
    operationId: 'listDashboards',
    summary: 'All dashboards, by name, without their charts',
    response: {
      200: {
        type: 'object',
        properties: {
          items: schemas.objects({ id: uuid, name: bodyProperties.name, changed }),
        },
        required: ['items'],
      },
      ...schemas.problems,
    },
  },
  one: {
    tags,
    operationId: 'getDashboard',
    summary: 'One dashboard',
    params,
    response: { 200: dashboard, ...schemas.problems },
  },
  post: {
    tags,
    operationId: 'createDashboard',
    summary: 'Saves a dashboard',
    description: `At most ${BYTES_MAX} bytes, and ${ALL_BYTES_MAX} bytes of all together.`,
    body,
    response: { 201: dashboard, ...schemas.problems },
  },
  put: {
    tags,
    operationId: 'replaceDashboard',
    summary: 'Replaces a dashboard',
    description: 'With `changed` as it was read, it is refused if somebody else was faster.',
    params,
    body: {
      ...body,
      properties: {
        ...bodyProperties,
        changed: { type: 'integer', description: '`changed` of what is replaced.' },
      },
    },
    response: { 200: dashboard, ...schemas.problems },
  },
  remove: {
    tags,
    operationId: 'deleteDashboard',
    summary: 'Deletes a dashboard',
    params,
    response: { 204: { type: 'null', description: 'It is gone.' }, ...schemas.problems },
  },
}

/** @param {Dashboard} stored */
function present({ id, body: { name, range, charts }, changedMs }) {
  return { id, name, ...(range !== undefined && { range }), charts, changed: changedMs }
}

/**
 * @param {import('fastify').FastifyInstance} app
 * @param {import('../app.js').Parts} parts
 */
export default async function dashboards(app, { store }) {
  /** @param {string} id */
  async function known(id) {
    const found = await store.dashboard(id)
    if (found) return found
    throw new Problem('unknown-dashboard', `there is no dashboard ${id}`, {
      parameter: 'dashboard',
    })
  }

  /** @param {DashboardBody} wanted  @param {string} [replacedId] */
  async function checkRoom(wanted, replacedId) {
    const others = (await store.dashboards()).filter(({ id }) => id !== replacedId)
    const bytes = others.reduce((sum, one) => sum + one.bytes, 0)
    if (bytes + Buffer.byteLength(JSON.stringify(wanted)) <= ALL_BYTES_MAX) return
    throw new Problem(
      'too-many-changes',
      `all dashboards together have ${ALL_BYTES_MAX} bytes at most: delete one first`,
    )
  }

  app.get('/v1/dashboards', { schema: SCHEMAS.list }, (_request, reply) =>
    withinDeadline(reply, async () => {
      const all = await store.dashboards()
      all.sort((a, b) => (a.name === b.name ? (a.id < b.id ? -1 : 1) : a.name < b.name ? -1 : 1))
      return { items: all.map(({ id, name, changedMs }) => ({ id, name, changed: changedMs })) }
    }),
  )

  app.get(
    '/v1/dashboards/:dashboard',
    { schema: SCHEMAS.one },
    (/** @type {import('fastify').FastifyRequest<One>} */ request, reply) =>
      withinDeadline(reply, async () => present(await known(request.params.dashboard))),
  )

  app.post(
    '/v1/dashboards',
    { schema: SCHEMAS.post, bodyLimit: BYTES_MAX },
    (/** @type {import('fastify').FastifyRequest<{ Body: DashboardBody }>} */ request, reply) =>
      withinDeadline(reply, async () => {
        await checkRoom(request.body)
        const added = { id: randomUUID(), body: request.body, changedMs: Date.now() }
        await store.addDashboard(added)
        reply.code(201).header('location', `/v1/dashboards/${added.id}`)
        return present(added)
      }),
  )

  app.put(
    '/v1/dashboards/:dashboard',
    { schema: SCHEMAS.put, bodyLimit: BYTES_MAX },
    (/** @type {import('fastify').FastifyRequest<One & Put>} */ request, reply) =>
      withinDeadline(reply, async () => {
        const { changed: readMs, ...wanted } = request.body
        const before = await known(request.params.dashboard)
        await checkRoom(wanted, before.id)
        const changedMs = Math.max(Date.now(), before.changedMs + 1)
        const replaced = { id: before.id, body: wanted, changedMs }
        const isSame = readMs === undefined || readMs === before.changedMs
        if (isSame && (await store.replaceDashboard(replaced, before.changedMs))) {
          return present(replaced)
        }
        throw new Problem(
          'dashboard-changed',
          'somebody has changed it meanwhile: read it again, and change that',
          { parameter: 'changed' },
        )
      }),
  )

  app.delete(
    '/v1/dashboards/:dashboard',
    { schema: SCHEMAS.remove },
    (/** @type {import('fastify').FastifyRequest<One>} */ request, reply) =>
      withinDeadline(reply, async () => {
        const { id } = await known(request.params.dashboard)
        await store.removeDashboard(id)
        return reply.code(204).send()
      }),
  )
}
