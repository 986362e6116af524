/**
 * The records of a file as it arrives: lines of NDJSON, rows of a CSV. However large the file is,
 * no more of it is in memory than the longest record that is taken.
 *
 * A CSV begins with the names of its columns. Its separator is the one that the first line has most
 * of. The time is in a column `t`, `time` or `timestamp`, or else in the first one.
 */

import { pipeline, Readable } from 'node:stream'
import { columnNames, columnsOf, csvOptions, rowObject, separatorOf } from '@sandglass/common/csv'
import { parseJson } from '@sandglass/common/json'
import { PayloadError, textOf } from '@sandglass/common/payload'
import { invalid, Problem } from '@sandglass/common/problem'
import { parse } from 'csv-parse'

/** Longest record, in bytes: a longer one could not be handed on within one body. */
export const RECORD_BYTES_MAX = 524_288

/** Most bytes that are looked through for the end of the first line. */
const HEADER_BYTES_MAX = 65_536

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
  try {
    const text = textOf(Buffer.concat(pieces), 'json').trim()
    if (text === '') return undefined
    const value = parseJson(text)
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
    if (isObject) return { line, object: /** @type {Record<string, unknown>} */ (value) }
    return { line, fault: 'this is not an object such as {"sensor": "a", "t": 1, "metric": 1}' }
  } catch (error) {
    const { message } = /** @type {Error} */ (error)
    return { line, fault: error instanceof PayloadError ? message : `this is not JSON: ${message}` }
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
  const check = new Utf8Check()
  const { all, separator } = await separated(check.through(bytes))
  const parser = parse({
    ...csvOptions(separator),
    info: true,
    max_record_size: RECORD_BYTES_MAX,
  })
  // Its errors come to whoever reads the rows.
  pipeline(Readable.from(all), parser, () => {})
  const rows = parser[Symbol.asyncIterator]()
  const { value, done } = await rows.next().catch((error) => {
    throw new Problem('invalid-body', `this is not CSV: ${error.message}`)
  })
  const columns = columnsOfFile(done ? [] : value.record, separator, sensor)
  const { length } = columns.names
  const kindAt = columns.names.indexOf('kind')
  return csvRows(rows, (/** @type {string[]} */ row) => {
    if (row.length !== length) return { fault: `${row.length} cells, but ${length} columns` }
    if (!check.isWhole && row.some((cell) => cell.includes(REPLACEMENT))) {
      return { fault: 'this is not UTF-8' }
    }
    if (columns.isLong && row[kindAt] === ABOUT) return aboutOf(row, columns.names)
    return { object: rowObject(columns, row) }
  })
}

/** What the column `kind` says of a row that tells of a sensor, as an export begins with one. */
const ABOUT = 'about'

/**
 * @param {string[]} row
 * @param {string[]} names
 * @returns {Pick<FileRecord, 'object' | 'fault'>}
 */
function aboutOf(row, names) {
  const [sensor, text] = [row[names.indexOf('sensor')], row[names.indexOf('v')]]
  try {
    return { object: { sensor, about: parseJson(text) } }
  } catch {
    return { fault: 'v is not JSON, which a row of kind about has' }
  }
}

/** What stands in a text for bytes that are no character. */
const REPLACEMENT = '\ufffd'

/** Finds out whether bytes are UTF-8 while they go by; the text alone does not tell. */
class Utf8Check {
  /** Whether all so far were. */
  isWhole = true

  /** @param {Bytes} bytes  @returns {AsyncGenerator<Uint8Array>} */
  async *through(bytes) {
    const decoder = new TextDecoder('utf-8', { fatal: true })
    for await (const chunk of bytes) {
      try {
        if (this.isWhole) decoder.decode(chunk, { stream: true })
      } catch {
        this.isWhole = false
      }
      yield chunk
    }
  }
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
 * @param {string} separator
 * @param {string | undefined} sensor
 * @throws {Problem}
 */
function columnsOfFile(header, separator, sensor) {
  try {
    const names = columnNames(header)
    if (!names.includes('t')) names[0] = 't'
    if (!names.includes('sensor') && sensor === undefined) {
      throw invalid('sensor', 'is missing, and the first line of the CSV names no column sensor')
    }
    if (names.every((name) => ['t', 'sensor', 'metric'].includes(name))) {
      throw new Problem('invalid-body', `the CSV has no column of values: ${names.join()}`)
    }
    return columnsOf(names, separator)
  } catch (error) {
    if (!(error instanceof PayloadError)) throw error
    throw new Problem('invalid-body', error.message)
  }
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
  async function* all() {
    try {
      yield* read
      for (let next = await source.next(); !next.done; next = await source.next()) yield next.value
    } finally {
      await source.return?.()
    }
  }
  return { separator: separatorOf(line), all: all() }
}
