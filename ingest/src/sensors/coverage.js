/**
 * Keeps `series.first_ts` and `series.last_ts`, from which a reader knows between which buckets it
 * has to look. They are exact to {@link COVER_MS}, so that they cost a write now and then and not
 * one a message; a reader looks a little further on both sides.
 */

import { COVER_MS } from '../write/rows.js'

/** @typedef {import('../message/message.js').Message} Message */
/** @typedef {import('../write/row.js').Row} Row */
/** @typedef {import('../write/rows.js').Rows} Rows */
/** @typedef {import('./series.js').Series} Series */

/**
 * Makes sure that the series' first and last time cover a measurement once its message is
 * acknowledged.
 *
 * @param {Rows} rows
 * @param {Series} series
 * @param {number} timeMs  Of the event, milliseconds since the Unix epoch.
 * @param {Message} message  Waits for what is on its way already, too.
 * @returns {Row[]}  To be written.
 */
export function cover(rows, series, timeMs, message) {
  for (const row of series.coverRows) row.holdBack(message)
  if (timeMs >= series.coveredFromMs && timeMs <= series.coveredToMs) return NONE
  /** @type {Row[]} */
  const added = []
  if (timeMs < series.coveredFromMs) {
    series.coveredFromMs = timeMs - COVER_MS
    added.push(rows.seriesFrom(series, timeMs, message))
  }
  if (timeMs > series.coveredToMs) {
    series.coveredToMs = timeMs + COVER_MS
    added.push(rows.seriesTo(series, timeMs, message))
  }
  for (const row of added) {
    series.coverRows.push(row)
    row.onDone = () => {
      series.coverRows = series.coverRows.filter((other) => other !== row)
    }
  }
  return added
}

/** @type {Row[]} */
const NONE = []
