/**
 * What the database holds at times that memory does not reach: before this process began, or longer
 * ago than `recent.js` remembers. It is asked before a value of such a time is placed, so that the
 * value does not take the row of another one.
 */

import { kindOf, rowValue } from '@sandglass/common/measurement'
import { tokenOf } from './seq.js'

/** Longest pause before the database is asked again, in milliseconds. */
const RETRY_MS_MAX = 1_000
const RETRY_MS_MIN = 50

/** @typedef {import('../sensors/series.js').Sensor} Sensor */
/** @typedef {import('../sensors/series.js').Series} Series */
/** @typedef {import('@sandglass/common/schema').Layout} Layout */
/** @typedef {Parameters<typeof rowValue>[0] & { ts: Date, seq: number }} RawRow */
/** @typedef {{ id: string, layouts: readonly Layout[] }} Place */

/**
 * @typedef {object} PastReader
 * @property {(sensor: Place, metric: string, lastMs: number,
 *   rowsMax: number) => Promise<RawRow[]>} newest
 * @property {(sensor: Place, metric: string, timeMs: number) => AsyncIterable<RawRow>} rowsAt
 */

export class Past {
  #reader
  #recent
  #semaphore

  /**
   * @param {object} parts
   * @param {PastReader} parts.reader
   * @param {import('./recent.js').Recent} parts.recent
   * @param {import('@sandglass/common/semaphore').Semaphore} parts.semaphore  For all reads.
   */
  constructor({ reader, recent, semaphore }) {
    /** Times that the database was asked about. */
    this.reads = 0
    this.#reader = reader
    this.#recent = recent
    this.#semaphore = semaphore
  }

  /**
   * Lets memory know what there is at some times, as soon as the database says it.
   *
   * @param {readonly { series: Series, timeMs: number }[]} places
   * @param {() => boolean} isWanted  Whether somebody still waits for it.
   * @returns {Promise<boolean>}  Whether it does; false if nobody waits any more.
   */
  async learn(places, isWanted) {
    for (let pauseMs = RETRY_MS_MIN; isWanted(); pauseMs = Math.min(2 * pauseMs, RETRY_MS_MAX)) {
      try {
        await Promise.all(places.map((place) => this.#semaphore.run(() => this.#learnOne(place))))
        // It may have gone to the spool meanwhile.
        return isWanted()
      } catch {
        await new Promise((resolve) => setTimeout(resolve, pauseMs))
      }
    }
    return false
  }

  /** @param {{ series: Series, timeMs: number }} place */
  async #learnOne({ series, timeMs }) {
    const { sensor, metric } = series
    if (series.isUnread) {
      const lastMs = sensor.lastTimes.get(metric) ?? Number.NEGATIVE_INFINITY
      const [row] = await this.#reader.newest(sensor, metric, lastMs, 1)
      // Another message may have asked the same meanwhile. Where none is found there may be older
      // ones: the last time is stored beside the row, and perhaps without it.
      if (series.isUnread) series.horizonMs = row ? row.ts.getTime() : lastMs
      series.isUnread = false
    }
    if (this.#recent.knows(series, timeMs)) return
    this.reads++
    requireLanded(series, timeMs)
    /** @type {import('./recent.js').Taken[]} */
    const taken = []
    for await (const row of this.#reader.rowsAt(sensor, metric, timeMs)) {
      const kind = kindOf(row)
      const value = rowValue(row)
      // Of a long text only its hash is kept while the others are read.
      if (kind !== undefined && value !== null) {
        taken.push({ seq: row.seq, token: tokenOf(kind, value) })
      }
    }
    requireLanded(series, timeMs)
    this.#recent.learn(series, timeMs, taken)
  }
}

/**
 * The database does not know of rows that are on their way to it, and memory may have forgotten
 * them: it is asked again when they have arrived.
 *
 * @param {Series} series
 * @param {number} timeMs
 */
function requireLanded(series, timeMs) {
  if (series.onTheWay.includes(timeMs)) throw new Error('a row of this time is on its way')
}
