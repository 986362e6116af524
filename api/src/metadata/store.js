/** What the database knows of metrics: `series` has those of sensors, `type_metric` of types. */

import { METADATA_FIELDS, metadataOf } from '@sandglass/common/metadata'
import { METADATA_COLUMNS } from '@sandglass/common/schema'

/** @typedef {import('@sandglass/common/metadata').Metadata} Metadata */
/** @typedef {import('cassandra-driver').types.Row} CqlRow */

/**
 * One metric of a sensor.
 *
 * @typedef {object} SensorMetric
 * @property {string} metric
 * @property {Metadata} said  By a person.
 * @property {string | undefined} device  The unit that the device tells.
 * @property {boolean} isMeasured  Whether values of it were stored.
 */

/** @typedef {{ metric: string, said: Metadata }} TypeMetric */

/** @param {string} keyspace */
function statements(keyspace) {
  const markers = METADATA_FIELDS.map(() => '?').join(', ')
  return {
    ofSensor: `SELECT metric, last_ts, told_unit, ${METADATA_COLUMNS} FROM ${keyspace}.series
               WHERE sensor_id = ?`,
    ofType: `SELECT metric, ${METADATA_COLUMNS} FROM ${keyspace}.type_metric WHERE type = ?`,
    ofSensors: `SELECT sensor_id, metric, ${METADATA_COLUMNS} FROM ${keyspace}.series`,
    ofTypes: `SELECT type, metric, ${METADATA_COLUMNS} FROM ${keyspace}.type_metric`,
    putOfSensor: `INSERT INTO ${keyspace}.series (sensor_id, metric, ${METADATA_COLUMNS})
                  VALUES (?, ?, ${markers})`,
    forgetTold: `INSERT INTO ${keyspace}.series (sensor_id, metric, told_unit) VALUES (?, ?, ?)`,
    restoreTold: `INSERT INTO ${keyspace}.series (sensor_id, metric, told_unit) VALUES (?, ?, ?)
                  USING TIMESTAMP 1`,
    putOfType: `INSERT INTO ${keyspace}.type_metric (type, metric, ${METADATA_COLUMNS})
                VALUES (?, ?, ${markers})`,
    deleteOfType: `DELETE FROM ${keyspace}.type_metric WHERE type = ? AND metric = ?`,
  }
}

/**
 * @param {string} keyspace
 * @param {(query: string, parameters: unknown[]) => Promise<CqlRow[]>} ask
 * @param {(query: string) => AsyncGenerator<CqlRow[]>} scan
 */
export function metadataQuestions(keyspace, ask, scan) {
  const cql = statements(keyspace)
  /** @param {Metadata} said */
  const bound = (said) => METADATA_FIELDS.map((field) => said[field] ?? null)
  return {
    /** By metric. @param {string} sensorId  @returns {Promise<SensorMetric[]>} */
    async metricsOfSensor(sensorId) {
      return (await ask(cql.ofSensor, [sensorId])).map((row) => ({
        metric: row.metric,
        said: metadataOf(row),
        device: row.told_unit ?? undefined,
        isMeasured: row.last_ts !== null,
      }))
    },

    /** By metric. @param {string} type  @returns {Promise<TypeMetric[]>} */
    async metricsOfType(type) {
      return (await ask(cql.ofType, [type])).map((row) => ({
        metric: row.metric,
        said: metadataOf(row),
      }))
    },

    /** All that persons said of metrics of sensors, some at a time. */
    async *metricsOfSensors() {
      for await (const rows of scan(cql.ofSensors)) {
        yield rows.map((row) => ({
          sensorId: row.sensor_id.toString(),
          metric: row.metric,
          said: metadataOf(row),
        }))
      }
    },

    /** All that persons said of metrics of types, some at a time. */
    async *metricsOfTypes() {
      for await (const rows of scan(cql.ofTypes)) {
        yield rows.map((row) => ({ type: row.type, metric: row.metric, said: metadataOf(row) }))
      }
    },

    /**
     * Replaces what a person said; nothing takes it back.
     *
     * @param {string} sensorId
     * @param {string} metric
     * @param {Metadata} said
     */
    async putMetricOfSensor(sensorId, metric, said) {
      await ask(cql.putOfSensor, [sensorId, metric, ...bound(said)])
    },

    /** Of a sensor that is no more. @param {string} sensorId  @param {string} metric */
    async forgetToldUnit(sensorId, metric) {
      await ask(cql.forgetTold, [sensorId, metric, null])
    },

    /**
     * That a device told once; what it tells here, ever, takes its place.
     *
     * @param {string} sensorId
     * @param {string} metric
     * @param {string} unit
     */
    async restoreToldUnit(sensorId, metric, unit) {
      await ask(cql.restoreTold, [sensorId, metric, unit])
    },

    /** @param {string} type  @param {string} metric  @param {Metadata} said */
    async putMetricOfType(type, metric, said) {
      await ask(cql.putOfType, [type, metric, ...bound(said)])
    },

    /** @param {string} type  @param {string} metric */
    async deleteMetricOfType(type, metric) {
      await ask(cql.deleteOfType, [type, metric])
    },
  }
}
