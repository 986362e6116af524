/**
 * What was deleted of sensors, for messages out of the spool: they were received before, and their
 * rows would be written after the tombstones that hide them may be gone, or where none is.
 */

import { covers } from '@sandglass/common/deletion'
import { SETTLE_MS } from '../sensors/placement.js'

/** As a share of the time until a deletion looks again for what was on its way. */
const BELIEVED_SHARE = 0.2

/** What is remembered at most, in bytes; what was asked longest ago is forgotten first. */
export const KNOWN_BYTES_MAX = 4 * 2 ** 20

/** What a sensor costs, and each of its deletions besides the names of metrics, in bytes. */
const SENSOR_BYTES = 300
const DELETION_BYTES = 400

/** First and longest pause before the database is asked again, in milliseconds. */
const RETRY_MS_MIN = 100
const RETRY_MS_MAX = 1_000

/** @typedef {import('@sandglass/common/deletion').Deletion} Deletion */
/** @typedef {import('@sandglass/common/measurement').Measurement} Measurement */
/** @typedef {import('../message/message.js').Message} Message */
/** @typedef {{ deletionsOf: (sensorId: string) => Promise<Deletion[]> }} DeletionReader */

export class KnownDeletions {
  /** Measurements that came out of the spool and had been deleted. */
  dropped = 0
  #reader
  #now
  #believedMs
  #share
  #bytes = 0
  /** Oldest first. @type {Map<string, { deletions: Deletion[], readMs: number, bytes: number }>} */
  #known = new Map()
  /** Sensors that are being asked about. */
  #asking = /** @type {Map<string, { wishes: Set<() => boolean>, isOver: Promise<void> }>} */ (
    new Map()
  )

  /**
   * @param {object} parts
   * @param {DeletionReader} parts.reader
   * @param {import('@sandglass/common/memory-share').MemoryShare} [parts.share]  In which it is
   *   counted.
   * @param {number} [parts.settleS]  How long a deletion waits until all know of it.
   * @param {() => number} [parts.now]  A clock that only goes forward, in milliseconds.
   */
  constructor({ reader, share, settleS, now = () => performance.now() }) {
    this.#reader = reader
    this.#share = share
    this.#now = now
    this.#believedMs = BELIEVED_SHARE * (settleS ? settleS * 1000 : SETTLE_MS)
  }

  /** Whether it is known what was deleted. @param {string} sensorId */
  knows(sensorId) {
    const known = this.#known.get(sensorId)
    return known !== undefined && this.#now() - known.readMs < this.#believedMs
  }

  /**
   * Asks the database, until it answers: once for all messages of a sensor.
   *
   * @param {string} sensorId
   * @param {() => boolean} isWanted  Whether somebody still waits for it.
   * @returns {Promise<boolean>}  False if nobody waits any more.
   */
  async learn(sensorId, isWanted) {
    let asking = this.#asking.get(sensorId)
    if (!asking) {
      /** @type {Set<() => boolean>} */
      const wishes = new Set([isWanted])
      const isOver = this.#askFor(sensorId, wishes).finally(() => this.#asking.delete(sensorId))
      asking = { wishes, isOver }
      this.#asking.set(sensorId, asking)
    }
    asking.wishes.add(isWanted)
    await asking.isOver
    return isWanted()
  }

  /** @param {string} sensorId  @param {ReadonlySet<() => boolean>} wishes */
  async #askFor(sensorId, wishes) {
    for (let pauseMs = RETRY_MS_MIN; ; pauseMs = Math.min(2 * pauseMs, RETRY_MS_MAX)) {
      try {
        return await this.#ask(sensorId)
      } catch {
        await new Promise((resolve) => setTimeout(resolve, pauseMs))
      }
      if (![...wishes].some((isWanted) => isWanted())) return
    }
  }

  /** @param {string} sensorId */
  async #ask(sensorId) {
    const readMs = this.#now()
    const deletions = await this.#reader.deletionsOf(sensorId)
    this.forget(sensorId)
    const bytes = bytesOf(deletions)
    this.#known.set(sensorId, { deletions, readMs, bytes })
    this.#grow(bytes)
    for (const oldest of this.#known.keys()) {
      // The one that was asked for now is needed, however large.
      if (this.#bytes <= KNOWN_BYTES_MAX || oldest === sensorId) break
      this.forget(oldest)
    }
  }

  /** The database is asked again. @param {string} sensorId */
  forget(sensorId) {
    this.#grow(-(this.#known.get(sensorId)?.bytes ?? 0))
    this.#known.delete(sensorId)
  }

  /** @param {number} bytes */
  #grow(bytes) {
    this.#bytes += bytes
    this.#share?.add(bytes)
  }

  /** Whether a message is of a sensor that was deleted since it was received. */
  /** @param {Message} message  @param {string} sensorId  It is known what was deleted of it. */
  isGone({ receivedMs }, sensorId) {
    const deletions = this.#known.get(sensorId)?.deletions ?? []
    return deletions.some(({ isWhole, askedMs }) => isWhole && receivedMs <= askedMs)
  }

  /**
   * Those measurements of a message that were not deleted since it was received.
   *
   * @param {Message} message
   * @param {string} sensorId  It is known what was deleted of it.
   * @param {Measurement[]} measurements
   */
  left({ receivedMs, firstReceivedMs }, sensorId, measurements) {
    const deletions = this.#known.get(sensorId)?.deletions ?? []
    if (deletions.length === 0) return measurements
    const kept = measurements.filter(
      ({ metric, timeMs = firstReceivedMs }) =>
        !deletions.some((deletion) => covers(deletion, { metric, timeMs, receivedMs })),
    )
    this.dropped += measurements.length - kept.length
    return kept
  }
}

/** @param {readonly Deletion[]} deletions */
function bytesOf(deletions) {
  const names = deletions.flatMap(({ metrics }) => metrics ?? [])
  const texts = names.reduce((sum, name) => sum + 2 * name.length + 32, 0)
  return SENSOR_BYTES + DELETION_BYTES * deletions.length + texts
}
