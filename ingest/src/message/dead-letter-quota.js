/**
 * How many dead letters are kept of one client in one day: a device that sends rubbish all day must
 * not fill the database with it. What is beyond that is acknowledged and counted, and not kept.
 */

import { createHash } from 'node:crypto'
import { deadLetterDay } from '@sandglass/common/measurement'

/** Most clients that are told apart; those beyond share one budget. */
const CLIENTS_MAX = 50_000

/** Stands for the clients beyond that. */
const OTHERS = Symbol('other clients')

/** Longest name that is remembered as it is, in characters; of a longer one, the hash. */
const NAME_LENGTH_MAX = 64

/** @param {string} name */
function shortOf(name) {
  if (name.length <= NAME_LENGTH_MAX) return name
  return createHash('sha256').update(name).digest('base64')
}

export class DeadLetterQuota {
  #limits

  #day = Number.NaN
  /** @type {Map<string | symbol, { letters: number, bytes: number }>} */
  #clients = new Map()

  /**
   * @param {object} limits  Of one client in one day, by UTC.
   * @param {number} limits.deadLettersMax
   * @param {number} limits.deadLetterBytesMax  Bytes of all that is stored of them.
   */
  constructor(limits) {
    this.#limits = limits
  }

  /**
   * Whether one more is kept; if so, it counts.
   *
   * @param {string} client  As its messages name their sender.
   * @param {number} bytes
   * @param {number} nowMs  Milliseconds since the Unix epoch.
   */
  takes(client, bytes, nowMs) {
    const day = deadLetterDay(nowMs)
    if (day !== this.#day) {
      this.#day = day
      this.#clients.clear()
    }
    const name = shortOf(client)
    const isKnown = this.#clients.has(name) || this.#clients.size < CLIENTS_MAX
    const key = isKnown ? name : OTHERS
    const used = this.#clients.get(key) ?? { letters: 0, bytes: 0 }
    const { deadLettersMax, deadLetterBytesMax } = this.#limits
    if (used.letters >= deadLettersMax || used.bytes + bytes > deadLetterBytesMax) return false
    used.letters++
    used.bytes += bytes
    this.#clients.set(key, used)
    return true
  }
}
