/**
 * Gives sensors the bucket width that suits what they send. What they send is counted as it comes;
 * now and then that is looked at, and where another width is better a layout is added.
 *
 * Only events of about now count: a file of last year says nothing about how many rows an hour has.
 * A process that shares sensors with others sees a part of what they send, so it makes buckets
 * wider only while it is alone.
 */

import { layoutOfWidth } from '@sandglass/common/layout'
import { retentionClass } from '@sandglass/common/schema'
import { fill } from './bucket-width.js'
import { Rate } from './rate.js'

/** How often it is looked at what sensors send, in milliseconds. */
export const SAMPLE_MS = 900_000

/** What a row takes besides its text, in bytes, about. */
const ROW_BYTES = 40

/** Of sensors that fill less of a partition, nothing is remembered. */
const FILL_MIN = 0.5

/** @typedef {import('./series.js').Sensor} Sensor */
/** @typedef {import('@sandglass/common/schema').Layout} Layout */

/**
 * @typedef {object} LayoutStore
 * @property {(id: string) => Promise<Layout[]>} layouts
 * @property {(id: string, layout: Layout) => Promise<void>} addLayout
 */

export class BucketWidths {
  #registry
  #store
  #isAlone
  #logger
  #now
  #sampledMs
  #isClosed = false

  /**
   * @param {object} parts
   * @param {{ all: () => Iterable<Sensor> }} parts.registry
   * @param {LayoutStore} parts.store
   * @param {() => boolean} parts.isAlone  Whether no other process receives measurements.
   * @param {import('pino').Logger} parts.logger
   * @param {() => number} [parts.now]  Milliseconds since the Unix epoch.
   */
  constructor({ registry, store, isAlone, logger, now = Date.now }) {
    this.counts = { narrower: 0, wider: 0, failures: 0 }
    this.#registry = registry
    this.#store = store
    this.#isAlone = isAlone
    this.#logger = logger
    this.#now = now
    this.#sampledMs = now()
  }

  /** Looks at all sensors, and adds the layouts that are due, one after the other. */
  async turn() {
    const nowMs = this.#now()
    const seconds = (nowMs - this.#sampledMs) / 1000
    this.#sampledMs = nowMs
    if (seconds <= 0) return
    /** @type {Sensor[]} */
    const due = []
    for (const sensor of this.#registry.all()) if (this.#sample(sensor, seconds)) due.push(sensor)
    for (const sensor of due) {
      if (this.#isClosed) return
      try {
        await this.#change(sensor)
      } catch (error) {
        // What it sends is measured again: the next turn decides anew.
        this.counts.failures++
        const { message } = /** @type {Error} */ (error)
        this.#logger.debug({ sensor: sensor.name, reason: message }, 'a layout could not be added')
      }
    }
  }

  stop() {
    this.#isClosed = true
  }

  /** Whether another width would be better. @param {Sensor} sensor  @param {number} s */
  #sample(sensor, s) {
    const { liveRows, liveTextBytes } = sensor
    sensor.liveRows = 0
    sensor.liveTextBytes = 0
    const layout = sensor.layouts.at(-1)
    if (!layout || sensor.state !== 'ready' || sensor.isHidden) return false
    const load = {
      rowsPerS: liveRows / s,
      bytesPerS: (liveRows * ROW_BYTES + liveTextBytes) / s,
    }
    const isNarrowed = layout.bucketS < retentionClass(layout.className).bucketS
    const isSmall = (/** @type {import('./bucket-width.js').Load} */ of) =>
      !isNarrowed && fill(layout.bucketS, of) < FILL_MIN
    if (!sensor.rate && isSmall(load)) return false
    sensor.rate ??= new Rate()
    const bucketS = sensor.rate.note(load, layout)
    if (isSmall(sensor.rate.mean)) sensor.rate = undefined
    return this.#isAllowed(layout, bucketS)
  }

  /** @param {Layout} layout  @param {number} bucketS */
  #isAllowed(layout, bucketS) {
    return bucketS < layout.bucketS || (bucketS > layout.bucketS && this.#isAlone())
  }

  /** @param {Sensor} sensor */
  async #change(sensor) {
    // Others may have decided already: what counts is what is in the database.
    const layouts = await this.#store.layouts(sensor.id)
    const last = layouts.at(-1)
    if (!last || !sensor.rate) return
    const bucketS = sensor.rate.widthFor(last)
    const layout = layoutOfWidth(layouts, bucketS, this.#now())
    if (!layout || !this.#isAllowed(last, bucketS)) return
    await this.#store.addLayout(sensor.id, layout)
    const fromTime = new Date(layout.fromMs).toISOString()
    this.counts[bucketS < last.bucketS ? 'narrower' : 'wider']++
    this.#logger.info({ sensor: sensor.name, bucketS, fromTime }, 'buckets get another width')
  }
}
