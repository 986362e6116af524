// The types of CQL, each with the few values that random statements use: few, so that they meet.

/**
 * @typedef {object} Value
 * @property {string} text  As a literal.
 * @property {Buffer} bytes  As it is bound.
 *
 * @typedef {object} Type
 * @property {string} name  As CREATE TABLE says it.
 * @property {'atom' | 'list' | 'set' | 'map' | 'tuple' | 'fields'} kind
 * @property {Type[]} of  What a collection or tuple, or a type with fields, is made of.
 * @property {string[]} [fields]  Their names.
 * @property {boolean} frozen  False of a collection with elements of their own.
 * @property {Value[]} values  In their order, if it is an atom.
 * @property {Value[]} others  More, not for keys: equal ones that are written differently.
 */

/** @typedef {import('./random.js').Random} Random */

/** @param {number} size  @param {bigint} number */
function integer(size, number) {
  const bytes = Buffer.alloc(8)
  bytes.writeBigInt64BE(number)
  return bytes.subarray(8 - size)
}

/** The shortest two's complement. @param {bigint} number */
function varint(number) {
  let size = 1
  while (BigInt.asIntN(8 * size, number) !== number) size++
  const hex = BigInt.asUintN(8 * size, number).toString(16)
  return Buffer.from(hex.padStart(2 * size, '0'), 'hex')
}

/** @param {string} text */
function decimal(text) {
  const [whole, fraction = ''] = text.split('.')
  return Buffer.concat([integer(4, BigInt(fraction.length)), varint(BigInt(whole + fraction))])
}

/** @param {string} text  @param {'writeDoubleBE' | 'writeFloatBE'} write  @param {number} size */
function floating(text, write, size) {
  const bytes = Buffer.alloc(size)
  bytes[write](Number(text))
  return bytes
}

/** @param {string} text */
const quoted = (text) => `'${text.replaceAll("'", "''")}'`

/** @param {number} size  @param {(number | bigint)[]} numbers @returns {Value[]} */
const integers = (size, ...numbers) =>
  numbers.map((number) => ({ text: `${number}`, bytes: integer(size, BigInt(number)) }))

/** @param {...string} texts @returns {Value[]} */
const strings = (...texts) =>
  texts.map((text) => ({ text: quoted(text), bytes: Buffer.from(text) }))

/** @param {...string} texts @returns {Value[]} */
const uuids = (...texts) =>
  texts.map((text) => ({ text, bytes: Buffer.from(text.replaceAll('-', ''), 'hex') }))

/** @param {...[string, string]} pairs  Literals with their bytes. @returns {Value[]} */
const pairs = (...pairs) => pairs.map(([text, hex]) => ({ text, bytes: Buffer.from(hex, 'hex') }))

/** @param {string[]} texts  @param {(text: string) => Buffer} bytes @returns {Value[]} */
const numbers = (texts, bytes) => texts.map((text) => ({ text, bytes: bytes(text) }))

const DAY_ZERO = 1n << 31n
const FLOATS = ['-Infinity', '-1.5', '0.0', '1.5', '1000.0', 'NaN']

/** @param {string} text */
const double = (text) => floating(text, 'writeDoubleBE', 8)
/** @param {string} text */
const float = (text) => floating(text, 'writeFloatBE', 4)

