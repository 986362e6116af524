/** What is known of a sensor besides its measurements: exports tell it, imports restore it. */

import { metricsFault } from '@sandglass/common/measurement'
import {
  isSilent,
  isUnit,
  METADATA_FIELDS,
  metadataFault,
  metadataOf,
  UNIT_RULE,
} from '@sandglass/common/metadata'
import { PayloadError } from '@sandglass/common/payload'
import { isUnsaid } from '@sandglass/common/precedence'
import { CLASS_NAMES, firstLayout, layoutAt } from '@sandglass/common/schema'
import {
  isMetricName,
  isSensorName,
  METRIC_NAME_RULE,
  SENSOR_NAME_RULE,
  sensorId,
} from '@sandglass/common/sensor'

/** @typedef {import('./store.js').Store} Store */
/** @typedef {import('./store.js').Sensor} Sensor */

/**
 * @typedef {object} Told
 * @property {string} [retention]
 * @property {string} [type]
 * @property {string} [unit]
 * @property {Record<string, string>} [tags]
 * @property {Record<string, ToldMetric>} [metrics]  What their numbers mean, where that is known.
 */

/**
 * The `told_unit` is the device's, which it may change again.
 *
 * @typedef {import('@sandglass/common/metadata').Metadata & { told_unit?: string }} ToldMetric
 */

/** Longest type, unit, key or value of a tag, in characters, and most tags: as for PATCH. */
const WORD_LENGTH_MAX = 256
const TAGS_MAX = 64

/**
 * @param {Sensor} sensor
 * @param {readonly import('./store.js').Layout[]} layouts
 * @param {import('./metadata/metadata.js').SensorMetadata} known
 * @param {readonly string[] | undefined} wanted  Metrics; all where there are none.
 * @returns {Told}
 */
export function aboutOf({ type, unit, tags }, layouts, known, wanted) {
  const metrics = known.metrics
    .filter((metric) => !isUnsaid(known.said(metric)) && (wanted?.includes(metric) ?? true))
    .map((metric) => [metric, toldOf(known, metric)])
  return {
    ...(layouts.length > 0 && { retention: layoutAt(layouts, Date.now()).className }),
    ...(type !== undefined && { type }),
    ...(unit !== undefined && { unit }),
    ...(Object.keys(tags).length > 0 && { tags }),
    ...(metrics.length > 0 && { metrics: Object.fromEntries(metrics) }),
  }
}

/**
 * What persons say of a metric, of the sensor or of its type, and the unit that the device tells.
 *
 * @param {import('./metadata/metadata.js').SensorMetadata} known
 * @param {string} metric
 * @returns {ToldMetric}
 */
function toldOf(known, metric) {
  const { device } = known.said(metric)
  const said = known.byPersons(metric)
  return device === undefined ? said : { ...said, told_unit: device }
}

/**
 * Whether a record tells of a sensor, and is no measurement.
 *
 * @param {Record<string, unknown>} record
 */
export function isAbout({ about, t }) {
  return typeof about === 'object' && about !== null && t === undefined
}

/**
 * @param {Record<string, unknown>} record
 * @returns {{ sensor: string, about: Told }}
 * @throws {PayloadError}  Names what cannot be.
 */
export function parseAbout({ sensor, about }) {
  if (typeof sensor !== 'string' || !isSensorName(sensor)) {
    throw new PayloadError('topic', `sensor ${SENSOR_NAME_RULE}`)
  }
  const { retention, type, unit, tags } = /** @type {Record<string, unknown>} */ (about)
  if (retention !== undefined && !CLASS_NAMES.includes(/** @type {string} */ (retention))) {
    throw new PayloadError('value', `about.retention must be one of ${CLASS_NAMES.join(', ')}`)
  }
  for (const [name, word] of Object.entries({ type, unit })) {
    if (word !== undefined && !isWord(word)) throw fault(name)
  }
  if (tags !== undefined && !areTags(tags)) throw fault('tags')
  const { metrics } = /** @type {Record<string, unknown>} */ (about)
  if (metrics !== undefined) requireMetrics(metrics)
  return { sensor, about: /** @type {Told} */ ({ retention, type, unit, tags, metrics }) }
}

