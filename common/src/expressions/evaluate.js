/**
 * Evaluates an expression of JSONata on a payload, within limits that say the same each time:
 * steps, depth and size. What no count can bound, time and memory, the process around it bounds
 * (`child.js`). The same payload gives the same answer whenever it is asked: nothing here knows
 * what time it is.
 */

import jsonata from 'jsonata'
import { readCbor } from '../formats/encoding/cbor.js'
import { readMessagePack } from '../formats/encoding/messagepack.js'
import { jsonOf, PayloadError, shown, textOf } from '../payload.js'
import { OUTCOME } from './envelope.js'
import { compileRegex, LinearRegex } from './linear-regex.js'

/** Most parts of an expression that are evaluated for one payload; a loop counts each round. */
export const STEPS_MAX = 50_000

/** Deepest calls within each other. */
const DEPTH_MAX = 400

/** Longest sequence that an expression makes. */
const SEQUENCE_MAX = 10_000

/** What an expression gives: most bytes as JSON, most values, and deepest levels. */
export const RESULT_BYTES_MAX = 256 * 1024
const RESULT_VALUES_MAX = 10_000
const RESULT_LEVELS_MAX = 16

/** Largest payload, in bytes. */
export const INPUT_BYTES_MAX = 256 * 1024

/** Longest text of what went wrong, in characters. */
const REASON_LENGTH_MAX = 300

/** They would give something else each time. */
const REFUSED_FUNCTIONS = new Map([
  ['now', 'what has no time is of when it was received'],
  ['millis', 'what has no time is of when it was received'],
  ['random', 'the same payload must give the same values'],
  ['shuffle', 'the same payload must give the same values'],
  ['eval', 'a payload may not bring expressions along'],
])

/** @typedef {'json' | 'text' | 'bytes' | 'cbor' | 'messagepack'} Reading */
/** @typedef {{ outcome: number, said: string }} Said */
/** @typedef {{ evaluate: (input: unknown, bindings: object) => Promise<unknown> }} Compiled */

/**
 * What an expression is given, by how its payloads are read.
 *
 * @type {Readonly<Record<Reading, (payload: Buffer) => unknown>>}
 */
const READ = Object.freeze({
  json: jsonOf,
  text: (payload) => textOf(payload, 'value'),
  bytes: (payload) => [...payload],
  cbor: readCbor,
  messagepack: readMessagePack,
})

/** Thrown for what an expression must not do. The message is for who wrote it. */
class ExpressionError extends Error {
  name = 'ExpressionError'
}

/** The moment that JSONata asks for at each evaluation: nobody is told it. */
class NoDate extends Date {}
for (const name of Object.getOwnPropertyNames(Date.prototype)) {
  if (!/^(get|to|valueOf)/.test(name)) continue
  Object.defineProperty(NoDate.prototype, name, {
    value() {
      throw new ExpressionError('a time without its date is refused: it depends on the day')
    },
  })
}

/** As long as JSONata may take the present for a date. */
const RealDate = Date
const DateWithoutNow = new Proxy(RealDate, {
  construct: (of, given) => (given.length === 0 ? new NoDate(0) : Reflect.construct(of, given)),
  get: (of, name) => (name === 'now' ? () => 0 : Reflect.get(of, name)),
})

/** Has nothing in this process know what time it is, or change what expressions share. */
export function harden() {
  globalThis.Date = DateWithoutNow
  Math.random = () => {
    throw new ExpressionError('the same payload must give the same values')
  }
  for (const shared of [Object, Function, String, Number, Boolean, RegExp, Promise, Map]) {
    Object.freeze(shared.prototype)
    Object.freeze(shared)
  }
  // JSONata gives its sequences a `push` of their own, which must not be frozen before.
  for (const name of Object.getOwnPropertyNames(Array.prototype)) {
    if (name === 'push' || name === 'length') continue
    Object.defineProperty(Array.prototype, name, { writable: false, configurable: false })
  }
  Object.preventExtensions(Array.prototype)
  for (const shared of [Array, Math, JSON, Reflect]) Object.freeze(shared)
}

/**
 * @param {string} text
 * @returns {Compiled}
 * @throws {ExpressionError}
 */
export function compile(text) {
  let steps = 0
  const options = { RegexEngine: LinearRegex, stack: DEPTH_MAX, sequence: SEQUENCE_MAX }
  /** @type {any} */
  let compiled
  try {
    compiled = jsonata(text, /** @type {any} */ (options))
    requireFit(compiled.ast())
  } catch (error) {
    throw new ExpressionError(reasonOf(error))
  }
  compiled.assign(Symbol.for('jsonata.__evaluate_entry'), () => {
    if (++steps > STEPS_MAX) {
      throw new ExpressionError(`the expression takes more than ${STEPS_MAX} steps`)
    }
  })
  return {
    evaluate(input, bindings) {
      steps = 0
      return compiled.evaluate(input, bindings)
    },
  }
}

