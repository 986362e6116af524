/**
 * JSON without loss: integers of up to 64 bits keep their digits, and what is taken apart keeps its
 * text. `JSON.parse` reads most texts: every double and every integer up to 2^53 is exact there.
 * Only a text with a longer number is read again, by `lossless-json`, which leaves each number to
 * its caller. (Node 20 does not show a reviver the source of a number.) Pure.
 */

import { parse } from 'lossless-json'

/** A whole number of so many digits that a double may not hold it. Fractions have as many often. */
const LONG_NUMBER = /(?:^|[^.\d])\d{16}/

/** Longest integer that can have 64 bits, in characters: a sign and 19 digits. */
const INT64_LENGTH_MAX = 20

const WHOLE = /^[-+]?\d+$/

/**
 * Most levels of arrays and objects within each other. No decoder looks at as many as a hundred,
 * and each costs `JSON.parse` as much as many values.
 */
export const JSON_LEVELS_MAX = 1_000

/**
 * The number that a text stands for.
 *
 * @param {string} text  As JSON, line protocol or a CSV spells numbers.
 * @returns {number | bigint}  A bigint for whole numbers beyond 2^53, spelled without a fraction or
 *   an exponent; infinite for what no double can hold.
 */
export function exactNumber(text) {
  const value = Number(text)
  if (Number.isSafeInteger(value) || text.length > INT64_LENGTH_MAX || !WHOLE.test(text)) {
    return value
  }
  return BigInt(text.startsWith('+') ? text.slice(1) : text)
}

/** As `JSON.parse` does: the last of two members of one name. @param {{ newValue: unknown }} of */
const last = ({ newValue }) => newValue

/**
 * What a text says, as `JSON.parse` gives it, except that numbers are as {@link exactNumber} says.
 *
 * @param {string} text
 * @returns {unknown}
 * @throws {SyntaxError}
 */
export function parseJson(text) {
  // A shorter text cannot have so many.
  if (text.length > JSON_LEVELS_MAX && excessOf(text) === 'levels') {
    throw new SyntaxError('it is nested too deep')
  }
  const value = JSON.parse(text)
  if (!LONG_NUMBER.test(text)) return value
  try {
    return parse(text, null, { parseNumber: exactNumber, onDuplicateKey: last })
  } catch (error) {
    // It is read by recursion.
    if (error instanceof RangeError) throw new SyntaxError('it is nested too deep')
    throw error
  }
}

/**
 * The text that {@link parseJson} reads as this value.
 *
 * @param {unknown} value  Of what JSON knows, and bigint, -0 and infinite numbers.
 * @returns {string}
 */
export function jsonText(value) {
  if (typeof value === 'bigint') return `${value}`
  if (typeof value === 'number') return numberText(value)
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map(jsonText).join()}]`
  const members = Object.entries(value).filter(([, member]) => member !== undefined)
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${jsonText(member)}`).join()}}`
}

/** @param {number} value */
function numberText(value) {
  if (Object.is(value, -0)) return '-0'
  if (value === Infinity) return '1e999'
  if (value === -Infinity) return '-1e999'
  return JSON.stringify(value)
}

const [QUOTE, BACKSLASH, COMMA] = [34, 92, 44]
const [OPEN_BRACKET, CLOSE_BRACKET, OPEN_BRACE, CLOSE_BRACE] = [91, 93, 123, 125]

/**
 * The texts of an array's elements, as they stand.
 *
 * @param {string} text  Valid JSON, of an array.
 * @returns {string[]}
 */
export function elementTexts(text) {
  /** @type {string[]} */
  const elements = []
  let depth = 0
  let start = text.indexOf('[') + 1
  const end = text.lastIndexOf(']')
  for (let at = start; at < end; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) at = stringEnd(text, at)
    else if (code === OPEN_BRACKET || code === OPEN_BRACE) depth++
    else if (code === CLOSE_BRACKET || code === CLOSE_BRACE) depth--
    else if (code === COMMA && depth === 0) {
      elements.push(text.slice(start, at).trim())
      start = at + 1
    }
  }
  const final = text.slice(start, end).trim()
  if (final !== '') elements.push(final)
  return elements
}

/**
 * What a text has too much of to be read at once: values, or levels of arrays and objects within
 * each other. Of values the commas are counted, and where arrays and objects begin: one less than
 * there are, or more.
 *
 * @param {string} text  Of JSON, or not.
 * @param {number} [valuesMax]
 * @returns {'values' | 'levels' | undefined}
 */
export function excessOf(text, valuesMax = Number.POSITIVE_INFINITY) {
  let values = 0
  let level = 0
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) at = stringEnd(text, at)
    else if (code === COMMA) values++
    else if (code === CLOSE_BRACKET || code === CLOSE_BRACE) level--
    else if (code === OPEN_BRACKET || code === OPEN_BRACE) {
      values++
      if (++level > JSON_LEVELS_MAX) return 'levels'
    }
    if (values > valuesMax) return 'values'
  }
  return undefined
}

/** Where a string ends that begins here. @param {string} text  @param {number} from */
function stringEnd(text, from) {
  for (let at = from + 1; ; at++) {
    at = text.indexOf('"', at)
    if (at < 0) return text.length
    let first = at
    while (text.charCodeAt(first - 1) === BACKSLASH) first--
    if ((at - first) % 2 === 0) return at
  }
}