/** @param {unknown} metrics  @throws {PayloadError} */
function requireMetrics(metrics) {
  if (typeof metrics !== 'object' || metrics === null || Array.isArray(metrics)) {
    throw new PayloadError('value', 'about.metrics must be an object')
  }
  const all = Object.entries(metrics)
  const many = metricsFault(all.length)
  if (many !== undefined) throw new PayloadError('value', `about.metrics: ${many}`)
  for (const [metric, said] of all) {
    const at = `about.metrics.${metric}`
    if (!isMetricName(metric)) throw new PayloadError('value', `a metric ${METRIC_NAME_RULE}`)
    if (typeof said !== 'object' || said === null) {
      throw new PayloadError('value', `${at} must be an object`)
    }
    const wrong = metadataFault(metadataOf(said))
    if (wrong) throw new PayloadError('value', `${at}.${wrong.field} ${wrong.rule}`)
    const { told_unit: unit } = /** @type {{ told_unit?: unknown }} */ (said)
    if (unit !== undefined && !isUnit(unit)) {
      throw new PayloadError('value', `${at}.told_unit ${UNIT_RULE}`)
    }
  }
}

/** @param {string} name */
function fault(name) {
  return new PayloadError('value', `about.${name} must be as PATCH /v1/sensors/{sensor} takes it`)
}

/** Whether this can be a type, a unit of a sensor, or the key of a tag. @param {unknown} word */
export function isWord(word) {
  return typeof word === 'string' && word.length > 0 && word.length <= WORD_LENGTH_MAX
}

/** @param {unknown} tags */
function areTags(tags) {
  if (typeof tags !== 'object' || tags === null || Array.isArray(tags)) return false
  const pairs = Object.entries(tags)
  const isShort = (/** @type {unknown} */ one) =>
    typeof one === 'string' && one.length <= WORD_LENGTH_MAX
  return pairs.length <= TAGS_MAX && pairs.every(([key, one]) => isWord(key) && isShort(one))
}

/**
 * Registers a sensor as it was, or gives one that has no words those that it had. What a person has
 * said of it stays, and so does the class of one that exists.
 *
 * @param {Store} store
 * @param {{ sensor: string, about: Told }} told
 * @param {object} how
 * @param {string} how.retention  Of a sensor that does not exist.
 * @param {boolean} how.mayChange  Whether sensors that exist may be changed.
 */
export async function restore(store, { sensor: name, about }, { retention, mayChange }) {
  const id = sensorId(name)
  const [sensor, layouts] = await Promise.all([store.sensor(id), store.layouts(id)])
  const { type, unit, tags = {}, metrics = {} } = about
  if (!sensor) {
    if (layouts.length === 0) await store.addLayout(id, firstLayout(retention))
    const words = { type, unit, tags }
    await store.putSensor({ id, name, ...words, hidden: false, createdMs: Date.now() })
    await restoreMetrics(store, { id, type }, metrics)
    return
  }
  if (sensor.hidden || !mayChange) return
  const hasWords = sensor.type ?? sensor.unit ?? Object.keys(sensor.tags)[0]
  const isEmpty = (type ?? unit ?? Object.keys(tags)[0]) === undefined
  const isNew = hasWords === undefined && !isEmpty
  if (isNew) await store.updateSensor(id, { type, unit, tags })
  await restoreMetrics(store, { id, type: isNew ? type : sensor.type }, metrics)
}

/**
 * Gives metrics of which nobody says anything the words that they had.
 *
 * @param {Store} store
 * @param {{ id: string, type: string | undefined }} sensor
 * @param {Record<string, ToldMetric>} metrics
 */
async function restoreMetrics(store, { id, type }, metrics) {
  if (Object.keys(metrics).length === 0) return
  const known = new Map((await store.metricsOfSensor(id)).map((one) => [one.metric, one]))
  const ofType = type === undefined ? [] : await store.metricsOfType(type)
  for (const [metric, said] of Object.entries(metrics)) {
    const own = known.get(metric)
    const words = metadataOf(/** @type {any} */ (said))
    const typeSays = ofType.find((one) => one.metric === metric)?.said ?? {}
    // What the type says here, too, stays with the type.
    const isNew = METADATA_FIELDS.some(
      (field) => words[field] !== undefined && words[field] !== typeSays[field],
    )
    if (isNew && isSilent(own?.said ?? {})) await store.putMetricOfSensor(id, metric, words)
    const { told_unit: unit } = said
    if (unit !== undefined && own?.device === undefined) {
      await store.restoreToldUnit(id, metric, unit)
    }
  }
}
