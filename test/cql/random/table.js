// Random tables, and the statements that make and change them.
import { anyType, COUNTER, thawed } from './types.js'

/**
 * @typedef {import('./random.js').Random} Random
 * @typedef {import('./types.js').Type} Type
 *
 * @typedef {object} Column
 * @property {string} name
 * @property {Type} type
 * @property {'partition' | 'clustering' | 'static' | 'regular'} kind
 * @property {boolean} [reversed]
 *
 * @typedef {object} Table
 * @property {string} name  T0 or T1, in whose place the real name is put when a statement is sent.
 * @property {Column[]} columns
 * @property {Type[]} types  Those that users have defined.
 * @property {Column[]} dropped
 * @property {boolean} counters
 * @property {'ties' | 'distinct' | 'clock'} times  Which timestamps are written: a few, each of
 *   them once, or those of the database.
 * @property {number[]} timestamps  What is left of those that are written once.
 * @property {number[]} lifetimes  Each is used once: equal ones would be told apart by the clock.
 * @property {number} [lifetime]
 * @property {number} added  Columns that ALTER TABLE made.
 * @property {Set<string>} ended  Columns of which a value was deleted by their name. Such a counter
 *   is not counted again: docs/protocol.md says why.
 * @property {boolean} expired  Whether rows that were inserted may have expired.
 */

/** Timestamps when they are to be equal often. */
export const TIES_MAX = 8
/** Values of each column of the key. */
const KEY_VALUES_MAX = 3

/** @param {Table} table  @param {Column['kind']} kind */
export const columnsOf = (table, kind) => table.columns.filter((column) => column.kind === kind)

/** @param {Table} table */
export const keyOf = (table) => [
  ...columnsOf(table, 'partition'),
  ...columnsOf(table, 'clustering'),
]

/** A type with a few of its values: rows of a small table meet. @param {Random} random
 * @param {Type} type @returns {Type} */
function narrowed(random, type) {
  const kept = new Set(random.shuffled(type.values).slice(0, KEY_VALUES_MAX))
  return { ...type, values: type.values.filter((value) => kept.has(value)) }
}

/** Those that are not of the key. @param {Table} table */
export const valuesOf = (table) => table.columns.filter(({ kind }) => /static|regular/.test(kind))

/** A name that needs quotes now and then. @param {Random} random  @param {string} name */
const named = (random, name) => (random.chance(0.06) ? `"${name.toUpperCase()} x"` : name)

/**
 * @param {Random} random
 * @param {string} name
 * @param {Set<import('./kinds.js').Kind>} kinds
 * @param {Type[]} types  Those that users have defined.
 * @returns {Table}
 */
export function anyTable(random, name, kinds, types) {
  const counters = kinds.has('counters') && random.chance(0.1)
  const conditions = kinds.has('conditions') && random.chance(0.3)
  /** @type {Column[]} */
  const columns = []
  /** @param {string} prefix  @param {number} count  @param {Column['kind']} kind
   * @param {(random: Random) => Type} type */
  const add = (prefix, count, kind, type) => {
    for (let number = 0; number < count; number++) {
      const column = { name: named(random, `${prefix}${number}`), kind, type: type(random) }
      columns.push(kind === 'clustering' ? { ...column, reversed: random.chance(0.4) } : column)
    }
  }
  const key = () => {
    const type =
      types.length > 0 && random.chance(0.05)
        ? random.pick(types)
        : anyType(random, { ordered: true, depth: random.chance(0.2) ? 2 : 0 })
    return narrowed(random, type)
  }
  add('p', random.chance(0.75) ? 1 : 2, 'partition', key)
  add(
    'c',
    random.weighted([
      [1, 0],
      [4, 1],
      [3, 2],
      [1, 3],
    ]),
    'clustering',
    key,
  )
  const value = () => (counters ? COUNTER : valueType(random, kinds, types))
  const clustered = columns.some(({ kind }) => kind === 'clustering')
  if (kinds.has('statics') && clustered && random.chance(0.4)) {
    add('s', random.between(1, 2), 'static', value)
  }
  add('v', random.between(1, 4), 'regular', value)
  const lifetime = !counters && random.chance(0.08) ? 5_000_000 : undefined
  const unequal = lifetime !== undefined || random.chance(0.15)
  const times = counters || conditions ? 'clock' : unequal ? 'distinct' : 'ties'
  const several = random.shuffled(Array.from({ length: 2000 }, (_, index) => index + 1))
  return {
    name,
    columns,
    types,
    dropped: [],
    counters,
    times,
    timestamps: several,
    lifetimes: several.map((number) => 1_000_000 + 1000 * number),
    lifetime,
    added: 0,
    ended: new Set(),
    expired: false,
  }
}

