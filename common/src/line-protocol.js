/**
 * InfluxDB line protocol, as Telegraf writes it: a line becomes measurements of one sensor. Pure.
 *
 * ```text
 * line := measurement[,tag=text]* field=value[,field=value]* [time]
 * ```
 *
 * The sensor is the tag `sensor`, where there is one; then the metrics are `measurement.field`, or
 * `measurement` where the field is called `value`. Otherwise the sensor is what InfluxDB calls the
 * series: the measurement with all tags, sorted; and the metrics are the fields.
 *
 * The grammar is that of InfluxData's reference, "Line protocol", version 2.
 */

import { createHash } from 'node:crypto'
import { emptyPayload, refuse, requireSome } from './formats/fields.js'
import { exactNumber } from './json.js'
import { isInt64, KIND } from './measurement.js'
import { checkMetric, checkText, PayloadError, shown } from './payload.js'
import { isSensorName, NAME_LENGTH_MAX, SENSOR_NAME_RULE } from './sensor.js'
import { cut } from './text.js'

/** @typedef {import('./formats/types.js').DecodedPayload} DecodedPayload */
/** @typedef {import('./measurement.js').Value} Value */
/** @typedef {{ name: string, text: string, isQuoted: boolean }} Pair */

/** Zeros that make nanoseconds of a time, by the name that InfluxDB's API has for its unit. */
export const PRECISIONS = new Map([
  ['ns', ''],
  ['n', ''],
  ['us', '000'],
  ['u', '000'],
  ['µ', '000'],
  ['ms', '000000'],
  ['s', '000000000'],
])

/** Characters that a topic level cannot have, and what they become in a sensor's name. */
const SUBSTITUTES = new Map([
  ['/', '∕'],
  ['+', '＋'],
  ['#', '＃'],
])

/** The end of a name that is too long: enough of a hash to tell it from others. */
const HASH_LENGTH = 32

const BOOLEANS = new Map([
  ...['t', 'T', 'true', 'True', 'TRUE'].map((text) => /** @type {const} */ ([text, true])),
  ...['f', 'F', 'false', 'False', 'FALSE'].map((text) => /** @type {const} */ ([text, false])),
])

