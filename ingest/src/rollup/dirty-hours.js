/**
 * Marks the hours of a series dirty in which rows are stored, so that their rollups are computed
 * (again). A mark is durable before the message that asked for it is acknowledged.
 *
 * What arrives within its hour shares one mark, in the slot in which the hour ends. What is late
 * has its mark in the slot of the present, and shares it until that is nearly worked off. A worker
 * may have read the hour before a row that becomes durable later: it is marked once more.
 */

import { KIND } from '@sandglass/common/measurement'
import { HOUR_MS, markedUntil, slotFor, startOf } from '@sandglass/common/rollup'
import { SlotClock } from './slot-clock.js'

/** @typedef {import('../message/message.js').Message} Message */
/** @typedef {import('../write/row.js').Row} Row */
/** @typedef {import('../sensors/series.js').Series} Series */

/** Kinds of values that are summed up. @type {ReadonlySet<number>} */
const KINDS = new Set([KIND.number, KIND.integer, KIND.boolean])

/** @type {Row[]} */
const NONE = []

export class DirtyHours {
  /** Marks of hours that were over. */
  late = 0
  /** Messages that became durable too late for their marks. */
  again = 0
  #rows
  #clock

  /**
   * @param {object} parts
   * @param {import('../write/rows.js').Rows} parts.rows
   * @param {SlotClock} [parts.clock]
   */
  constructor({ rows, clock = new SlotClock() }) {
    this.#rows = rows
    this.#clock = clock
  }

  /**
   * @param {Series} series
   * @param {number} kind
   * @param {number} timeMs  Of the event, milliseconds since the Unix epoch.
   * @param {Message} message  Waits for the mark.
   * @returns {Row[]}  To be written.
   */
  note(series, kind, timeMs, message) {
    if (!KINDS.has(kind)) return NONE
    for (const row of series.markRows) row.holdBack(message)
    const hourMs = startOf(timeMs, HOUR_MS)
    const { mark } = series
    if (mark?.hourMs !== hourMs) {
      series.mark = series.markBefore
      series.markBefore = mark
    }
    if (series.mark?.hourMs === hourMs && !this.#clock.isPast(series.mark.untilMs)) {
      message.markedUntilMs = Math.min(message.markedUntilMs, series.mark.untilMs)
      return NONE
    }
    const nowMs = this.#clock.now()
    const slotMs = slotFor(hourMs + HOUR_MS, nowMs)
    if (nowMs >= hourMs + HOUR_MS) this.late++
    series.mark = { hourMs, untilMs: this.#clock.deadline(markedUntil(slotMs)) }
    message.markedUntilMs = Math.min(message.markedUntilMs, series.mark.untilMs)
    const row = this.#rows.mark(series, hourMs, slotMs, message)
    series.markRows.push(row)
    row.onDone = () => {
      series.markRows = series.markRows.filter((other) => other !== row)
    }
    return [row]
  }

  /**
   * Whether a message whose rows are all durable has to be marked once more.
   *
   * @param {Message} message
   */
  isTooLate(message) {
    if (message.markedUntilMs === Number.POSITIVE_INFINITY) return false
    if (!this.#clock.isPast(message.markedUntilMs)) return false
    this.again++
    message.markedUntilMs = Number.POSITIVE_INFINITY
    return true
  }
}