/** Refuses what an expression must not ask for. @param {unknown} node  Of its tree. */
function requireFit(node) {
  if (typeof node !== 'object' || node === null) return
  if (node instanceof RegExp) {
    compileRegex(node)
    return
  }
  const { type, value } = /** @type {{ type?: unknown, value?: unknown }} */ (node)
  const why = type === 'variable' ? REFUSED_FUNCTIONS.get(String(value)) : undefined
  if (why !== undefined) throw new ExpressionError(`$${value} is refused: ${why}`)
  for (const part of Object.values(node)) requireFit(part)
}

/**
 * @param {Compiled} compiled
 * @param {Reading} reading
 * @param {Buffer} payload
 * @param {{ topic: string, sensor?: string, metric?: string }} place  `$topic`, `$sensor`,
 *   `$metric` of the expression.
 * @returns {Promise<Said>}
 */
export async function evaluate(compiled, reading, payload, { topic, sensor, metric }) {
  try {
    if (payload.length > INPUT_BYTES_MAX) {
      return refused(`this has more than ${INPUT_BYTES_MAX} bytes, too many for an expression`)
    }
    const result = await compiled.evaluate(READ[reading](payload), { topic, sensor, metric })
    return saidOf(result)
  } catch (error) {
    if (error instanceof PayloadError) return refused(error.message)
    return refused(`the expression fails: ${reasonOf(error)}`)
  }
}

/** @param {string} reason  @returns {Said} */
export function refused(reason) {
  return { outcome: OUTCOME.refused, said: shown(reason, REASON_LENGTH_MAX) }
}

/** @param {unknown} value */
function namesSensor(value) {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  return Object.hasOwn(value, 'sensor')
}

/** @param {unknown} result  @returns {Said} */
function saidOf(result) {
  if (result === null) return { outcome: OUTCOME.nothing, said: '' }
  if (result === undefined || isFunction(result)) {
    return refused('the expression gives nothing: give null where a message is no measurement')
  }
  if (Array.isArray(result) && result.some(namesSensor)) {
    return refused('its array names sensors: a message is of one, so give one object')
  }
  const outcome = namesSensor(result) ? OUTCOME.record : OUTCOME.value
  const budget = { values: RESULT_VALUES_MAX, bytes: RESULT_BYTES_MAX }
  return { outcome, said: textOfResult(result, budget, 0) }
}

/**
 * JSON of what an expression gives. What no JSON can be is an empty array: no measurement, so that
 * the field is refused, and named.
 *
 * @param {unknown} value
 * @param {{ values: number, bytes: number }} budget  What is left.
 * @param {number} level
 * @returns {string}
 */
function textOfResult(value, budget, level) {
  if (--budget.values < 0) {
    throw new ExpressionError(`it gives more than ${RESULT_VALUES_MAX} values`)
  }
  if (level > RESULT_LEVELS_MAX) {
    throw new ExpressionError(`it gives more than ${RESULT_LEVELS_MAX} levels`)
  }
  if (typeof value !== 'object' || value === null || isFunction(value)) {
    return spend(scalarText(value), budget)
  }
  if (Array.isArray(value)) {
    const parts = []
    for (const one of value) parts.push(textOfResult(one, budget, level + 1))
    return `[${parts.join()}]`
  }
  const parts = []
  for (const [name, member] of Object.entries(value)) {
    if (member === undefined) continue
    const key = spend(JSON.stringify(name), budget)
    parts.push(`${key}:${textOfResult(member, budget, level + 1)}`)
  }
  return `{${parts.join()}}`
}

/** As JSONata has them: its own are objects. @param {unknown} value */
function isFunction(value) {
  if (typeof value !== 'object' || value === null) return typeof value === 'function'
  return '_jsonata_function' in value || '_jsonata_lambda' in value
}

/** @param {unknown} value  @returns {string} */
function scalarText(value) {
  const isText = typeof value === 'string' && value.length <= RESULT_BYTES_MAX
  if (isText || typeof value === 'boolean' || value === null) return JSON.stringify(value)
  if (typeof value === 'bigint') return `${value}`
  if (typeof value === 'string') {
    throw new ExpressionError(`it gives more than ${RESULT_BYTES_MAX} bytes`)
  }
  // JSON would make a null of it, which was not measured.
  if (typeof value !== 'number' || !Number.isFinite(value)) return '[]'
  return Object.is(value, -0) ? '-0' : `${value}`
}

/** @param {string} text  @param {{ bytes: number }} budget */
function spend(text, budget) {
  budget.bytes -= 3 * text.length <= budget.bytes ? text.length : Buffer.byteLength(text)
  if (budget.bytes < 0) {
    throw new ExpressionError(`it gives more than ${RESULT_BYTES_MAX} bytes`)
  }
  return text
}

/** What went wrong, for who wrote the expression. @param {unknown} error  @returns {string} */
function reasonOf(error) {
  const { message, position } = /** @type {{ message?: unknown, position?: unknown }} */ (
    error ?? {}
  )
  if (error instanceof RangeError) return 'it is nested too deep, or makes too much'
  const text = typeof message === 'string' && message !== '' ? message : 'for no known reason'
  return typeof position === 'number' ? `${text} (at character ${position})` : text
}
