/**
 * What is acknowledged in the order of its arrival: each is taken once it is settled, and not
 * before all that came earlier.
 */

/** Taken entries that are kept before the queue is cut. */
const QUEUE_CUT = 64

/**
 * What is acknowledged in its order besides messages; a DISCONNECT, too.
 *
 * @typedef {object} Due
 * @property {number} type  `pubrec` or `disconnect`.
 * @property {number} packetId
 * @property {boolean} isSettled
 */

/** @template {{ readonly isSettled: boolean }} T */
export class AcknowledgementQueue {
  /** @type {T[]} */
  #queue = []
  /** The first of the queue that was not taken. */
  #head = 0

  /** How many were not taken yet. */
  get count() {
    return this.#queue.length - this.#head
  }

  /** The next one, settled or not. @returns {T | undefined} */
  get first() {
    return this.#queue[this.#head]
  }

  /** @param {T} one */
  push(one) {
    this.#queue.push(one)
  }

  /** Takes the next one, if it is settled. @returns {T | undefined} */
  take() {
    const one = this.#queue[this.#head]
    if (!one?.isSettled) return undefined
    this.#head++
    if (this.#head === this.#queue.length) {
      this.clear()
    } else if (this.#head >= QUEUE_CUT && 2 * this.#head >= this.#queue.length) {
      // Gives back the memory of what is done with.
      this.#queue.splice(0, this.#head)
      this.#head = 0
    }
    return one
  }

  clear() {
    this.#queue.length = 0
    this.#head = 0
  }
}
