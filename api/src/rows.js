/** Rows of measurements, as they are asked of the database. */

import { kindOf, rowValue } from '@sandglass/common/measurement'
import { CLASS_NAMES, measurementTable } from '@sandglass/common/schema'
import cassandra from 'cassandra-driver'

const { Long } = cassandra.types

/** The columns of a value. */
export const VALUE = 'v, i, b, s, lat, lon'

/** @typedef {import('@sandglass/common/spans').Order} Order */

/** @param {string} keyspace */
function statements(keyspace) {
  /** @param {string} className  @param {string} times  @param {string} order */
  const rows = (className, times, order) =>
    `SELECT ts, seq, ${VALUE} FROM ${keyspace}.${measurementTable(className)}
     WHERE sensor_id = ? AND bucket = ? AND metric = ? AND ${times}${order} LIMIT ?`
  const FROM_TO = 'ts >= ? AND ts <= ?'
  const UPWARDS = ' ORDER BY metric DESC, ts ASC, seq ASC'
  return {
    desc: new Map(CLASS_NAMES.map((name) => [name, rows(name, FROM_TO, '')])),
    asc: new Map(CLASS_NAMES.map((name) => [name, rows(name, FROM_TO, UPWARDS)])),
    restOfMs: {
      desc: new Map(CLASS_NAMES.map((name) => [name, rows(name, 'ts = ? AND seq < ?', '')])),
      asc: new Map(CLASS_NAMES.map((name) => [name, rows(name, 'ts = ? AND seq > ?', UPWARDS)])),
    },
  }
}

/**
 * @param {string} keyspace
 * @param {(query: string, parameters: unknown[], options: { fetchSize: number,
 *   pageState: string | undefined }) => Promise<cassandra.types.ResultSet>} execute
 */
export function rowQuestions(keyspace, execute) {
  const cql = statements(keyspace)
  return {
    /**
     * The first rows of a series in a part of a partition: fewer than `rowsMax` if there are no
     * more, or where the server ends its answer because they are long.
     *
     * @param {string} sensorId
     * @param {string} metric
     * @param {import('./series-reader.js').Part} part
     * @param {Order} order
     * @param {number} rowsMax
     * @returns {Promise<import('./series-reader.js').Answer>}
     */
    async rows(sensorId, metric, part, order, rowsMax) {
      const { className, bucket, fromMs, toMs, afterSeq } = part
      const isRest = afterSeq !== undefined
      const queries = isRest ? cql.restOfMs[order] : cql[order]
      const query = /** @type {string} */ (queries.get(className))
      const end = isRest ? Long.fromNumber(afterSeq) : toMs - 1
      const parameters = [sensorId, bucket, metric, fromMs, end, rowsMax]
      /** @type {cassandra.types.ResultSet | undefined} */
      let answer
      // A server may end an answer early, e.g. after many rows that are deleted or have expired.
      do {
        const options = { fetchSize: rowsMax, pageState: answer?.pageState }
        answer = await execute(query, parameters, options)
      } while (answer.rows.length === 0 && answer.pageState)
      return {
        rows: answer.rows.map((row) => ({
          metric,
          t: row.ts.getTime(),
          seq: row.seq.toNumber(),
          kind: kindOf(/** @type {any} */ (row)),
          value: rowValue(/** @type {any} */ (row)),
        })),
        isAll: !answer.pageState && answer.rows.length < rowsMax,
      }
    },
  }
}