/** @type {Record<string, [Value[], Value[]?]>} Those for keys in their order, and others. */
const ATOMS = {
  ascii: [strings('', 'B', 'a', 'ab', "it's")],
  bigint: [integers(8, -(1n << 63n), -1, 0, 1, (1n << 63n) - 1n)],
  blob: [pairs(['0x', ''], ['0x00', '00'], ['0x0001', '0001'], ['0x7f', '7f'], ['0xFF', 'ff'])],
  boolean: [pairs(['false', '00'], ['true', '01'])],
  date: [
    [
      { text: "'1969-12-31'", bytes: integer(4, DAY_ZERO - 1n) },
      { text: "'1970-01-01'", bytes: integer(4, DAY_ZERO) },
      { text: '2147483649', bytes: integer(4, DAY_ZERO + 1n) },
      { text: "'2026-11-21'", bytes: integer(4, DAY_ZERO + 20_778n) },
    ],
  ],
  decimal: [
    numbers(['-1.5', '-0.001', '0', '0.1', '1', '1.5', '10000000000'], decimal),
    numbers(['1.0', '0.00', '1.50'], decimal),
  ],
  double: [numbers(FLOATS, double), numbers(['-0.0'], double)],
  duration: [
    pairs(
      ['0s', '000000'],
      ['1mo', '020000'],
      ['1d', '000200'],
      ['-1d', '000100'],
      ['P1Y2M', '1c0000'],
    ),
  ],
  float: [numbers(FLOATS, float), numbers(['-0.0'], float)],
  inet: [
    pairs(
      ["'::1'", '00000000000000000000000000000001'],
      ["'10.0.0.1'", '0a000001'],
      ["'127.0.0.1'", '7f000001'],
      ["'255.0.0.1'", 'ff000001'],
    ),
  ],
  int: [integers(4, -2147483648, -1, 0, 1, 2, 2147483647)],
  smallint: [integers(2, -32768, -1, 0, 1, 32767)],
  text: [strings('', 'B', 'a', 'ab', "it's", 'ä')],
  time: [
    [
      { text: "'00:00:00'", bytes: integer(8, 0n) },
      { text: '1', bytes: integer(8, 1n) },
      { text: "'09:59:59.999999999'", bytes: integer(8, 35_999_999_999_999n) },
    ],
  ],
  timestamp: [
    [
      { text: '-1', bytes: integer(8, -1n) },
      { text: "'1970-01-01'", bytes: integer(8, 0n) },
      { text: '1', bytes: integer(8, 1n) },
      { text: "'2026-11-21T01:02:03.456Z'", bytes: integer(8, 1_795_222_923_456n) },
    ],
  ],
  timeuuid: [
    uuids(
      '50554d6e-29bb-11e4-b345-feff819cdc9f',
      '00554d6e-29bb-11e5-b345-feff819cdc9f',
      '50554d6e-29bb-11e5-b345-feff819cdc9f',
      '50554d6e-29bb-11e5-b345-7eff819cdc9f',
      '50554d6e-29bb-11e5-7345-feff819cdc9f',
    ),
  ],
  tinyint: [integers(1, -128, -1, 0, 1, 127)],
  uuid: [
    uuids(
      'f0554d6e-29bb-11e4-b345-feff819cdc9f',
      '50554d6e-29bb-11e5-b345-feff819cdc9f',
      '00554d6e-29bb-31e5-b345-feff819cdc9f',
      '00554d6e-29bb-41e5-b345-feff819cdc9f',
      'f0554d6e-29bb-41e5-b345-feff819cdc9f',
    ),
  ],
  varint: [
    numbers(['-123456789012345678901234567890', '-129', '-1', '0', '1', '128', '256'], (text) =>
      varint(BigInt(text)),
    ),
  ],
}

/** @param {string} name @returns {Type} */
export function atom(name) {
  const [values, others = []] = ATOMS[name]
  return { name, kind: 'atom', of: [], frozen: true, values, others }
}

/** @type {Type} Not among the others: a table has only counters, or none. */
export const COUNTER = {
  name: 'counter',
  kind: 'atom',
  of: [],
  frozen: true,
  values: integers(8, -1, 0, 1, 2, 1000),
  others: [],
}

const NAMES = Object.keys(ATOMS)

/** @param {(Buffer | undefined)[]} parts  Each with its length before it; undefined is null. */
function sized(parts) {
  return Buffer.concat(
    parts.flatMap((part) => {
      const length = Buffer.alloc(4)
      length.writeInt32BE(part?.length ?? -1)
      return part ? [length, part] : [length]
    }),
  )
}

/** @param {number} count  @param {Buffer[]} parts */
function counted(count, parts) {
  const length = Buffer.alloc(4)
  length.writeInt32BE(count)
  return Buffer.concat([length, sized(parts)])
}

/** @param {Value[]} items @returns {Value} */
export function listOf(items) {
  return {
    text: `[${items.map(({ text }) => text).join(', ')}]`,
    bytes: counted(
      items.length,
      items.map(({ bytes }) => bytes),
    ),
  }
}

/** @param {Value[]} items  In order, without repetitions. @returns {Value} */
export function setOf(items) {
  return { text: `{${items.map(({ text }) => text).join(', ')}}`, bytes: listOf(items).bytes }
}

/** @param {[Value, Value][]} entries  In the order of their keys. @returns {Value} */
export function mapOf(entries) {
  return {
    text: `{${entries.map(([key, value]) => `${key.text}: ${value.text}`).join(', ')}}`,
    bytes: counted(
      entries.length,
      entries.flatMap(([key, value]) => [key.bytes, value.bytes]),
    ),
  }
}

