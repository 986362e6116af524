/** `/v1/sensors`: what sensors there are, and what is known of each. */

import { LAYOUTS_AHEAD_MAX, layoutOfClass, layoutsAhead } from '@sandglass/common/layout'
import { isSilent } from '@sandglass/common/metadata'
import { invalid, Problem } from '@sandglass/common/problem'
import { CLASS_DEFAULT, CLASS_NAMES, firstLayout, layoutAt } from '@sandglass/common/schema'
import { isSensorName, SENSOR_NAME_RULE, sensorId } from '@sandglass/common/sensor'
import { SORTS } from '../catalog.js'
import { broken, decodeCursor, encodeCursor, fieldOf, foreign } from '../cursor.js'
import { withinDeadline } from '../deadline.js'
import { askFor, dryRun, newDeletion } from '../deletions.js'
import { unknownSensor } from '../measurements.js'
import { presentRewrite } from '../rewrites.js'
import * as schemas from '../schemas.js'
import { checkOf } from '../validator.js'
import { deletion, dryRunAnswer } from './deletions.js'

/** @typedef {import('../store.js').Sensor} Sensor */
/** @typedef {import('../store.js').About} About */
/** @typedef {import('../catalog.js').Filter} Filter */

/** @typedef {{ Params: { sensor: string } }} One */
/** @typedef {{ Body: About & { name: string, retention: string } }} Post */
/** @typedef {One & { Body: About & { retention?: string, rewrite?: boolean } }} Patch */
/** @typedef {One & { Querystring: { measurements: boolean, dry_run: boolean } }} Delete */
/** @typedef {import('@sandglass/common/schema').Layout} Layout */
/**
 * @typedef {object} ListQuery
 * @property {string} [q]
 * @property {string} [type]
 * @property {string[]} [tag]
 * @property {number} [silent_s]
 * @property {Filter['sort']} [sort]
 * @property {Filter['order']} [order]
 * @property {number} limit
 * @property {string} [cursor]
 */

const tags = ['sensors']

/** Of the cursors of all lists that go by sensors. */
const KIND = 'sensors'

/** The query parameter that chooses sensors by name. */
export const nameProperty = {
  q: { type: 'string', maxLength: 128, description: 'Only names that contain this.' },
}

/** Query parameters that choose sensors. */
export const filterProperties = {
  type: { type: 'string', maxLength: 256, description: 'Only sensors of this type.' },
  tag: {
    type: 'array',
    maxItems: 16,
    items: { type: 'string', minLength: 1, maxLength: 513 },
    description: 'Only sensors with this tag, `key:value` or `key`; several must all fit.',
  },
}

/** Query parameters of lists that go by sensors, besides. */
export const listProperties = {
  ...nameProperty,
  ...filterProperties,
  silent_s: {
    type: 'integer',
    minimum: 0,
    maximum: 4e9,
    description: 'Only sensors not heard of for so many seconds, or never.',
  },
  sort: {
    type: 'string',
    enum: SORTS,
    description: 'By name, as people count (unit-2 before unit-10), if nothing is said.',
  },
  order: { type: 'string', enum: ['asc', 'desc'], description: 'asc if nothing is said.' },
}

/** What a cursor may ask for: what could be asked without one. */
const isFilter = /** @type {import('ajv').ValidateFunction<Filter>} */ (
  checkOf({
    type: 'object',
    properties: {
      q: nameProperty.q,
      type: filterProperties.type,
      tags: filterProperties.tag,
      silentS: listProperties.silent_s,
      sort: listProperties.sort,
      order: listProperties.order,
    },
    additionalProperties: false,
  })
)

const sensorPage = schemas.page(schemas.sensor)

const listSchema = {
  tags,
  operationId: 'listSensors',
  summary: 'Sensors, by name or by what else is chosen',
  querystring: {
    type: 'object',
    properties: {
      ...listProperties,
      limit: schemas.limit(1_000, 100),
      cursor: schemas.cursor,
    },
    additionalProperties: false,
  },
  response: {
    200: {
      ...sensorPage,
      properties: {
        ...sensorPage.properties,
        total: { type: 'integer', description: 'Of all pages.' },
        as_of: schemas.asOf,
      },
      required: [...sensorPage.required, 'total', 'as_of'],
    },
    ...schemas.problems,
  },
}

