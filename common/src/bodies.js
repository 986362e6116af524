/**
 * What a body of HTTP says, in any of the formats in which measurements are sent: it is taken apart
 * into items, each of which is stored or refused by itself. Pure.
 *
 * ```text
 * application/json        an object that names its sensor, or an array of these
 * application/x-ndjson    one such object a line
 * text/csv                a header, then one object a row: csv.js
 * text/plain              InfluxDB line protocol
 * application/cbor        what application/json takes, in CBOR
 * application/msgpack     the same in MessagePack; also application/vnd.msgpack and x-msgpack
 * application/senml+json  a SenML pack, which is one item
 * application/senml+cbor  the same in CBOR
 * ```
 */

import { parse } from 'csv-parse/sync'
import { columnNames, columnsOf, csvOptions, rowObject, separatorOf } from './csv.js'
import { cborObject } from './formats/cbor.js'
import { cborElements } from './formats/encoding/cbor.js'
import { Budget } from './formats/encoding/elements.js'
import { messagePackElements } from './formats/encoding/messagepack.js'
import { json, jsonObject } from './formats/json.js'
import { line } from './formats/line.js'
import { messagepackObject } from './formats/messagepack.js'
import { decode } from './formats/registry.js'
import { senmlCbor } from './formats/senml-cbor.js'
import { senmlJson } from './formats/senml-json.js'
import { elementTexts, excessOf, JSON_LEVELS_MAX, jsonText } from './json.js'
import { PRECISIONS, splitLines, toNanoseconds } from './line-protocol.js'
import { PayloadError, shown, textOf } from './payload.js'

/** The header in which the api tells ingest in whose name it sends a body. */
export const CLIENT_HEADER = 'x-sandglass-client'

/** In an answer without a body: how many sensors keep another class than was asked for. */
export const KEPT_HEADER = 'sandglass-kept-sensors'

/** Most dead letters that one request replays. */
export const REPLAY_MAX = 1_000

/** How the bytes of an item, or of a message, are to be understood. The numbers are stored. */
export const FORMAT = Object.freeze({
  topic: json.number,
  object: jsonObject.number,
  line: line.number,
})

/** Most items of a body: each is held until it is durable, and costs more than its bytes. */
const ITEMS_MAX = 50_000

/** Most values of JSON, CBOR or MessagePack: while more are read, nobody else is served. */
const VALUES_MAX = 500_000

/** Most bytes of the rows of a CSV as objects: each row repeats the names of its columns. */
const ROWS_BYTES_MAX = 32 * 2 ** 20

const NEWLINE = 10

/** Bytes of which an empty line may consist. */
const BLANKS = new Set([9, 11, 12, 13, 32])

/** @typedef {{ format: number, payload: Buffer }} Item */

/**
 * @typedef {'json' | 'ndjson' | 'csv' | 'line' | 'cbor' | 'messagepack' | 'senml-json'
 *   | 'senml-cbor'} BodyFormat
 */

