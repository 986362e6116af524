/**
 * What waits for one worker, by client: whoever has used the least time is next, so that a client
 * whose messages take long waits for the others, and not they for it. Within a client the oldest is
 * first. Pure.
 */

/** Most clients that do not wait, and of which it is known what they used. */
const IDLE_MAX = 10_000

/**
 * @template T
 * @typedef {object} Client
 * @property {T[]} items  Oldest first.
 * @property {number} usedMs  On the clock of all: what it used, from when it came.
 * @property {number} costMs  Of one of its items, about.
 */

/** @template T */
export class FairQueue {
  /** How many items wait. */
  length = 0
  /** Those that wait, or whose time is ahead of the clock. @type {Map<string, Client<T>>} */
  #clients = new Map()
  /** Those that wait. @type {Set<Client<T>>} */
  #waiting = new Set()
  /** What those who wait have used at least, in milliseconds. */
  #clockMs = 0

  /** @param {string} name  Of its client.  @param {T} item */
  add(name, item) {
    const client = this.#clients.get(name) ?? this.#remember(name)
    if (client.items.length === 0) client.usedMs = Math.max(client.usedMs, this.#clockMs)
    client.items.push(item)
    this.#waiting.add(client)
    this.length++
  }

  /** @returns {T | undefined}  The next one, which is taken to cost what the last ones did. */
  take() {
    /** @type {Client<T> | undefined} */
    let next
    for (const client of this.#waiting) {
      if (next === undefined || client.usedMs < next.usedMs) next = client
    }
    if (!next) return undefined
    this.#clockMs = next.usedMs
    next.usedMs += next.costMs
    this.length--
    const item = next.items.shift()
    if (next.items.length === 0) this.#waiting.delete(next)
    return item
  }

  /** What an item that was taken has cost. @param {string} name  @param {number} ms */
  spent(name, ms) {
    const client = this.#clients.get(name)
    if (!client) return
    client.usedMs += ms - client.costMs
    client.costMs = (3 * client.costMs + ms) / 4
  }

  /**
   * Takes all items of a client.
   *
   * @param {string} name
   * @returns {T[]}
   */
  drop(name) {
    const client = this.#clients.get(name)
    if (!client) return []
    this.#waiting.delete(client)
    this.length -= client.items.length
    return client.items.splice(0)
  }

  /** @param {string} name  @returns {Client<T>} */
  #remember(name) {
    if (this.#clients.size - this.#waiting.size >= IDLE_MAX) this.#forget()
    /** @type {Client<T>} */
    const client = { items: [], usedMs: this.#clockMs, costMs: 0 }
    this.#clients.set(name, client)
    return client
  }

  /** Those that do not wait: first who would begin like a new one. */
  #forget() {
    const idle = [...this.#clients].filter(([, { items }]) => items.length === 0)
    const even = idle.filter(([, { usedMs }]) => usedMs <= this.#clockMs)
    for (const [name] of even.length > 0 ? even : idle) this.#clients.delete(name)
  }
}
