/**
 * How many notifications are on their way: to one receiver, and to all. Receivers that fail or are
 * slow share one half, so that the others always have the other one.
 */

/** First and longest pause after an attempt that failed, in milliseconds. */
export const RETRY_MS_MIN = 1_000
export const RETRY_MS_MAX = 60_000

/** Notifications on their way to one receiver, and to all. */
const RECEIVER_AT_ONCE = 4
const AT_ONCE = 32

/** Those to receivers that fail or are slow; of each of these one. */
const TROUBLED_AT_ONCE = AT_ONCE / 2

/** How long one is on its way until its receiver is slow, in milliseconds. */
const SLOW_MS = 10_000

/** Those that are slow beyond that half give their lanes to others, up to this many in all. */
const ALL_AT_ONCE = 2 * AT_ONCE

/** @typedef {{ receiverId: string, sinceMs: number }} Lane */

export class Lanes {
  /** @type {Set<Lane>} */
  #taken = new Set()
  /** Lanes that stay empty until the next turn, as what they brought was not taken. */
  /** @type {Set<Lane>} */
  #resting = new Set()
  /** Of receivers that did not answer. @type {Map<string, { untilMs: number, pauseMs: number }>} */
  #pauses = new Map()

  /**
   * Tells of each receiver whether one more may go to it now. It is asked once about each, and
   * counts those that it lets go: many may wait, and lanes are counted once for all of them.
   *
   * @param {number} nowMs
   * @returns {(receiverId: string) => boolean}
   */
  free(nowMs) {
    const slow = new Set()
    /** @type {Map<string, number>} */
    const own = new Map()
    for (const { receiverId } of [...this.#taken, ...this.#resting]) {
      own.set(receiverId, (own.get(receiverId) ?? 0) + 1)
    }
    for (const { receiverId, sinceMs } of this.#taken) {
      if (nowMs - sinceMs > SLOW_MS) slow.add(receiverId)
    }
    const isTroubled = (/** @type {string} */ id) => slow.has(id) || this.#pauses.has(id)
    let troubled = 0
    for (const { receiverId } of this.#taken) if (isTroubled(receiverId)) troubled++
    return (receiverId) => {
      const pause = this.#pauses.get(receiverId)
      if (pause && nowMs < pause.untilMs) return false
      const counted = this.#taken.size - Math.max(0, troubled - TROUBLED_AT_ONCE)
      if (counted >= AT_ONCE || this.#taken.size >= ALL_AT_ONCE) return false
      if (!isTroubled(receiverId)) return (own.get(receiverId) ?? 0) < RECEIVER_AT_ONCE
      if (own.has(receiverId) || troubled >= TROUBLED_AT_ONCE) return false
      troubled++
      return true
    }
  }

  /** @param {string} receiverId  @param {number} nowMs  @returns {Lane} */
  enter(receiverId, nowMs) {
    const lane = { receiverId, sinceMs: nowMs }
    this.#taken.add(lane)
    return lane
  }

  /** @param {Lane} lane  @param {boolean} isOver  Whether it is not tried again. */
  leave(lane, isOver) {
    this.#taken.delete(lane)
    if (!isOver) this.#resting.add(lane)
  }

  /** Those that rested may be used again. */
  turn() {
    this.#resting.clear()
  }

  /** The receiver answers, or is gone. @param {string} receiverId */
  answered(receiverId) {
    this.#pauses.delete(receiverId)
  }

  /**
   * The receiver did not answer.
   *
   * @param {string} receiverId
   * @param {number} nowMs
   * @returns {number}  When it is asked again.
   */
  failed(receiverId, nowMs) {
    const before = this.#pauses.get(receiverId)?.pauseMs ?? RETRY_MS_MIN / 2
    const pauseMs = Math.min(2 * before, RETRY_MS_MAX)
    this.#pauses.set(receiverId, { untilMs: nowMs + pauseMs, pauseMs })
    return nowMs + pauseMs
  }
}
