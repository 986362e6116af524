/** How long what an import stores is kept: by class, of sensors that exist and of new ones. */

import { CLASS_NAMES, layoutAt, retentionClass } from '@sandglass/common/schema'
import { sensorId } from '@sandglass/common/sensor'

/** Most sensors that are told apart; of others the class of new ones is taken. */
const SENSORS_MAX = 20_000

/** Sensors that are named because they keep their class. */
const KEPT_SHOWN_MAX = 20

/** @typedef {import('@sandglass/common/schema').Layout} Layout */
/** @typedef {{ sensors: Set<string>, news: Set<string>, measurements: number }} Share */

export class Keeping {
  #store
  #wanted
  #newClass
  /** What holds for each sensor; nothing for one that does not exist. */
  /** @type {Map<string, Layout[]>} */
  #layouts = new Map()
  /** Classes of new sensors of which the file tells. @type {Map<string, string>} */
  #told = new Map()
  /** By class. @type {Map<string, Share>} */
  #shares = new Map()
  /** @type {Map<string, string>} */
  #kept = new Map()
  /** Measurements of which it could not be asked. */
  #unknown = 0

  /**
   * @param {object} parts
   * @param {Pick<import('../store.js').Store, 'layouts'>} parts.store
   * @param {string | undefined} parts.wanted  The class that was asked for.
   * @param {string} parts.newClass  Of new sensors, if none was.
   */
  constructor({ store, wanted, newClass }) {
    this.#store = store
    this.#wanted = wanted
    this.#newClass = newClass
  }

  /** The class of a sensor if it is new. @param {string} sensor  @param {string} [told] */
  classOf(sensor, told) {
    if (told !== undefined && this.#told.size < SENSORS_MAX) this.#told.set(sensor, told)
    return this.#wanted ?? this.#told.get(sensor) ?? this.#newClass
  }

  /** @param {import('./import.js').Items} items  About to be stored. */
  async note(items) {
    for (const { understood } of items) {
      const { sensor, measurements } = understood
      const layouts = await this.#layoutsOf(sensor).catch(() => undefined)
      if (!layouts) {
        // The database is away; ingest may take them nevertheless.
        this.#unknown += measurements.length
        continue
      }
      for (const { timeMs = 0 } of measurements) {
        const isNew = layouts.length === 0
        const className = isNew ? this.classOf(sensor) : layoutAt(layouts, timeMs).className
        const share = this.#share(className)
        share.measurements += 1
        if (share.sensors.size < SENSORS_MAX) share.sensors.add(sensor)
        if (isNew && share.news.size < SENSORS_MAX) share.news.add(sensor)
      }
    }
  }

  /** @param {string} sensor */
  async #layoutsOf(sensor) {
    const known = this.#layouts.get(sensor)
    if (known) return known
    if (this.#layouts.size >= SENSORS_MAX) return []
    const layouts = await this.#store.layouts(sensorId(sensor))
    this.#layouts.set(sensor, layouts)
    const last = layouts.at(-1)?.className
    if (last !== undefined && this.#wanted !== undefined && last !== this.#wanted) {
      this.#kept.set(sensor, last)
    }
    return layouts
  }

  /** @param {string} className */
  #share(className) {
    const share = this.#shares.get(className) ?? {
      sensors: new Set(),
      news: new Set(),
      measurements: 0,
    }
    this.#shares.set(className, share)
    return share
  }

  toJSON() {
    const nowMs = Date.now()
    const kept = [...this.#kept].map(([sensor, retention]) => ({ sensor, retention }))
    return {
      retention: CLASS_NAMES.filter((name) => this.#shares.has(name)).map((name) =>
        present(name, /** @type {Share} */ (this.#shares.get(name)), nowMs),
      ),
      ...(this.#unknown > 0 && { retention_unknown: this.#unknown }),
      ...(kept.length > 0 && {
        kept: kept.slice(0, KEPT_SHOWN_MAX),
        kept_note:
          `${count(kept.length, 'sensor')} had another class than ${this.#wanted}, which stays: ` +
          `PATCH /v1/sensors/{sensor} {"retention": "${this.#wanted}", "rewrite": true} changes that`,
      }),
    }
  }
}

/** @param {string} className  @param {Share} share  @param {number} nowMs */
function present(className, { sensors, news, measurements }, nowMs) {
  const { ttlS } = retentionClass(className)
  const expiresMs = ttlS > 0 ? nowMs + ttlS * 1000 : null
  const whose = `${count(measurements, 'measurement')} of ${count(sensors.size, 'sensor')} (${news.size} new)`
  const until =
    expiresMs === null
      ? 'for ever'
      : `until ${new Date(expiresMs).toISOString().slice(0, 10)}: ${ttlS / 86_400} days from being ` +
        'stored, however long ago measured'
  return {
    retention: className,
    sensors: sensors.size,
    new_sensors: news.size,
    measurements,
    expires: expiresMs,
    says: `${whose}, kept ${until}`,
  }
}

/** @param {number} many  @param {string} noun */
const count = (many, noun) => `${many} ${noun}${many === 1 ? '' : 's'}`
