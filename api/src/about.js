/** What is known of a sensor besides its measurements: exports tell it, imports restore it. */

import { PayloadError } from '@sandglass/common/payload'
import { CLASS_NAMES, firstLayout, layoutAt } from '@sandglass/common/schema'
import { isSensorName, SENSOR_NAME_RULE, sensorId } from '@sandglass/common/sensor'

/** @typedef {import('./store.js').Store} Store */
/** @typedef {import('./store.js').Sensor} Sensor */

/**
 * @typedef {object} Told
 * @property {string} [retention]
 * @property {string} [type]
 * @property {string} [unit]
 * @property {Record<string, string>} [tags]
 */

/** Longest type, unit, key or value of a tag, in characters, and most tags: as for PATCH. */
const WORD_LENGTH_MAX = 256
const TAGS_MAX = 64

/**
 * @param {Sensor} sensor
 * @param {readonly import('./store.js').Layout[]} layouts
 * @returns {Told}
 */
export function aboutOf({ type, unit, tags }, layouts) {
  return {
    ...(layouts.length > 0 && { retention: layoutAt(layouts, Date.now()).className }),
    ...(type !== undefined && { type }),
    ...(unit !== undefined && { unit }),
    ...(Object.keys(tags).length > 0 && { tags }),
  }
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
  return { sensor, about: /** @type {Told} */ ({ retention, type, unit, tags }) }
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
  const { type, unit, tags = {} } = about
  if (!sensor) {
    if (layouts.length === 0) await store.addLayout(id, firstLayout(retention))
    const words = { type, unit, tags }
    await store.putSensor({ id, name, ...words, hidden: false, createdMs: Date.now() })
    return
  }
  const hasWords = sensor.type ?? sensor.unit ?? Object.keys(sensor.tags)[0]
  const isEmpty = (type ?? unit ?? Object.keys(tags)[0]) === undefined
  if (sensor.hidden || hasWords !== undefined || isEmpty || !mayChange) return
  await store.updateSensor(id, { type, unit, tags })
}