const FLOAT = /^[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?$/
const INTEGER = /^([-+]?\d+)[iu]$/
/** Before and after a line, and none of it. `trim` would take half of an `à` for a space. */
const PADDING_BEFORE = ' \t\r\ufeff'
const PADDING_AFTER = ' \t\r'

const BLANK = /\s/
const PART = Object.freeze({ none: 0, comment: 1, series: 2, fields: 3 })

/**
 * Splits a body into its lines, without empty ones and comments. A line may go on after a newline
 * that is inside a quoted text.
 *
 * @param {string} body  The grammar is ASCII, so a character for each byte will do as well.
 * @returns {string[]}
 */
export function splitLines(body) {
  /** @type {string[]} */
  const lines = []
  let start = 0
  /** What was begun last: quotes mean something only in the fields. @type {number} */
  let part = PART.none
  let isQuoted = false
  let previous = ''
  for (let at = 0; at <= body.length; at++) {
    const char = body[at]
    if (at === body.length || (char === '\n' && !isQuoted)) {
      const line = withoutPadding(body, start, at)
      if (line !== '' && part !== PART.comment) lines.push(line)
      start = at + 1
      part = PART.none
    } else if (char === '\\') {
      at++
    } else if (char === '"') {
      isQuoted = !isQuoted && part === PART.fields && previous === '='
    } else if (char === ' ' && part === PART.series) {
      part = PART.fields
    }
    if (part === PART.none && !BLANK.test(char ?? ' ')) {
      part = char === '#' ? PART.comment : PART.series
    }
    previous = char
  }
  return lines
}

/**
 * A part of a body without what is around it. An expression that ends in `$` would take time in
 * proportion to the square of a run of spaces: it begins anew at each of them.
 *
 * @param {string} body
 * @param {number} start
 * @param {number} end
 */
function withoutPadding(body, start, end) {
  let [from, to] = [start, end]
  while (from < to && PADDING_BEFORE.includes(body[from])) from++
  while (to > from && PADDING_AFTER.includes(body[to - 1])) to--
  return body.slice(from, to)
}

/**
 * @param {string} line
 * @returns {DecodedPayload & { sensor: string }}  With at least one measurement.
 * @throws {PayloadError}
 */
export function parseLine(line) {
  const reader = new Reader(line)
  const measurement = reader.name(', ')
  if (measurement === '') throw new PayloadError('line', 'the line has no measurement')
  /** @type {Pair[]} */
  const tags = []
  while (reader.takes(',')) tags.push(reader.pair(false))
  reader.space('fields')
  /** @type {Pair[]} */
  const fields = [reader.pair(true)]
  while (reader.takes(',')) fields.push(reader.pair(true))
  const timeMs = timeOf(reader.rest())
  const own = tags.find(({ name }) => name === 'sensor')?.text
  const sensor = nameOf(own ?? seriesKey(measurement, tags))
  const into = emptyPayload()
  into.sensor = sensor
  // No metric is so long: each field is refused without a copy of all of it.
  const prefix = cut(measurement, NAME_LENGTH_MAX + 1)
  for (const field of fields) {
    const named = field.name === 'value' ? measurement : `${prefix}.${field.name}`
    const metric = own === undefined ? field.name : named
    try {
      checkMetric(metric)
      const { kind, value } = fieldValue(metric, field)
      into.measurements.push({ metric, timeMs, kind, value })
    } catch (error) {
      refuse(into, metric, error)
    }
  }
  requireSome(into, 'the line holds no value')
  return /** @type {DecodedPayload & { sensor: string }} */ (into)
}

/** Reads a line from left to right. */
class Reader {
  #at = 0
  #line

  /** @param {string} line */
  constructor(line) {
    this.#line = line
  }

  /** Goes on after a character, if that is the next one. @param {string} char */
  takes(char) {
    if (this.#line[this.#at] !== char) return false
    this.#at++
    return true
  }

  /** @param {string} what  That follows. */
  space(what) {
    if (!this.takes(' ')) throw new PayloadError('line', `the line has no ${what}`)
    while (this.takes(' '));
  }

  /** A name up to one of the characters; a backslash keeps one of them. @param {string} ends */
  name(ends) {
    let text = ''
    for (; this.#at < this.#line.length && !ends.includes(this.#line[this.#at]); this.#at++) {
      const isEscape =
        this.#line[this.#at] === '\\' && ',= '.includes(this.#line[this.#at + 1] ?? 'x')
      if (isEscape) this.#at++
      text += this.#line[this.#at]
    }
    return text
  }

  /**
   * A name, `=` and a text.
   *
   * @param {boolean} isField  Whether a text may be quoted; quotes of tags are part of them.
   * @returns {Pair}
   */
  pair(isField) {
    const name = this.name(',= ')
    if (name === '' || !this.takes('=')) {
      throw new PayloadError(
        'line',
        `key=value is expected at character ${this.#at + 1} of the line`,
      )
    }
    if (isField && this.takes('"')) return { name, text: this.#quoted(), isQuoted: true }
    const text = this.name(', ')
    if (text === '') throw new PayloadError('line', `${shown(name)} has no value`)
    return { name, text, isQuoted: false }
  }

  #quoted() {
    let text = ''
    for (; this.#at < this.#line.length; this.#at++) {
      if (this.takes('"')) return text
      if (this.#line[this.#at] === '\\' && '"\\'.includes(this.#line[this.#at + 1] ?? 'x'))
        this.#at++
      text += this.#line[this.#at]
    }
    throw new PayloadError('line', 'a quoted text has no end')
  }

  rest() {
    return this.#line.slice(this.#at).trim()
  }
}

/** @param {string} measurement  @param {Pair[]} tags */
function seriesKey(measurement, tags) {
  const sorted = tags.map(({ name, text }) => `${name}=${text}`).sort()
  return [measurement, ...sorted].join(',')
}

/** A sensor's name that stands for any text. @param {string} text */
function nameOf(text) {
  const fit = text.replace(/[/+#]/g, (char) => SUBSTITUTES.get(char) ?? char)
  const name = fit.length > NAME_LENGTH_MAX ? hashed(fit, text) : fit
  if (!isSensorName(name)) throw new PayloadError('line', `the sensor ${SENSOR_NAME_RULE}`)
  return name
}

/** The begin of a name that is too long, and a hash. @param {string} fit  @param {string} text */
function hashed(fit, text) {
  const hash = createHash('sha256').update(text).digest('hex').slice(0, HASH_LENGTH)
  return `${cut(fit, NAME_LENGTH_MAX - HASH_LENGTH - 1)}~${hash}`
}

/** @param {string} metric  @param {Pair} field  @returns {{ kind: number, value: Value }} */
function fieldValue(metric, { text, isQuoted }) {
  if (isQuoted) {
    checkText(metric, text)
    return { kind: KIND.text, value: text }
  }
  const truth = BOOLEANS.get(text)
  if (truth !== undefined) return { kind: KIND.boolean, value: truth }
  const integer = INTEGER.exec(text)?.[1]
  if (integer !== undefined) return { kind: KIND.integer, value: integerOf(metric, integer) }
  if (!FLOAT.test(text)) {
    throw new PayloadError('value', `the value of ${metric} is not one of line protocol`)
  }
  const value = Number(text)
  if (Number.isFinite(value)) return { kind: KIND.number, value }
  throw new PayloadError('value', `the value of ${metric} is too large for a double`)
}

/** @param {string} metric  @param {string} text */
function integerOf(metric, text) {
  const value = exactNumber(text)
  if (typeof value === 'bigint' ? isInt64(value) : Number.isSafeInteger(value)) {
    // -0 is no integer.
    return Object.is(value, -0) ? 0 : value
  }
  throw new PayloadError('value', `the value of ${metric} is not a whole number of at most 64 bits`)
}

/** @param {string} text  Nanoseconds since the Unix epoch, or nothing. */
function timeOf(text) {
  if (text === '') return undefined
  if (!/^-?\d{1,19}$/.test(text)) {
    const remedy = 'give a whole number, of nanoseconds unless precision= says other'
    throw new PayloadError('time', `t is not a time but "${shown(text)}": ${remedy}`)
  }
  // Down to the millisecond, also before 1970.
  const ns = BigInt(text)
  const ms = ns / 1_000_000n
  return Number(ms * 1_000_000n > ns ? ms - 1n : ms)
}

/**
 * The same line with its time in nanoseconds, so that it means the same wherever it is read.
 *
 * @param {string} line
 * @param {string} zeros  Of {@link PRECISIONS}.
 */
export function toNanoseconds(line, zeros) {
  return zeros === '' ? line : line.replace(/( -?\d+)$/, `$1${zeros}`)
}
