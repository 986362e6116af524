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
import { KIND } from './measurement.js'
import { checkMetric, checkText, PayloadError } from './payload.js'
import { isSensorName, NAME_LENGTH_MAX, SENSOR_NAME_RULE } from './sensor.js'

/** @typedef {import('./measurement.js').Measurement} Measurement */
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

const FLOAT = /^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$/
const INTEGER = /^([-+]?\d+)[iu]$/
const INT64_MIN = -(2n ** 63n)
const INT64_MAX = 2n ** 63n - 1n

/**
 * Splits a body into its lines, without empty ones and comments. A line may go on after a newline
 * that is inside a quoted text.
 *
 * @param {string} body
 * @returns {string[]}
 */
export function splitLines(body) {
  /** @type {string[]} */
  const lines = []
  let start = 0
  let isQuoted = false
  for (let at = 0; at <= body.length; at++) {
    const char = body[at]
    if (char === '\\') at++
    else if (char === '"') isQuoted = !isQuoted && isValueStart(body, at)
    else if (at === body.length || (char === '\n' && !isQuoted)) {
      const line = body.slice(start, at).trim()
      if (line !== '' && !line.startsWith('#')) lines.push(line)
      start = at + 1
    }
  }
  return lines
}

/** Whether a quote begins a text, rather than being part of a name. */
/** @param {string} body  @param {number} at */
function isValueStart(body, at) {
  return body[at - 1] === '='
}

/**
 * @param {string} line
 * @returns {{ sensor: string, measurements: Measurement[] }}
 * @throws {PayloadError}
 */
export function parseLine(line) {
  const reader = new Reader(line)
  const measurement = reader.name(', ')
  if (measurement === '') throw new PayloadError('line', 'the line has no measurement')
  /** @type {Pair[]} */
  const tags = []
  while (reader.takes(',')) tags.push(reader.pair())
  reader.space('fields')
  /** @type {Pair[]} */
  const fields = [reader.pair()]
  while (reader.takes(',')) fields.push(reader.pair())
  const timeMs = timeOf(reader.rest())
  const own = tags.find(({ name }) => name === 'sensor')?.text
  const sensor = nameOf(own ?? seriesKey(measurement, tags))
  const measurements = fields.map((field) => {
    const named = field.name === 'value' ? measurement : `${measurement}.${field.name}`
    const metric = own === undefined ? field.name : named
    checkMetric(metric)
    return { metric, timeMs, ...fieldValue(metric, field) }
  })
  return { sensor, measurements }
}

/** Reads a line from left to right. */
class Reader {
  /** @private */
  at = 0

  /** @param {string} line */
  constructor(line) {
    /** @private */
    this.line = line
  }

  /** Goes on after a character, if that is the next one. @param {string} char */
  takes(char) {
    if (this.line[this.at] !== char) return false
    this.at++
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
    for (; this.at < this.line.length && !ends.includes(this.line[this.at]); this.at++) {
      const isEscape = this.line[this.at] === '\\' && ',= '.includes(this.line[this.at + 1] ?? 'x')
      if (isEscape) this.at++
      text += this.line[this.at]
    }
    return text
  }

  /** A name, `=` and a text. @returns {Pair} */
  pair() {
    const name = this.name(',= ')
    if (name === '' || !this.takes('=')) {
      throw new PayloadError(
        'line',
        `key=value is expected at character ${this.at + 1} of the line`,
      )
    }
    if (this.takes('"')) return { name, text: this.quoted(), isQuoted: true }
    const text = this.name(', ')
    if (text === '') throw new PayloadError('line', `${name} has no value`)
    return { name, text, isQuoted: false }
  }

  /** @private */
  quoted() {
    let text = ''
    for (; this.at < this.line.length; this.at++) {
      if (this.takes('"')) return text
      if (this.line[this.at] === '\\' && '"\\'.includes(this.line[this.at + 1] ?? 'x')) this.at++
      text += this.line[this.at]
    }
    throw new PayloadError('line', 'a quoted text has no end')
  }

  rest() {
    return this.line.slice(this.at).trim()
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
  const name = fit.length > NAME_LENGTH_MAX ? shortened(fit, text) : fit
  if (!isSensorName(name)) throw new PayloadError('line', `the sensor ${SENSOR_NAME_RULE}`)
  return name
}

/** The begin of a name that is too long, and a hash. @param {string} fit  @param {string} text */
function shortened(fit, text) {
  const hash = createHash('sha256').update(text).digest('hex').slice(0, HASH_LENGTH)
  // Half of a character that was cut in two is left out.
  const begin = fit.slice(0, NAME_LENGTH_MAX - HASH_LENGTH - 1).replace(/[\ud800-\udbff]$/, '')
  return `${begin}~${hash}`
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
  const value = Number(text)
  if (FLOAT.test(text) && Number.isFinite(value)) return { kind: KIND.number, value }
  throw new PayloadError('value', `the value of ${metric} is not one of line protocol`)
}

/** @param {string} metric  @param {string} text */
function integerOf(metric, text) {
  const value = Number(text)
  if (Number.isSafeInteger(value)) return value
  const exact = BigInt(text.replace('+', ''))
  if (exact < INT64_MIN || exact > INT64_MAX) {
    throw new PayloadError('value', `the value of ${metric} has more than 64 bits`)
  }
  return exact
}

/** @param {string} text  Nanoseconds since the Unix epoch, or nothing. */
function timeOf(text) {
  if (text === '') return undefined
  if (!/^-?\d{1,19}$/.test(text)) {
    throw new PayloadError('time', 'the time is not a whole number of nanoseconds')
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