const retentionWord = { type: 'string', enum: CLASS_NAMES }

const postSchema = {
  tags,
  operationId: 'createSensor',
  summary: 'Registers a sensor; one that publishes registers itself',
  body: {
    type: 'object',
    properties: {
      name: schemas.sensorName,
      ...schemas.about,
      retention: {
        ...retentionWord,
        default: CLASS_DEFAULT,
        description: 'How long its measurements are kept.',
      },
    },
    required: ['name'],
    additionalProperties: false,
  },
  response: { 201: schemas.sensorInFull, ...schemas.problems },
}

const oneSchema = { tags, params: schemas.sensorParams }

const getSchema = {
  ...oneSchema,
  operationId: 'getSensor',
  summary: 'One sensor',
  response: { 200: schemas.sensorInFull, ...schemas.problems },
}

const patchSchema = {
  ...oneSchema,
  operationId: 'updateSensor',
  summary: 'Changes what is known of a sensor; null takes a word back',
  body: {
    type: 'object',
    properties: {
      ...schemas.about,
      retention: {
        ...retentionWord,
        description:
          'How long its measurements are kept, from the event time on that the answer says: the ' +
          'last of `layouts`, about a day ahead. What lies before stays as it is, but for `rewrite`.',
      },
      rewrite: {
        type: 'boolean',
        description:
          'true: what is stored already is rewritten into that class, too, by ingest, while it is ' +
          'read and written; a time to live goes on counting from when a row was stored. GET shows ' +
          'how far that has come. false: calls that off; what is rewritten stays so.',
      },
    },
    minProperties: 1,
    additionalProperties: false,
  },
  response: { 200: schemas.sensorInFull, ...schemas.problems },
}

const deleteSchema = {
  ...oneSchema,
  operationId: 'deleteSensor',
  summary: 'Hides a sensor and stops it, or deletes it for good with all that was measured',
  description:
    'Without `measurements` it is hidden, nothing is stored for it any more, and what was measured ' +
    'expires in its time. With `measurements=true` all that was received of it until now is ' +
    'deleted: measurements, sums, newest values, metadata, connection states and dead letters. ' +
    'It cannot be undone. What is received later is of a new sensor of that name.',
  querystring: {
    type: 'object',
    properties: {
      measurements: { type: 'boolean', default: false, description: 'Deletes it for good.' },
      dry_run: {
        type: 'boolean',
        default: false,
        description: 'With `measurements`: says how many would go, and deletes nothing.',
      },
    },
    additionalProperties: false,
  },
  response: {
    200: dryRunAnswer,
    202: deletion,
    204: { type: 'null', description: 'It is hidden.' },
    ...schemas.problems,
  },
}

/**
 * @param {import('fastify').FastifyInstance} app
 * @param {import('../app.js').Parts & {
 *   catalog: import('../catalog.js').Catalog,
 *   metadata: import('../metadata/metadata.js').MetadataReader,
 * }} parts
 */
