/**
 * Makes `latest` agree with the raw rows, once, at the start: what was newest when the service last
 * stopped or died may not have been written there. Of each series the raw row that should be there
 * is written again, under the timestamp that it had or would have had; where `latest` is as new or
 * newer, that changes nothing.
 *
 * All series are looked at, however long ago their last event was: a file of last year that was
 * imported a moment before the end is as good as any other.
 */

import { kindOf, rowValue } from '@sandglass/common/measurement'
import { latestTimestampUs } from './latest.js'
import { Newest, Sensor } from './series.js'

/** Sensors that are read at the same time: live traffic goes first. */
const READS_MAX = 4

/** Most rows of a series whose clock is ahead that are looked at. */
const AHEAD_ROWS_MAX = 1_000

/** Pause before a failed attempt is repeated, in milliseconds. */
const RETRY_MS = 2_000

/** @typedef {import('../write/row.js').Row} Row */
/** @typedef {import('../write/storage.js').Storage} Storage */
/** @typedef {import('../write/storage.js').NewestRow} NewestRow */
/** @typedef {{ metric: string, lastMs: number, era: number }} Extent */

/**
 * @param {object} parts
 * @param {Storage} parts.storage
 * @param {import('../write/rows.js').Rows} parts.rows
 * @param {(row: Row) => void} parts.write
 * @param {import('pino').Logger} parts.logger
 * @param {string} parts.keyspace
 */
export async function repairLatest({ storage, rows, write, logger, keyspace }) {
  const startMs = performance.now()
  let repaired = 0
  const sensors = sensorsOf(storage, keyspace)
  const repair = async () => {
    for (;;) {
      const { value, done } = await sensors.next()
      if (done) return
      for await (const row of stale(storage, rows, keyspace, value)) {
        write(row)
        repaired++
      }
    }
  }
  try {
    await Promise.all(Array.from({ length: READS_MAX }, repair))
    logger.info(
      { series: repaired, ms: Math.round(performance.now() - startMs) },
      'latest is repaired',
    )
  } catch (error) {
    const { message } = /** @type {Error} */ (error)
    logger.warn({ reason: message, retryMs: RETRY_MS }, 'latest could not be repaired yet')
    setTimeout(() => {
      void repairLatest({ storage, rows, write, logger, keyspace })
    }, RETRY_MS).unref()
  }
}

/**
 * All sensors with their series: a table is read partition by partition.
 *
 * @param {Storage} storage
 * @param {string} keyspace
 */
async function* sensorsOf(storage, keyspace) {
  /** @type {{ id: string, series: Extent[] }} */
  let sensor = { id: '', series: [] }
  const query = `SELECT sensor_id, metric, last_ts, era FROM ${keyspace}.series`
  for await (const row of storage.pages(query)) {
    const { sensor_id: uuid, metric, last_ts: last, era } = row
    const id = uuid.toString()
    if (sensor.id !== id) {
      if (sensor.id !== '') yield sensor
      sensor = { id, series: [] }
    }
    if (last) sensor.series.push({ metric, lastMs: last.getTime(), era: era ?? 0 })
  }
  if (sensor.id !== '') yield sensor
}

/**
 * The rows of `latest` of a sensor that are not as they should be.
 *
 * @param {Storage} storage
 * @param {import('../write/rows.js').Rows} rows
 * @param {string} keyspace
 * @param {{ id: string, series: Extent[] }} sensor
 * @returns {AsyncGenerator<Row>}
 */
async function* stale(storage, rows, keyspace, { id, series }) {
  const [layouts, latest] = await Promise.all([
    storage.layouts(id),
    storage.read(`SELECT metric, ts, received FROM ${keyspace}.latest WHERE sensor_id = ?`, [id]),
  ])
  const shownMs = new Map(
    latest.map(({ metric, ts, received }) => [metric, Math.min(ts, received ?? ts)]),
  )
  const sensor = new Sensor(id, id)
  sensor.knowsEras(new Map(series.map(({ metric, era }) => [metric, era])))
  for (const { metric, lastMs } of series) {
    const newest = await newestOf(storage, { id, layouts }, metric, lastMs)
    if (newest?.value !== undefined && newest.timestampUs > (shownMs.get(metric) ?? 0) * 1000) {
      yield rows.latest(sensor.seriesOf(metric), newest, newest.value)
    }
  }
}

/**
 * What `latest` should hold of a series. That is nearly always the newest event; where that one was
 * ahead of our clock, one of a little before may have come later.
 *
 * @param {Storage} storage
 * @param {{ id: string, layouts: import('@sandglass/common/schema').Layout[] }} sensor
 * @param {string} metric
 * @param {number} lastMs
 */
async function newestOf(storage, sensor, metric, lastMs) {
  const [first] = await storage.newest(sensor, metric, lastMs, 1)
  if (!first) return undefined
  const isAhead = first.ts.getTime() > first.receivedMs
  const some = isAhead ? await storage.newest(sensor, metric, lastMs, AHEAD_ROWS_MAX) : [first]
  return some
    .map(asNewest)
    .reduce((best, one) => (one && !(best && best.timestampUs >= one.timestampUs) ? one : best))
}

/** What `latest` says of a row. @param {NewestRow} row */
export function asNewest(row) {
  const value = rowValue(row)
  const kind = kindOf(row)
  if (value === null || kind === undefined) return undefined
  const timeMs = row.ts.getTime()
  const timestampUs = latestTimestampUs(timeMs, row.seq, row.receivedMs)
  return new Newest(timeMs, row.receivedMs, kind, value, timestampUs)
}
