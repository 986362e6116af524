/** `/v1/sensors/{sensor}/series` and `/v1/query`: what was measured, summed up in windows. */

import { agreed } from '@sandglass/common/precedence'
import { invalid, Problem } from '@sandglass/common/problem'
import { sensorId } from '@sandglass/common/sensor'
import { withinDeadline } from '../deadline.js'
import { checkValues, POINTS_DEFAULT, VALUES_MAX } from '../downsample/reader.js'
import { parseStep } from '../downsample/step.js'
import { FILLS, isAggregate, isPercentile, Windows } from '../downsample/windows.js'
import { parseRange } from '../measurements.js'
import { told } from '../metadata/metadata.js'
import * as schemas from '../schemas.js'
import { listJson, Turns } from '../turns.js'
import { filterProperties } from './sensors.js'

/** How long an answer may take, in milliseconds. */
const DEADLINE_MS = 10_000

/** Most series of one answer. */
const SERIES_MAX = 200

const JSON_TYPE = 'application/json; charset=utf-8'

/** Most aggregates of one answer. */
const AGGREGATES_MAX = 16

/**
 * @typedef {object} Options
 * @property {string | number} [from]
 * @property {string | number} [to]
 * @property {number} [points]
 * @property {string} [step]
 * @property {string} agg
 * @property {import('../downsample/windows.js').Fill} fill
 */

/** @typedef {{ Params: { sensor: string }, Querystring: Options & { metric: string } }} One */

/**
 * @typedef {object} Many
 * @property {Options & { sensors?: string[], type?: string, tag?: string[], metrics: string[],
 *   group: string }} Body
 */

const optionProperties = {
  from: { ...schemas.time, description: `First time. ${schemas.time.description}` },
  to: { ...schemas.time, description: `First time after. ${schemas.time.description}` },
  points: {
    type: 'integer',
    minimum: 1,
    maximum: 10_000,
    description: `Most windows; ${POINTS_DEFAULT} where neither this nor \`step\` is given.`,
  },
  step: {
    type: 'string',
    maxLength: 16,
    description: 'Length of a window: a number with ms, s, m, h, d or w, such as 60s.',
  },
  agg: {
    type: 'string',
    maxLength: 256,
    default: 'avg,min,max',
    description:
      'Of avg, min, max, sum, count, first, last, and percentiles such as p50 or p99.9, which ' +
      'are about 1 % off at most; with commas between.',
  },
  fill: {
    type: 'string',
    enum: FILLS,
    default: 'none',
    description:
      'What stands in windows without a value: no item, null, or a made-up value. An answer has at ' +
      `most ${VALUES_MAX} numbers: windows × series or groups × aggregates.`,
  },
}

const item = {
  type: 'object',
  properties: { t: { type: 'integer', description: 'Where the window begins, ms since 1970.' } },
  additionalProperties: { type: 'number', nullable: true },
  required: ['t'],
  example: { t: 1767225600000, avg: 21.4, min: 20.9, max: 22 },
}

const aboutAnswer = {
  from: { type: 'integer', description: 'Moved back to a whole window where finer rows are gone.' },
  to: { type: 'integer' },
  step: { type: 'integer', description: 'Length of a window, in milliseconds.' },
  resolution: {
    type: 'string',
    enum: ['raw', '1m', '1h', '1d'],
    description: 'The coarsest that was read. What rollups do not say (yet) comes from raw rows.',
  },
}

const oneSchema = {
  tags: ['series'],
  operationId: 'getSeries',
  summary: 'A series summed up in windows',
  description:
    'Numbers, and true and false as 1 and 0. The answer is what the raw rows say, also where it ' +
    'is read from rollups. Windows begin at whole multiples of their length since 1970. They are ' +
    'as short as asked where so much is stored, at any age of the events; otherwise longer, or ' +
    '`step` is refused with the finest that can be had.',
  params: schemas.sensorParams,
  querystring: {
    type: 'object',
    properties: { metric: schemas.metrics.items, ...optionProperties },
    required: ['metric'],
    additionalProperties: false,
  },
  response: {
    200: {
      type: 'object',
      ...schemas.having(
        {
          sensor: { type: 'string', format: 'uuid' },
          metric: { type: 'string' },
          ...schemas.metadata,
          ...aboutAnswer,
          items: { type: 'array', items: item },
        },
        Object.keys(schemas.metadata),
      ),
    },
    ...schemas.problems,
  },
}

const { type } = schemas.timeInBody

