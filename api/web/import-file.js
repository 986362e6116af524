/** What a file is by its name, and what an import says of it, in words. Pure. */

import { printCount, printMany, printMoment } from './format.js'

/** Series that are told one by one. */
const SERIES_SHOWN_MAX = 12

/**
 * @typedef {object} Progress  A line of the answer; some members only in the last one.
 * @property {number} line
 * @property {number} rows
 * @property {number} stored
 * @property {number} refused_rows
 * @property {{ line: number, reason: string }[]} refused
 * @property {boolean} [done]
 * @property {{ detail: string, from_line: number }} [problem]
 * @property {Kept[]} [retention]
 * @property {string[]} [kept]  Sensors that exist with another retention than was asked for.
 * @property {Preview} [preview]
 *
 * @typedef {object} Kept
 * @property {string} retention
 * @property {number} sensors
 * @property {number} new_sensors
 * @property {number} measurements
 * @property {number | null} expires
 *
 * @typedef {object} Preview
 * @property {number} measurements
 * @property {number | null} from
 * @property {number | null} last
 * @property {{ sensor: string, metric: string, kinds: Record<string, number> }[]} series
 * @property {number} in_other_series
 */

/**
 * The format that the end of a name tells, and whether the file is packed; undefined: neither.
 *
 * @param {string} name
 */
export function formatOf(name) {
  const match = /\.(csv|ndjson|jsonl)(\.gz)?$/i.exec(name)
  if (!match) return undefined
  const format = match[1].toLowerCase() === 'csv' ? 'csv' : 'ndjson'
  return { format, isPacked: match[2] !== undefined }
}

/** What became of the rows, or would. @param {Progress} progress  @param {boolean} isDry */
export function printOutcome({ rows, stored, refused_rows: refused, done, problem }, isDry) {
  const taken = `${printCount(stored)} of ${printMany(rows, 'row')} ${isDry ? 'can be stored' : 'stored'}`
  const wrong = refused === 0 ? '' : `, ${printCount(refused)} refused`
  if (done) return `${taken}${wrong}.`
  const why = problem?.detail ?? 'nobody knows why'
  return `${taken}${wrong}. It ended early: ${why}`
}

/** How long what is imported is kept, a line each. @param {Progress} progress */
export function printKeeping({ retention = [], kept = [] }) {
  const lines = retention.map(({ sensors, new_sensors: news, measurements, expires }) => {
    const many = `${printMany(measurements, 'measurement')} of ${printMany(sensors, 'sensor')}`
    const some = news > 0 ? ` (${printCount(news)} new)` : ''
    const until = expires === null ? 'for ever' : `until ${printMoment(expires)}`
    return `${many}${some}, kept ${until}.`
  })
  if (kept.length > 0) {
    lines.push(`Sensors that exist keep their own retention: ${kept.join(', ')}. Edit changes it.`)
  }
  return lines
}

/** What a dry run found, a line each. @param {Progress} progress  @returns {string[]} */
export function printPreview(progress) {
  const lines = printKeeping(progress)
  const { preview } = progress
  if (!preview || preview.from === null || preview.last === null) return lines
  const { from, last, series, in_other_series: others } = preview
  lines.unshift(
    `${printMany(preview.measurements, 'measurement')}, from ${printMoment(from)} to ${printMoment(last)}.`,
  )
  const shown = series.slice(0, SERIES_SHOWN_MAX)
  lines.push(
    ...shown.map(
      // A number that is a text, such as "61,5", is seen here, before it is stored.
      ({ sensor, metric, kinds }) =>
        `${metric} of ${sensor}: ${Object.entries(kinds)
          .map(([kind, many]) => printMany(many, kind))
          .join(', ')}`,
    ),
  )
  const more = series.length - shown.length
  if (more > 0) lines.push(`and ${printMany(more, 'series', 'series')} more`)
  if (others > 0) lines.push(`${printMany(others, 'measurement')} of yet other series`)
  return lines
}