/** @type {ReadonlyMap<string, BodyFormat>} */
export const MEDIA_TYPES = new Map([
  ['application/json', 'json'],
  ['application/x-ndjson', 'ndjson'],
  ['application/ndjson', 'ndjson'],
  ['application/jsonl', 'ndjson'],
  ['text/csv', 'csv'],
  ['text/plain', 'line'],
  ['application/cbor', 'cbor'],
  ['application/msgpack', 'messagepack'],
  ['application/vnd.msgpack', 'messagepack'],
  ['application/x-msgpack', 'messagepack'],
  ['application/senml+json', 'senml-json'],
  ['application/senml+cbor', 'senml-cbor'],
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
 * Takes a body apart. Items are the bytes that came, so that nothing is lost before an item is
 * understood: only the rows of a CSV become objects.
 *
 * @param {BodyFormat} format
 * @param {Buffer | string} bytes
 * @param {string} [precision]  Of the times of line protocol, one of {@link PRECISIONS}.
 * @returns {Item[]}
 * @throws {PayloadError}  It cannot be taken apart, and nothing of it is stored.
 */
export function itemsOf(format, bytes, precision = 'ns') {
  const body = typeof bytes === 'string' ? Buffer.from(bytes) : bytes
  switch (format) {
    case 'json':
      return jsonItems(body)
    case 'ndjson':
      return limited(linesOf(body)).map((payload) => ({ format: FORMAT.object, payload }))
    case 'csv':
      return csvItems(body)
    case 'cbor':
      return recordItems(cborObject, body, cborElements(body, bodyBudget()))
    case 'messagepack':
      return recordItems(messagepackObject, body, messagePackElements(body, bodyBudget()))
    case 'senml-json':
      return [{ format: senmlJson.number, payload: body }]
    case 'senml-cbor':
      return [{ format: senmlCbor.number, payload: body }]
    default:
      return limited(lineItems(body, precision))
  }
}

/**
 * Takes line protocol apart. Their times are nanoseconds from then on.
 *
 * @param {Buffer} body
 * @param {string} [precision]  One of {@link PRECISIONS}.
 * @returns {Item[]}
 * @throws {PayloadError}  There is no such precision.
 */
export function lineItems(body, precision = 'ns') {
  const zeros = PRECISIONS.get(precision)
  if (zeros === undefined) {
    const known = [...PRECISIONS.keys()].join(', ')
    throw new PayloadError('time', `precision is none of ${known}`)
  }
  // A character for each byte: a line that is not UTF-8 is refused by itself, later.
  return splitLines(body.toString('latin1')).map((line) => ({
    format: FORMAT.line,
    payload: Buffer.from(toNanoseconds(line, zeros), 'latin1'),
  }))
}

/** Of what needs no topic. @type {import('./formats/types.js').Place} */
export const NOWHERE = Object.freeze({ topic: '', sensor: undefined, metric: undefined })

/**
 * What an item that needs no topic says.
 *
 * @param {Item} item
 * @returns {import('./formats/types.js').DecodedPayload & { sensor: string }}
 * @throws {PayloadError}
 */
export function parseItem({ format, payload }) {
  return decode(format, NOWHERE, payload)
}

/**
 * @template T
 * @param {T[]} items
 * @returns {T[]}
 * @throws {PayloadError}
 */
function limited(items) {
  if (items.length <= ITEMS_MAX) return items
  throw tooManyItems()
}

function tooManyItems() {
  const fault = `the body has more than ${ITEMS_MAX} items: send several bodies`
  return new PayloadError('json', fault)
}

/** Lines that are not empty. @param {Buffer} body */
function linesOf(body) {
  /** @type {Buffer[]} */
  const lines = []
  for (let from = 0; from < body.length; ) {
    const newline = body.indexOf(NEWLINE, from)
    const to = newline < 0 ? body.length : newline
    const line = body.subarray(from, to)
    // A copy: one line that is stored late would keep the whole body in memory.
    if (!isBlank(line) && !isAbout(line)) lines.push(Buffer.from(line))
    from = to + 1
  }
  return lines
}

/** What an export tells of a sensor: an import restores it, here it is no measurement. */
const ABOUT = /^\{"sensor":"(?:[^"\\]|\\.)*","about":\{/
const ABOUT_KIND = 'about'

/** Longest head of a line that is looked at for that, in bytes. */
const ABOUT_BYTES_MAX = 1_024

/** @param {Buffer} line */
function isAbout(line) {
  return ABOUT.test(line.toString('utf8', 0, ABOUT_BYTES_MAX))
}

/** @param {Buffer} line */
function isBlank(line) {
  return line.every((byte) => BLANKS.has(byte))
}

/** @param {string} text  @returns {Item} */
const objectItem = (text) => ({ format: FORMAT.object, payload: Buffer.from(text) })

/** @param {Buffer} body */
function jsonItems(body) {
  const text = textOf(body, 'json', 'the body')
  const excess = excessOf(text, VALUES_MAX)
  if (excess === 'values') {
    throw new PayloadError('json', `the body has more than ${VALUES_MAX} values: send several`)
  }
  if (excess === 'levels') {
    throw new PayloadError('json', `the body is nested deeper than ${JSON_LEVELS_MAX} levels`)
  }
  /** @type {unknown} */
  let value
  try {
    value = JSON.parse(text)
  } catch (error) {
    const { message } = /** @type {Error} */ (error)
    throw new PayloadError('json', `the body is not JSON: ${message}`)
  }
  if (!Array.isArray(value)) return [objectItem(text)]
  limited(value)
  return elementTexts(text).map(objectItem)
}

const bodyBudget = () => new Budget(ITEMS_MAX, VALUES_MAX)

/**
 * @param {import('./formats/types.js').Format} format  Of an item.
 * @param {Buffer} body
 * @param {Buffer[]} [elements]  Undefined where the body is one item.
 * @returns {Item[]}
 */
function recordItems({ number }, body, elements = [body]) {
  return elements.map((payload) => ({ format: number, payload }))
}

/** @param {Buffer} body */
function csvItems(body) {
  const text = textOf(body, 'json', 'the body')
  const separator = separatorOf(text.split('\n', 1)[0])
  const rows = new CsvRows(separator)
  try {
    parse(text, { ...csvOptions(separator), on_record: (cells) => rows.add(cells) })
  } catch (error) {
    if (error instanceof PayloadError) throw error
    const { message } = /** @type {Error} */ (error)
    throw new PayloadError('json', `the body is not CSV: ${shown(message, MESSAGE_LENGTH_MAX)}`)
  }
  return rows.items
}

/** Longest message of the library, in characters: it may quote a cell. */
const MESSAGE_LENGTH_MAX = 200

/** The rows of a CSV, taken one by one: one that is too much is refused before more are read. */
class CsvRows {
  /** @type {Item[]} */
  #items = []
  #bytes = 0
  #separator
  /** @type {import('./csv.js').Columns | undefined} */
  #columns
  #kindAt = -1

  /** @param {string} separator */
  constructor(separator) {
    this.#separator = separator
  }

  get items() {
    if (this.#columns === undefined) this.#setColumns([])
    return this.#items
  }

  /**
   * @param {string[]} cells  Of the first row the names of columns.
   * @returns {undefined}  For the library: it keeps no row.
   * @throws {PayloadError}
   */
  add(cells) {
    if (this.#columns === undefined) this.#setColumns(cells)
    else if (this.#kindAt < 0 || cells[this.#kindAt] !== ABOUT_KIND) this.#addRow(cells)
  }

  /** @param {string[]} titles */
  #setColumns(titles) {
    const columns = columnsOf(columnNames(titles), this.#separator)
    if (!columns.names.includes('sensor')) {
      throw new PayloadError('topic', 'the first line of the CSV names no column sensor')
    }
    this.#columns = columns
    if (columns.isLong) this.#kindAt = columns.names.indexOf('kind')
  }

  /** @param {string[]} cells */
  #addRow(cells) {
    if (this.#items.length === ITEMS_MAX) throw tooManyItems()
    const columns = /** @type {import('./csv.js').Columns} */ (this.#columns)
    const isWhole = cells.length === columns.names.length
    // A row of another length says nothing for certain; as a text it is refused.
    const item = objectItem(jsonText(isWhole ? rowObject(columns, cells) : cells.join()))
    this.#bytes += item.payload.length
    if (this.#bytes > ROWS_BYTES_MAX) {
      const fault = `its rows, with the names of their columns, have more than ${ROWS_BYTES_MAX} bytes`
      const remedy = 'send several bodies, or give the columns shorter names'
      throw new PayloadError('json', `${fault}: ${remedy}`)
    }
    this.#items.push(item)
  }
}

/**
 * The format of a dead letter's payload: letters of earlier versions do not say it.
 *
 * @param {{ format: number | null | undefined, topic: string, payload: Buffer }} letter
 */
export function formatOfLetter({ format, topic, payload }) {
  if (typeof format === 'number') return format & 0xff
  if (topic.startsWith('sensors')) return FORMAT.topic
  const isObject = topic === '/v1/measurements' && payload.toString().trimStart().startsWith('{')
  return isObject ? FORMAT.object : FORMAT.line
}
