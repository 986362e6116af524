/**
 * Marks the hours of a series in which rows are stored, so that the rollups of them are computed
 * (again). A mark is durable before the message that asked for it is acknowledged.
 *
 * What arrives within its hour shares one mark, in the slot in which the hour ends. What is late
 * has its mark in the slot of the present, and shares it until that is nearly worked off. A row
 * that becomes durable after that is marked once more: nobody would see it otherwise.
 */

import { KIND } from '@sandglass/common/measurement'
import { HOUR_MS, markedUntil, slotFor, startOf } from '@sandglass/common/rollup'

/** @typedef {import('../message/message.js').Message} Message */
/** @typedef {import('../write/row.js').Row} Row */
/** @typedef {import('../sensors/series.js').Series} Series */

/** Kinds of values that are summed up. @type {ReadonlySet<number>} */
const KINDS = new Set([KIND.number, KIND.integer, KIND.boolean])

/** @type {Row[]} */
const NONE = []

export class DirtyHours {
  /**
   * @param {object} parts
   * @param {import('../write/rows.js').Rows} parts.rows
   * @param {() => number} [parts.now]  Milliseconds since the Unix epoch.
   */
  constructor({ rows, now = Date.now }) {
    /** DirtyHours of hours that were over. */
    this.late = 0
    /** Rows that became durable too late for their mark. */
    this.again = 0
    /** @private */
    this.rows = rows
    /** @private */
    this.now = now
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
    const nowMs = this.now()
    const hourMs = startOf(timeMs, HOUR_MS)
    const { mark } = series
    if (mark?.hourMs !== hourMs) {
      series.mark = series.markBefore
      series.markBefore = mark
    }
    if (series.mark?.hourMs === hourMs && nowMs < series.mark.untilMs) {
      message.markedUntilMs = Math.min(message.markedUntilMs, series.mark.untilMs)
      return NONE
    }
    const slotMs = slotFor(hourMs + HOUR_MS, nowMs)
    if (nowMs >= hourMs + HOUR_MS) this.late++
    series.mark = { hourMs, untilMs: markedUntil(slotMs) }
    message.markedUntilMs = Math.min(message.markedUntilMs, series.mark.untilMs)
    const row = this.rows.mark(series, hourMs, slotMs, message)
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
    if (this.now() < message.markedUntilMs) return false
    this.again++
    message.markedUntilMs = Number.POSITIVE_INFINITY
    return true
  }
}
