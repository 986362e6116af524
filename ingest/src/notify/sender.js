/**
 * Tells receivers what they are to be told. The rows of `notification` are the queue: one leaves it
 * when its receiver has taken it, and has the same id on each attempt. A receiver that is away is
 * asked again and again, with growing pauses, by one notification until it answers. Whatever is
 * sent is read again just before: what is known of the queue may be behind.
 */

import { ROLLUP_SHARDS } from '@sandglass/common/rollup'
import { firedMsOf, notificationId } from '@sandglass/common/rules/alert'
import { cut } from '@sandglass/common/text'
import { Lanes, RETRY_MS_MAX, RETRY_MS_MIN } from './lanes.js'
import { Queue } from './queue.js'

/** How often the queue is looked at, in milliseconds, and read although nothing says so. */
const TURN_MS = 500
const READ_MS = 10_000

/** What one turn reads of the queue, in characters of bodies: a long one takes several turns. */
const READ_CHARS_MAX = 2 * 2 ** 20

/** How long a notification is tried, in milliseconds. */
export const TRIED_MS_MAX = 3 * 86_400_000

/** Characters of an error that are stored. */
const ERROR_LENGTH_MAX = 200

/** @typedef {import('../rules/store.js').Notification} Notification */
/** @typedef {import('@sandglass/common/rules/receiver').Receiver} Receiver */

/**
 * Brings a notification to a receiver of one kind.
 *
 * @typedef {object} Carrier
 * @property {(receiver: Receiver, notification: Notification, nowMs: number) => Promise<void>} send
 *   Rejects if the receiver did not take it.
 */

/** @typedef {import('./queue.js').Chain} Chain */
/** @typedef {import('./queue.js').Waiting} Waiting */
/** @typedef {import('../rules/store.js').StoredNotification} StoredNotification */

/** The receiver answered, and refused this one. */
export class Refused extends Error {}