export default async function sensors(app, { store, catalog, metadata }) {
  /** @param {string} nameOrId */
  async function known(nameOrId) {
    const sensor = await store.sensor(sensorId(nameOrId))
    if (!sensor || sensor.hidden) throw unknownSensor()
    return sensor
  }

  /** @param {Sensor} sensor */
  const inFull = async (sensor) => {
    const [layouts, rewrite] = await Promise.all([
      store.layouts(sensor.id),
      store.rewrite(sensor.id),
    ])
    return { ...presentInFull(sensor, layouts), rewrite: presentRewrite(rewrite) }
  }

  app.get(
    '/v1/sensors',
    { schema: listSchema },
    (/** @type {import('fastify').FastifyRequest<{ Querystring: ListQuery }>} */ request, reply) =>
      withinDeadline(reply, async () => {
        const { filter, after } = parseList(request.query)
        const page = await catalog.list(filter, after, request.query.limit)
        const next = page.next ? listCursor(filter, page.next) : null
        linkNext(request, reply, next)
        return presentPage(page, next)
      }),
  )

  app.post(
    '/v1/sensors',
    { schema: postSchema },
    (/** @type {import('fastify').FastifyRequest<Post>} */ request, reply) =>
      withinDeadline(reply, async () => {
        const sensor = await register(store, request.body)
        catalog.changed(sensor)
        metadata.expire()
        reply.code(201).header('location', `/v1/sensors/${encodeURIComponent(sensor.name)}`)
        return inFull(sensor)
      }),
  )

  app.get(
    '/v1/sensors/:sensor',
    { schema: getSchema },
    (/** @type {import('fastify').FastifyRequest<One>} */ request, reply) =>
      withinDeadline(reply, async () => inFull(await known(request.params.sensor))),
  )

  app.patch(
    '/v1/sensors/:sensor',
    { schema: patchSchema },
    (/** @type {import('fastify').FastifyRequest<Patch>} */ request, reply) =>
      withinDeadline(reply, async () => {
        const sensor = await known(request.params.sensor)
        const { retention, rewrite, ...about } = request.body
        if (retention !== undefined) await keepAs(store, sensor.id, retention)
        if (rewrite !== undefined) await askRewrite(store, sensor.id, rewrite)
        if (Object.keys(about).length > 0) await store.updateSensor(sensor.id, about)
        return inFull(catalog.changed(await known(sensor.id)))
      }),
  )

  app.delete(
    '/v1/sensors/:sensor',
    { schema: deleteSchema },
    (/** @type {import('fastify').FastifyRequest<Delete>} */ request, reply) =>
      withinDeadline(reply, async (signal) => {
        const { measurements: isForGood, dry_run: isDry } = request.query
        if (isForGood) {
          const wanted = await deletionOf(store, request.params.sensor)
          return isDry
            ? dryRun(store, wanted, signal)
            : askFor(store, wanted, request.params.sensor, reply)
        }
        if (isDry) throw invalid('dry_run', 'is for `measurements=true`: nothing is deleted else')
        const sensor = await known(request.params.sensor)
        await store.hideSensor(sensor.id)
        catalog.changed({ ...sensor, hidden: true })
        return reply.code(204).send()
      }),
  )
}

/**
 * @param {import('../store.js').Store} store
 * @param {Post['Body']} body
 * @returns {Promise<Sensor>}
 */
async function register(store, { name, type, unit, tags: words = {}, retention }) {
  if (!isSensorName(name)) {
    throw invalid('name', SENSOR_NAME_RULE)
  }
  const id = sensorId(name)
  const [existing, layouts] = await Promise.all([store.sensor(id), store.layouts(id)])
  if (existing && !existing.hidden) {
    throw new Problem(
      'sensor-exists',
      `${name} exists already: PATCH changes what is known of it`,
      {
        parameter: 'name',
      },
    )
  }
  // Layouts are only ever added: those of a sensor that was deleted still say where its rows are.
  if (layouts.length === 0) await store.addLayout(id, firstLayout(retention))
  if (existing) await forgetMetrics(store, id)
  // One that was deleted for good is a new one, but for where its rows lie.
  else if (layouts.length > 0) await keepAs(store, id, retention)
  const sensor = {
    id,
    name,
    type: type ?? undefined,
    unit: unit ?? undefined,
    tags: words,
    hidden: false,
    createdMs: existing?.createdMs ?? Date.now(),
  }
  await store.putSensor(sensor)
  return sensor
}

/** @param {import('../store.js').Store} store  @param {string} nameOrId */
async function deletionOf(store, nameOrId) {
  // One that is hidden can be deleted, too.
  const found = await store.sensor(sensorId(nameOrId))
  if (!found) throw unknownSensor()
  return newDeletion(found.id, { metrics: null, fromMs: null, toMs: null, isWhole: true })
}

/**
 * What was said of the metrics of a sensor that was deleted is not said of another one of its name.
 *
 * @param {import('../store.js').Store} store
 * @param {string} id
 */
