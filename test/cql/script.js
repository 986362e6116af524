// A file of statements with the answers that are expected of them.
//
//     SELECT p, c FROM t;         one statement a line
//     --> [1,"a"]                 a row, its values as JSON; `--> none` for no rows
//     --! 2200 Undefined …        or the refusal: its code and words (of a syntax error, the code)
//     --~ 2200 … not supported …  what Sandglass says instead, where it differs from Cassandra
//     -- wait 2100                milliseconds to wait before the next statement
//     -- wait second              until the next second has begun
//     -- pages 1 2 3              page sizes in which each further read is repeated
//
// Of what DESCRIBE answers the options that Sandglass does not have are left out.
//
// Other lines that begin with two dashes are for people. A statement may name its keyspace as KS.
import cassandra from 'cassandra-driver'

/**
 * @typedef {object} Step
 * @property {number} line
 * @property {string} text  The statement, or a directive.
 * @property {string[]} expected  Answer lines of Cassandra.
 * @property {string[]} differing  Answer lines of Sandglass, where it differs.
 */

/**
 * @param {string} text
 * @returns {Step[]}
 */
export function parseScript(text) {
  /** @type {Step[]} */
  const steps = []
  for (const [index, line] of text.split('\n').entries()) {
    const last = steps.at(-1)
    if (/^--[>!]/.test(line)) last?.expected.push(line)
    else if (line.startsWith('--~')) last?.differing.push(line.replace('--~', '--!'))
    else if (line !== '' && (!line.startsWith('--') || /^-- (wait|pages) /.test(line))) {
      steps.push({ line: index + 1, text: line, expected: [], differing: [] })
    }
  }
  return steps
}

/** Options of Cassandra, at their defaults, that Sandglass does not have. */
const NOT_OURS = /\n {4}AND (allow_auto_snapshot|incremental_backups) = true/g

/** A description without those. @param {unknown} text */
const ours = (text) => String(text).replaceAll(NOT_OURS, '')

/** A value as the scripts write it. @param {unknown} value @returns {unknown} */
function plain(value) {
  if (value === null || value === undefined) return null
  if (Buffer.isBuffer(value)) return `0x${value.toString('hex')}`
  if (value instanceof Date) return value.toISOString()
  if (value instanceof cassandra.types.Tuple) return value.values().map(plain)
  if (value instanceof Map) return [...value].map((pair) => pair.map(plain))
  if (value instanceof Set) return [...value].map(plain)
  if (Array.isArray(value)) return value.map(plain)
  if (typeof value === 'number' && !Number.isFinite(value)) return String(value)
  if (typeof value === 'object') {
    const own = Object.hasOwn(value, 'toString') || value.constructor !== Object
    if (own) return String(value)
    return Object.entries(value).map(([key, item]) => [key, plain(item)])
  }
  return value
}

/**
 * Runs a statement; gives its answer as lines of a script.
 *
 * @param {cassandra.Client} client
 * @param {string} keyspace  The real name of what scripts call KS.
 * @param {string} statement
 * @param {number} [pageSize]
 */
export async function answer(client, keyspace, statement, pageSize) {
  const text = statement.replaceAll(/\bKS\b/g, keyspace).replace(/;$/, '')
  const fetchSize = pageSize ?? 5000
  const describes = /^DESC/.test(text)
  try {
    /** @type {string[]} */
    const rows = []
    let pageState
    do {
      /** @type {cassandra.types.ResultSet} */
      const result = await client.execute(text, [], { fetchSize, pageState, prepare: false })
      if (!result.columns) return []
      for (const row of result.rows ?? []) {
        const values = row.values().map(plain)
        const line = `--> ${JSON.stringify(describes ? values.map(ours) : values)}`
        rows.push(describes ? line.replaceAll(keyspace, 'KS') : line)
      }
      if (pageSize !== undefined && result.rows.length > pageSize)
        rows.push('--> too many in a page')
      pageState = result.pageState ?? undefined
    } while (pageState !== undefined)
    return rows.length === 0 ? ['--> none'] : rows
  } catch (error) {
    if (!(error instanceof cassandra.errors.ResponseError)) throw error
    const code = error.code.toString(16).padStart(4, '0')
    const words = error.message.split('\n')[0].replaceAll(keyspace, 'KS')
    return [code === '2000' ? '--! 2000' : `--! ${code} ${words}`]
  }
}