/** @param {(Value | undefined)[]} items @returns {Value} */
function tupleOf(items) {
  return {
    text: `(${items.map((item) => item?.text ?? 'null').join(', ')})`,
    bytes: sized(items.map((item) => item?.bytes)),
  }
}

/**
 * A few values in order, for a set or the keys of a map: of a type whose order is not known here,
 * one at most.
 *
 * @param {Random} random
 * @param {Type} type
 */
export function ordered(random, type) {
  if (type.kind !== 'atom') return random.chance(0.3) ? [] : [random.pick(type.values)]
  return random.some(type.values, 0.4).slice(0, 3)
}

/** @param {Random} random  @param {Type} type  @param {number} [most] */
export function anyOf(random, type, most = 3) {
  return Array.from({ length: random.below(most + 1) }, () => random.pick(type.values))
}

/** @param {string} name  @param {boolean} frozen */
const named = (name, frozen) => (frozen ? `frozen<${name}>` : name)

/** Some value of a collection or tuple. @param {Random} random
 * @param {Type['kind']} kind  @param {Type[]} of @returns {Value} */
function composed(random, kind, of) {
  if (kind === 'list') return listOf(anyOf(random, of[0]))
  if (kind === 'set') return setOf(ordered(random, of[0]))
  if (kind === 'tuple') {
    return tupleOf(of.map((type) => (random.chance(0.2) ? undefined : random.pick(type.values))))
  }
  return mapOf(ordered(random, of[0]).map((key) => [key, random.pick(of[1].values)]))
}

/**
 * @param {Random} random
 * @param {object} wish
 * @param {number} [wish.depth]  How deep it may be nested.
 * @param {boolean} [wish.ordered]  Whether it must do for a key.
 * @param {boolean} [wish.frozen]  False for a collection with elements of their own.
 * @returns {Type}
 */
export function anyType(random, { depth = 1, ordered: key = false, frozen = true }) {
  if (frozen && (depth === 0 || random.chance(0.75))) {
    return atom(random.pick(key ? NAMES.filter((name) => name !== 'duration') : NAMES))
  }
  const kinds = /** @type {Type['kind'][]} */ (['list', 'set', 'map'])
  const kind = random.pick(frozen ? [...kinds, /** @type {const} */ ('tuple')] : kinds)
  const inner = { depth: depth - 1, ordered: key }
  /** @type {Type[]} */
  const of = [anyType(random, { ...inner, ordered: key || kind === 'set' || kind === 'map' })]
  if (kind === 'map' || (kind === 'tuple' && random.chance(0.7))) of.push(anyType(random, inner))
  const name = named(`${kind}<${of.map((type) => type.name).join(', ')}>`, frozen)
  /** @type {Map<string, Value>} */
  const values = new Map()
  for (let attempt = 0; attempt < 6; attempt++) {
    const value = composed(random, kind, of)
    values.set(value.bytes.toString('hex'), value)
  }
  return { name, kind, of, frozen, values: [...values.values()], others: [] }
}

/** A type that CREATE TYPE makes. @param {Random} random  @param {string} name
 * @param {Type[]} others  Those that may be in it. @returns {Type} */
export function userType(random, name, others) {
  const of = Array.from({ length: random.between(1, 3) }, () =>
    others.length > 0 && random.chance(0.3)
      ? random.pick(others)
      : anyType(random, { depth: 1, ordered: true }),
  )
  const fields = of.map((_, place) => `f${place}`)
  /** @type {Map<string, Value>} */
  const values = new Map()
  for (let attempt = 0; attempt < 6; attempt++) {
    const items = of.map((type) => (random.chance(0.2) ? undefined : random.pick(type.values)))
    const text = fields.map((field, place) => `${field}: ${items[place]?.text ?? 'null'}`)
    const { bytes } = tupleOf(items)
    values.set(bytes.toString('hex'), { text: `{${text.join(', ')}}`, bytes })
  }
  const all = [...values.values()]
  return {
    name: named(name, true),
    kind: 'fields',
    of,
    fields,
    frozen: true,
    values: all,
    others: [],
  }
}

/** The statement that makes it. @param {Type} type */
export function createType({ name, of, fields = [] }) {
  const list = fields.map((field, place) => `${field} ${of[place].name}`)
  return `CREATE TYPE ${bare(name)} (${list.join(', ')})`
}

/** @param {string} name */
const bare = (name) => name.replace(/^frozen<(.*)>$/, '$1')

/** With elements of its own. @param {Type} type @returns {Type} */
export const thawed = (type) => ({ ...type, name: bare(type.name), frozen: false })
