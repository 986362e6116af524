// Random INSERT, UPDATE and DELETE, alone and in batches.
import { Draft, nextTimestamp } from './draft.js'
import { columnsOf, keyOf, valuesOf } from './table.js'
import { anyOf, atom, listOf, mapOf, ordered, setOf } from './types.js'

/**
 * @typedef {import('./random.js').Random} Random
 * @typedef {import('./table.js').Table} Table
 * @typedef {import('./table.js').Column} Column
 * @typedef {import('./types.js').Type} Type
 * @typedef {import('./connection.js').Statement} Statement
 * @typedef {Set<import('./kinds.js').Kind>} Kinds
 *
 * @typedef {object} Place
 * @property {boolean} [inBatch]  Then it cannot have a timestamp of the driver's.
 * @property {boolean} [plain]  Then without a condition, and without a time to live.
 * @property {boolean} [timed]  False in a batch that has a timestamp.
 */

const INT = atom('int')

/** @param {Draft} draft  @param {Table} table  @param {Kinds} kinds  @param {Place} place
 * @returns {string} */
function insert(draft, table, kinds, { inBatch, plain, timed }) {
  const { random } = draft
  const forgets = random.chance(0.005)
  const key = keyOf(table).filter(() => !forgets || random.chance(0.7))
  const statics = valuesOf(table).filter(({ kind }) => kind === 'static')
  // A row of static columns alone has no clustering columns.
  const alone = statics.length > 0 && random.chance(0.15)
  const rest = alone ? statics : random.some(valuesOf(table), 0.6)
  const columns = [...(alone ? key.filter(({ kind }) => kind === 'partition') : key), ...rest]
  const shuffled = random.chance(0.3) ? random.shuffled(columns) : columns
  if (shuffled.length === 0) return insert(draft, table, kinds, { inBatch, plain, timed })
  const names = shuffled.map(({ name }) => name).join(', ')
  const values = shuffled.map((column) =>
    /partition|clustering/.test(column.kind) ? draft.key(column.type) : draft.value(column.type),
  )
  const start = `INSERT INTO ${table.name} (${names}) VALUES (${values.join(', ')})`
  const conditional = isConditional(random, table, kinds, plain)
  const condition = conditional ? ' IF NOT EXISTS' : ''
  return `${start}${condition}${draft.using(table, { inBatch, timed, lives: !plain })}`
}

/** @param {Random} random  @param {Table} table  @param {Kinds} kinds  @param {boolean} [plain] */
function isConditional(random, table, kinds, plain) {
  return !plain && kinds.has('conditions') && table.times === 'clock' && !table.counters
    ? random.chance(0.35)
    : false
}

/** @param {Draft} draft  @param {Table} table  @param {Kinds} kinds  @param {Place} place */
function update(draft, table, kinds, { inBatch, plain, timed }) {
  const { random } = draft
  const all = valuesOf(table).filter(({ name }) => !(table.counters && table.ended.has(name)))
  if (all.length === 0) return remove(draft, table, kinds, { inBatch, plain, timed })
  const statics = all.filter(({ kind }) => kind === 'static')
  const alone = statics.length > 0 && random.chance(0.2)
  const some = random.some(alone ? statics : all, 0.5)
  const columns = some.length > 0 ? some : [random.pick(alone ? statics : all)]
  const using = draft.using(table, { inBatch, timed, lives: !plain })
  const set = columns.map((column) => assignment(draft, column, kinds)).join(', ')
  const where = alone ? partition(draft, table, kinds) : row(draft, table, rowsOf(columns, kinds))
  const when = isConditional(random, table, kinds, plain) ? condition(draft, table) : ''
  return `UPDATE ${table.name}${using} SET ${set} WHERE ${where}${when}`
}

/** docs/protocol.md: what is added to a list that is static. @param {Column[]} columns
 * @param {Kinds} kinds */
function rowsOf(columns, kinds) {
  const isAdded = columns.some(
    ({ kind, type }) => kind === 'static' && type.kind === 'list' && !type.frozen,
  )
  return new Set([...kinds].filter((kind) => !(isAdded && kind === 'severalRows')))
}

