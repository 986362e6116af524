/**
 * Measurements as an Arrow IPC stream: a schema, then record batches, then the mark of the end.
 *
 * ```text
 * sensor     dictionary<int32, utf8>    id
 * name       dictionary<int32, utf8>
 * metric     dictionary<int32, utf8>
 * about      dictionary<int32, utf8>    retention, type, unit and tags of the sensor, as JSON
 * t          timestamp[ms, UTC]         when it was measured
 * seq        int64                      0, or higher for further values of one millisecond
 * number     float64 ─┐
 * integer    int64    │
 * boolean    bool     ├ that of the value's kind is set, the others are null
 * text       utf8     │
 * lat, lon   float64 ─┘
 * unit       dictionary<int32, utf8>    if it is asked for; empty where none is known
 * ```
 *
 * A batch holds rows of one sensor. Its dictionaries take the place of those before, so that
 * neither writer nor reader ever holds the names of all sensors.
 */

import { KIND } from '@sandglass/common/measurement'
import {
  AsyncByteQueue,
  Bool,
  DataType,
  Dictionary,
  Field,
  Float64,
  Int32,
  Int64,
  makeData,
  RecordBatch,
  RecordBatchStreamWriter,
  Schema,
  Struct,
  TimestampMillisecond,
  Utf8,
  vectorFromArray,
} from 'apache-arrow'

/** @typedef {import('./merge.js').Row} Row */

const word = (/** @type {number} */ id) => new Dictionary(new Utf8(), new Int32(), id)
const WORDS = { sensor: word(0), name: word(1), metric: word(2), about: word(3) }
const UNIT = word(4)
const TIME = new TimestampMillisecond('UTC')
const SEQ = new Int64()

/**
 * The columns of values; cells of numbers lie in an `array`.
 *
 * @type {{ name: string, type: import('apache-arrow').DataType, kind: number,
 *   array?: Float64ArrayConstructor | BigInt64ArrayConstructor, cell: (value: any) => any }[]}
 */
const VALUES = [
  { name: 'number', type: new Float64(), kind: KIND.number, array: Float64Array, cell: same },
  { name: 'integer', type: new Int64(), kind: KIND.integer, array: BigInt64Array, cell: BigInt },
  { name: 'boolean', type: new Bool(), kind: KIND.boolean, cell: same },
  { name: 'text', type: new Utf8(), kind: KIND.text, cell: same },
  ...['lat', 'lon'].map((name) => ({
    name,
    type: new Float64(),
    kind: KIND.location,
    array: Float64Array,
    cell: (/** @type {any} */ place) => place[name],
  })),
]

/** @param {unknown} value */
function same(value) {
  return value
}

/** @param {boolean} hasUnit */
const schemaOf = (hasUnit) =>
  new Schema([
    ...Object.entries(WORDS).map(([name, type]) => new Field(name, type, false)),
    new Field('t', TIME, false),
    new Field('seq', SEQ, false),
    ...VALUES.map(({ name, type }) => new Field(name, type, true)),
    ...(hasUnit ? [new Field('unit', UNIT, false)] : []),
  ])

/** Collects what a writer writes, to be taken when a batch is whole. */
class Chunks extends AsyncByteQueue {
  /** @type {Uint8Array[]} */
  #chunks = []

  /** @param {any} chunk */
  write(chunk) {
    this.#chunks.push(chunk)
  }

  take() {
    const bytes = Buffer.concat(this.#chunks)
    this.#chunks = []
    return bytes
  }
}

/** One stream, part by part. */
export class ArrowStream {
  #chunks = new Chunks()
  /** Of the sensor whose rows come. */
  #about = '{}'
  #hasUnit
  #schema
  #writer = new RecordBatchStreamWriter({ autoDestroy: false })

  /** @param {boolean} [hasUnit]  Whether each row tells its unit. */
  constructor(hasUnit = false) {
    this.#hasUnit = hasUnit
    this.#schema = schemaOf(hasUnit)
  }

  /** The schema. */
  head() {
    this.#writer.reset(this.#chunks, this.#schema)
    return this.#chunks.take()
  }

