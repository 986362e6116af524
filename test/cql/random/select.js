// Random SELECT statements, and what is wrong on purpose.
import { Draft } from './draft.js'
import { columnsOf, keyOf, valuesOf } from './table.js'
import { range } from './write.js'

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
    return `writetime(${name})${alias}`
  }
  if (!ofKey && !table.counters && random.chance(0.15)) return `ttl(${name})`
  if (kind === 'partition' && random.chance(0.15)) {
    const names = columnsOf(table, 'partition').map((column) => column.name)
    return `token(${names.join(', ')})${alias}`
  }
  if (type.fields && random.chance(0.3)) return `${name}.${random.pick(type.fields)}${alias}`
  if (/set|map/.test(type.kind) && !type.frozen && random.chance(0.3)) {
    if (random.chance(0.6)) return `${name}[${draft.key(type.of[0])}]${alias}`
    const ends = [draft.key(type.of[0]), '..', draft.key(type.of[0])]
    return `${name}[${ends.filter((end) => end === '..' || random.chance(0.8)).join('')}]${alias}`
  }
  return `${name}${alias}`
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
  return `${name} IN (${Array.from({ length: count }, () => draft.key(type)).join(', ')})`
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
  if (rest.length === 0 || random.chance(0.3)) return texts
  if (random.chance(0.3)) {
    const several = rest.slice(0, random.between(1, rest.length))
    const names = `(${several.map(({ name }) => name).join(', ')})`
    const tuple = () => `(${several.map(({ type }) => draft.key(type)).join(', ')})`
    const ways = [
      () => range(draft, names, tuple),
      () => `${names} = ${tuple()}`,
      () => `${names} IN (${tuple()}, ${tuple()})`,
    ]
    return [...texts, random.pick(ways)()]
  }
  return [...texts, range(draft, rest[0].name, () => draft.key(rest[0].type))]
}

/** A relation of any column. @param {Draft} draft  @param {Table} table @returns {string} */
function filter(draft, table) {
  const { random } = draft
  const { name, type } = random.pick(random.chance(0.7) ? valuesOf(table) : table.columns)
  if (/list|set|map/.test(type.kind) && random.chance(0.4)) {
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