const manySchema = {
  tags: ['series'],
  operationId: 'querySeries',
  summary: 'Several series summed up in the same windows, grouped',
  body: {
    type: 'object',
    properties: {
      sensors: { type: 'array', minItems: 1, maxItems: SERIES_MAX, items: schemas.sensorName },
      ...filterProperties,
      metrics: { ...schemas.metrics, minItems: 1, description: 'Of each sensor.' },
      ...optionProperties,
      from: { ...optionProperties.from, type },
      to: { ...optionProperties.to, type },
      group: {
        type: 'string',
        pattern: '^(series|sensor|metric|all|tag:.+)$',
        default: 'series',
        description: 'What is summed up together: nothing, each sensor, metric, tag, or all.',
      },
    },
    required: ['metrics'],
    additionalProperties: false,
  },
  response: {
    200: {
      type: 'object',
      properties: {
        ...aboutAnswer,
        groups: schemas.objects(
          {
            sensor: { type: 'string' },
            name: { type: 'string' },
            metric: { type: 'string' },
            tag: { type: 'string', nullable: true },
            series: { type: 'integer', description: 'How many are in it.' },
            // Those that all of its series have in common.
            ...schemas.metadata,
            items: { type: 'array', items: item },
          },
          ['sensor', 'name', 'metric', 'tag', ...Object.keys(schemas.metadata)],
        ),
      },
      required: [...Object.keys(aboutAnswer), 'groups'],
    },
    ...schemas.problems,
  },
}

/**
 * @param {import('fastify').FastifyInstance} app
 * @param {import('../app.js').Parts & {
 *   catalog: import('../catalog.js').Catalog,
 *   downsampler: import('../downsample/reader.js').SeriesDownsampler,
 *   metadata: import('../metadata/metadata.js').MetadataReader,
 * }} parts
 */
export default async function series(app, { store, catalog, downsampler, metadata }) {
  app.get(
    '/v1/sensors/:sensor/series',
    { schema: oneSchema },
    (/** @type {import('fastify').FastifyRequest<One>} */ request, reply) =>
      withinDeadline(
        reply,
        async (signal) => {
          const one = { sensorId: sensorId(request.params.sensor), metric: request.query.metric }
          const { fill } = request.query
          const { question, names } = parseOptions(request.query)
          const valuesAWindow = fill === 'none' ? 0 : names.length
          const [answer, sensor] = await Promise.all([
            downsampler.read([one], { ...question, valuesAWindow }, signal),
            store.sensor(one.sensorId),
          ])
          const windows = /** @type {Windows} */ (answer.windows.get(one))
          checkValues(windows.byStart.size * names.length)
          const known = sensor && (await metadata.ofSensor(sensor)).of(one.metric)
          const { sensorId: id, metric } = one
          const turns = new Turns(signal)
          const items = await listJson(windows.each(answer.range, names, fill), turns)
          reply.type(JSON_TYPE)
          return withList({ sensor: id, metric, ...known, ...about(answer) }, 'items', items)
        },
        DEADLINE_MS,
      ),
  )

  app.post(
    '/v1/query',
    { schema: manySchema },
    (/** @type {import('fastify').FastifyRequest<Many>} */ request, reply) =>
      withinDeadline(
        reply,
        async (signal) => {
          const { metrics, group, fill } = request.body
          const { question, names } = parseOptions(request.body)
          const sensors = await chosen(request.body)
          const all = sensors.flatMap((sensor) =>
            [...new Set(metrics)].map((metric) => ({ sensorId: sensor.id, metric, sensor })),
          )
          if (all.length > SERIES_MAX) throw tooManySeries(all.length)
          const groups = [...grouped(all, group).values()]
          const valuesAWindow = fill === 'none' ? 0 : groups.length * names.length
          const answer = await downsampler.read(all, { ...question, valuesAWindow }, signal)
          const known = await knownOf(sensors, metadata)
          const asked = { names, fill, needsSketch: question.needsSketch }
          const list = await groupsJson(groups, answer, known, asked, new Turns(signal))
          reply.type(JSON_TYPE)
          return withList(about(answer), 'groups', list)
        },
        DEADLINE_MS,
      ),
  )

  /** @param {Many['Body']} body */
  async function chosen({ sensors: names, type, tag: tags }) {
    if (names && (type !== undefined || tags !== undefined)) {
      throw new Problem('invalid-body', 'give sensors, or type and tag, not both', {
        parameter: 'sensors',
      })
    }
    if (names) {
      const found = await Promise.all([...new Set(names.map(sensorId))].map(store.sensor))
      const unknown = found.findIndex((sensor) => !sensor || sensor.hidden)
      if (unknown >= 0) {
        throw new Problem('unknown-sensor', `no sensor has the name or id ${names[unknown]}`, {
          parameter: 'sensors',
        })
      }
      return /** @type {import('../store.js').Sensor[]} */ (found)
    }
    const { sensors, next } = await catalog.list({ type, tags }, undefined, SERIES_MAX)
    if (next) throw tooManySeries()
    return sensors
  }
}

