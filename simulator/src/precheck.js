/** Looks at all rows of a file before the first is published, and says what is bad, and where. */

import { TableError } from './table.js'

/** Most bad rows that are named one by one; the rest is only counted. */
const PROBLEMS_MAX = 20

/**
 * @typedef {object} Check
 * @property {number} rows       All of them.
 * @property {number} bad
 * @property {string[]} problems
 * @property {number} firstMs    The earliest time.
 * @property {number} lastMs     The latest.
 */

/**
 * @param {AsyncIterable<import('./table.js').Row | import('./table.js').BadRow>} rows
 * @returns {Promise<Check>}
 * @throws {TableError}  There is no good row.
 */
export async function checkTable(rows) {
  /** @type {string[]} */
  const problems = []
  const check = { rows: 0, bad: 0, problems, firstMs: Number.POSITIVE_INFINITY, lastMs: 0 }
  for await (const row of rows) {
    check.rows++
    if ('problem' in row) {
      check.bad++
      if (problems.length < PROBLEMS_MAX) problems.push(`line ${row.line}: ${row.problem}`)
    } else {
      check.firstMs = Math.min(check.firstMs, row.timeMs)
      check.lastMs = Math.max(check.lastMs, row.timeMs)
    }
  }
  if (check.bad > problems.length) problems.push(`… and ${check.bad - problems.length} more`)
  if (check.rows === check.bad) {
    throw new TableError([...problems, 'no row that could be published'].join('\n'))
  }
  return check
}
