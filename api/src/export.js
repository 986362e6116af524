/**
 * All measurements of some sensors between two times, some rows at a time: what a user takes away.
 * CSV and NDJSON can be sent back to `POST /v1/import` as they are.
 *
 * Each of them keeps every value and its kind. CSV says the kind in a column, NDJSON where the
 * value alone would be taken for another one: of integers, and of doubles that look like those that
 * no double could hold. Arrow keeps `seq` besides. Whoever asks for it has the unit of each row in
 * one more column, the last: readers that count columns are not surprised. Times are milliseconds,
 * or ISO 8601 for spreadsheets.
 */

import { setTimeout as delay } from 'node:timers/promises'
import { KIND, KIND_NAMES } from '@sandglass/common/measurement'
import { Problem } from '@sandglass/common/problem'
import { stringify } from 'csv-stringify/sync'
import { valueJson } from './value.js'

/** Rows that are read, and written, at once. */
const ROWS_AT_ONCE = 5_000

/** How long an export waits for a database that is away, in milliseconds, and how often it asks. */
const PATIENCE_MS = 30_000
const RETRY_MS = 500

/** @typedef {import('./merge.js').Row} Row */
/** @typedef {{ id: string, name: string }} Named */
/** @typedef {import('./about.js').Told} Told */
/** @typedef {(metric: string) => string} UnitOf  Empty where none is known. */
/**
 * What an export is made of, in its order.
 *
 * @typedef {object} Parts
 * @property {() => string | Uint8Array} head
 * @property {(sensor: Named, about: Told) => string | Uint8Array} about  Before its first rows.
 * @property {(sensor: Named, rows: Row[], unitOf: UnitOf) => string | Uint8Array} rows
 * @property {() => string | Uint8Array} tail
 */
/**
 * @typedef {object} Format
 * @property {string} type  Its media type.
 * @property {string} ending  Of a file's name.
 * @property {(how: How) => Promise<Parts>} begin  For one export.
 */
/**
 * @typedef {object} How
 * @property {boolean} [hasUnit]  Whether each row tells its unit.
 * @property {Times} [times]
 */
/** @typedef {keyof typeof TIMES} Times */

/** Texts that a reader of CSV would trim, or take for nothing. */
const MUST_BE_QUOTED = /^$|^\s|\s$/

/** How times are written, in milliseconds or so that people read them; an import takes both. */
export const TIMES = {
  ms: (/** @type {number} */ t) => String(t),
  iso: (/** @type {number} */ t) => new Date(t).toISOString(),
}

/** @param {How} how  @returns {Parts} */
const csv = ({ hasUnit, times = 'ms' }) => ({
  head: () => `sensor,metric,t,v,kind${hasUnit ? ',unit' : ''}\n`,
  about: ({ name }, about) => {
    const cells = [name, '', '', JSON.stringify(about), 'about']
    return stringify([hasUnit ? [...cells, ''] : cells])
  },
  rows: ({ name }, rows, unitOf) =>
    stringify(
      rows.map(({ metric, t, kind, value }) => {
        const time = TIMES[times](t)
        const cells = [name, metric, time, cell(kind, value), KIND_NAMES.get(kind) ?? '']
        // An empty text would be quoted.
        return hasUnit ? [...cells, unitOf(metric) || null] : cells
      }),
      { quoted_match: MUST_BE_QUOTED },
    ),
  tail: () => '',
})

/** @param {How} how  @returns {Parts} */
const ndjson = ({ hasUnit, times = 'ms' }) => ({
  head: () => '',
  about: ({ name }, about) => `${JSON.stringify({ sensor: name, about })}\n`,
  rows: ({ name }, rows, unitOf) => {
    const sensor = JSON.stringify(name)
    return rows
      .map(({ metric, t, kind, value }) => {
        const head = `{"sensor":${sensor},"metric":${JSON.stringify(metric)}`
        const end = isTold(kind, value) ? '' : `,"kind":"${KIND_NAMES.get(kind)}"`
        const unit = hasUnit ? unitOf(metric) : ''
        const more = unit === '' ? '' : `,"unit":${JSON.stringify(unit)}`
        const time = times === 'iso' ? JSON.stringify(TIMES.iso(t)) : t
        return `${head},"t":${time},"v":${valueJson(value)}${end}${more}}\n`
      })
      .join('')
  },
  tail: () => '',
})

