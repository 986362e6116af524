/**
 * Publishes what is wanted of devices, retained, from the table `desired`: when it changes, and all
 * of it when ingest or its connection to a broker begins, for a broker may have forgotten.
 */

import { desiredTopic } from '@sandglass/common/desired'
import cassandra from 'cassandra-driver'

const { Long } = cassandra.types

/** Pause before a failed attempt to publish all is repeated, in milliseconds. */
const RETRY_MS = 2_000

/** Rows of a page when all is published: each has up to 16 KiB. */
const PAGE_ROWS = 100

/** @typedef {{ sensor: string, state: string | null, changed: Date }} DesiredRow */

/**
 * @typedef {object} DesiredStorage
 * @property {(query: string, params: unknown[]) => Promise<any[]>} read
 * @property {(query: string, params?: unknown[], fetchSize?: number) => AsyncIterable<any>} pages
 */

export class DesiredStates {
  /** Messages that were published, and times that this failed. */
  counts = { published: 0, failures: 0 }
  #storage
  #cql
  #tell
  #logger
  #isStopped = false
  /** Whether all is being published, and whether it is to be done once more. */
  #isBusy = false
  #isAgain = false

  /**
   * @param {object} parts
   * @param {DesiredStorage} parts.storage
   * @param {string} parts.keyspace
   * @param {(topic: string, payload: Buffer) => Promise<void>} parts.tell  Retained. Resolves once
   *   the broker has it.
   * @param {import('pino').Logger} parts.logger
   */
  constructor({ storage, keyspace, tell, logger }) {
    this.#storage = storage
    this.#tell = tell
    this.#logger = logger
    this.#cql = {
      one: `SELECT sensor, state, changed FROM ${keyspace}.desired WHERE sensor_id = ?`,
      all: `SELECT sensor_id FROM ${keyspace}.desired`,
      drop: `DELETE FROM ${keyspace}.desired USING TIMESTAMP ? WHERE sensor_id = ?`,
    }
  }

  /**
   * Publishes what is wanted of a sensor's device now. What is stored meanwhile, by whomever, is
   * published by whoever comes last: so what is retained is the newest.
   *
   * @param {string} sensorId
   */
  async publish(sensorId) {
    for (let told; ; ) {
      const row = await this.#row(sensorId)
      if (!row || (told && told.state === row.state && told.sensor === row.sensor)) return
      await this.#say(row.sensor, row.state)
      told = row
    }
  }

  /** Publishes all there is, until that is done. */
  async publishAll() {
    this.#isAgain = true
    if (this.#isBusy) return
    this.#isBusy = true
    while (this.#isAgain && !this.#isStopped) {
      this.#isAgain = false
      try {
        const pages = this.#storage.pages(this.#cql.all, [], PAGE_ROWS)
        for await (const { sensor_id: id } of pages) await this.publish(id.toString())
      } catch (error) {
        this.counts.failures++
        const { message } = /** @type {Error} */ (error)
        this.#logger.warn({ reason: message }, 'desired states could not be published yet')
        this.#isAgain = true
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS).unref())
      }
    }
    this.#isBusy = false
  }

  /**
   * Forgets what was wanted of a sensor that is deleted.
   *
   * @param {string} sensorId
   * @param {number} stampUs  Until when.
   */
  async drop(sensorId, stampUs) {
    const row = await this.#row(sensorId)
    if (!row) return
    // First: whoever dies between the two comes again as long as there is a row.
    if (row.changed.getTime() * 1000 <= stampUs) await this.#say(row.sensor, null)
    await this.#storage.read(this.#cql.drop, [Long.fromNumber(stampUs), sensorId])
    await this.publish(sensorId)
  }

  stop() {
    this.#isStopped = true
  }

  /**
   * @param {string} sensor
   * @param {string | null} state  Null takes it away [MQTT-3.3.1-10].
   */
  async #say(sensor, state) {
    await this.#tell(desiredTopic(sensor), Buffer.from(state ?? ''))
    this.counts.published++
  }

  /** @param {string} sensorId  @returns {Promise<DesiredRow | undefined>} */
  async #row(sensorId) {
    const [row] = await this.#storage.read(this.#cql.one, [sensorId])
    return row?.sensor ? row : undefined
  }
}
