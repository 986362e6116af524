/** What a reconciliation found, as a table: a row a series, and the sum of all. */

import { LETTERS } from './reconcile.js'
import { count } from './report.js'

/** Up to so many series are all shown; of more, only those that differ, and not more than these. */
const ROWS_MAX = 40

const HEAD = ['series', 'acknowledged', 'stored', 'missing', 'extra', 'changed']

/** @typedef {import('./reconcile.js').Verdict} Verdict */

/**
 * How many values and dead letters are not what they should be.
 *
 * @param {Verdict[]} verdicts
 */
export function differenceOf(verdicts) {
  return sum(verdicts, ({ difference }) => difference.total)
}

/**
 * The report, line by line.
 *
 * @param {Verdict[]} verdicts
 * @param {{ unacknowledged: number, seed: number }} run  How many messages were not acknowledged.
 * @returns {string[]}
 */
export function verdictLines(verdicts, { unacknowledged, seed }) {
  const differing = verdicts.filter(({ difference }) => difference.total > 0)
  const shown = (verdicts.length <= ROWS_MAX ? verdicts : differing).slice(0, ROWS_MAX)
  const rows = shown.map((verdict) => row(`${verdict.sensor}/${verdict.metric}`, [verdict]))
  const all = row(`all ${count(verdicts.length)} series`, verdicts)
  const lines = table([HEAD, ...rows, all])
  const hidden = differing.filter((verdict) => !shown.includes(verdict)).length
  if (hidden > 0) lines.push(`… and ${count(hidden)} more series that differ`)
  for (const { sensor, metric, difference } of shown) {
    for (const example of difference.examples) lines.push(`${sensor}/${metric}: ${example}`)
  }
  const stored = sum(verdicts, ({ difference }) => difference.unacknowledged)
  if (unacknowledged > 0 || stored > 0) {
    lines.push(
      `not acknowledged: ${count(unacknowledged)} messages, of which ${count(stored)} values are ` +
        'stored, which is no difference',
    )
  }
  const repeated = sum(verdicts, ({ difference }) => difference.repeated)
  if (repeated > 0) {
    lines.push(
      `without a time: ${count(repeated)} were stored once more, because they were sent again ` +
        'when a connection was lost',
    )
  }
  const merged = sum(verdicts, ({ difference }) => difference.merged)
  if (merged > 0) {
    lines.push(
      `without a time: ${count(merged)} values came in the same millisecond as an equal one, ` +
        'which is the same measurement',
    )
  }
  return [...lines, ...conclusion(verdicts, seed)]
}

/** @param {Verdict[]} verdicts  @param {number} seed */
function conclusion(verdicts, seed) {
  const total = differenceOf(verdicts)
  if (total === 0) return ['reconciled: everything is stored as it was published']
  const lines = [`NOT reconciled: ${count(total)} differences`]
  const extra = verdicts.some(
    ({ metric, difference }) => metric !== LETTERS && difference.extra > 0,
  )
  if (extra) lines.push(`does another run, perhaps the demo's, use the same --seed ${seed}?`)
  const fewer = verdicts.some(
    ({ metric, difference }) => metric === LETTERS && difference.missing > 0,
  )
  if (fewer) lines.push('ingest keeps so many dead letters of a client a day: --dead-letters-max')
  return lines
}

/** @param {string} name  @param {Verdict[]} verdicts */
function row(name, verdicts) {
  return [
    name,
    count(sum(verdicts, ({ acknowledged }) => acknowledged)),
    count(sum(verdicts, ({ stored }) => stored)),
    count(sum(verdicts, ({ difference }) => difference.missing)),
    count(sum(verdicts, ({ difference }) => difference.extra)),
    count(sum(verdicts, ({ difference }) => difference.changed)),
  ]
}

/** Columns under each other: the first flush left, the others flush right. */
/** @param {string[][]} rows */
function table(rows) {
  const widths = HEAD.map((_, column) => Math.max(...rows.map((cells) => cells[column].length)))
  return rows.map((cells) =>
    cells
      .map((cell, column) =>
        column === 0 ? cell.padEnd(widths[column]) : cell.padStart(widths[column]),
      )
      .join('  '),
  )
}

/** @param {Verdict[]} verdicts  @param {(verdict: Verdict) => number} what */
function sum(verdicts, what) {
  return verdicts.reduce((total, verdict) => total + what(verdict), 0)
}
