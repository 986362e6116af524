/**
 * What a sensor has besides its measurements: its own row, when it came and went, what persons said
 * of its metrics, what is desired of its device, its alerts, and its dead letters. All that was
 * stored until a moment is deleted.
 */

import { deadLetterDay } from '@sandglass/common/measurement'
import { ALERT_TTL_S, alertDay } from '@sandglass/common/rules/alert'
import {
  bucketOf,
  DEAD_LETTER_SHARDS,
  DEAD_LETTER_TTL_S,
  METADATA_COLUMNS,
  STATUS_BUCKET_S,
  STATUS_TTL_S,
} from '@sandglass/common/schema'
import cassandra from 'cassandra-driver'
import { NotTold } from '../sensors/desired.js'

const { Long } = cassandra.types

/** Dead letters of an answer: without their payloads they are small. */
const LETTER_ROWS = 1_000

/** @typedef {import('../http/replay.js').Letter} Letter */

/** @param {string} keyspace */
function statements(keyspace) {
  return {
    sensor: `SELECT name, created_at FROM ${keyspace}.sensor WHERE sensor_id = ?`,
    dropSensor: `DELETE FROM ${keyspace}.sensor USING TIMESTAMP ? WHERE sensor_id = ?`,
    revive: `INSERT INTO ${keyspace}.sensor (sensor_id, name, created_at) VALUES (?, ?, ?)
             USING TIMESTAMP ?`,
    reviveNameless: `INSERT INTO ${keyspace}.sensor (sensor_id, created_at) VALUES (?, ?)
                     USING TIMESTAMP ?`,
    metrics: `SELECT metric FROM ${keyspace}.series WHERE sensor_id = ?`,
    dropSaid: `DELETE told_unit, ${METADATA_COLUMNS} FROM ${keyspace}.series USING TIMESTAMP ?
               WHERE sensor_id = ? AND metric = ?`,
    dropStatus: `DELETE FROM ${keyspace}.status USING TIMESTAMP ?
                 WHERE sensor_id = ? AND bucket = ?`,
    letters: `SELECT id, topic FROM ${keyspace}.dead_letter WHERE day = ? AND shard = ?`,
    dropLetter: `DELETE FROM ${keyspace}.dead_letter WHERE day = ? AND shard = ? AND id = ?`,
    alerts: `SELECT at, id, sensor_id, resolved FROM ${keyspace}.alert WHERE day = ?`,
    dropAlert: `DELETE FROM ${keyspace}.alert WHERE day = ? AND at = ? AND id = ?`,
  }
}

/** Days of which alerts are kept. */
export const ALERT_DAYS = Math.ceil(ALERT_TTL_S / 86_400) + 1

/** Partitions of dead letters in which one can be that was received until some moment. */
export const LETTER_PARTITIONS = (DEAD_LETTER_TTL_S / 86_400 + 1) * DEAD_LETTER_SHARDS

export class Belongings {
  #storage
  #cql
  #sensorOf
  #desired

  /**
   * @param {object} parts
   * @param {import('../write/storage.js').Storage} parts.storage
   * @param {string} parts.keyspace
   * @param {import('./letters.js').SensorOfLetter} parts.sensorOf
   * @param {Pick<import('../sensors/desired.js').DesiredStates, 'drop'>} parts.desired
   */
  constructor({ storage, keyspace, sensorOf, desired }) {
    this.#desired = desired
    this.#storage = storage
    this.#cql = statements(keyspace)
    this.#sensorOf = sensorOf
  }

  /** Its name, if it has one. @param {string} sensorId  @returns {Promise<string | undefined>} */
  async name(sensorId) {
    const [row] = await this.#storage.read(this.#cql.sensor, [sensorId])
    return row?.name ?? undefined
  }

  /**
   * What is desired of its device.
   *
   * @param {string} sensorId
   * @param {number} stampUs
   * @returns {Promise<boolean>}  False if the broker still retains it.
   */
  async dropDesired(sensorId, stampUs) {
    try {
      await this.#desired.drop(sensorId, stampUs)
      return true
    } catch (error) {
      if (error instanceof NotTold) return false
      throw error
    }
  }

  /** The rest, but dead letters and alerts. @param {string} sensorId  @param {number} stampUs */
  async drop(sensorId, stampUs) {
    const stamp = Long.fromNumber(stampUs)
    await this.#storage.read(this.#cql.dropSensor, [stamp, sensorId])
    for (const { metric } of await this.#storage.read(this.#cql.metrics, [sensorId])) {
      await this.#storage.read(this.#cql.dropSaid, [stamp, sensorId, metric])
    }
    const untilS = stampUs / 1e6
    for (let atS = untilS - STATUS_TTL_S; ; atS += STATUS_BUCKET_S) {
      const bucket = bucketOf(STATUS_BUCKET_S, Math.min(atS, untilS) * 1000)
      await this.#storage.read(this.#cql.dropStatus, [stamp, sensorId, bucket])
      if (atS >= untilS) return
    }
  }

  /**
   * Registers it again if nobody has: something came of it after the deletion.
   *
   * @param {string} sensorId
   * @param {string | undefined} name
   * @param {number} askedMs  Of the deletion.
   */
  async revive(sensorId, name, askedMs) {
    const [row] = await this.#storage.read(this.#cql.sensor, [sensorId])
    if (row) return
    const [createdMs, stamp] = [askedMs + 1, Long.fromNumber((askedMs + 1) * 1000)]
    if (name === undefined) {
      await this.#storage.read(this.#cql.reviveNameless, [sensorId, createdMs, stamp])
    } else {
      await this.#storage.read(this.#cql.revive, [sensorId, name, createdMs, stamp])
    }
  }

  /**
   * Deletes its dead letters in one of {@link LETTER_PARTITIONS}, as far as it can be told whose
   * they are.
   *
   * @param {string} sensorId
   * @param {number} askedMs  Those that were received until then.
   * @param {number} index
   */
  async dropLetters(sensorId, askedMs, index) {
    const day = deadLetterDay(askedMs) - Math.floor(index / DEAD_LETTER_SHARDS)
    const shard = index % DEAD_LETTER_SHARDS
    const pages = this.#storage.pages(this.#cql.letters, [day, shard], LETTER_ROWS)
    for await (const { id, topic } of pages) {
      if (id.getDate().getTime() > askedMs) continue
      const letter = () => this.#storage.deadLetter(id.toString())
      if ((await this.#sensorOf(topic ?? '', letter)) !== sensorId) continue
      await this.#storage.read(this.#cql.dropLetter, [day, shard, id])
    }
  }

  /**
   * Deletes its alerts of a day that began until the deletion.
   *
   * @param {string} sensorId
   * @param {number} askedMs
   * @param {number} index  So many days before.
   * @param {boolean} isLast  One that is not resolved is deleted, too: rules had the time to hear
   *   that the sensor is gone.
   */
  async dropAlerts(sensorId, askedMs, index, isLast) {
    const day = alertDay(askedMs) - index
    for await (const row of this.#storage.pages(this.#cql.alerts, [day], LETTER_ROWS)) {
      if (row.sensor_id?.toString() !== sensorId || row.at.getTime() > askedMs) continue
      if (!row.resolved && !isLast) continue
      await this.#storage.read(this.#cql.dropAlert, [day, row.at, row.id])
    }
  }
}
