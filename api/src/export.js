/**
 * All measurements of some sensors between two times, as text, some rows at a time: what a user
 * takes away, and can send back to `POST /v1/measurements` as it is.
 *
 * NDJSON keeps everything. CSV cannot tell a text from a number that looks the same.
 */

import { setTimeout as delay } from 'node:timers/promises'
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
/**
 * @typedef {object} Format
 * @property {string} type  Its media type.
 * @property {string} head  With which it begins.
 * @property {(sensor: string, rows: Row[]) => string} text
 */

/** @type {Record<'csv' | 'ndjson', Format>} */
export const FORMATS = {
  csv: {
    type: 'text/csv; charset=utf-8',
    head: 'sensor,metric,t,v\n',
    text: (sensor, rows) =>
      stringify(rows.map(({ metric, t, value }) => [sensor, metric, String(t), cell(value)])),
  },
  ndjson: {
    type: 'application/x-ndjson; charset=utf-8',
    head: '',
    text: (sensor, rows) => {
      const name = JSON.stringify(sensor)
      return rows
        .map(({ metric, t, value }) => {
          const head = `{"sensor":${name},"metric":${JSON.stringify(metric)}`
          return `${head},"t":${t},"v":${valueJson(value)}}\n`
        })
        .join('')
    },
  },
}

/** @param {Row['value']} value */
function cell(value) {
  return typeof value === 'string' ? value : valueJson(value)
}

/**
 * @param {object} parts
 * @param {Format} parts.format
 * @param {AsyncIterable<Named> | Iterable<Named>} parts.sensors
 * @param {import('./measurements.js').MeasurementReader} parts.reader
 * @param {{ metrics: string[] | undefined, fromMs: number | undefined,
 *   toMs: number | undefined }} parts.question
 * @param {AbortSignal} parts.signal  Aborted when nobody reads on.
 * @returns {AsyncGenerator<string>}
 */
export async function* exportText({ format, sensors, reader, question, signal }) {
  if (format.head !== '') yield format.head
  for await (const { id, name } of sensors) {
    /** @type {import('./measurements.js').Position | undefined} */
    let after
    do {
      const asked = { ...question, sensorId: id, order: /** @type {const} */ ('asc') }
      const read = () => reader.read(asked, { after, limit: ROWS_AT_ONCE, signal })
      const page = await patiently(read, signal)
      // Deleted while its turn came.
      if (!page) break
      if (page.rows.length > 0) yield format.text(name, page.rows)
      after = page.next
    } while (after)
  }
}

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
