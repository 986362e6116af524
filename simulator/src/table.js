/**
 * A CSV file of measurements as a user has it: a time column, then one column a metric, with any of
 * the usual separators. Read as a stream, so that its size does not matter.
 *
 * A column is numbers, booleans or text by its first value. A cell that is empty, or says that
 * there is no value, is left out; a row that cannot be understood is reported with its line.
 */

import { createReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { isSensorName } from '@sandglass/common/sensor'
import { parseTime } from '@sandglass/common/time'
import { parse } from 'csv-parse'

/** Most bytes looked at to find the separator: the header has to end within them. */
const HEADER_BYTES_MAX = 65_536

const NO_VALUE = new Set(['', 'na', 'n/a', 'nan', 'null', 'none', '-', '--', '#n/a'])
const BOOLEANS = new Map([
  ['true', true],
  ['false', false],
])

/** Nothing Sandglass stores is older than this, in milliseconds: older times are broken clocks. */
const TIME_MS_MIN = Date.UTC(2000)
/** How far ahead of the present a time may be, in milliseconds. */
const AHEAD_MS_MAX = 86_400_000

/** Names that mean something of their own in a payload. */
const RESERVED = new Set(['t', 'v', 'lat', 'lon'])

/** @typedef {number | boolean | string} Value */
/**
 * @typedef {object} Row
 * @property {number} line
 * @property {string} sensor
 * @property {number} timeMs
 * @property {Record<string, Value>} values  By metric.
 */
/** @typedef {{ line: number, problem: string }} BadRow */

/**
 * @typedef {object} Layout
 * @property {string} [timeColumn]    Name of the time column; the first if not given.
 * @property {string} [sensorColumn]  Name of a column that says which sensor a row is of.
 * @property {string} sensor          The sensor of rows that do not say.
 */

/** The file as a whole cannot be understood. */
export class TableError extends Error {}

/**
 * Reads a file row by row, good ones and bad ones, in the order of the file.
 *
 * @param {string} path
 * @param {Layout} layout
 * @returns {AsyncGenerator<Row | BadRow>}
 * @throws {TableError}  What the file has to be like.
 */
export async function* readTable(path, layout) {
  const delimiter = await findDelimiter(path).catch((error) => {
    throw new TableError(`cannot be read: ${error.message}`)
  })
  const parser = parse({
    delimiter,
    bom: true,
    trim: true,
    info: true,
    skip_empty_lines: true,
    relax_column_count: true,
  })
  const records = createReadStream(path).pipe(parser)
  /** @type {RowReader | undefined} */
  let reader
  try {
    for await (const { record, info } of records) {
      if (reader) yield reader.read(record, info.lines)
      else reader = new RowReader(record, layout, delimiter)
    }
  } catch (error) {
    if (error instanceof TableError) throw error
    const { lines, message } = /** @type {Error & { lines?: number }} */ (error)
    throw new TableError(lines === undefined ? message : `line ${lines}: ${message}`)
  }
  if (!reader) throw new TableError('the file is empty: its first line has to name the columns')
}

/** Turns the cells of a line into a row; remembers what each column holds. */
class RowReader {
  #header
  #layout
  #time
  #sensor
  #decimalComma
  /** @type {Map<number, string>}  Kind of value by column. */
  #kinds = new Map()

  /** @param {string[]} header  @param {Layout} layout  @param {string} delimiter */
  constructor(header, layout, delimiter) {
    this.#header = header
    this.#layout = layout
    this.#decimalComma = delimiter === ';'
    this.#time = layout.timeColumn === undefined ? 0 : this.#column(layout.timeColumn)
    this.#sensor = layout.sensorColumn === undefined ? -1 : this.#column(layout.sensorColumn)
    const metrics = header.filter((_, index) => this.#isMetric(index))
    if (metrics.length === 0) {
      throw new TableError(`no column besides the time: the first line is "${header.join(',')}"`)
    }
    for (const [index, name] of metrics.entries()) {
      if (!isSensorName(name) || RESERVED.has(name) || metrics.indexOf(name) !== index) {
        throw new TableError(
          `"${name}" cannot name a metric: names are unique, of 1 to 128 characters without ` +
            `/ + #, and not ${[...RESERVED].join(', ')}; change it in the first line`,
        )
      }
    }
  }

  /** @param {string[]} record  @param {number} line  @returns {Row | BadRow} */
  read(record, line) {
    if (record.length !== this.#header.length) {
      return { line, problem: `${record.length} cells, but ${this.#header.length} columns` }
    }
    const timeMs = parseTime(record[this.#time])
    if (timeMs === undefined) {
      return { line, problem: `"${record[this.#time]}" is no time that is understood` }
    }
    if (timeMs < TIME_MS_MIN || timeMs > Date.now() + AHEAD_MS_MAX) {
      const time = `"${record[this.#time]}"`
      return { line, problem: `${time} is before the year 2000 or over a day ahead: never stored` }
    }
    const sensor = this.#sensor < 0 ? this.#layout.sensor : record[this.#sensor]
    if (!isSensorName(sensor)) return { line, problem: `"${sensor}" cannot name a sensor` }
    /** @type {Record<string, Value>} */
    const values = {}
    for (const [index, text] of record.entries()) {
      if (!this.#isMetric(index) || NO_VALUE.has(text.toLowerCase())) continue
      const value = this.#value(index, text)
      if (value === undefined) {
        const [name, kind] = [this.#header[index], this.#kinds.get(index)]
        return { line, problem: `"${text}" in column "${name}", which holds a ${kind} elsewhere` }
      }
      values[this.#header[index]] = value
    }
    return { line, sensor, timeMs, values }
  }

  /** @param {number} index  @param {string} text  @returns {Value | undefined} */
  #value(index, text) {
    const number = this.#number(text)
    const value = BOOLEANS.get(text.toLowerCase()) ?? number ?? text
    const kind = this.#kinds.get(index) ?? typeof value
    this.#kinds.set(index, kind)
    if (kind === 'string') return text
    return typeof value === kind ? value : undefined
  }

  /** @param {string} text */
  #number(text) {
    const plain = this.#decimalComma ? text.replace(',', '.') : text
    const value = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(plain) ? Number(plain) : undefined
    return Number.isFinite(value) ? value : undefined
  }

  /** @param {number} index */
  #isMetric(index) {
    return index !== this.#time && index !== this.#sensor
  }

  /** @param {string} name */
  #column(name) {
    const index = this.#header.indexOf(name)
    if (index >= 0) return index
    throw new TableError(`no column "${name}": the first line is "${this.#header.join(',')}"`)
  }
}

/** The separator that occurs most often in the first line. @param {string} path */
async function findDelimiter(path) {
  const file = await open(path)
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(HEADER_BYTES_MAX))
    const [first] = buffer.toString('utf8', 0, bytesRead).split(/\r?\n/, 1)
    const counted = [',', ';', '\t', '|'].map((mark) => ({ mark, n: first.split(mark).length }))
    return counted.reduce((best, one) => (one.n > best.n ? one : best)).mark
  } finally {
    await file.close()
  }
}
