/** The raw measurements of a metric over a time: what states and places are drawn from. */

import { sensorPath } from './rest.js'

/** Measurements that are read for one drawing, at most; of more, the newest are. */
export const ROWS_MAX = 20_000

const PAGE = 10_000

/** How often an empty page is followed by the next: it is so only after long gaps. */
const PAGES_MAX = 6

/** @typedef {{ t: number, v: unknown }} Row */

/**
 * @typedef {object} History
 * @property {Row[]} rows  Oldest first.
 * @property {Row | undefined} before  The newest before all of these, unless `isCut`.
 * @property {boolean} isCut  There are more before, within the time.
 */

/**
 * @param {import('./rest.js').Rest} rest
 * @param {{ sensor: string, metric: string, fromMs: number, toMs: number }} question
 * @param {AbortSignal} signal
 * @returns {Promise<History>}
 */
export async function readHistory(rest, { sensor, metric, fromMs, toMs }, signal) {
  const times = { from: `${fromMs}`, to: `${toMs}` }
  const path = `${sensorPath(sensor)}/measurements`
  const inTime = await readRows(rest, path, { metric, ...times }, ROWS_MAX, signal)
  const rows = inTime.rows.reverse()
  if (inTime.isCut) return { rows, before: undefined, isCut: true }
  const earlier = await readRows(rest, path, { metric, to: `${fromMs}` }, 1, signal)
  return { rows, before: earlier.rows[0], isCut: false }
}

/**
 * @param {import('./rest.js').Rest} rest
 * @param {string} path
 * @param {Record<string, string>} question
 * @param {number} rowsMax
 * @param {AbortSignal} signal
 */
async function readRows(rest, path, question, rowsMax, signal) {
  /** @type {Row[]} */
  const rows = []
  let query = new URLSearchParams({ ...question, limit: `${Math.min(PAGE, rowsMax)}` })
  for (let page = 0; page < PAGES_MAX; page++) {
    const { items, next } = await rest.get(`${path}?${query}`, signal)
    for (const row of items) rows.push(row)
    if (next === null) return { rows, isCut: false }
    if (rows.length >= rowsMax) break
    query = new URLSearchParams({ cursor: next, limit: `${Math.min(PAGE, rowsMax)}` })
  }
  return { rows, isCut: true }
}
