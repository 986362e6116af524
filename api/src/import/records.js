/**
 * The records of a file as it arrives: lines of NDJSON, rows of a CSV. However large the file is,
 * no more of it is in memory than the longest record that is taken.
 *
 * A CSV begins with the names of its columns. Its separator is the one that the first line has most
 * of. The time is in a column `t`, `time` or `timestamp`, or else in the first one.
 */

import { pipeline, Readable } from 'node:stream'
import { columnName, rowObject } from '@sandglass/common/bodies'
import { invalid, Problem } from '@sandglass/common/problem'
import { parse } from 'csv-parse'

/** Longest record, in bytes: a longer one could not be handed on within one body. */
export const RECORD_BYTES_MAX = 524_288

/** Most bytes that are looked through for the end of the first line. */
const HEADER_BYTES_MAX = 65_536

const SEPARATORS = [',', ';', '\t', '|']
const DECIMAL_COMMA = /^[+-]?\d+,\d+$/
const NEWLINE = 10

/**
 * @typedef {object} FileRecord
 * @property {number} line  On which it ends, from 1.
 * @property {Record<string, unknown> | undefined} [object]  Undefined for what is none.
 * @property {string} [fault]  Why it cannot be understood.
 */

/** The file as a whole cannot be read on. */
export class FileError extends Error {}

/** @typedef {AsyncIterable<Uint8Array>} Bytes */

/**
 * @param {Bytes} bytes
 * @returns {AsyncGenerator<FileRecord>}
 */
export async function* ndjsonRecords(bytes) {
  let line = 0
  /** Of the line that has begun. @type {Uint8Array[]} */
  let pieces = []
  let length = 0
  /** @param {Uint8Array} piece */
  const add = (piece) => {
    length += piece.length
    // A line that is too long is only counted.
    if (length <= RECORD_BYTES_MAX) pieces.push(piece)
  }
  const take = () => {
    line += 1
    const record = lineRecord(line, length, pieces)
    pieces = []
    length = 0
    return record
  }
  for await (const chunk of bytes) {
    let from = 0
    for (let to = chunk.indexOf(NEWLINE); to >= 0; to = chunk.indexOf(NEWLINE, from)) {
      add(chunk.subarray(from, to))
      from = to + 1
      const record = take()
      if (record) yield record
    }
    add(chunk.subarray(from))
  }
  const last = take()
  if (last) yield last
}

/**
 * @param {number} line
 * @param {number} length
 * @param {Uint8Array[]} pieces
 * @returns {FileRecord | undefined}  None for an empty line.
 */
function lineRecord(line, length, pieces) {
  if (length > RECORD_BYTES_MAX) return { line, fault: `more than ${RECORD_BYTES_MAX} bytes` }
  const text = Buffer.concat(pieces).toString().trim()
  if (text === '') return undefined
  try {
    const value = JSON.parse(line === 1 ? text.replace(/^\ufeff/, '') : text)
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
    if (isObject) return { line, object: value }
    return { line, fault: 'this is not an object such as {"sensor": "a", "t": 1, "metric": 1}' }
  } catch (error) {
    return { line, fault: `this is not JSON: ${/** @type {Error} */ (error).message}` }
  }
}

/**
 * Reads the first line; the others as they are taken.
 *
 * @param {Bytes} bytes
 * @param {string | undefined} sensor  Of rows in a file without a column `sensor`.
 * @returns {Promise<AsyncGenerator<FileRecord>>}
 * @throws {Problem}  The first line does not name columns that make measurements.
 */
export async function csvRecords(bytes, sensor) {
  const { all, separator } = await separated(bytes)
  const parser = parse({
    delimiter: separator,
    bom: true,
    info: true,
    trim: true,
    relax_column_count: true,
    skip_empty_lines: true,
    max_record_size: RECORD_BYTES_MAX,
  })
  // Its errors come to whoever reads the rows.
  pipeline(Readable.from(all), parser, () => {})
  const rows = parser[Symbol.asyncIterator]()
  const names = await rows
    .next()
    .catch((error) => {
      throw new Problem('invalid-body', `this is not CSV: ${error.message}`)
    })
    .then(({ value, done }) => columnNames(done ? [] : value.record, sensor))
  const hasDecimalComma = separator === ';'
  return csvRows(rows, (/** @type {string[]} */ record) => {
    if (record.length !== names.length) {
      return { fault: `${record.length} cells, but ${names.length} columns` }
    }
    const cells = hasDecimalComma ? record.map(withPoint) : record
    return { object: rowObject(names, cells) }
  })
}

/** @param {string} cell */
function withPoint(cell) {
  return DECIMAL_COMMA.test(cell) ? cell.replace(',', '.') : cell
}

/**
 * @param {AsyncIterableIterator<any>} rows
 * @param {(cells: string[]) => Pick<FileRecord, 'object' | 'fault'>} understand
 * @returns {AsyncGenerator<FileRecord>}
 */
async function* csvRows(rows, understand) {
  try {
    for await (const { record, info } of rows) yield { line: info.lines, ...understand(record) }
  } catch (error) {
    const { code, lines, message } = /** @type {Error & { code?: string, lines?: number }} */ (
      error
    )
    if (!code?.startsWith('CSV_')) throw error
    throw new FileError(`line ${lines}: ${message}`)
  }
}

/**
 * @param {string[]} header
 * @param {string | undefined} sensor
 * @throws {Problem}
 */
function columnNames(header, sensor) {
  const names = header.map(columnName)
  if (!names.includes('t')) names[0] = 't'
  if (!names.includes('sensor') && sensor === undefined) {
    throw invalid('sensor', 'is missing, and the first line of the CSV names no column sensor')
  }
  const twice = names.find((name, index) => names.indexOf(name) !== index)
  if (twice !== undefined) {
    throw new Problem('invalid-body', `two columns of the CSV are called "${twice}"`)
  }
  if (names.every((name) => ['t', 'sensor', 'metric'].includes(name))) {
    throw new Problem('invalid-body', `the CSV has no column of values: ${header.join()}`)
  }
  return names
}

/**
 * The separator of a CSV, and all of its bytes.
 *
 * @param {Bytes} bytes
 */
async function separated(bytes) {
  const source = bytes[Symbol.asyncIterator]()
  /** @type {Uint8Array[]} */
  const read = []
  let length = 0
  for (;;) {
    const { value, done } = await source.next()
    if (done) break
    read.push(value)
    length += value.length
    if (value.includes(NEWLINE) || length > HEADER_BYTES_MAX) break
  }
  const [line] = Buffer.concat(read).toString().split('\n', 1)
  const counts = SEPARATORS.map((mark) => line.split(mark).length)
  const separator = SEPARATORS[counts.indexOf(Math.max(...counts))]
  async function* all() {
    try {
      yield* read
      for (let next = await source.next(); !next.done; next = await source.next()) yield next.value
    } finally {
      await source.return?.()
    }
  }
  return { separator, all: all() }
}