async function forgetMetrics(store, id) {
  for (const { metric, said, device } of await store.metricsOfSensor(id)) {
    if (!isSilent(said)) await store.putMetricOfSensor(id, metric, {})
    if (device !== undefined) await store.forgetToldUnit(id, metric)
  }
}

/**
 * Has the measurements of a sensor kept in another class, from as soon on as that hides nothing.
 *
 * @param {import('../store.js').Store} store
 * @param {string} id
 * @param {string} retention
 */
async function keepAs(store, id, retention) {
  const nowMs = Date.now()
  const layouts = await store.layouts(id)
  const layout = layoutOfClass(layouts, retention, nowMs)
  if (!layout) return
  const ahead = layoutsAhead(layouts, nowMs)
  if (ahead.length >= LAYOUTS_AHEAD_MAX) {
    const fromTime = new Date(ahead[0].fromMs).toISOString()
    throw new Problem(
      'too-many-changes',
      `${LAYOUTS_AHEAD_MAX} changes of retention do not hold yet: try again after ${fromTime}`,
      { parameter: 'retention' },
    )
  }
  await store.addLayout(id, layout)
}

/**
 * Has what is stored rewritten into the class that holds last.
 *
 * @param {import('../store.js').Store} store
 * @param {string} id
 * @param {boolean} isWanted
 */
async function askRewrite(store, id, isWanted) {
  const last = (await store.layouts(id)).at(-1)
  // Of a sensor that was never stored anything of, there is nothing to rewrite.
  if (last) await store.askRewrite(id, isWanted ? last.className : null)
}

/** @param {Sensor} sensor  @param {readonly Layout[]} layouts */
function presentInFull(sensor, layouts) {
  return {
    ...present(sensor),
    retention: layouts.length > 0 ? layoutAt(layouts, Date.now()).className : CLASS_DEFAULT,
    layouts: layouts.map(({ fromMs, className, bucketS }) => ({
      from: fromMs,
      retention: className,
      bucketS,
    })),
  }
}

/**
 * @param {Awaited<ReturnType<import('../catalog.js').Catalog['list']>>} page
 * @param {string | null} next
 */
function presentPage({ sensors: found, total, asOfMs }, next) {
  return { items: found.map(present), next, total, as_of: asOfMs }
}

/** @param {Sensor} sensor */
function present({ id, name, type, unit, tags: words, createdMs }) {
  return {
    id,
    name,
    type: type ?? null,
    unit: unit ?? null,
    tags: words,
    created: createdMs ?? null,
  }
}

/**
 * The filter of a list and where its last page ended; a cursor alone repeats its filter.
 *
 * @param {Omit<ListQuery, 'limit'>} query
 * @returns {{ filter: Filter, after: import('../catalog.js').Position | undefined }}
 */
export function parseList({ q, type, tag, silent_s: silentS, sort, order, cursor }) {
  const asked = { q, type, tags: tag && [...tag].sort(), silentS, sort, order }
  if (cursor === undefined) return { filter: asked, after: undefined }
  const { question, position } = decodeCursor(KIND, cursor)
  const filter = fieldOf(question[0], isFilter)
  for (const [key, value] of Object.entries(asked)) {
    const its = filter[/** @type {keyof Filter} */ (key)]
    if (value !== undefined && JSON.stringify(value) !== JSON.stringify(its)) {
      throw foreign('another filter')
    }
  }
  const [name, id, by] = position
  if (typeof name !== 'string' || typeof id !== 'string') throw broken()
  return { filter, after: { name, id, by: by ?? '' } }
}

/**
 * @param {Filter} filter
 * @param {import('../catalog.js').Position} last
 */
export function listCursor(filter, { name, id, by }) {
  return encodeCursor(KIND, [JSON.stringify(filter)], [name, id, by])
}

/**
 * Gives the next page's address in the header, as RFC 8288 has it.
 *
 * @param {import('fastify').FastifyRequest<any>} request
 * @param {import('fastify').FastifyReply} reply
 * @param {string | null} next
 */
export function linkNext(request, reply, next) {
  if (next === null) return
  const [path, search] = request.url.split('?')
  const query = new URLSearchParams(search)
  query.set('cursor', next)
  reply.header('link', `<${path}?${query}>; rel="next"`)
}