export class Sender {
  counts = { delivered: 0, failures: 0, givenUp: 0 }
  isStopped = false
  #store
  #owns
  #carriers
  #now
  #logger
  #sleep
  #queue = new Queue()
  #lanes = new Lanes()
  /** @type {Map<string, Receiver>} */
  #receivers = new Map()
  /** Versions of parts when they were read last. @type {Map<number, number>} */
  #versions = new Map()
  /** Parts that have to be read. @type {Set<number>} */
  #unread = new Set()
  /** The part that is read, and its rows that are left. */
  #reading = /** @type {{ shard: number, rows: AsyncIterator<Notification> } | undefined} */ (
    undefined
  )
  #readMs = Number.NEGATIVE_INFINITY
  /** Until when the database is left alone, as it did not answer. */
  #restUntilMs = Number.NEGATIVE_INFINITY
  /** @type {Set<Promise<void>>} */
  #attempts = new Set()

  /**
   * @param {object} parts
   * @param {import('../rules/store.js').RuleStore} parts.store
   * @param {(shard: number) => boolean} parts.owns
   * @param {Partial<Record<string, Carrier>>} parts.carriers  By kind of receiver.
   * @param {() => number} parts.now  Milliseconds since the Unix epoch.
   * @param {import('pino').Logger} parts.logger
   * @param {(ms: number) => Promise<void>} parts.sleep
   */
  constructor({ store, owns, carriers, now, logger, sleep }) {
    this.#store = store
    this.#owns = owns
    this.#carriers = carriers
    this.#now = now
    this.#logger = logger
    this.#sleep = sleep
  }

  /** Notifications that wait or are on their way, as far as they are known. */
  get waiting() {
    return this.#queue.size
  }

  /** How long the oldest of them has waited, in seconds. */
  get oldestS() {
    const nowMs = this.#now()
    return Math.max(0, nowMs - (this.#queue.oldestMs ?? nowMs)) / 1000
  }

  /** Works until it is stopped. */
  async run() {
    while (!this.isStopped) {
      try {
        await this.turn()
      } catch (error) {
        const { message } = /** @type {Error} */ (error)
        if (!this.isStopped) this.#logger.debug({ reason: message }, 'notifications have to wait')
      }
      await this.#sleep(TURN_MS)
    }
  }

  stop() {
    this.isStopped = true
  }

  /** Reads what has come, and sends what is due. @returns {Promise<unknown>}  Until it is sent. */
  async turn() {
    await this.#read()
    this.#lanes.turn()
    this.#queue.wake(this.#now())
    this.#send()
    return Promise.race([Promise.all(this.#attempts), this.#sleep(TURN_MS)])
  }

  async #read() {
    const nowMs = this.#now()
    const versions = await this.#store.versions()
    const isTime = nowMs - this.#readMs >= READ_MS || nowMs < this.#readMs
    for (let shard = 0; shard < ROLLUP_SHARDS; shard++) {
      if (!this.#owns(shard)) this.#leave(shard)
      else if (isTime || this.#versions.get(shard) !== (versions.get(shard) ?? -1)) {
        this.#unread.add(shard)
      }
    }
    if (isTime) this.#readMs = nowMs
    await this.#readRows(versions)
    if (this.#queue.size > 0) this.#receivers = await this.#store.receivers()
  }

  /** Goes on where the last turn stood. @param {Map<number, number>} versions */
  async #readRows(versions) {
    let charsLeft = READ_CHARS_MAX
    while (charsLeft > 0 && !this.isStopped) {
      const reading = this.#reading ?? this.#nextReading(versions)
      if (!reading) return
      this.#reading = reading
      const { shard, rows } = reading
      try {
        const { done, value } = await rows.next()
        if (done) {
          this.#reading = undefined
          continue
        }
        this.#queue.add(shard, value)
        charsLeft -= value.body.length
      } catch (error) {
        this.#reading = undefined
        this.#unread.add(shard)
        throw error
      }
    }
  }

  /** @param {Map<number, number>} versions */
  #nextReading(versions) {
    const [shard] = this.#unread
    if (shard === undefined) return undefined
    this.#unread.delete(shard)
    this.#versions.set(shard, versions.get(shard) ?? -1)
    return { shard, rows: this.#store.notifications(shard) }
  }

  /** @param {number} shard */
  #leave(shard) {
    this.#versions.delete(shard)
    this.#unread.delete(shard)
    if (this.#reading?.shard === shard) this.#reading = undefined
    this.#queue.leave(shard)
  }

  /** Fills what is free of the lanes, receiver by receiver. */
  #send() {
    const nowMs = this.#now()
    if (this.isStopped || nowMs < this.#restUntilMs) return
    for (let isMore = true; isMore; ) {
      isMore = false
      const isFree = this.#lanes.free(nowMs)
      for (const receiverId of this.#queue.receivers) {
        if (!isFree(receiverId)) continue
        const chain = this.#queue.take(receiverId)
        if (!chain) continue
        isMore = true
        const attempt = this.#attempt(chain, this.#lanes.enter(receiverId, nowMs))
        this.#attempts.add(attempt)
        void attempt.finally(() => this.#attempts.delete(attempt))
      }
    }
  }

  /**
   * Tries the first of a chain, and lets the next one of any into the lane.
   *
   * @param {Chain} chain
   * @param {import('./lanes.js').Lane} lane
   */
  async #attempt(chain, lane) {
    /** @type {number | undefined} */
    let dueMs
    const [one] = chain.all
    try {
      const stored = await this.#stored(chain, one)
      if (stored) dueMs = await this.#tell(chain, one, stored)
    } catch (error) {
      const { message } = /** @type {Error} */ (error)
      if (!this.isStopped) this.#logger.debug({ reason: message }, 'a notification has to wait')
      dueMs = this.#now() + RETRY_MS_MIN
      this.#restUntilMs = dueMs
    } finally {
      this.#queue.release(chain, dueMs)
      this.#lanes.leave(lane, dueMs === undefined)
      this.#send()
    }
  }

  /**
   * One as it is stored now.
   *
   * @param {Chain} chain
   * @param {Waiting} one
   * @returns {Promise<StoredNotification | undefined>}  Nothing, if it is not to be told now.
   */
  async #stored(chain, one) {
    const { alertId, receiverId, shard } = chain
    if (one.change === 'resolved') {
      // What began it may be in a part of the queue that was not read.
      const id = notificationId(alertId, 'fired', receiverId)
      const began = await this.#store.notification(shard, id)
      if (began) {
        this.#queue.add(shard, began)
        return undefined
      }
    }
    const stored = await this.#store.notification(shard, one.id)
    if (!stored) this.#queue.remove(chain, one)
    return stored
  }

  /**
   * @param {Chain} chain
   * @param {Waiting} one
   * @param {StoredNotification} stored
   * @returns {Promise<number | undefined>}  When it is due again, if it was not taken.
   */
  async #tell(chain, one, stored) {
    const { receiverId } = chain
    one.attempts++
    // What was read a moment ago may not have a receiver that is new.
    if (!this.#receivers.has(receiverId)) this.#receivers = await this.#store.receivers()
    const receiver = this.#receivers.get(receiverId)
    if (!receiver) {
      this.#lanes.answered(receiverId)
      await this.#over(chain, one, stored, 'dropped', 'there is no such receiver any more')
      return undefined
    }
    try {
      const carrier = this.#carriers[receiver.kind]
      if (!carrier) throw new Error(`this version of ingest knows no ${receiver.kind}`)
      await carrier.send(receiver, stored, this.#now())
    } catch (error) {
      return this.#failed(chain, one, stored, /** @type {Error} */ (error))
    }
    this.#lanes.answered(receiverId)
    await this.#delivered(chain, one, stored)
    return undefined
  }

  /**
   * It was told, and stays told: only that the row is gone has to be made true.
   *
   * @param {Chain} chain
   * @param {Waiting} one
   * @param {StoredNotification} stored
   */
  async #delivered(chain, one, stored) {
    this.counts.delivered++
    while (!this.isStopped) {
      try {
        await this.#over(chain, one, stored, 'delivered')
        await this.#store.noteReceiver(chain.receiverId, this.#now())
        return
      } catch {
        await this.#sleep(RETRY_MS_MIN)
      }
    }
  }

  /**
   * @param {Chain} chain
   * @param {Waiting} one
   * @param {StoredNotification} stored
   * @param {Error} error
   * @returns {Promise<number>}  When it is due again.
   */
  async #failed(chain, one, stored, error) {
    const nowMs = this.#now()
    const { receiverId } = chain
    const { attempts, createdMs } = one
    this.counts.failures++
    // Of those that wait, any may be the one by which it is found to be back.
    const dueMs =
      error instanceof Refused
        ? nowMs + Math.min(RETRY_MS_MIN * 2 ** (attempts - 1), RETRY_MS_MAX)
        : this.#lanes.failed(receiverId, nowMs)
    const reason = cut(error.message, ERROR_LENGTH_MAX)
    this.#logger.warn({ receiver: receiverId, attempts, reason }, 'a receiver was not told yet')
    try {
      await this.#store.noteReceiver(receiverId, nowMs, reason)
      if (nowMs - createdMs >= TRIED_MS_MAX) {
        await this.#over(chain, one, stored, 'given up', reason)
        this.counts.givenUp++
      }
    } catch {
      // That is noted, or given up, after the next attempt.
    }
    return dueMs
  }

  /**
   * @param {Chain} chain
   * @param {Waiting} one
   * @param {StoredNotification} stored
   * @param {string} state
   * @param {string} [error]
   */
  async #over(chain, one, { writtenUs }, state, error) {
    const { alertId, receiverId, shard } = chain
    const { id, change, attempts } = one
    await this.#store.forget(shard, id, this.#now(), writtenUs)
    this.#queue.remove(chain, one)
    if (change === 'test') return
    const how = { at: this.#now(), state, attempts, error }
    await this.#store.noteTold(alertId, firedMsOf(alertId), `${change} ${receiverId}`, how)
  }
}