  /** @param {unknown} _sensor  @param {import('./about.js').Told} about */
  about(_sensor, about) {
    this.#about = JSON.stringify(about)
    return ''
  }

  /**
   * A record batch.
   *
   * @param {{ id: string, name: string }} sensor
   * @param {Row[]} rows  At least one.
   * @param {(metric: string) => string} [unitOf]
   */
  rows({ id, name }, rows, unitOf = () => '') {
    const { length } = rows
    const kinds = new Set(rows.map(({ kind }) => kind))
    const children = [
      words(WORDS.sensor, [id], new Int32Array(length)),
      words(WORDS.name, [name], new Int32Array(length)),
      indexed(WORDS.metric, rows, (metric) => metric),
      words(WORDS.about, [this.#about], new Int32Array(length)),
      makeData({ type: TIME, length, nullCount: 0, data: times(rows) }),
      makeData({ type: SEQ, length, nullCount: 0, data: seqs(rows) }),
      ...VALUES.map((column) => values(column, rows, kinds.has(column.kind))),
      ...(this.#hasUnit ? [indexed(UNIT, rows, unitOf)] : []),
    ]
    const type = new Struct(this.#schema.fields)
    const data = makeData({ type, length, nullCount: 0, children })
    this.#writer.write(new RecordBatch(this.#schema, data))
    return this.#chunks.take()
  }

  /** The mark of the end: without it the stream was broken off. */
  tail() {
    this.#writer.finish()
    return this.#chunks.take()
  }
}

/** @param {Row[]} rows */
function times(rows) {
  return BigInt64Array.from(rows, ({ t }) => BigInt(t))
}

/** @param {Row[]} rows */
function seqs(rows) {
  return BigInt64Array.from(rows, ({ seq }) => BigInt(seq))
}

/**
 * One column of values. Few kinds are in one batch: a column without any is not gone through, and
 * numbers are laid out by hand, because the library's builders take several times as long.
 *
 * @param {typeof VALUES[number]} column
 * @param {Row[]} rows
 * @param {boolean} isThere  Whether any row is of its kind.
 */
function values({ type, kind, array, cell }, rows, isThere) {
  const { length } = rows
  if (isThere && !array) {
    return vectorFromArray(
      rows.map(({ kind: its, value }) => (its === kind && value !== null ? cell(value) : null)),
      type,
    ).data[0]
  }
  const nullBitmap = new Uint8Array(Math.ceil(length / 8))
  const data = array ? new array(length) : new Uint8Array(nullBitmap.length)
  let nullCount = length
  for (let at = 0; isThere && at < length; at++) {
    const row = rows[at]
    if (row.kind !== kind || row.value === null) continue
    data[at] = cell(row.value)
    nullBitmap[at >> 3] |= 1 << (at & 7)
    nullCount--
  }
  const nulls = { type, length, nullCount, nullBitmap, data }
  return makeData(
    /** @type {any} */ (
      DataType.isUtf8(type) ? { ...nulls, valueOffsets: new Int32Array(length + 1) } : nulls
    ),
  )
}

/**
 * @param {import('apache-arrow').Dictionary} type
 * @param {string[]} dictionary
 * @param {Int32Array} data  Places in the dictionary.
 */
function words(type, dictionary, data) {
  const { length } = data
  return makeData({
    type,
    length,
    nullCount: 0,
    data,
    dictionary: vectorFromArray(dictionary, new Utf8()),
  })
}

/**
 * A word of each row that its metric tells.
 *
 * @param {import('apache-arrow').Dictionary} type
 * @param {Row[]} rows
 * @param {(metric: string) => string} wordOf
 */
function indexed(type, rows, wordOf) {
  /** @type {Map<string, number>} */
  const places = new Map()
  /** By metric. @type {Map<string, number>} */
  const known = new Map()
  const data = Int32Array.from(rows, ({ metric }) => {
    const before = known.get(metric)
    if (before !== undefined) return before
    const one = wordOf(metric)
    const place = places.get(one) ?? places.size
    places.set(one, place)
    known.set(metric, place)
    return place
  })
  return words(type, [...places.keys()], data)
}