/** @param {Draft} draft  @param {Column} column  @param {Kinds} kinds @returns {string} */
function assignment(draft, { name, type }, kinds) {
  const { random } = draft
  if (type.name === 'counter') {
    if (random.chance(0.01)) return `${name} = ${draft.value(type)}`
    const sign = random.pick(['+', '-'])
    const start = random.chance(0.3) ? `${name} ${sign}=` : `${name} = ${name} ${sign}`
    return `${start} ${draft.value(type)}`
  }
  if (type.frozen || random.chance(0.25)) return `${name} = ${draft.value(type)}`
  if (type.fields) {
    const place = random.below(type.fields.length)
    return `${name}.${type.fields[place]} = ${draft.value(type.of[place])}`
  }
  const some = () => draft.exactly(part(random, type))
  const ways = [() => `${name} = ${name} + ${some()}`, () => `${name} += ${some()}`]
  if (type.kind === 'list') {
    ways.push(() => `${name} = ${some()} + ${name}`)
    if (kinds.has('places')) {
      ways.push(
        () => `${name} = ${name} - ${some()}`,
        () => `${name}[${draft.number(random.below(3))}] = ${draft.value(type.of[0])}`,
      )
    }
  } else if (type.kind === 'set') {
    ways.push(
      () => `${name} = ${name} - ${some()}`,
      () => `${name} -= ${some()}`,
    )
  } else {
    const keys = () => draft.exactly(setOf(ordered(random, type.of[0])))
    ways.push(
      () => `${name} = ${name} - ${keys()}`,
      () => `${name}[${draft.key(type.of[0])}] = ${draft.value(type.of[1])}`,
    )
  }
  return random.pick(ways)()
}

/** Some elements of a collection. @param {Random} random
 * @param {import('./types.js').Type} type */
function part(random, { kind, of }) {
  if (kind === 'list') return listOf(anyOf(random, of[0], 2))
  if (kind === 'set') return setOf(ordered(random, of[0]))
  return mapOf(ordered(random, of[0]).map((key) => [key, random.pick(of[1].values)]))
}

/** The relation of a column of the key in a write. @param {Draft} draft  @param {Column} column
 * @param {Kinds} kinds */
function equal(draft, { name, type }, kinds) {
  const { random } = draft
  if (kinds.has('severalRows') && random.chance(0.06)) {
    const exact = () => draft.exactly(random.pick(type.values))
    return `${name} ${draft.oneOf(random.between(0, 3), exact, type)}`
  }
  return `${name} = ${draft.key(type)}`
}

/** A relation of several columns that follow each other, from the first on. @param {Draft} draft
 * @param {Column[]} columns
 * @param {(draft: Draft, names: string, tuple: () => string) => string} relation */
export function several(draft, columns, relation) {
  const some = columns.slice(0, draft.random.between(1, columns.length))
  const names = `(${some.map(({ name }) => name).join(', ')})`
  return relation(draft, names, () => `(${some.map(({ type }) => draft.key(type)).join(', ')})`)
}

/** @param {Draft} draft  @param {string} names  @param {() => string} tuple */
export function equalOrIn(draft, names, tuple) {
  if (draft.random.chance(0.5)) return `${names} = ${tuple()}`
  return `${names} ${draft.oneOf(draft.random.between(1, 2), tuple)}`
}

/** @param {Draft} draft  @param {string} names  @param {() => string} tuple */
export const ranged = (draft, names, tuple) => range(draft, names, tuple)

/** @param {Draft} draft  @param {Table} table  @param {Kinds} kinds */
function partition(draft, table, kinds) {
  return columnsOf(table, 'partition')
    .map((column) => equal(draft, column, kinds))
    .join(' AND ')
}

/** @param {Draft} draft  @param {Table} table  @param {Kinds} kinds */
function row(draft, table, kinds) {
  const { random } = draft
  const forgets = random.chance(0.005)
  const columns = keyOf(table).filter(() => !forgets || random.chance(0.7))
  const known = columns.length > 0 ? columns : keyOf(table)
  const clustering = known.filter(({ kind }) => kind === 'clustering')
  const together = kinds.has('severalRows') && clustering.length > 0 && random.chance(0.06)
  const alone = together ? known.filter((column) => !clustering.includes(column)) : known
  const texts = alone.map((column) => equal(draft, column, kinds))
  if (together) texts.push(several(draft, clustering, equalOrIn))
  return texts.join(' AND ')
}

