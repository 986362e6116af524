// What is compared of two answers.

/**
 * @typedef {import('./connection.js').Answer} Answer
 * @typedef {import('./connection.js').Statement} Statement
 */

export const SYNTAX_ERROR = 0x2000
/** Seconds by which the rest of a lifetime may differ: both were not asked at the same moment. */
const LIFETIME_DIFFERENCE_MAX = 120

/** @param {Answer} ours  @param {Answer} theirs @returns {keyof Answer | undefined} */
export function differingPart(ours, theirs) {
  if (!same(errorOf(ours), errorOf(theirs))) return 'error'
  if (!same(ours.markers, theirs.markers)) return 'markers'
  if (!same(ours.key, theirs.key)) return 'key'
  if (!same(ours.columns, theirs.columns)) return 'columns'
  if (!sameRows(ours, theirs)) return 'rows'
  if (!same(pagesOf(ours), pagesOf(theirs))) return 'pages'
  if (!same(ours.warnings, theirs.warnings)) return 'warnings'
  return undefined
}

/** @param {unknown} left  @param {unknown} right */
export const same = (left, right) => JSON.stringify(left) === JSON.stringify(right)

/** Cassandra's words about syntax are those of its parser. @param {Answer} answer */
const errorOf = ({ error }) => (error?.[0] === SYNTAX_ERROR ? SYNTAX_ERROR : error)

/** Pages with rows: whether an empty one follows is left to each. @param {Answer} answer */
const pagesOf = ({ pages }) => pages?.filter((rows) => rows > 0)

/** @param {Answer} ours  @param {Answer} theirs */
export function sameRows(ours, theirs) {
  if (same(ours.rows, theirs.rows)) return true
  if (!ours.rows || !theirs.rows || ours.rows.length !== theirs.rows.length) return false
  const lifetimes = (ours.columns ?? []).map(([name]) => name.startsWith('ttl('))
  if (!lifetimes.includes(true)) return false
  return ours.rows.every((row, at) =>
    row.every((value, column) => {
      const other = theirs.rows?.[at][column]
      if (value === other) return true
      return lifetimes[column] && value && other ? isNear(value, other) : false
    }),
  )
}

/** @param {string} one  @param {string} other  Numbers in hexadecimal. */
const isNear = (one, other) =>
  Math.abs(Number.parseInt(one, 16) - Number.parseInt(other, 16)) <= LIFETIME_DIFFERENCE_MAX

/**
 * What kind of difference it is, so that each is shown once: the words without names and numbers.
 *
 * @param {Statement} statement
 * @param {Answer} ours
 * @param {Answer} theirs
 */
export function signature(statement, ours, theirs) {
  const part = differingPart(ours, theirs) ?? 'none'
  if (part === 'error') return `error: ${shortened(ours)} | ${shortened(theirs)}`
  if (part === 'warnings') return `warnings: ${ours.warnings} | ${theirs.warnings}`
  const verb = statement.batch ? 'BATCH' : statement.text.split(' ')[0]
  return `${part}: ${verb}${/DISTINCT|\(|LIMIT|IN \(|ORDER/.exec(statement.text)?.[0] ?? ''}`
}

/** @param {Answer} answer */
function shortened({ error }) {
  if (!error) return 'none'
  const text = error[1].split('\n')[0].replaceAll(/'[^']*'|"[^"]*"|\b[pcvswkt]\d\w*|\d+/g, '_')
  return `${error[0].toString(16)} ${error[0] === SYNTAX_ERROR ? '' : text.slice(0, 60)}`
}
