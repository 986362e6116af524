/**
 * What a body of HTTP says, in any of the formats in which measurements are sent: it is taken apart
 * into items, each of which is stored or refused by itself. Pure.
 *
 * ```text
 * application/json        an object that names its sensor, or an array of these
 * application/x-ndjson    one such object a line
 * text/csv                a header, then one object a row; columns sensor, t, metric and v, or
 *                         sensor, t, and one column a metric
 * text/plain              InfluxDB line protocol
 * ```
 */

import { parse } from 'csv-parse/sync'
import { PRECISIONS, parseLine, splitLines, toNanoseconds } from './line-protocol.js'
import { PayloadError, parseObject } from './payload.js'
import { parseTime } from './time.js'

/** The header in which the api tells ingest in whose name it sends a body. */
export const CLIENT_HEADER = 'x-sandglass-client'

/** @typedef {import('./measurement.js').Measurement} Measurement */

/** How the bytes of an item, or of a message, are to be understood. The numbers are stored. */
export const FORMAT = Object.freeze({ topic: 0, object: 1, line: 2 })

/** Most items of a body: each is held until it is durable, and costs more than its bytes. */
const ITEMS_MAX = 50_000

/** @typedef {{ format: number, payload: Buffer }} Item */

/** @typedef {'json' | 'ndjson' | 'csv' | 'line'} BodyFormat */

/** @type {ReadonlyMap<string, BodyFormat>} */
export const MEDIA_TYPES = new Map([
  ['application/json', 'json'],
  ['application/x-ndjson', 'ndjson'],
  ['application/ndjson', 'ndjson'],
  ['application/jsonl', 'ndjson'],
  ['text/csv', 'csv'],
  ['text/plain', 'line'],
])

/**
 * The format of a body.
 *
 * @param {string | undefined} contentType  The header.
 * @returns {BodyFormat | undefined}
 */
export function bodyFormat(contentType) {
  return MEDIA_TYPES.get((contentType ?? '').split(';')[0].trim().toLowerCase())
}

/**
 * Takes a body apart.
 *
 * @param {BodyFormat} format
 * @param {string} body
 * @param {string} [precision]  Of the times of line protocol, one of {@link PRECISIONS}.
 * @returns {Item[]}
 * @throws {PayloadError}  It cannot be taken apart, and nothing of it is stored.
 */
export function itemsOf(format, body, precision = 'ns') {
  switch (format) {
    case 'json':
      return jsonItems(body)
    case 'ndjson':
      return limited(body.split('\n').filter((line) => line.trim() !== '')).map((line) => ({
        format: FORMAT.object,
        payload: Buffer.from(line),
      }))
    case 'csv':
      return csvItems(body)
    default: {
      const zeros = PRECISIONS.get(precision)
      if (zeros === undefined) {
        const known = [...PRECISIONS.keys()].join(', ')
        throw new PayloadError('time', `precision is none of ${known}`)
      }
      return limited(splitLines(body)).map((line) => ({
        format: FORMAT.line,
        payload: Buffer.from(toNanoseconds(line, zeros)),
      }))
    }
  }
}

/**
 * What an item that needs no topic says.
 *
 * @param {Item} item
 * @returns {{ sensor: string, measurements: Measurement[] }}
 * @throws {PayloadError}
 */
export function parseItem({ format, payload }) {
  return format === FORMAT.line ? parseLine(payload.toString()) : parseObject(payload)
}

/**
 * @template T
 * @param {T[]} items
 * @returns {T[]}
 * @throws {PayloadError}
 */
function limited(items) {
  if (items.length <= ITEMS_MAX) return items
  const fault = `the body has ${items.length} items, more than ${ITEMS_MAX}: send several bodies`
  throw new PayloadError('json', fault)
}

/** @param {unknown} value  @returns {Item} */
const objectItem = (value) => ({
  format: FORMAT.object,
  payload: Buffer.from(JSON.stringify(value)),
})

/** @param {string} body */
function jsonItems(body) {
  /** @type {unknown} */
  let value
  try {
    value = JSON.parse(body)
  } catch (error) {
    const { message } = /** @type {Error} */ (error)
    throw new PayloadError('json', `the body is not JSON: ${message}`)
  }
  return Array.isArray(value) ? limited(value).map(objectItem) : [objectItem(value)]
}

/** @param {string} body */
function csvItems(body) {
  /** @type {string[][]} */
  let rows
  try {
    rows = parse(body, { bom: true, relax_column_count: true, skip_empty_lines: true, trim: true })
  } catch (error) {
    const { message } = /** @type {Error} */ (error)
    throw new PayloadError('json', `the body is not CSV: ${message}`)
  }
  const [header = [], ...more] = rows
  const names = header.map(columnName)
  if (!names.includes('sensor')) {
    throw new PayloadError('topic', 'the first line of the CSV names no column sensor')
  }
  return limited(more).map((cells) =>
    // A row of another length says nothing for certain; as a text it is refused.
    objectItem(cells.length === names.length ? rowObject(names, cells) : cells.join()),
  )
}

/**
 * What a column of a CSV is called in the object that a row becomes.
 *
 * @param {string} title
 */
export function columnName(title) {
  return title === 'time' || title === 'timestamp' ? 't' : title
}

/**
 * A row of a CSV as an object that names its sensor; a cell that is empty is not in it.
 *
 * @param {string[]} names  As {@link columnName} gives them.
 * @param {string[]} cells  As many.
 * @returns {Record<string, unknown>}  `t` is a text where it is no time.
 */
export function rowObject(names, cells) {
  return Object.fromEntries(
    names.flatMap((name, index) => {
      const cell = cells[index]
      return cell === '' ? [] : [[name, cellOf(name, cell)]]
    }),
  )
}

/** A place, as JSON; or the text. @param {string} cell  @returns {unknown} */
function objectOf(cell) {
  try {
    return JSON.parse(cell)
  } catch {
    return cell
  }
}

/** A value by how it is written. @param {string} name  @param {string} cell */
function cellOf(name, cell) {
  if (name === 'sensor' || name === 'metric') return cell
  if (name === 't') return parseTime(cell) ?? cell
  if (cell === 'true' || cell === 'false') return cell === 'true'
  if (cell.startsWith('{')) return objectOf(cell)
  const number = Number(cell)
  return Number.isFinite(number) ? number : cell
}
