/**
 * Tells receivers what they are to be told. The rows of `notification` are the queue: one leaves it
 * when its receiver has taken it, and has the same id on each attempt. A receiver that is away is
 * asked again and again, with growing pauses, by one notification until it answers.
 */

import { ROLLUP_SHARDS } from '@sandglass/common/rollup'
import { firedMsOf } from '@sandglass/common/rules/alert'
import { cut } from '@sandglass/common/text'

/** How often the queue is looked at, in milliseconds, and read although nothing says so. */
const TURN_MS = 500
const READ_MS = 10_000

/** First and longest pause after an attempt that failed, in milliseconds. */
export const RETRY_MS_MIN = 1_000
export const RETRY_MS_MAX = 60_000

/** How long a notification is tried, in milliseconds. */
export const TRIED_MS_MAX = 3 * 86_400_000

/** Notifications on their way to one receiver, and to all. */
const RECEIVER_AT_ONCE = 4
const AT_ONCE = 32

/** Characters of an error that are stored. */
const ERROR_LENGTH_MAX = 200

/** @typedef {import('./store.js').Notification} Notification */
/** @typedef {import('@sandglass/common/rules/receiver').Receiver} Receiver */

/**
 * Brings a notification to a receiver of one kind.
 *
 * @typedef {object} Carrier
 * @property {(receiver: Receiver, notification: Notification, nowMs: number) => Promise<void>} send
 *   Rejects if the receiver did not take it.
 */

/**
 * @typedef {object} Waiting
 * @property {Notification} notification
 * @property {number} shard
 * @property {number} dueMs
 * @property {number} attempts
 * @property {boolean} isOnTheWay
 */

/**
 * What began before what ended, also where both were found at once.
 *
 * @param {Notification} a
 * @param {Notification} b
 */
