/**
 * Keeps the table `latest`: the newest value of each series by event time, written at most once a
 * second per series. The database decides by timestamp which of two writes is newer, so they may
 * arrive in any order, and nothing is ever read for it.
 */

import { microsecondOf } from '../write/seq.js'
import { Newest } from './series.js'

/** Shortest time between two writes of one series, in milliseconds. */
export const LATEST_MS_MIN = 1_000

/** @typedef {import('./series.js').Series} Series */
/** @typedef {import('@sandglass/common/measurement').Value} Value */

/**
 * The timestamp of a row of `latest`, in microseconds. A clock that is ahead cannot pin it, and of
 * two values of one millisecond the one of the higher `seq` is the newer.
 *
 * @param {number} timeMs
 * @param {number} seq
 * @param {number} receivedMs
 */
export function latestTimestampUs(timeMs, seq, receivedMs) {
  return Math.min(timeMs, receivedMs) * 1000 + microsecondOf(seq)
}

export class Latest {
  #now
  /** Series whose newest value is not written, by turn. @type {Series[]} */
  #due = []

  /** @param {{ now?: () => number }} [parts]  A clock that only goes forward, in milliseconds. */
  constructor({ now = () => performance.now() } = {}) {
    this.#now = now
  }

  /**
   * Notes a value; tells whether it is to be written now.
   *
   * @param {Series} series
   * @param {{ timeMs: number, seq: number, receivedMs: number, kind: number, value: Value }} what
   */
  note(series, { timeMs, seq, receivedMs, kind, value }) {
    const timestampUs = latestTimestampUs(timeMs, seq, receivedMs)
    if (series.newest && series.newest.timestampUs > timestampUs) return false
    series.newest = new Newest(timeMs, receivedMs, kind, value, timestampUs)
    if (series.isLatestDue) return false
    const nowMs = this.#now()
    if (nowMs - series.latestWrittenMs >= LATEST_MS_MIN) {
      series.latestWrittenMs = nowMs
      return true
    }
    series.isLatestDue = true
    this.#due.push(series)
    return false
  }

  /** The series whose turn has come; the caller writes their newest values. */
  takeDue() {
    const nowMs = this.#now()
    /** @type {Series[]} */
    const ready = []
    this.#due = this.#due.filter((series) => {
      if (nowMs - series.latestWrittenMs < LATEST_MS_MIN) return true
      series.isLatestDue = false
      series.latestWrittenMs = nowMs
      ready.push(series)
      return false
    })
    return ready
  }

  /** All series that still have something to write, whether it is their turn or not. */
  takeAll() {
    const all = this.#due
    this.#due = []
    for (const series of all) series.isLatestDue = false
    return all
  }
}
