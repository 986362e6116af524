// The differences between answers that docs/protocol.md lists, each with how it is known.
import { differingPart, SYNTAX_ERROR, same } from './compare.js'

/**
 * @typedef {import('./connection.js').Answer} Answer
 * @typedef {import('./connection.js').Statement} Statement
 *
 * @typedef {object} Tolerated
 * @property {string} listed  Words of docs/protocol.md that list it.
 * @property {(statement: Statement, ours: Answer, theirs: Answer) => boolean} is
 */

/** What Sandglass says that it does not do, with the words by which docs/protocol.md lists it. */
const UNSUPPORTED = Object.entries({
  'ORDER BY with IN on the partition key is': '`ORDER BY` with `IN` of partitions',
  'A range over several columns of different directions is':
    'a range of several columns of different directions',
  'token() besides a whole partition key is': '`token()` besides a whole partition key',
  'Filtering by several columns at once is': 'a filter on several columns at once',
  'Filtering by a duration is': 'a filter on a duration',
  '(sum|avg) of type (varint|decimal) is': '`sum` and `avg` of `varint` and `decimal`',
  '(min|max) of type .*duration.* is': '`min` and `max` of durations',
  '(sum|avg) of type .* is': '`sum` and `avg` of what is no number',
  'A function of a function in a selection is': 'a function of a function in a selection',
  'The function .* in a selection is': '`now()` and its like in a selection',
})

/** Failures inside Cassandra: of the server, of a read or a write; and what took it too long. */
const INTERNAL = [0x0000, 0x1001, 0x1100, 0x1200, 0x1300, 0x1500]

