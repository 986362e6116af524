/**
 * When devices came and went: the connection state of a sensor, which is never a measurement.
 *
 * A connection stands for a sensor if its key is that sensor's, if its will is published below it,
 * or if its client id is the name under which it publishes.
 */

import { sensorId } from '@sandglass/common/sensor'

/** Most bytes of states that wait for the database; more are dropped, and counted. */
export const STATUSES_BYTES_MAX = 4 * 2 ** 20

/**
 * `online`; `offline`: it disconnected; `lost`: its connection broke; `unknown`: ingest stopped.
 *
 * @typedef {'online' | 'offline' | 'lost' | 'unknown'} State
 */

/**
 * @typedef {object} Status
 * @property {string} id  Of the sensor.
 * @property {State} state
 * @property {string} clientId
 * @property {string} reason
 * @property {number} timeMs  Milliseconds since the Unix epoch.
 */

/** @typedef {import('@sandglass/common/keys').Grant} Grant */
/** @typedef {import('@sandglass/common/topics').Topics} Topics */

/**
 * The sensor that a connection stands for, as far as that is known when it opens.
 *
 * @param {Grant | undefined} grant
 * @param {string | undefined} willTopic
 * @param {Topics} topics
 * @returns {string | undefined}  Its id.
 */
export function sensorOf(grant, willTopic, topics) {
  if (grant?.sensorId !== undefined) return grant.sensorId
  const name = willTopic === undefined ? undefined : topics.sensorOf(willTopic)
  return name === undefined ? undefined : sensorId(name)
}

/**
 * The same, of a connection that published.
 *
 * @param {string} clientId
 * @param {string} topic
 * @param {Topics} topics
 */
export function sensorOfPublisher(clientId, topic, topics) {
  return topics.sensorOf(topic) === clientId ? sensorId(clientId) : undefined
}

export class Statuses {
  #rows
  #write
  #waitingBytes = 0

  /**
   * @param {object} parts
   * @param {import('../write/rows.js').Rows} parts.rows
   * @param {(row: import('../write/row.js').Row) => void} parts.write
   */
  constructor({ rows, write }) {
    /** States that were dropped because too many wait. */
    this.dropped = 0
    this.#rows = rows
    this.#write = write
  }

  /** @param {Status} what */
  note(what) {
    const row = this.#rows.status(what)
    if (this.#waitingBytes + row.bytes > STATUSES_BYTES_MAX) {
      this.dropped++
      return
    }
    this.#waitingBytes += row.bytes
    row.onDone = () => {
      this.#waitingBytes -= row.bytes
    }
    this.#write(row)
  }
}