function byAge(a, b) {
  return a.createdMs - b.createdMs || (a.change < b.change ? -1 : 1)
}

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
  /** @type {Map<string, Waiting>} */
  #waiting = new Map()
  /** Of receivers that did not answer. @type {Map<string, { untilMs: number, pauseMs: number }>} */
  #pauses = new Map()
  /** @type {Map<string, Receiver>} */
  #receivers = new Map()
  /** @type {Map<number, number>} */
  #versions = new Map()
  #readMs = Number.NEGATIVE_INFINITY

  /**
   * @param {object} parts
   * @param {import('./store.js').RuleStore} parts.store
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

  /** Notifications that wait or are on their way. */
  get waiting() {
    return this.#waiting.size
  }

  /** How long the oldest of them has waited, in seconds. */
  get oldestS() {
    let oldestMs = this.#now()
    for (const { notification } of this.#waiting.values()) {
      oldestMs = Math.min(oldestMs, notification.createdMs)
    }
    return (this.#now() - oldestMs) / 1000
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
    const chosen = this.#choose()
    const sending = chosen.map((one) => this.#attempt(one))
    return Promise.race([Promise.all(sending), this.#sleep(TURN_MS)])
  }

  async #read() {
    const nowMs = this.#now()
    const versions = await this.#store.versions()
    const isTime = nowMs - this.#readMs >= READ_MS || nowMs < this.#readMs
    for (let shard = 0; shard < ROLLUP_SHARDS; shard++) {
      if (!this.#owns(shard)) {
        this.#leave(shard)
        continue
      }
      const version = versions.get(shard) ?? -1
      if (!isTime && this.#versions.get(shard) === version) continue
      this.#take(shard, await this.#store.notifications(shard))
      this.#versions.set(shard, version)
    }
    if (isTime) this.#readMs = nowMs
    if (this.#waiting.size > 0) this.#receivers = await this.#store.receivers()
  }

  /** @param {number} shard */
  #leave(shard) {
    if (!this.#versions.delete(shard)) return
    for (const [id, one] of this.#waiting) if (one.shard === shard) this.#waiting.delete(id)
  }

  /** @param {number} shard  @param {Notification[]} notifications */
  #take(shard, notifications) {
    const ids = new Set(notifications.map(({ id }) => id))
    for (const [id, one] of this.#waiting) {
      if (one.shard === shard && !ids.has(id) && !one.isOnTheWay) this.#waiting.delete(id)
    }
    for (const notification of notifications) {
      if (this.#waiting.has(notification.id)) continue
      const fresh = { notification, shard, dueMs: 0, attempts: 0, isOnTheWay: false }
      this.#waiting.set(notification.id, fresh)
    }
  }

  /** Those that are sent now: of each receiver the oldest, and of each alert one after another. */
  #choose() {
    const nowMs = this.#now()
    const all = [...this.#waiting.values()]
    all.sort((a, b) => byAge(a.notification, b.notification))
    let left = AT_ONCE - all.filter(({ isOnTheWay }) => isOnTheWay).length
    /** @type {Map<string, number>} */
    const onTheWay = new Map()
    const count = (/** @type {string} */ id) => onTheWay.set(id, (onTheWay.get(id) ?? 0) + 1)
    for (const { isOnTheWay, notification } of all) if (isOnTheWay) count(notification.receiverId)
    const earlier = new Set()
    const chosen = []
    for (const one of all) {
      const { alertId, receiverId } = one.notification
      const key = `${alertId} ${receiverId}`
      const isFirst = !earlier.has(key)
      earlier.add(key)
      if (left === 0 || !isFirst || one.isOnTheWay || one.dueMs > nowMs) continue
      const pause = this.#pauses.get(receiverId)
      if (pause && pause.untilMs > nowMs) continue
      if ((onTheWay.get(receiverId) ?? 0) >= (pause ? 1 : RECEIVER_AT_ONCE)) continue
      count(receiverId)
      left--
      chosen.push(one)
    }
    return chosen
  }

  /** @param {Waiting} one */
  async #attempt(one) {
    one.isOnTheWay = true
    one.attempts++
    const { notification } = one
    const receiver = this.#receivers.get(notification.receiverId)
    try {
      if (!receiver) {
        await this.#over(one, 'dropped', 'there is no such receiver any more')
        return
      }
      const carrier = this.#carriers[receiver.kind]
      if (!carrier) throw new Error(`this ingest sends no ${receiver.kind}: see its options`)
      await carrier.send(receiver, notification, this.#now())
    } catch (error) {
      await this.#failed(one, /** @type {Error} */ (error)).catch(() => {})
      return
    } finally {
      one.isOnTheWay = false
    }
    if (!receiver) return
    this.#pauses.delete(receiver.id)
    await this.#delivered(one, receiver)
  }

  /**
   * It was told, and stays told: only that the row is gone has to be made true.
   *
   * @param {Waiting} one
   * @param {Receiver} receiver
   */
  async #delivered(one, receiver) {
    this.counts.delivered++
    one.isOnTheWay = true
    while (!this.isStopped) {
      try {
        await this.#over(one, 'delivered')
        await this.#store.noteReceiver(receiver.id, this.#now())
        return
      } catch {
        await this.#sleep(RETRY_MS_MIN)
      }
    }
  }

  /** @param {Waiting} one  @param {Error} error */
  async #failed(one, error) {
    const nowMs = this.#now()
    const { notification, attempts } = one
    const { receiverId, createdMs } = notification
    this.counts.failures++
    one.dueMs = nowMs + Math.min(RETRY_MS_MIN * 2 ** (attempts - 1), RETRY_MS_MAX)
    if (!(error instanceof Refused)) {
      const before = this.#pauses.get(receiverId)?.pauseMs ?? RETRY_MS_MIN / 2
      const pauseMs = Math.min(2 * before, RETRY_MS_MAX)
      this.#pauses.set(receiverId, { untilMs: nowMs + pauseMs, pauseMs })
      // Of those that wait, any may be the one by which it is found to be back.
      one.dueMs = nowMs + pauseMs
    }
    const reason = cut(error.message, ERROR_LENGTH_MAX)
    this.#logger.warn({ receiver: receiverId, attempts, reason }, 'a receiver was not told yet')
    await this.#store.noteReceiver(receiverId, nowMs, reason)
    if (nowMs - createdMs < TRIED_MS_MAX) return
    this.counts.givenUp++
    await this.#over(one, 'given up', reason)
  }

  /** @param {Waiting} one  @param {string} state  @param {string} [error] */
  async #over({ notification, shard, attempts }, state, error) {
    const { id, alertId, change, receiverId } = notification
    await this.#store.forget(shard, id)
    this.#waiting.delete(id)
    if (change === 'test') return
    const how = { at: this.#now(), state, attempts, error }
    await this.#store.noteTold(alertId, firedMsOf(alertId), `${change} ${receiverId}`, how)
  }
}