/**
 * What is known of sensors, by id.
 *
 * @param {import('../store.js').Sensor[]} sensors
 * @param {import('../metadata/metadata.js').MetadataReader} metadata
 */
async function knownOf(sensors, metadata) {
  const all = await Promise.all(sensors.map((sensor) => metadata.ofSensor(sensor)))
  return new Map(sensors.map(({ id }, index) => [id, all[index]]))
}

/**
 * What was read, group by group, as a JSON array.
 *
 * @param {readonly Group[]} groups
 * @param {import('../downsample/reader.js').Answer} answer
 * @param {ReadonlyMap<string, import('../metadata/metadata.js').SensorMetadata>} known  By sensor.
 * @param {{ names: readonly string[], fill: Options['fill'], needsSketch: boolean }} asked
 * @param {Turns} turns
 */
async function groupsJson(groups, answer, known, { names, fill, needsSketch }, turns) {
  /** @type {Windows[]} */
  const sums = []
  for (const { members } of groups) {
    const parts = members.map((one) => /** @type {Windows} */ (answer.windows.get(one)))
    const windows = parts.length === 1 ? parts[0] : new Windows(answer.stepMs, needsSketch)
    for (const part of parts.length === 1 ? [] : parts) {
      windows.merge(part)
      await turns.pause()
    }
    sums.push(windows)
  }
  checkValues(names.length * sums.reduce((sum, { byStart }) => sum + byStart.size, 0))
  const texts = []
  for (const [at, { of, members }] of groups.entries()) {
    const all = members.map((one) => known.get(one.sensorId)?.of(one.metric) ?? {})
    const head = { ...of, series: members.length, ...told(agreed(all)) }
    const items = await listJson(sums[at].each(answer.range, names, fill), turns)
    texts.push(withList(head, 'items', items))
  }
  return `[${texts.join(',')}]`
}

/**
 * An object as JSON, with a list that is JSON already.
 *
 * @param {Record<string, unknown>} head  Not empty.
 * @param {string} name  Of the list.
 * @param {string} list
 */
function withList(head, name, list) {
  return `${JSON.stringify(head).slice(0, -1)},"${name}":${list}}`
}

/** @param {number} [count] */
function tooManySeries(count) {
  return new Problem(
    'too-many-rows',
    `${count ?? 'more'} series are too many for one answer: ask for at most ${SERIES_MAX}`,
  )
}

/** @param {Options} options */
function parseOptions({ points, step, agg, ...times }) {
  if (points !== undefined && step !== undefined) {
    throw invalid('points', 'cannot be given together with step')
  }
  const names = [...new Set(agg.split(',').map((name) => name.trim()))]
  const stranger = names.find((name) => !isAggregate(name))
  if (stranger !== undefined || names.length > AGGREGATES_MAX) {
    throw invalid(
      'agg',
      `must be at most ${AGGREGATES_MAX} of avg, min, max, sum, count, first, last, p0 to p100; ` +
        `${stranger === undefined ? 'these are more' : `${stranger} is none of them`}`,
    )
  }
  const question = {
    ...parseRange(times),
    stepMs: step === undefined ? undefined : parseStep(step),
    points: points ?? POINTS_DEFAULT,
    needsSketch: names.some(isPercentile),
  }
  return { question, names }
}

/** @param {import('../downsample/reader.js').Answer} answer */
function about({ range, stepMs, resolution }) {
  return { from: range.fromMs, to: range.toMs, step: stepMs, resolution }
}

/** @typedef {{ sensorId: string, metric: string, sensor: import('../store.js').Sensor }} Member */
/** @typedef {{ of: Record<string, string | null>, members: Member[] }} Group */

/**
 * @param {readonly Member[]} all
 * @param {string} by
 */
function grouped(all, by) {
  /** @type {Map<string, Group>} */
  const groups = new Map()
  for (const member of all) {
    const of = labels(member, by)
    const key = JSON.stringify(of)
    const group = groups.get(key) ?? { of, members: [] }
    group.members.push(member)
    groups.set(key, group)
  }
  return groups
}

/**
 * @param {Member} member
 * @param {string} by
 * @returns {Record<string, string | null>}
 */
function labels({ sensor, metric }, by) {
  if (by === 'series') return { sensor: sensor.id, name: sensor.name, metric }
  if (by === 'sensor') return { sensor: sensor.id, name: sensor.name }
  if (by === 'metric') return { metric }
  if (by === 'all') return {}
  return { tag: sensor.tags[by.slice('tag:'.length)] ?? null }
}
