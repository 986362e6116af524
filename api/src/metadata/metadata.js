/**
 * What the metrics of sensors mean, as answers tell it. The database is asked through a cache: what
 * another process changed is told within {@link AGE_MS_MAX}.
 */

import { Cache } from './cache.js'
import { effective, isUnsaid } from './precedence.js'
import { symbolOf } from './symbols.js'

/** How old what is told may be, in milliseconds. */
export const AGE_MS_MAX = 10_000

/** Most that is kept in memory, in bytes: some 40,000 sensors of a few metrics. */
const BYTES_MAX = 16 * 2 ** 20

/** What a metric costs besides its texts, in bytes. */
const METRIC_BYTES = 250

/** @typedef {import('@sandglass/common/metadata').Metadata} Metadata */
/** @typedef {import('../store.js').Sensor} Sensor */
/** @typedef {import('./store.js').SensorMetric} SensorMetric */
/** @typedef {import('./store.js').TypeMetric} TypeMetric */
/** @typedef {import('./precedence.js').Said} Said */

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

/** What is said of the metrics of one sensor. */
export class SensorMetadata {
  #unit
  #sensor
  #type

  /**
   * @param {string | undefined} unit  Of the sensor as a whole.
   * @param {ReadonlyMap<string, SensorMetric>} sensor  By metric.
   * @param {ReadonlyMap<string, TypeMetric>} type
   */
  constructor(unit, sensor, type) {
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
    const said = this.said(metric)
    if (this.#unit === undefined && isUnsaid(said)) return UNKNOWN
    return told(effective(said, this.#unit))
  }
}

/** @type {ReadonlyMap<string, any>} */
const NOTHING = new Map()

/** Of most metrics. @type {Told} */
export const UNKNOWN = Object.freeze({})

export class MetadataReader {
  #store
  /** @type {Cache<ReadonlyMap<string, any>>} */
  #cache

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
    return new SensorMetadata(unit, bySensor, byType)
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