/** What is said of a value that does not fit. */
const UNFIT =
  /^(Invalid \w+ (type )?(constant|literal)|Invalid comparison with an empty|Invalid (null|unset) (token )?value|Unsupported (null|unset)|Unexpected receiver|(\(\w+\) )?Unable to|Unknown function|Type error|Expected \d|cannot parse|Key may not be empty|null is not|UUID should|String didn't validate|Not enough bytes|Invalid number of arguments|Invalid negative list index|The data cannot|Unexpected extraneous)/

/** @param {Answer} answer */
const words = ({ error }) => error?.[1] ?? ''

/** @param {Answer} one  @param {Answer} other */
const sameCode = (one, other) => one.error !== undefined && one.error[0] === other.error?.[0]

/** The same without warnings and the types that an aggregate gives. @param {Answer} answer
 * @returns {Answer} */
const untyped = ({ columns, warnings, ...rest }) => ({
  ...rest,
  columns: columns?.map(([name, type]) => [name, /^system\.(min|max)\(/.test(name) ? '' : type]),
})

/** With each `NaN` that has a sign as one without. @param {Answer} answer */
const unsigned = (answer) =>
  JSON.stringify(answer).replaceAll(/"fff8000000000000"|"ffc00000"/g, (nan) =>
    nan.replace('ff', '7f'),
  )

/** How far apart, beside their size or one, two sums may be that were rounded differently. */
const ROUNDING = 1e-9

/** Whether all that differs are rounded numbers. @param {Answer} ours  @param {Answer} theirs */
function isRounding({ columns = [], rows = [] }, theirs) {
  const number = (/** @type {string | null | undefined} */ hex) => {
    const bytes = Buffer.from(hex ?? '', 'hex')
    if (bytes.length === 4) return bytes.readFloatBE()
    return bytes.length === 8 ? bytes.readDoubleBE() : Number.NaN
  }
  const isClose = (/** @type {number} */ a, /** @type {number} */ b) =>
    Math.abs(a - b) <= ROUNDING * Math.max(1, Math.abs(a), Math.abs(b))
  return (
    rows.length === theirs.rows?.length &&
    rows.every((row, at) =>
      row.every((value, column) => {
        const other = theirs.rows?.[at]?.[column]
        if (value === other) return true
        return (
          /^(float|double)$/.test(columns[column]?.[1]) && isClose(number(value), number(other))
        )
      }),
    )
  )
}

/** The column whose value does not fit. @param {Answer} answer */
const subject = (answer) => /(?:for|column) "?([\w ]+?)"?(?: of type|:|$)/.exec(words(answer))?.[1]

/** Whether they are some of the others, in their order. @param {unknown[]} some
 * @param {unknown[]} all */
function areSome(some, all) {
  let at = 0
  for (const row of all) if (at < some.length && same(row, some[at])) at++
  return at === some.length
}

/** The values that a client is told of one row, whose conditions do not hold; none of the key.
 * @param {Answer} answer  @returns {Map<string, string | null> | undefined} */
function refusedRow({ columns = [], rows }) {
  if (columns[0]?.[0] !== '[applied]' || rows?.length !== 1 || rows[0][0] !== '00') return undefined
  const told = columns.map(([name], at) => /** @type {const} */ ([name, rows[0][at]]))
  return new Map(told.filter(([name]) => /^[svw]\d/.test(name)))
}

/** Types whose values are equal if their bytes are, and come in the order of these. */
const OF_BYTES = ['ascii', 'blob', 'inet', 'text']

/**
 * Whether Cassandra, which compares values of a map as if they were of the keys' type, may so find
 * something else. As bytes, equal values are equal unless there is a decimal in them.
 *
 * @param {string} type
 * @param {string | undefined} operator
 */
function comparesAsKeys(type, operator) {
  const [, key, value] = /^map<(\w+), (.*)>$/.exec(type) ?? []
  if (!type.startsWith('map<') || operator === undefined) return false
  if (key === undefined) return true
  if (!OF_BYTES.includes(key)) return key !== value
  return !OF_BYTES.includes(value) && (/[<>]/.test(operator) || value.includes('decimal'))
}

/** What the statements of a text are on condition of. @param {string} text */
const conditionsOf = (text) =>
  text.split('; ').flatMap((one) => one.split(/ IF (?!NOT EXISTS|EXISTS)/)[1]?.split(' AND ') ?? [])

/** How an IF compares an element of that column, if it does. @param {string} text
 * @param {string} name */
function operatorOfElement(text, name) {
  const [, condition = ''] = text.split(/ IF (?!NOT EXISTS|EXISTS)/)
  return new RegExp(`\\b${name}"? ?\\[.*?\\] ?([<>]=?|!?=|IN\\b)`).exec(condition)?.[1]
}

/** @param {Answer} answer */
const withoutRows = ({ error, markers, key, columns, warnings }) => ({
  error,
  markers,
  key,
  columns,
  warnings,
})

/** A row that is made of others. */
const AGGREGATES = /^SELECT (DISTINCT )?(\w+\([^)]*\)(, )?)+ FROM/

/** Relations that do not go together. */
const APART =
  /cannot be restricted by (more than one relation|both an equality|two inequalities)|^More than one restriction was found/

/** A place of a list that is not there. */
const NO_PLACE =
  /^(List index -?\d+ out of bound|Attempted to (set|delete) an element (on|from) a list which is null)/

/** Its words in any order. @param {string} text */
const unordered = (text) =>
  text
    .split(/[ ,"]+/)
    .sort()
    .join(' ')

/** @type {Tolerated[]} */
export const TOLERATED = [
  ...UNSUPPORTED.map(([what, listed]) => {
    const said = new RegExp(`^${what.replaceAll('()', '\\(\\)')} not supported yet by Sandglass$`)
    return {
      listed,
      is: (/** @type {Statement} */ _, /** @type {Answer} */ ours) => said.test(words(ours)),
    }
  }),
  {
    listed: 'a failure inside of Cassandra',
    is: (_, ours, { error }) =>
      error !== undefined && INTERNAL.includes(error[0]) && ours.error?.[0] !== -1,
  },
  {
    listed: 'which of several values that do not fit is told',
    is: (_, ours, theirs) =>
      sameCode(ours, theirs) &&
      [ours, theirs].every((answer) => UNFIT.test(words(answer))) &&
      (subject(ours) === undefined ||
        subject(ours) !== subject(theirs) ||
        [ours, theirs].every((answer) => words(answer).startsWith('Invalid tuple literal'))),
  },
  {
    listed: 'which row is told of conditions on static columns alone',
    is: (_, ours, theirs) => {
      const [our, their] = [refusedRow(ours), refusedRow(theirs)]
      const names = [...(our?.keys() ?? []), ...(their?.keys() ?? [])]
      return (
        our !== undefined &&
        their !== undefined &&
        names.every((name) => (our.get(name) ?? null) === (their.get(name) ?? null)) &&
        names.every((name) => !name.startsWith('v') || (our.get(name) ?? null) === null)
      )
    },
  },
  {
    listed: 'of several conditions, one that does not hold and one that is refused',
    is: ({ text, children }, ours, theirs) => {
      const refused =
        /^Invalid (negative list index|comparison with (null|an empty \w+) for operator)/
      const unset = /^Invalid 'unset' value in condition$/
      const holdsNot = (/** @type {Answer} */ { rows }) => rows?.[0]?.[0] === '00'
      const texts = [text, ...(children ?? []).map((child) => child.text)]
      const isSeveral = texts.flatMap(conditionsOf).length > 1
      return (
        [
          [ours, theirs],
          [theirs, ours],
        ].some(([one, other]) => refused.test(words(one)) && holdsNot(other)) ||
        (isSeveral && unset.test(words(ours)) && holdsNot(theirs))
      )
    },
  },
  {
    listed: 'values for no marker, or for fewer',
    is: (_, ours, theirs) =>
      sameCode(ours, theirs) && /(bind|bound) variables$/.test(words(theirs)),
  },
  {
    listed: 'of several places of lists that are not there, which is told',
    is: ({ text }, ours, theirs) =>
      sameCode(ours, theirs) &&
      [ours, theirs].every((answer) => NO_PLACE.test(words(answer))) &&
      (text.match(/\[[^\]]*\]/g) ?? []).length > 1,
  },
  {
    listed:
      'of a value of a key that does not fit and a place of a list that is not there, which is told',
    is: (_, ours, theirs) =>
      sameCode(ours, theirs) &&
      [
        [ours, theirs],
        [theirs, ours],
      ].some(([one, other]) => UNFIT.test(words(one)) && NO_PLACE.test(words(other))),
  },
  {
    listed: 'null in a condition on several columns, or in a filter on a clustering column',
    is: ({ text }, ours, theirs) => {
      const said = /^Invalid (null|unset) value (?:in condition )?for (column .*)$/.exec(
        words(ours),
      )
      const may = [`Invalid ${said?.[1]} value for ${said?.[2]}`]
      if (text.endsWith('ALLOW FILTERING'))
        may.push(`Unsupported ${said?.[1]} value for ${said?.[2]}`)
      return sameCode(ours, theirs) && may.includes(words(theirs))
    },
  },
  {
    listed: 'null in an `IN` of a filter',
    is: ({ text }, ours, theirs) =>
      / IN .* ALLOW FILTERING$/.test(text) &&
      /^Invalid (null|unset) value (in condition )?for column/.test(words(ours)) &&
      theirs.rows !== undefined,
  },
  {
    listed: 'an unset value in `IF … CONTAINS`, or as a key in `IF m[…]`',
    is: ({ text }, ours, theirs) =>
      / IF .*( CONTAINS |\[)/.test(text) &&
      /^Invalid ('unset' value in condition|unset value for map element access)$/.test(
        words(ours),
      ) &&
      theirs.rows?.[0]?.[0] === '00',
  },
  {
    listed: 'what cannot be a place or a key, in `IF` of a frozen column that is not there',
    is: ({ text }, ours, theirs) =>
      / IF .*\[/.test(text) &&
      /^Invalid (negative list index|unset value for (list|map) element access)/.test(
        words(ours),
      ) &&
      theirs.columns?.[0][0] === '[applied]',
  },
  {
    listed: 'null in a range of rows, or what does not fit beside an `IN` of nothing',
    is: ({ text, children }, ours, theirs) => {
      const texts = [text, ...(children ?? []).map((child) => child.text)]
      const some = (/** @type {RegExp} */ pattern) => texts.some((one) => pattern.test(one))
      const isNull = /^Invalid null value in condition for column/.test(words(ours))
      return (
        (theirs.error === undefined ||
          words(theirs).startsWith('Range deletions are') ||
          (children !== undefined &&
            words(theirs).startsWith('IN on the clustering key columns is not supported with'))) &&
        ((isNull && some(/[<>]=? \(?(null\b|\?|:n)/)) ||
          (UNFIT.test(words(ours)) && some(/\bIN (\(\)|\?|:n)/)))
      )
    },
  },
  {
    listed: 'of a relation on several columns that goes with none of those before it',
    is: ({ text }, ours, theirs) =>
      sameCode(ours, theirs) &&
      APART.test(words(ours)) &&
      APART.test(words(theirs)) &&
      (unordered(words(ours)) === unordered(words(theirs)) ||
        / \([^()]*, [^()]*\) (=|IN|[<>])/.test(text)),
  },
  {
    listed: 'of a function with too few arguments and a relation that is wrong, which is told',
    is: ({ text }, ours, theirs) =>
      sameCode(ours, theirs) &&
      / WHERE /.test(text) &&
      /^Invalid number of arguments in call to function system\./.test(words(theirs)) &&
      /cannot be restricted|Unsupported|Invalid null/.test(words(ours)),
  },
  {
    listed: 'the version of a UUID that is no `timeuuid`: the words',
    is: (_, ours, theirs) =>
      sameCode(ours, theirs) &&
      [ours, theirs].every((answer) => /^Invalid version for TimeUUID/.test(words(answer))),
  },
  {
    listed: 'a place in a list, in a conditional write about static columns alone',
    is: ({ text }, ours, theirs) =>
      / IF /.test(text) &&
      /^Attempted to (set|delete) an element (at index \d+ )?(in|on|from) a list which is null/.test(
        words(theirs),
      ) &&
      (sameCode(ours, theirs) || ours.rows !== undefined),
  },
  {
    listed: 'an empty key inside `token()`, or of a range of rows that is empty',
    is: (_, ours, theirs) => words(ours) === 'Key may not be empty' && theirs.rows !== undefined,
  },
  {
    listed: 'which marker is the key, of a batch and of a filter on the key',
    is: ({ text }, ours, theirs) =>
      /^BEGIN|ALLOW FILTERING$/.test(text) &&
      differingPart(untyped(ours), untyped({ ...theirs, key: ours.key })) === undefined,
  },
  {
    listed: 'warnings of aggregates that read several partitions',
    is: (_, ours, theirs) =>
      theirs.warnings?.every((text) => text.startsWith('Aggregation query used')) === true &&
      ours.warnings === undefined &&
      differingPart(untyped(ours), untyped(theirs)) === undefined,
  },
  {
    listed: 'the sign of a `NaN` that is a sum',
    is: ({ text }, ours, theirs) =>
      /\b(sum|avg)\(/.test(text) &&
      differingPart(untyped(ours), JSON.parse(unsigned(untyped(theirs)))) === undefined,
  },
  {
    listed: 'what rounding takes from sums and averages of `float` and `double`',
    is: ({ text }, ours, theirs) => /\b(sum|avg)\(/i.test(text) && isRounding(ours, theirs),
  },
  {
    listed: 'the type of `min` and `max` of a `timeuuid`',
    is: ({ text }, ours, theirs) =>
      /\b(min|max)\(/i.test(text) &&
      /LegacyTimeUUIDType/.test(JSON.stringify(theirs.columns)) &&
      differingPart(untyped(ours), untyped(theirs)) === undefined,
  },
  {
    listed: 'a filter on a static column, in pages or with a limit',
    is: ({ text, pageSize }, ours, theirs) =>
      (pageSize !== undefined || / LIMIT /.test(text)) &&
      / WHERE .*(\b[sw]\d|"S\d x").* ALLOW FILTERING$/.test(text) &&
      (AGGREGATES.test(text)
        ? same(withoutRows({ ...ours, warnings: theirs.warnings }), withoutRows(theirs))
        : same(withoutRows(ours), withoutRows(theirs)) &&
          areSome(theirs.rows ?? [], ours.rows ?? [])),
  },
  {
    listed: 'how values of a map are compared',
    is: ({ text }, ours, theirs) =>
      /\bIF .*(\w|")\[/.test(text) &&
      ours.columns?.[0][0] === '[applied]' &&
      theirs.columns?.[0][0] === '[applied]' &&
      ours.rows?.[0][0] !== theirs.rows?.[0][0] &&
      [...(ours.columns ?? []), ...(theirs.columns ?? [])].some(([name, type]) =>
        comparesAsKeys(type, operatorOfElement(text, name)),
      ),
  },
  {
    listed:
      'deleted elements of a static set or map, by `CONTAINS` or `CONTAINS KEY` in given partitions',
    is: ({ text }, ours, theirs) =>
      / WHERE (p|k|"P)\d.*(\b[sw]\d|"S\d x") CONTAINS .* ALLOW FILTERING$/.test(text) &&
      same(ours.columns, theirs.columns) &&
      (theirs.rows?.length ?? 0) >= (ours.rows?.length ?? 1) &&
      (/ LIMIT /.test(text) ||
        AGGREGATES.test(text) ||
        areSome(ours.rows ?? [], theirs.rows ?? [])),
  },
  {
    listed: 'and arithmetic',
    is: ({ text }, ours, theirs) =>
      ours.error?.[0] === SYNTAX_ERROR &&
      (/ [-+=] - (- )*-?[\d?:]/.test(text) || words(theirs).includes('_negate')),
  },
  {
    listed: 'a tuple of columns in a selection',
    is: ({ text }, ours) =>
      ours.error?.[0] === SYNTAX_ERROR && /^SELECT (.* , )?\( (\w+|"\w+ x")/.test(text),
  },
  {
    listed: 'a collection in a key with fewer values than none',
    is: (_, ours, theirs) =>
      /^The data cannot be deserialized/.test(words(ours)) && theirs.error === undefined,
  },
  {
    listed: 'items of a tuple in a key with fewer bytes than none',
    is: (_, ours, theirs) => {
      const asOurs = theirs.rows?.map((row, at) =>
        row.map((value, column) => {
          const our = ours.rows?.[at]?.[column] ?? ''
          const isTuple = theirs.columns?.[column][1].includes('tuple<')
          const isOfNulls = /^(ffffffff)+$/.test(our) && /^([89a-f].{7})+$/.test(value ?? '')
          return isTuple && isOfNulls ? our : value
        }),
      )
      return asOurs !== undefined && differingPart(ours, { ...theirs, rows: asOurs }) === undefined
    },
  },
  {
    listed: 'a hexadecimal constant for a `tinyint`',
    is: (_, ours) => /^Invalid HEX constant .* of type tinyint$/.test(words(ours)),
  },
  {
    listed: 'a constant for a tuple',
    is: (_, ours) =>
      /^Invalid \w+ constant .* of type (frozen<)?tuple</.test(words(ours)) ||
      /^Invalid \w+ literal .* is not of type frozen<tuple</.test(words(ours)),
  },
  {
    listed: 'a tuple as the value of a user-defined type',
    is: (_, ours, theirs) =>
      /^Invalid tuple type literal .* of type (frozen<)?u\d/.test(words(ours)) &&
      theirs.error !== undefined,
  },
  {
    listed: 'a tuple as the value of a user-defined type by which rows descend',
    is: ({ text }, ours, theirs) => {
      const column = /^Invalid tuple type literal for (\S+) of type (?:frozen<)?u\d/.exec(
        words(ours),
      )
      const name = column?.[1].replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')
      return (
        theirs.error === undefined && new RegExp(`\\b"?${name}"? ?([<>]=?|=|IN) ?\\(`).test(text)
      )
    },
  },
  {
    listed: 'a null in a list that is bound',
    is: ({ values, children }, ours, theirs) => {
      const bound = [values, ...(children ?? []).map((child) => child.values)].flat()
      return (
        words(ours) === 'null is not supported inside collections' &&
        bound.some((value) => value && /[89a-f].{7}/.test(value)) &&
        (theirs.error === undefined || words(theirs) === 'Null value read when not allowed')
      )
    },
  },
  {
    listed: '`sum` and `avg` of what is no number, or of nothing',
    is: ({ text }, ours, theirs) =>
      /^Invalid call to function (sum|avg), none of its type signatures/.test(words(theirs)) &&
      (/^Invalid call to function (sum|avg), none of its type signatures/.test(words(ours)) ||
        (APART.test(words(ours)) && /\b(sum|avg) ?\( ?\)/.test(text))),
  },
  {
    listed: '`CONTAINS` on a clustering column that descends',
    is: ({ text }, ours, theirs) =>
      / CONTAINS /.test(text) &&
      (ours.error === undefined || sameCode(ours, theirs)) &&
      /^Cannot use CONTAINS( KEY)? on non-(collection|map) column/.test(words(theirs)),
  },
  {
    listed: 'the keyspace of a type that is unknown',
    is: (_, ours, theirs) =>
      sameCode(ours, theirs) &&
      /^Unknown type/.test(words(ours)) &&
      /^Unknown type/.test(words(theirs)),
  },
  {
    listed: 'what is a fault of syntax',
    is: ({ text }, ours, theirs) =>
      (ours.error?.[0] === SYNTAX_ERROR && text.startsWith('SELECT DISTINCT ,')) ||
      (ours.error?.[0] === SYNTAX_ERROR &&
        /^(Unknown function|Cannot infer|Undefined column name distinct)/.test(words(theirs))) ||
      (theirs.error?.[0] === SYNTAX_ERROR &&
        /^(Unmatched column|Multi-column relations|Unknown function '(max)?writetime'|Unknown function 'ttl')/.test(
          words(ours),
        )) ||
      (theirs.error?.[0] === SYNTAX_ERROR &&
        /^Cannot use selection function/.test(words(ours)) &&
        /\b((max)?writetime|ttl) ?\( ?\)/.test(text)) ||
      (UNFIT.test(words(ours)) && /^Multiple incompatible setting/.test(words(theirs))),
  },
]

/**
 * The part in which two answers differ, if they do, and whether that is listed.
 *
 * @param {Statement} statement
 * @param {Answer} ours
 * @param {Answer} theirs
 */
export function difference(statement, ours, theirs) {
  const part = differingPart(ours, theirs)
  const listed = part && TOLERATED.find(({ is }) => is(statement, ours, theirs))?.listed
  return { part, listed }
}
