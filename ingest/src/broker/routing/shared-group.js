/**
 * The members of a shared subscription, each message for one of them [MQTT5 4.8.2]: in turn, first
 * those that can take it at once, then those that are connected, then those that come back.
 */

/** @typedef {import('./subscription.js').Subscription} Subscription */

export class SharedGroup {
  /** @type {Subscription[]} */
  #members = []
  #next = 0

  get isEmpty() {
    return this.#members.length === 0
  }

  /** @param {Subscription} subscription */
  add(subscription) {
    this.#members.push(subscription)
  }

  /** @param {Subscription} subscription */
  remove(subscription) {
    const at = this.#members.indexOf(subscription)
    if (at >= 0) this.#members.splice(at, 1)
  }

  /** Whose turn it is. @returns {Subscription | undefined} */
  choose() {
    const { length } = this.#members
    /** @type {Subscription | undefined} */
    let connected
    /** @type {Subscription | undefined} */
    let away
    for (let step = 0; step < length; step++) {
      const at = (this.#next + step) % length
      const member = this.#members[at]
      const { isReady, served, isKept } = member.subscriber
      if (isReady) {
        this.#next = at + 1
        return member
      }
      if (served) connected ??= member
      else if (isKept && member.qos > 0) away ??= member
    }
    this.#next = (this.#next + 1) % Math.max(1, length)
    return connected ?? away
  }
}
