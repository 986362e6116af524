/**
 * Keeps the table `latest`: the newest value of each series by event time, written at most once a
 * second per series. The database decides by timestamp which of two writes is newer, so they may
 * arrive in any order, and nothing is ever read for it.
 */

import { microsecondOf } from '../write/seq.js'
import { Newest } from './series.js'

/** Shortest time between two writes of one series, in milliseconds. */
export const LATEST_MS_MIN = 1_000

/**
 * Values whose turn comes within so many milliseconds are written together. Where thousands of
 * series are written each second, messages hardly wait for the few that come at once.
 */
export const LATEST_SLOT_MS = 25

/**
 * Of those that wait, so many are written together at most: a part that is twice what comes in a
 * slot as a rule. Those whose turn came while the process was busy are spread over some slots, and
 * come one after the other from then on.
 */
const TOGETHER_PART = (2 * LATEST_SLOT_MS) / LATEST_MS_MIN
const TOGETHER_MIN = 32

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
  /** Series whose newest value is not written, by slots of time. @type {Map<number, Series[]>} */
  #due = new Map()
  #waiting = 0
  /** Called when a series begins to wait while no other does. */
  onWaiting = () => {}
  /** How many were taken last, if others had to wait then: no fewer are taken until none has to. */
  #mostBefore = 0

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
    const { newest } = series
    if (newest && newest.timestampUs > timestampUs) return false
    if (newest) {
      // An object for each would often live until the next one comes, and so be made old by the
      // garbage collector.
      newest.timeMs = timeMs
      newest.receivedMs = receivedMs
      newest.kind = kind
      newest.value = value
      newest.timestampUs = timestampUs
    } else {
      series.newest = new Newest(timeMs, receivedMs, kind, value, timestampUs)
    }
    if (series.isLatestDue) return false
    const nowMs = this.#now()
    if (nowMs - series.latestWrittenMs >= LATEST_MS_MIN) {
      series.latestWrittenMs = nowMs
      return true
    }
    series.isLatestDue = true
    const slot = Math.ceil((series.latestWrittenMs + LATEST_MS_MIN) / LATEST_SLOT_MS)
    const others = this.#due.get(slot)
    if (others) others.push(series)
    else this.#due.set(slot, [series])
    this.#waiting++
    if (this.#waiting === 1) this.onWaiting()
    return false
  }

  /** Whether any series waits for its turn. */
  get isWaiting() {
    return this.#waiting > 0
  }

  /** Series whose turn has come; the caller writes their newest values. */
  takeDue() {
    const nowMs = this.#now()
    const part = Math.ceil(this.#waiting * TOGETHER_PART)
    const most = Math.max(TOGETHER_MIN, part, this.#mostBefore)
    const taken = this.#take(Math.floor(nowMs / LATEST_SLOT_MS), most, nowMs)
    this.#mostBefore = taken.length === most ? most : 0
    return taken
  }

  /** All series that still have something to write, whether it is their turn or not. */
  takeAll() {
    return this.#take(Number.POSITIVE_INFINITY, this.#waiting, this.#now())
  }

  /**
   * @param {number} last  Slot up to which series are taken.
   * @param {number} most  How many.
   * @param {number} nowMs
   */
  #take(last, most, nowMs) {
    /** @type {Series[]} */
    const taken = []
    for (const [slot, due] of this.#due) {
      if (taken.length === most) break
      if (slot > last) continue
      for (const series of due.splice(0, most - taken.length)) {
        series.isLatestDue = false
        series.latestWrittenMs = nowMs
        taken.push(series)
      }
      if (due.length === 0) this.#due.delete(slot)
    }
    this.#waiting -= taken.length
    return taken
  }
}
