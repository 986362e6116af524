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

/** The broker has not taken what is told: try again later. */
export class NotTold extends Error {}

/** Its retained messages leave no room: to try again soon is of no use. */
export class NoRoom extends Error {
  message = 'retained messages have no room for it: give ingest more memory'
}

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
      forget: `DELETE state FROM ${keyspace}.desired USING TIMESTAMP ? WHERE sensor_id = ?`,
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
        for await (const { sensor_id: id } of pages) await this.#publishIfRoom(id.toString())
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

  /** @param {string} sensorId */
  async #publishIfRoom(sensorId) {
    try {
      await this.publish(sensorId)
    } catch (error) {
      const { cause, message } = /** @type {Error} */ (error)
      if (!(cause instanceof NoRoom)) throw error
      this.counts.failures++
      this.#logger.error({ sensor: sensorId, reason: message }, 'a desired state is not published')
    }
  }

  /**
   * Forgets what was wanted of a sensor that is deleted.
   *
   * @param {string} sensorId
   * @param {number} stampUs  Until when.
   * @throws {NotTold}  It is forgotten, and the broker still retains it.
   */
  async drop(sensorId, stampUs) {
    const row = await this.#row(sensorId)
    if (!row) return
    const stamp = Long.fromNumber(stampUs)
    // Whoever publishes the row from now on clears its topic.
    await this.#storage.read(this.#cql.forget, [stamp, sensorId])
    // Before the row goes: whoever dies between the two comes again as long as there is one.
    if (row.changed.getTime() * 1000 <= stampUs) await this.#say(row.sensor, null)
    await this.#storage.read(this.#cql.drop, [stamp, sensorId])
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
    try {
      await this.#tell(desiredTopic(sensor), Buffer.from(state ?? ''))
    } catch (error) {
      throw new NotTold(/** @type {Error} */ (error).message, { cause: error })
    }
    this.counts.published++
  }

  /** @param {string} sensorId  @returns {Promise<DesiredRow | undefined>} */
  async #row(sensorId) {
    const [row] = await this.#storage.read(this.#cql.one, [sensorId])
    return row?.sensor ? row : undefined
  }
}
