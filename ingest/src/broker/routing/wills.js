/** Wills of MQTT 5, published when a client stays away for too long, or its session ends. */

/**
 * @typedef {object} Will5
 * @property {string} topic
 * @property {Buffer} payload
 * @property {0 | 1 | 2} qos
 * @property {boolean} retain
 * @property {number} delayMs
 * @property {number | undefined} expiryS  After it was published.
 * @property {Buffer} passOn
 */

/** Longest that a timer can wait, in milliseconds. */
const TIMER_MS_MAX = 2 ** 31 - 1

/** One will, until it is published or dropped: once. */
export class PendingWill {
  /** @type {NodeJS.Timeout | undefined} */
  #timer
  #publish

  /** @param {number} delayMs  @param {() => void} publish */
  constructor(delayMs, publish) {
    this.#publish = publish
    this.#timer = setTimeout(() => this.publish(), Math.min(delayMs, TIMER_MS_MAX))
    this.#timer.unref()
  }

  publish() {
    this.drop()
    const publish = this.#publish
    this.#publish = () => {}
    publish()
  }

  drop() {
    clearTimeout(this.#timer)
  }
}