/** A bound of a range, or both, on a column. @param {Draft} draft  @param {string} what
 * @param {() => string} value */
export function range(draft, what, value) {
  const { random } = draft
  const lower = () => `${what} ${random.pick(['>', '>='])} ${value()}`
  const upper = () => `${what} ${random.pick(['<', '<='])} ${value()}`
  return random.weighted([
    [3, lower],
    [3, upper],
    [4, () => `${lower()} AND ${upper()}`],
  ])()
}

/** Rows that have a part of the key. @param {Draft} draft  @param {Table} table
 * @param {Kinds} kinds */
function severalRows(draft, table, kinds) {
  const { random } = draft
  const clustering = columnsOf(table, 'clustering')
  const length = random.below(clustering.length)
  const texts = [partition(draft, table, kinds)]
  for (const column of clustering.slice(0, length)) texts.push(equal(draft, column, kinds))
  const next = clustering[length]
  const rest = clustering.slice(length)
  if (random.chance(0.25)) texts.push(several(draft, rest, ranged))
  else if (random.chance(0.8)) texts.push(range(draft, next.name, () => draft.key(next.type)))
  if (random.chance(0.03)) texts.push(equal(draft, random.pick(clustering), kinds))
  return texts.join(' AND ')
}

/** @param {Draft} draft  @param {Table} table  @param {Kinds} kinds  @param {Place} place */
function remove(draft, table, kinds, { inBatch, plain, timed }) {
  const { random } = draft
  const clustered = columnsOf(table, 'clustering').length > 0
  const what = random.weighted([
    [4, 'row'],
    [3, 'columns'],
    [2, 'partition'],
    [clustered && kinds.has('ranges') ? 4 : 0, 'range'],
  ])
  const all = valuesOf(table).filter(
    // Few counters end, as what is deleted by its name is not counted again.
    ({ name }) => !table.counters || table.ended.has(name) || random.chance(0.05),
  )
  const some = random.some(all, 0.4)
  const columns = some.length > 0 ? some : [random.pick(all.length > 0 ? all : valuesOf(table))]
  if (what === 'columns') for (const { name } of columns) table.ended.add(name)
  const names = columns.map((column) => element(draft, column, kinds)).join(', ')
  const start = `DELETE${what === 'columns' ? ` ${names}` : ''} FROM ${table.name}`
  const using = draft.using(table, { inBatch, timed, lives: false })
  const statics = columns.every(({ kind }) => kind === 'static')
  const where = () => {
    if (what === 'range') return severalRows(draft, table, kinds)
    if (what === 'partition' || (what === 'columns' && statics)) {
      return partition(draft, table, kinds)
    }
    return row(draft, table, kinds)
  }
  const text = `${start}${using} WHERE ${where()}`
  const may = what !== 'range' && isConditional(random, table, kinds, plain)
  return `${text}${may ? condition(draft, table) : ''}`
}

/** A column, or an element of it. @param {Draft} draft  @param {Column} column
 * @param {Kinds} kinds */
function element(draft, { name, type }, kinds) {
  if (type.frozen || draft.random.chance(0.3)) return name
  if (type.fields) return `${name}.${draft.random.pick(type.fields)}`
  if (type.kind === 'list') {
    return kinds.has('places') ? `${name}[${draft.number(draft.random.below(3))}]` : name
  }
  return `${name}[${draft.key(type.of[0])}]`
}