/** @type {Record<'csv' | 'ndjson' | 'arrow', Format>} */
export const FORMATS = {
  csv: { type: 'text/csv; charset=utf-8', ending: 'csv', begin: async (how) => csv(how) },
  ndjson: {
    type: 'application/x-ndjson; charset=utf-8',
    ending: 'ndjson',
    begin: async (how) => ndjson(how),
  },
  arrow: {
    type: 'application/vnd.apache.arrow.stream',
    ending: 'arrows',
    // The library takes longer to load, and more memory, than all else of the api.
    begin: async ({ hasUnit }) => new (await import('./arrow.js')).ArrowStream(hasUnit ?? false),
  },
}

/** @param {Row['kind']} kind  @param {Row['value']} value */
function cell(kind, value) {
  if (value === null) return ''
  return kind === KIND.text ? String(value) : valueJson(value)
}

/** Whether JSON tells the kind. @param {Row['kind']} kind  @param {Row['value']} value */
function isTold(kind, value) {
  if (kind === KIND.integer) return false
  return kind !== KIND.number || !Number.isInteger(value) || Number.isSafeInteger(value)
}

/**
 * @param {object} parts
 * @param {Format} parts.format
 * @param {AsyncIterable<Named> | Iterable<Named>} parts.sensors
 * @param {boolean} [parts.hasUnit]  Whether each row tells its unit.
 * @param {Times} [parts.times]  How times are written; Arrow has them as they are.
 * @param {(sensor: any) => Promise<{ about: Told, unitOf: UnitOf }>} [parts.aboutOf]  What is told
 *   of each sensor besides.
 * @param {import('./measurements.js').MeasurementReader} parts.reader
 * @param {{ metrics: string[] | undefined, fromMs: number | undefined,
 *   toMs: number | undefined }} parts.question
 * @param {AbortSignal} parts.signal  Aborted when nobody reads on.
 * @returns {AsyncGenerator<string | Uint8Array>}
 */
export async function* exported({ format, sensors, aboutOf, reader, question, signal, ...how }) {
  const parts = await format.begin(how)
  const head = parts.head()
  if (head.length > 0) yield head
  for await (const sensor of sensors) {
    const { id, name } = sensor
    let isTold = false
    let unitOf = unknown
    /** @type {import('./measurements.js').Position | undefined} */
    let after
    do {
      const asked = { ...question, sensorId: id, order: /** @type {const} */ ('asc') }
      const read = () => reader.read(asked, { after, limit: ROWS_AT_ONCE, signal })
      const page = await patiently(read, signal)
      // Deleted while its turn came.
      if (!page) break
      if (aboutOf && page.rows.length > 0 && !isTold) {
        isTold = true
        const known = await patiently(() => aboutOf(sensor), signal)
        unitOf = known?.unitOf ?? unknown
        const text = parts.about({ id, name }, known?.about ?? {})
        if (text.length > 0) yield text
      }
      if (page.rows.length > 0) yield parts.rows({ id, name }, page.rows, unitOf)
      after = page.next
    } while (after)
  }
  const tail = parts.tail()
  if (tail.length > 0) yield tail
}

/** @type {UnitOf} */
const unknown = () => ''

/**
 * @template T
 * @param {() => Promise<T>} read
 * @param {AbortSignal} signal
 * @returns {Promise<T | undefined>}  Nothing if there is no such sensor any more.
 */
async function patiently(read, signal) {
  const untilMs = performance.now() + PATIENCE_MS
  for (;;) {
    try {
      return await read()
    } catch (error) {
      if (!(error instanceof Problem)) throw error
      if (error.code === 'unknown-sensor') return undefined
      if (error.code !== 'database-away' || performance.now() > untilMs) throw error
      await delay(RETRY_MS, undefined, { signal })
    }
  }
}
