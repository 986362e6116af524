/**
 * What the metrics of sensors mean, as answers tell it. The database is asked through a cache: what
 * another process changed is told within {@link AGE_MS_MAX}.
 */

import { effective, isUnsaid } from '@sandglass/common/precedence'
import { symbolOf } from '@sandglass/common/symbols'
import { Cache } from './cache.js'

/** How old what is told may be, in milliseconds. */
export const AGE_MS_MAX = 10_000

/** Most that is kept in memory, in bytes: some 40,000 sensors of a few metrics. */
const BYTES_MAX = 16 * 2 ** 20

/** What a metric costs besides its texts, with what is made of it for answers, in bytes. */
const METRIC_BYTES = 900

/** @typedef {import('@sandglass/common/metadata').Metadata} Metadata */
/** @typedef {import('../store.js').Sensor} Sensor */
/** @typedef {import('./store.js').SensorMetric} SensorMetric */
/** @typedef {import('./store.js').TypeMetric} TypeMetric */
/** @typedef {import('@sandglass/common/precedence').Said} Said */

/**
 * A metric as it is told: its members are undefined where nobody says anything.
 *
 * @typedef {Metadata & { symbol?: string }} Told
 */

/** @typedef {Pick<Sensor, 'id' | 'type' | 'unit'>} Kind  Of a sensor, what decides. */

/**
 * @param {Metadata} metadata
 * @returns {Told}
 */
export function told({ unit, ...more }) {
  return { unit, symbol: unit === undefined ? undefined : symbolOf(unit), ...more }
}

/**
 * @typedef {object} Parts
 * @property {string | undefined} unit  Of the sensor as a whole.
 * @property {ReadonlyMap<string, SensorMetric>} sensor  By metric.
 * @property {ReadonlyMap<string, TypeMetric>} type
 */

/** What is said of the metrics of one sensor. */
export class SensorMetadata {
  #unit
  #sensor
  #type
  /** What was told of metrics before, and its members as JSON. */
  /** @type {Map<string, { told: Told, json: string }>} */
  #made = new Map()

  /** @param {Parts} parts */
  constructor({ unit, sensor, type }) {
    this.#unit = unit
    this.#sensor = sensor
    this.#type = type
  }

  /** Metrics that were measured, or of which something is said, by name. */
  get metrics() {
    return [...new Set([...this.#sensor.keys(), ...this.#type.keys()])]
      .filter((metric) => this.#sensor.get(metric)?.isMeasured || !isUnsaid(this.said(metric)))
      .sort()
  }

  /** @param {string} metric  @returns {Said} */
  said(metric) {
    const own = this.#sensor.get(metric)
    return { sensor: own?.said, type: this.#type.get(metric)?.said, device: own?.device }
  }

  /** What persons say. @param {string} metric  @returns {Metadata} */
  byPersons(metric) {
    const { sensor, type } = this.said(metric)
    return effective({ sensor, type }, undefined)
  }

  /** What holds. @param {string} metric  @returns {Told} */
  of(metric) {
    return this.#make(metric).told
  }

  /** The same as members of a JSON object, each after a comma. @param {string} metric */
  json(metric) {
    return this.#make(metric).json
  }

  /** Whether it is made of these. @param {Parts} parts */
  isOf({ unit, sensor, type }) {
    return unit === this.#unit && sensor === this.#sensor && type === this.#type
  }

  /** @param {string} metric */
  #make(metric) {
    const before = this.#made.get(metric)
    if (before) return before
    const said = this.said(metric)
    if (this.#unit === undefined && isUnsaid(said)) return NOTHING_KNOWN
    const known = told(effective(said, this.#unit))
    const made = { told: known, json: `,${JSON.stringify(known).slice(1, -1)}` }
    // Whoever asks may name any metric.
    if (this.#sensor.has(metric)) this.#made.set(metric, made)
    return made
  }
}

/** @type {ReadonlyMap<string, any>} */
const NOTHING = new Map()

/** Of most metrics. @type {{ told: Told, json: string }} */
const NOTHING_KNOWN = Object.freeze({ told: Object.freeze({}), json: '' })

export class MetadataReader {
  #store
  /** @type {Cache<ReadonlyMap<string, any>>} */
  #cache
  /** What was made of answers that are kept. @type {WeakMap<object, SensorMetadata>} */
  #made = new WeakMap()

  /** @param {{ store: import('../store.js').Store, now?: () => number }} parts */
  constructor({ store, now }) {
    this.#store = store
    const limits = { bytesMax: BYTES_MAX, ageMsMax: AGE_MS_MAX, sizeOf }
    this.#cache = new Cache(now ? { ...limits, now } : limits)
  }

  /** The next answers are read anew, because this process has changed something. */
  expire() {
    this.#cache.clear()
  }

  /** @param {Kind} sensor */
  async ofSensor({ id, type, unit }) {
    const sensors = this.#cache.get(`s${id}`, async () =>
      byMetric(await this.#store.metricsOfSensor(id)),
    )
    const types = type === undefined ? NOTHING : this.#ofType(type)
    const [bySensor, byType] = await Promise.all([sensors, types])
    const parts = { unit, sensor: bySensor, type: byType }
    const before = this.#made.get(bySensor)
    if (before?.isOf(parts)) return before
    const made = new SensorMetadata(parts)
    this.#made.set(bySensor, made)
    return made
  }

  /** @param {string} type */
  #ofType(type) {
    return this.#cache.get(`t${type}`, async () => byMetric(await this.#store.metricsOfType(type)))
  }
}

/**
 * @template {{ metric: string }} T
 * @param {T[]} all
 * @returns {ReadonlyMap<string, T>}
 */
function byMetric(all) {
  return new Map(all.map((one) => [one.metric, one]))
}

/** @param {ReadonlyMap<string, SensorMetric | TypeMetric>} metrics */
function sizeOf(metrics) {
  let bytes = 0
  for (const { metric, said } of metrics.values()) {
    bytes += METRIC_BYTES + 2 * (metric.length + (said.unit?.length ?? 0))
    bytes += 2 * (said.label?.length ?? 0)
  }
  return bytes
}
