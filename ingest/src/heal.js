/**
 * Makes `latest` agree with the raw rows, once, at the start: what was newest when the service last
 * stopped or died may not have been written there. The newest raw row of each series is written
 * again, under the timestamp that it would have had; where `latest` is as new or newer, that
 * changes nothing.
 */

import { kindOf, rowValue } from '@sandglass/common/measurement'
import { latestTimestampUs } from './latest.js'
import { Newest, Sensor } from './series.js'

/** Series that are read at the same time: live traffic goes first. */
const READS_MAX = 4

/** How much older than the newest one a sensor's series may be and still be looked at, in ms. */
const SILENT_MS_MAX = 7 * 86_400_000

/** Pause before a failed attempt is repeated, in milliseconds. */
const RETRY_MS = 2_000

/** @typedef {import('./row.js').Row} Row */
/** @typedef {import('./storage.js').Storage} Storage */

/**
 * @param {object} parts
 * @param {Storage} parts.storage
 * @param {import('./rows.js').Rows} parts.rows
 * @param {(row: Row) => void} parts.write
 * @param {import('pino').Logger} parts.logger
 * @param {string} parts.keyspace
 */
export async function healLatest({ storage, rows, write, logger, keyspace }) {
  const startMs = performance.now()
  let healed = 0
  const series = storage.pages(`SELECT sensor_id, metric, last_ts FROM ${keyspace}.series`)
  const heal = async () => {
    for (;;) {
      const { value, done } = await series.next()
      if (done) return
      if (!value.last_ts || Date.now() - value.last_ts.getTime() > SILENT_MS_MAX) continue
      const row = await newestOf(storage, rows, keyspace, value)
      if (row) write(row)
      if (row) healed++
    }
  }
  try {
    await Promise.all(Array.from({ length: READS_MAX }, heal))
    logger.info({ series: healed, ms: Math.round(performance.now() - startMs) }, 'latest is healed')
  } catch (error) {
    const { message } = /** @type {Error} */ (error)
    logger.warn({ reason: message, retryMs: RETRY_MS }, 'latest could not be healed yet')
    setTimeout(() => {
      void healLatest({ storage, rows, write, logger, keyspace })
    }, RETRY_MS).unref()
  }
}

/**
 * The row of `latest` of a series; nothing where `latest` is up to date.
 *
 * @param {Storage} storage
 * @param {import('./rows.js').Rows} rows
 * @param {string} keyspace
 * @param {any} series  A row of the table `series`.
 * @returns {Promise<Row | undefined>}
 */
async function newestOf(storage, rows, keyspace, { sensor_id: id, metric, last_ts: lastTs }) {
  const { layouts } = await storage.readSensor(id.toString())
  const [raw, [latest]] = await Promise.all([
    storage.newest({ id: id.toString(), layouts }, metric, lastTs.getTime()),
    storage.read(`SELECT ts FROM ${keyspace}.latest WHERE sensor_id = ? AND metric = ?`, [
      ...[id, metric],
    ]),
  ])
  if (!raw || (latest && latest.ts >= raw.ts)) return undefined
  const value = rowValue(/** @type {any} */ (raw))
  const kind = kindOf(/** @type {any} */ (raw))
  if (value === null || kind === undefined) return undefined
  const timeMs = raw.ts.getTime()
  const receivedMs = Date.now()
  const timestampUs = latestTimestampUs(timeMs, raw.seq, receivedMs)
  const newest = new Newest(timeMs, raw.seq, receivedMs, kind, value, timestampUs)
  const sensor = new Sensor(id.toString(), id.toString())
  return rows.latest(sensor.seriesOf(metric), newest)
}
