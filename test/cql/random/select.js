// Random SELECT statements, and what is wrong on purpose.
import { Draft } from './draft.js'
import { columnsOf, keyOf, valuesOf } from './table.js'
import { equalOrIn, range, ranged, several } from './write.js'

/**
 * @typedef {import('./random.js').Random} Random
 * @typedef {import('./table.js').Table} Table
 * @typedef {import('./table.js').Column} Column
 * @typedef {import('./connection.js').Statement} Statement
 */

const PAGE_SIZE_MAX = 10

/** @param {Draft} draft  @param {Table} table */
function selection(draft, table) {
  const { random } = draft
  // docs/protocol.md: then it matters to Cassandra what is asked for.
  if (table.expired) return '*'
  const kind = random.weighted([
    [8, 'all'],
    [6, 'columns'],
    [2, 'distinct'],
    [3, 'aggregate'],
  ])
  if (kind === 'all') return '*'
  if (kind === 'distinct') return distinct(random, table)
  if (kind === 'aggregate') {
    const count = random.between(1, 3)
    return Array.from({ length: count }, () => aggregate(random, table)).join(', ')
  }
  const columns = random.shuffled(random.some(table.columns, 0.6))
  const chosen = columns.length > 0 ? columns : [random.pick(table.columns)]
  return chosen.map((column) => selected(draft, table, column)).join(', ')
}

/** @param {Random} random  @param {Table} table */
function distinct(random, table) {
  const statics = random.some(columnsOf(table, 'static'))
  const columns = [...columnsOf(table, 'partition'), ...statics]
  const names = random.chance(0.95) ? columns : random.some(table.columns, 0.5)
  return `DISTINCT ${(names.length > 0 ? names : columns).map(({ name }) => name).join(', ')}`
}

/** @param {Random} random  @param {Table} table */
function aggregate(random, table) {
  const { name } = random.pick(table.columns)
  const text = random.pick([
    'count(*)',
    'count(1)',
    `count(${name})`,
    `min(${name})`,
    `max(${name})`,
  ])
  if (random.chance(0.25)) {
    const numbers = table.columns.filter(({ type }) => /int$|^(float|double)$/.test(type.name))
    if (numbers.length > 0) return `${random.pick(['sum', 'avg'])}(${random.pick(numbers).name})`
  }
  return text
}

/** @param {Draft} draft  @param {Table} table  @param {Column} column */
function selected(draft, table, { name, kind, type }) {
  const { random } = draft
  const alias = random.chance(0.1) ? ' AS other' : ''
  const ofKey = kind === 'partition' || kind === 'clustering'
  if ((!ofKey || random.chance(0.01)) && table.times !== 'clock' && random.chance(0.35)) {
    const of = random.pick(['writetime', 'writetime', 'maxwritetime'])
    return `${of}(${partOf(draft, { name, type })})${alias}`
  }
  if (!ofKey && !table.counters && random.chance(0.15)) {
    return `ttl(${partOf(draft, { name, type })})`
  }
  if (kind === 'partition' && random.chance(0.15)) {
    const names = columnsOf(table, 'partition').map((column) => column.name)
    return `token(${names.join(', ')})${alias}`
  }
  return `${partOf(draft, { name, type })}${alias}`
}

/** A column, or a field, an element or several of it. @param {Draft} draft
 * @param {Pick<Column, 'name' | 'type'>} column */
function partOf(draft, { name, type }) {
  const { random } = draft
  if (!random.chance(0.3)) return name
  if (type.fields) return `${name}.${random.pick(type.fields)}`
  if (!/set|map/.test(type.kind)) return name
  if (random.chance(0.6)) return `${name}[${draft.key(type.of[0])}]`
  const lower = random.chance(0.8) ? draft.key(type.of[0]) : ''
  const upper = random.chance(0.8) ? draft.key(type.of[0]) : ''
  return `${name}[${lower}..${upper}]`
}

/** Relations of the partition key. @param {Draft} draft  @param {Table} table
 * @returns {string[]} */
function partition(draft, table) {
  const { random } = draft
  const columns = columnsOf(table, 'partition')
  const names = columns.map(({ name }) => name).join(', ')
  const equal = () => columns.map(({ name, type }) => `${name} = ${draft.key(type)}`)
  const oneOf = () =>
    columns.map(({ name, type }) =>
      random.chance(0.7) ? within(draft, name, type) : `${name} = ${draft.key(type)}`,
    )
  const token = () => {
    if (random.chance(0.5)) {
      const place = () => draft.number(random.pick([0, -4_000_000_000_000_000, 1e15]), 8)
      return [range(draft, `token(${names})`, place)]
    }
    const place = () => `token(${columns.map(({ type }) => draft.key(type)).join(', ')})`
    return [range(draft, `token(${names})`, place)]
  }
  const some = () => random.some(columns).map(({ name, type }) => `${name} = ${draft.key(type)}`)
  return random.weighted([
    [9, equal],
    [3, oneOf],
    [2, token],
    [1, some],
    [5, () => []],
  ])()
}

/** @param {Draft} draft  @param {string} name  @param {import('./types.js').Type} type */
function within(draft, name, type) {
  const count = draft.random.weighted([
    [1, 0],
    [4, 1],
    [8, 2],
    [6, 3],
  ])
  return `${name} ${draft.oneOf(count, () => draft.key(type), type)}`
}

