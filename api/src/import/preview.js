/** A dry run: what an import would store, summed up in memory of limited size. */

import { KIND_NAMES } from '@sandglass/common/measurement'

/** Series that are told one by one; of others only how many measurements they have together. */
const SERIES_MAX = 1_000

/** @typedef {import('@sandglass/common/measurement').Measurement} Measurement */
/**
 * @typedef {object} PreviewSeries
 * @property {string} sensor
 * @property {string} metric
 * @property {number} measurements
 * @property {Record<string, number>} kinds  How many of each kind.
 */

export class Preview {
  #fromMs = Infinity
  #lastMs = -Infinity
  #measurements = 0
  #others = 0
  /** By sensor, then metric. @type {Map<string, Map<string, PreviewSeries>>} */
  #series = new Map()
  #seriesCount = 0

  /**
   * Takes a batch in place of ingest.
   *
   * @param {import('./import.js').Items} items
   * @returns {Promise<import('./import.js').Sent>}
   */
  async take(items) {
    for (const { understood } of items) {
      for (const one of understood.measurements) this.#add(understood.sensor, one)
    }
    return { stored: items.length, refused: [], refusedRows: 0 }
  }

  /** @param {string} sensor  @param {Measurement} measurement */
  #add(sensor, { metric, kind, timeMs = 0 }) {
    this.#measurements += 1
    this.#fromMs = Math.min(this.#fromMs, timeMs)
    this.#lastMs = Math.max(this.#lastMs, timeMs)
    const series = this.#of(sensor, metric)
    if (!series) {
      this.#others += 1
      return
    }
    const name = /** @type {string} */ (KIND_NAMES.get(kind))
    series.measurements += 1
    series.kinds[name] = (series.kinds[name] ?? 0) + 1
  }

  /** @param {string} sensor  @param {string} metric */
  #of(sensor, metric) {
    const found = this.#series.get(sensor)?.get(metric)
    if (found || this.#seriesCount === SERIES_MAX) return found
    this.#seriesCount += 1
    /** @type {PreviewSeries} */
    const series = { sensor, metric, measurements: 0, kinds: {} }
    const metrics = this.#series.get(sensor) ?? new Map()
    this.#series.set(sensor, metrics.set(metric, series))
    return series
  }

  toJSON() {
    const isEmpty = this.#measurements === 0
    return {
      measurements: this.#measurements,
      from: isEmpty ? null : this.#fromMs,
      last: isEmpty ? null : this.#lastMs,
      series: [...this.#series.values()].flatMap((metrics) => [...metrics.values()]),
      in_other_series: this.#others,
    }
  }
}
