/** The values of a series as alert rules read them. */

import { rowValue } from '@sandglass/common/measurement'
import { numberOf } from '@sandglass/common/rules/check'

/** Values that are given at a time. */
const SAMPLES_AT_ONCE = 1_000

/** @typedef {import('@sandglass/common/rules/machine').Sample} Sample */
/** @typedef {import('./store.js').KnownSensor} KnownSensor */

export class StoredValues {
  #storage

  /** @param {Pick<import('../write/storage.js').Storage, 'rowsFrom' | 'rowBefore'>} storage */
  constructor(storage) {
    this.#storage = storage
  }

  /**
   * The values of a series from a time on that are numbers, some at a time.
   *
   * @param {string} sensorId
   * @param {string} metric
   * @param {KnownSensor} known
   * @param {number} fromMs
   * @returns {AsyncGenerator<Sample[]>}
   */
  async *since(sensorId, metric, known, fromMs) {
    /** @type {Sample[]} */
    let some = []
    for await (const row of this.#rowsFrom(sensorId, metric, known, fromMs)) {
      if (some.push(...sampleOf(row)) < SAMPLES_AT_ONCE) continue
      yield some
      some = []
    }
    yield some
  }

  /**
   * The last one before a time.
   *
   * @param {string} sensorId
   * @param {string} metric
   * @param {KnownSensor} known
   * @param {number} fromMs
   */
  async before(sensorId, metric, { layouts, lastMs }, fromMs) {
    if (!lastMs.has(metric) || layouts.length === 0) return undefined
    const [row] = await this.#storage.rowBefore({ id: sensorId, layouts }, metric, fromMs)
    return row && sampleOf(row)[0]
  }

  /**
   * When the last value was received of those from a time on.
   *
   * @param {string} sensorId
   * @param {string} metric
   * @param {KnownSensor} known
   * @param {number} fromMs
   */
  async newestReceivedMs(sensorId, metric, known, fromMs) {
    let newestMs = Number.NEGATIVE_INFINITY
    for await (const { receivedMs } of this.#rowsFrom(sensorId, metric, known, fromMs)) {
      newestMs = Math.max(newestMs, receivedMs)
    }
    return newestMs
  }

  /**
   * @param {string} sensorId
   * @param {string} metric
   * @param {KnownSensor} known
   * @param {number} fromMs
   */
  async *#rowsFrom(sensorId, metric, { layouts, lastMs }, fromMs) {
    const untilMs = lastMs.get(metric)
    if (untilMs === undefined || layouts.length === 0) return
    yield* this.#storage.rowsFrom({ id: sensorId, layouts }, metric, fromMs, untilMs)
  }
}

/** @param {import('../write/storage.js').NewestRow} row  @returns {Sample[]} */
function sampleOf(row) {
  const value = numberOf(rowValue(row))
  if (value === undefined) return []
  return [{ timeMs: row.ts.getTime(), seq: row.seq, receivedMs: row.receivedMs, value }]
}