/** Relations of clustering columns. @param {Draft} draft  @param {Table} table
 * @returns {string[]} */
function clustering(draft, table) {
  const { random } = draft
  const columns = columnsOf(table, 'clustering')
  const length = random.below(columns.length + 1)
  const texts = columns
    .slice(0, length)
    .map(({ name, type }) =>
      random.chance(0.2) ? within(draft, name, type) : `${name} = ${draft.key(type)}`,
    )
  const rest = columns.slice(length)
  if (rest.length > 0 && random.chance(0.7)) {
    const ways = [() => range(draft, rest[0].name, () => draft.key(rest[0].type))]
    if (random.chance(0.5)) {
      ways.push(
        () => several(draft, rest, ranged),
        () => several(draft, rest, equalOrIn),
      )
    }
    texts.push(random.pick(ways)())
  }
  // Relations that do not go together, or stand in another order.
  if (columns.length > 0 && random.chance(0.08)) {
    const some = columns.slice(random.below(columns.length))
    const [{ name, type }] = some
    const ways = [
      () => several(draft, some, ranged),
      () => several(draft, some, equalOrIn),
      () => `${name} = ${draft.key(type)}`,
      () => range(draft, name, () => draft.key(type)),
      () => within(draft, name, type),
    ]
    texts.push(random.pick(ways)())
    return random.shuffled(texts)
  }
  return texts
}

/** A relation of any column. @param {Draft} draft  @param {Table} table @returns {string} */
function filter(draft, table) {
  const { random } = draft
  const { name, type } = random.pick(random.chance(0.7) ? valuesOf(table) : table.columns)
  if (type.kind === 'map' && random.chance(0.2)) {
    return `${name}[${draft.key(type.of[0])}] = ${draft.key(type.of[1])}`
  }
  if (/list|set|map/.test(type.kind) && random.chance(type.frozen ? 0.4 : 0.9)) {
    if (type.kind === 'map' && random.chance(0.5)) {
      return `${name} CONTAINS KEY ${draft.key(type.of[0])}`
    }
    return `${name} CONTAINS ${draft.key(type.of.at(-1) ?? type)}`
  }
  return random.weighted([
    [4, () => `${name} = ${draft.key(type)}`],
    [2, () => range(draft, name, () => draft.key(type))],
    [1, () => within(draft, name, type)],
  ])()
}

/** @param {Random} random  @param {Table} table */
function order(random, table) {
  const columns = columnsOf(table, 'clustering')
  if (columns.length === 0) return ''
  const reversed = random.chance(0.6)
  const some = columns.slice(0, random.between(1, columns.length))
  const texts = some.map((column) => {
    const descends = reversed !== (column.reversed ?? false)
    const other = random.chance(0.03)
    return `${column.name} ${descends !== other ? 'DESC' : 'ASC'}`
  })
  return ` ORDER BY ${texts.join(', ')}`
}

/** @param {Random} random  @param {Table} table @returns {Statement} */
export function anySelect(random, table) {
  const draft = new Draft(random)
  let text = `SELECT ${selection(draft, table)} FROM ${table.name}`
  const relations = [...partition(draft, table)]
  if (random.chance(relations.length > 0 ? 0.6 : 0.15)) relations.push(...clustering(draft, table))
  const filters = random.chance(0.15) ? [filter(draft, table)] : []
  if (filters.length > 0 && random.chance(0.2)) filters.push(filter(draft, table))
  relations.push(...filters)
  if (relations.length > 0) text += ` WHERE ${relations.join(' AND ')}`
  if (random.chance(relations.length > 0 ? 0.2 : 0.01)) text += order(random, table)
  if (random.chance(0.12)) text += ` PER PARTITION LIMIT ${draft.limit()}`
  if (random.chance(0.2)) text += ` LIMIT ${draft.limit()}`
  if (random.chance(filters.length > 0 ? 0.92 : 0.35)) text += ' ALLOW FILTERING'
  const pageSize = random.chance(0.45) ? undefined : random.between(1, PAGE_SIZE_MAX)
  return draft.done(text, pageSize === undefined ? {} : { pageSize })
}

/**
 * A statement with one word too few, too many or of its own, or with other values than it asks for.
 *
 * @param {Random} random
 * @param {Statement} statement
 * @param {Table} table
 * @returns {Statement}
 */
export function spoilt(random, statement, table) {
  const words = statement.text.match(/'(?:[^']|'')*'|"[^"]*"|:?[\w.-]+|\S/g) ?? []
  const at = random.below(words.length)
  const names = [...keyOf(table), ...valuesOf(table)].map(({ name }) => name)
  const isLifetime = words[at - 1] === 'TTL'
  /** @type {Statement} */
  const other = { ...statement }
  const replace = (/** @type {string[]} */ ...by) => {
    other.text = [...words.slice(0, at), ...by, ...words.slice(at + 1)].join(' ')
    return other
  }
  return random.pick([
    () => replace(),
    () => replace(words[at], words[at]),
    () => (isLifetime ? replace('nope') : replace(random.pick([...names, 'nope', 'T9']))),
    () => (/^[\d'-]/.test(words[at]) && !isLifetime ? replace('[1]') : replace('nope')),
    () => ({ ...other, values: (other.values ?? []).slice(1) }),
    () => ({ ...other, values: [...(other.values ?? []), '00'] }),
  ])()
}
