/**
 * Series whose evaluation failed, or has more to do: they are tried again, with growing pauses, and
 * the others do not wait for them. They are stored with how far marks are worked off, so that
 * marks of before are not needed any more, and whoever takes over goes on with them.
 */

import { shardOf } from '@sandglass/common/rollup'

/** Series of a process; with more, something is wrong with all of them, and marks have to wait. */
export const OWED_MAX = 256

/** First pause after a failure, and the longest, in milliseconds. */
const PAUSE_MS_MIN = 1_000
const PAUSE_MS_MAX = 60_000

/** @typedef {{ sensorId: string, metric: string, fromMs: number }} OwedSeries */

/**
 * @typedef {OwedSeries & { dueMs: number, sinceMs: number, failures: number }} Entry
 *   By a clock that only goes forward.
 */

export class Owed {
  /** @type {Map<string, Entry>} */
  #entries = new Map()

  get size() {
    return this.#entries.size
  }

  /** Since when the oldest waits; Infinity if none does. */
  get sinceMs() {
    return Math.min(...[...this.#entries.values()].map(({ sinceMs }) => sinceMs))
  }

  /** @param {string} sensorId  @param {string} metric */
  get(sensorId, metric) {
    return this.#entries.get(keyOf(sensorId, metric))
  }

  /**
   * @param {OwedSeries} series
   * @param {number} nowMs
   * @param {boolean} isFailure
   * @returns {boolean}  False: there is no room.
   */
  add({ sensorId, metric, fromMs }, nowMs, isFailure) {
    const key = keyOf(sensorId, metric)
    const before = this.#entries.get(key)
    if (!before && this.#entries.size >= OWED_MAX) return false
    const failures = isFailure ? (before?.failures ?? 0) + 1 : 0
    const pauseMs = isFailure ? Math.min(PAUSE_MS_MAX, PAUSE_MS_MIN * 2 ** (failures - 1)) : 0
    this.#entries.set(key, {
      sensorId,
      metric,
      fromMs: Math.min(fromMs, before?.fromMs ?? Infinity),
      dueMs: nowMs + pauseMs,
      sinceMs: before?.sinceMs ?? nowMs,
      failures,
    })
    return true
  }

  /** @param {string} sensorId  @param {string} metric */
  delete(sensorId, metric) {
    this.#entries.delete(keyOf(sensorId, metric))
  }

  /** Those whose pause is over. @param {number} nowMs */
  due(nowMs) {
    return [...this.#entries.values()].filter(({ dueMs }) => dueMs <= nowMs)
  }

  /** Those of a part, as they are stored. @param {number} shard  @returns {OwedSeries[]} */
  of(shard) {
    return [...this.#entries.values()]
      .filter(({ sensorId }) => shardOf(sensorId) === shard)
      .map(({ sensorId, metric, fromMs }) => ({ sensorId, metric, fromMs }))
  }

  /** Takes those of a part that another stored, whatever room there is. */
  /** @param {readonly OwedSeries[]} series  @param {number} nowMs */
  take(series, nowMs) {
    for (const one of series) {
      const key = keyOf(one.sensorId, one.metric)
      this.#entries.set(key, { ...one, dueMs: nowMs, sinceMs: nowMs, failures: 0 })
    }
  }

  /** @param {number} shard */
  leave(shard) {
    for (const { sensorId, metric } of this.of(shard)) this.delete(sensorId, metric)
  }
}

/** @param {string} sensorId  @param {string} metric */
const keyOf = (sensorId, metric) => `${sensorId} ${metric}`
