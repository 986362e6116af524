// A statement while it is written: its values become literals or bind markers.

import { TIES_MAX } from './table.js'
import { listOf } from './types.js'

/**
 * @typedef {import('./random.js').Random} Random
 * @typedef {import('./types.js').Type} Type
 * @typedef {import('./types.js').Value} Value
 * @typedef {import('./table.js').Table} Table
 * @typedef {import('./connection.js').Statement} Statement
 */

/** How often a value is null, unset, empty, or none of its type. */
const NULL = 0.05
const UNSET = 0.03
const EMPTY = 0.02
const WRONG = 0.004

/** Literals of no type that fits most columns. */
const STRANGE = [
  "'strange'",
  '1.25',
  'true',
  '0xabcd',
  '[1]',
  '{1}',
  "{'a': 1}",
  '(1, 2)',
  'nope()',
]

export class Draft {
  /** @type {import('./connection.js').Bound[]} */
  values = []
  /** @type {string | undefined} */
  timestamp
  #bound

  /**
   * @param {Random} random
   * @param {number} [bound]  How many of its values are bound, from 0 to 1.
   */
  constructor(random, bound = random.pick([0, 0, 0.5, 1])) {
    this.random = random
    this.#bound = bound
  }

  /** One of the type's values. @param {Type} type  @param {boolean} [key] @returns {Value} */
  pick(type, key = false) {
    const { random } = this
    if (!key && type.others.length > 0 && random.chance(0.2)) return random.pick(type.others)
    return random.pick(type.values)
  }

  /** That very value. @param {Value} value */
  exactly(value) {
    if (!this.random.chance(this.#bound)) return value.text
    this.values.push(value.bytes.toString('hex'))
    return '?'
  }

  /** A number, such as a limit. @param {number} number  @param {8 | 4} [size] */
  number(number, size = 4) {
    const bytes = Buffer.alloc(8)
    bytes.writeBigInt64BE(BigInt(number))
    return this.exactly({ text: `${number}`, bytes: bytes.subarray(8 - size) })
  }

  /** A value of a key, or one that something is compared with. @param {Type} type */
  key(type) {
    const { random } = this
    if (random.chance(WRONG)) return this.#wrong(type)
    if (random.chance(this.#bound) && random.chance(EMPTY / 2)) return this.#bind('')
    if (random.chance(0.004)) return random.chance(this.#bound) ? this.#bind(null) : 'null'
    return this.exactly(this.pick(type, true))
  }

  /** A value for a column. @param {Type} type */
  value(type) {
    const { random } = this
    if (random.chance(NULL)) return random.chance(this.#bound) ? this.#bind(null) : 'null'
    if (random.chance(WRONG)) return this.#wrong(type)
    if (random.chance(this.#bound)) {
      if (random.chance(UNSET)) return this.#bind('unset')
      if (random.chance(EMPTY) && type.kind === 'atom') return this.#bind('')
    }
    return this.exactly(this.pick(type))
  }

  /** What `IN` compares with: values one by one, or a list that is bound as one.
   * @param {number} count  @param {() => string} value  One of them.
   * @param {Type} [type]  Theirs, if they may be bound as one. */
  oneOf(count, value, type) {
    const { random } = this
    if (type && random.chance(this.#bound / 4)) {
      const items = Array.from({ length: count }, () => this.pick(type, true))
      return `IN ${this.#bind(listOf(items).bytes.toString('hex'))}`
    }
    return `IN (${Array.from({ length: count }, value).join(', ')})`
  }

  /** @param {import('./connection.js').Bound} bound */
  #bind(bound) {
    this.values.push(bound)
    return '?'
  }

  /** @param {Type} type */
  #wrong(type) {
    const { random } = this
    if (!random.chance(this.#bound)) return random.pick(STRANGE)
    // docs/protocol.md: a decimal or a boolean in a key is given back in one form.
    if (/decimal|varint|boolean/.test(type.name)) return this.#bind('unset')
    const { bytes } = this.pick(type)
    // docs/protocol.md: a type with fields is given back with all of them, be they null.
    const cut = type.fields ? 'unset' : '80808080'
    return this.#bind(random.pick([`${bytes.toString('hex')}00`, 'ff', 'unset', cut]))
  }

  /**
   * USING with a timestamp, which may also be that of the driver, and perhaps a time to live.
   *
   * @param {Table} table
   * @param {{ lives?: boolean, inBatch?: boolean, timed?: boolean }} [allowed]
   */
  using(table, { lives = true, inBatch = false, timed = true } = {}) {
    const { random } = this
    if (table.counters) return ''
    const parts = []
    const timestamp = timed ? nextTimestamp(random, table) : undefined
    if (timestamp !== undefined) {
      if (!inBatch && random.chance(0.3)) this.timestamp = `${timestamp}`
      else parts.push(() => `TIMESTAMP ${this.number(timestamp, 8)}`)
    }
    if (lives && random.chance(table.lifetime === undefined ? 0.12 : 0.3)) {
      const lifetime = random.chance(0.2) ? 0 : (table.lifetimes.pop() ?? 0)
      parts.push(() => `TTL ${this.number(lifetime)}`)
    }
    const texts = random.shuffled(parts).map((part) => part())
    return texts.length === 0 ? '' : ` USING ${texts.join(' AND ')}`
  }

  /** LIMIT or PER PARTITION LIMIT, mostly a small number. */
  limit() {
    const { random } = this
    if (random.chance(0.02)) return random.pick(['0', '-1', "'1'", '1.5', 'null'])
    if (random.chance(0.02) && random.chance(this.#bound))
      return this.#bind(random.pick([null, 'unset', '']))
    return this.number(random.between(1, 6))
  }

  /** @param {string} text  @param {Partial<Statement>} [more] @returns {Statement} */
  done(text, more = {}) {
    const { random, values, timestamp } = this
    /** @type {Statement} */
    const statement = { text: random.chance(0.1) ? withNames(text) : text, ...more }
    if (values.length > 0) statement.values = values
    if (timestamp !== undefined) statement.timestamp = timestamp
    if (values.length > 0 ? random.chance(0.8) : random.chance(0.3)) statement.prepare = true
    return statement
  }
}

/** The same with `:name` in place of `?`. @param {string} text */
function withNames(text) {
  let count = 0
  return text.replaceAll('?', () => `:n${count++}`)
}

/** The timestamp of a write, if it says one. @param {Random} random  @param {Table} table */
export function nextTimestamp(random, table) {
  if (table.times === 'clock') return undefined
  if (table.times === 'ties') return random.between(1, TIES_MAX)
  const timestamp = table.timestamps.pop()
  if (timestamp === undefined) throw new Error('more writes than timestamps')
  return timestamp
}