/** @param {Draft} draft  @param {Table} table */
function condition(draft, table) {
  const { random } = draft
  if (random.chance(0.25)) return ' IF EXISTS'
  const some = random.some(valuesOf(table), 0.3)
  const columns = some.length > 0 ? some : [random.pick(valuesOf(table))]
  const one = (/** @type {Column} */ { name, type }) => {
    const compared = (/** @type {string} */ what, /** @type {Type} */ of) => {
      if (random.chance(0.1)) return `${what} ${draft.oneOf(2, () => draft.key(of), of)}`
      if (random.chance(0.15)) return `${what} ${random.pick(['=', '!='])} null`
      return `${what} ${random.pick(['=', '=', '!=', '<', '>='])} ${draft.key(of)}`
    }
    if (type.fields && random.chance(0.5)) {
      const place = random.below(type.fields.length)
      return compared(`${name}.${type.fields[place]}`, type.of[place])
    }
    if (type.kind === 'map' && random.chance(0.4)) {
      return compared(`${name}[${draft.key(type.of[0])}]`, type.of[1])
    }
    if (type.kind === 'list' && random.chance(0.4)) {
      return compared(`${name}[${draft.exactly(random.pick(INT.values))}]`, type.of[0])
    }
    if (/^(list|set|map)$/.test(type.kind) && random.chance(0.2)) {
      if (type.kind === 'map' && random.chance(0.5)) {
        return `${name} CONTAINS KEY ${draft.key(type.of[0])}`
      }
      return `${name} CONTAINS ${draft.key(type.of[type.kind === 'map' ? 1 : 0])}`
    }
    return compared(name, type)
  }
  return ` IF ${columns.map(one).join(' AND ')}`
}

/** @param {Draft} draft  @param {Table} table  @param {Kinds} kinds  @param {Place} place */
function write(draft, table, kinds, place) {
  const make = draft.random.weighted([
    [table.counters ? 0.05 : 5, insert],
    [4, update],
    [2.5, remove],
  ])
  return make(draft, table, kinds, place)
}

/** @param {Random} random  @param {Table} table  @param {Kinds} kinds */
export function anyWrite(random, table, kinds) {
  const draft = new Draft(random)
  return draft.done(write(draft, table, kinds, {}))
}

/** A write whose values live for a second. @param {Random} random  @param {Table} table
 * @param {boolean} inserts  Whether it may be an INSERT. */
export function shortLived(random, table, inserts) {
  const draft = new Draft(random, 0)
  const kinds = /** @type {Kinds} */ (new Set(['rows']))
  const place = { inBatch: true, plain: true }
  const text = (inserts ? write : update)(draft, table, kinds, place)
  if (!/^(INSERT|UPDATE)/.test(text)) return draft.done(text)
  if (text.includes(' USING ')) return draft.done(text.replace(' USING ', ' USING TTL 1 AND '))
  return draft.done(
    text.startsWith('INSERT') ? `${text} USING TTL 1` : text.replace(' SET ', ' USING TTL 1 SET '),
  )
}

/**
 * Several writes in one, as text or by the message that drivers send.
 *
 * @param {Random} random
 * @param {Table[]} tables
 * @param {Kinds} kinds
 * @returns {Statement}
 */
export function anyBatch(random, tables, kinds) {
  const table = random.pick(tables)
  // Counters and other columns are not changed in one batch.
  const suited = tables.filter(({ counters }) => counters === table.counters)
  const own = table.times === 'clock' ? suited.filter(({ times }) => times === 'clock') : [table]
  const count = random.between(1, 5)
  const mixed = kinds.has('counters') && random.chance(0.01)
  const batch = mixed
    ? random.pick(/** @type {const} */ (['logged', 'counter']))
    : table.counters
      ? 'counter'
      : random.pick(/** @type {const} */ (['logged', 'unlogged']))
  const shared = random.chance(0.3) ? nextTimestamp(random, table) : undefined
  const place = { inBatch: true, plain: random.chance(0.8), timed: shared === undefined }
  if (random.chance(0.5)) {
    const children = Array.from({ length: count }, () => {
      const draft = new Draft(random)
      return draft.done(write(draft, random.pick(own), kinds, place))
    })
    /** @type {Statement} */
    const statement = { text: '', batch, children }
    if (shared !== undefined) statement.timestamp = `${shared}`
    return statement
  }
  const draft = new Draft(random)
  const kind = { logged: '', unlogged: 'UNLOGGED ', counter: 'COUNTER ' }[batch]
  const using = shared === undefined ? '' : `USING TIMESTAMP ${draft.number(shared, 8)} `
  const texts = Array.from({ length: count }, () => write(draft, random.pick(own), kinds, place))
  return draft.done(`BEGIN ${kind}BATCH ${using}${texts.join('; ')}; APPLY BATCH`)
}