/** @param {Random} random  @param {Set<import('./kinds.js').Kind>} kinds  @param {Type[]} types */
function valueType(random, kinds, types) {
  if (types.length > 0 && random.chance(0.15)) {
    const type = random.pick(types)
    return random.chance(0.6) ? thawed(type) : type
  }
  const frozen = !(kinds.has('collections') && random.chance(0.4))
  return anyType(random, { depth: 2, frozen })
}

/** @param {Table} table */
export function createTable(table) {
  const list = (/** @type {Column[]} */ columns) => columns.map(({ name }) => name).join(', ')
  const [partition, clustering] = [columnsOf(table, 'partition'), columnsOf(table, 'clustering')]
  const columns = table.columns.map(
    ({ name, type, kind }) => `${name} ${type.name}${kind === 'static' ? ' STATIC' : ''}`,
  )
  const key = [`(${list(partition)})`, ...clustering.map(({ name }) => name)].join(', ')
  const options = []
  if (clustering.some(({ reversed }) => reversed)) {
    const orders = clustering.map(({ name, reversed }) => `${name} ${reversed ? 'DESC' : 'ASC'}`)
    options.push(`CLUSTERING ORDER BY (${orders.join(', ')})`)
  }
  if (table.lifetime !== undefined) options.push(`default_time_to_live = ${table.lifetime}`)
  const rest = options.length > 0 ? ` WITH ${options.join(' AND ')}` : ''
  return `CREATE TABLE ${table.name} (${columns.join(', ')}, PRIMARY KEY (${key}))${rest}`
}

/**
 * An ALTER TABLE; `table` is afterwards as it says, if it is not one of those that are refused.
 *
 * @param {Random} random
 * @param {Table} table
 * @param {Set<import('./kinds.js').Kind>} kinds
 * @returns {string}
 */
export function alterTable(random, table, kinds) {
  const alter = `ALTER TABLE ${table.name}`
  const values = valuesOf(table)
  const type = () => (table.counters ? COUNTER : valueType(random, kinds, table.types))
  const add = () => {
    /** @type {Column} */
    const column = { name: `w${table.added++}`, type: type(), kind: 'regular' }
    const clustered = columnsOf(table, 'clustering').length > 0
    if (kinds.has('statics') && clustered && random.chance(0.3)) column.kind = 'static'
    table.columns.push(column)
    return `${alter} ADD ${column.name} ${column.type.name}${column.kind === 'static' ? ' STATIC' : ''}`
  }
  const drop = () => {
    if (values.length < 2) return add()
    const column = random.pick(values)
    table.columns = table.columns.filter((other) => other !== column)
    table.dropped = [...table.dropped.filter(({ name }) => name !== column.name), column]
    const times = ['', ` USING TIMESTAMP ${random.between(1, TIES_MAX)}`]
    return `${alter} DROP ${column.name}${random.pick(table.times === 'clock' ? [''] : times)}`
  }
  const again = () => {
    const column = table.dropped.pop()
    if (!column) return drop()
    table.columns.push(column)
    const suffix = column.kind === 'static' ? ' STATIC' : ''
    return `${alter} ADD ${column.name} ${column.type.name}${suffix}`
  }
  const rename = () => {
    const column = random.pick(keyOf(table))
    const name = `k${table.added++}`
    const text = `${alter} RENAME ${column.name} TO ${name}`
    column.name = name
    return text
  }
  const refused = () =>
    random.pick([
      `${alter} ADD ${random.pick(table.columns).name} int`,
      `${alter} DROP ${random.pick(keyOf(table)).name}`,
      `${alter} DROP nope`,
      `${alter} DROP IF EXISTS nope`,
      `${alter} RENAME nope TO other`,
      `${alter} RENAME ${random.pick(values).name} TO other`,
      `${alter} RENAME ${random.pick(keyOf(table)).name} TO ${random.pick(values).name}`,
      `${alter} ADD other nope`,
      `${alter} ADD IF NOT EXISTS ${random.pick(table.columns).name} int`,
      `${alter} ALTER ${random.pick(values).name} TYPE blob`,
      `${alter} WITH comment = 'random'`,
      `${alter} WITH nope = 1`,
    ])
  return random.weighted([
    [4, add],
    [4, drop],
    [4, again],
    [2, rename],
    [4, refused],
  ])()
}
