// The statements of an episode: one or two tables, what happens to them, and what is read.
import { Random } from './random.js'
import { anySelect, spoilt } from './select.js'
import { alterTable, anyTable, createTable, valuesOf } from './table.js'
import { createType, userType } from './types.js'
import { anyBatch, anyWrite, shortLived } from './write.js'

/**
 * @typedef {import('./connection.js').Statement} Statement
 *
 * @typedef {Statement | { pause: number } | { restart: 'kill' | 'stop' }} Step  A pause is in
 *   milliseconds.
 */

/** Long enough for what lives a second to be over, on both sides. */
const LIFETIME_OVER_MS = 2500
const ALTERS_MAX = 8

/**
 * @param {string} seed
 * @param {number} number  Which episode of the seed.
 * @param {number} length  Statements.
 * @param {Set<import('./kinds.js').Kind>} kinds
 * @returns {Step[]}
 */
export function anyEpisode(seed, number, length, kinds) {
  const random = new Random(`${seed} ${number}`)
  const names = random.chance(0.8) ? ['T0'] : ['T0', 'T1']
  /** @type {import('./types.js').Type[]} */
  const types = []
  const count = kinds.has('types') && random.chance(0.3) ? random.between(1, 2) : 0
  for (let place = 0; place < count; place++) types.push(userType(random, `U${place}`, [...types]))
  const tables = names.map((name) => anyTable(random, name, kinds, types))
  /** @type {Step[]} */
  const steps = [...types.map(createType), ...tables.map(createTable)].map((text) => ({ text }))
  let alters = 0
  while (steps.length < length) {
    const table = random.pick(tables)
    /** @type {import('./random.js').Weighted<() => Step[]>[]} */
    const ways = [
      [45, () => [anyWrite(random, table, kinds)]],
      [6, () => [anyBatch(random, tables, kinds)]],
      [45, () => [anySelect(random, table)]],
      [5, () => [wrong(random, table, kinds)]],
      [alters < ALTERS_MAX ? 0.6 : 0, () => [{ text: alterTable(random, table, kinds) }]],
      [0.25, () => [truncate(random, table)]],
      [table.counters ? 0 : 0.12, () => expiry(random, table)],
    ]
    const made = random.weighted(ways)()
    if (made.some((step) => 'text' in step && step.text.startsWith('ALTER'))) alters++
    steps.push(...made)
  }
  return steps
}

/** @param {Random} random  @param {import('./table.js').Table} table */
function truncate(random, table) {
  table.ended.clear()
  return { text: `TRUNCATE ${random.pick(['', 'TABLE '])}${table.name}` }
}

/** @param {Random} random  @param {import('./table.js').Table} table
 * @param {Set<import('./kinds.js').Kind>} kinds */
function wrong(random, table, kinds) {
  const writes = table.times === 'clock' || random.chance(0.5)
  const statement = writes ? anyWrite(random, table, kinds) : anySelect(random, table)
  const other = spoilt(random, statement, table)
  const [, deleted = ''] = /^DELETE (.*) FROM /.exec(other.text) ?? []
  for (const { name } of valuesOf(table)) if (deleted.includes(name)) table.ended.add(name)
  return other
}

/** Nothing is read until it is surely over. @param {Random} random
 * @param {import('./table.js').Table} table @returns {Step[]} */
function expiry(random, table) {
  const count = random.between(1, 6)
  const inserts = random.chance(0.3)
  if (inserts) table.expired = true
  const writes = Array.from({ length: count }, () => shortLived(random, table, inserts))
  return [...writes, { pause: LIFETIME_OVER_MS }]
}
