/**
 * Gives messages to subscribers, in order, and not more in a turn of the event loop than may be
 * written at once: a message for a thousand subscribers is a thousand packets, and none of them
 * leaves before the turn is over. What is more waits, within its share of memory.
 */

/** Most bytes of a turn, as a part of the share. */
const TURN_PART = 1 / 4

/** Messages that were given are kept until there are so many. */
const GIVEN_CUT = 64

/**
 * @typedef {object} Waiting
 * @property {0 | 1 | 2} qos
 * @property {number} bytes  That it takes while it waits.
 */

/** @template {Waiting} M */
export class Fanout {
  /** Those before `#next` are given. @type {M[]} */
  #waiting = []
  #next = 0
  #turnBytes = 0
  #isDue = false
  #share
  #give
  #own

  /**
   * @param {import('@sandglass/common/memory-share').MemoryShare} share
   * @param {(message: M) => number} give  To whoever subscribed; returns the bytes of all packets.
   * @param {(message: M) => M} own  A message as it waits: it keeps nothing alive but itself.
   */
  constructor(share, give, own) {
    this.#share = share
    this.#give = give
    this.#own = own
    /** Messages of QoS 0 that there was no room for. */
    this.dropped = 0
    /** Called when there is room again. @type {() => void} */
    this.onRoom = () => {}
  }

  /** Whether it is behind. */
  get isFull() {
    return this.#share.isFull
  }

  get #isSpent() {
    return this.#turnBytes >= this.#share.bytesMax * TURN_PART
  }

  /** @param {M} message */
  add(message) {
    if (this.#waiting.length === 0 && !this.#isSpent) {
      this.#giveNow(message)
      return
    }
    const { qos, bytes } = message
    if (qos > 0) {
      this.#share.add(bytes)
    } else if (!this.#share.take(bytes)) {
      this.dropped++
      return
    }
    this.#waiting.push(this.#own(message))
  }

  /** @param {M} message */
  #giveNow(message) {
    const bytes = this.#give(message)
    this.#turnBytes += bytes
    if (bytes === 0 || this.#isDue) return
    this.#isDue = true
    setImmediate(() => this.#turn())
  }

  #turn() {
    const wasFull = this.isFull
    this.#isDue = false
    this.#turnBytes = 0
    while (this.#next < this.#waiting.length && !this.#isSpent) {
      const message = this.#waiting[this.#next++]
      this.#share.give(message.bytes)
      this.#giveNow(message)
    }
    const isDone = this.#next === this.#waiting.length
    if (isDone || (this.#next >= GIVEN_CUT && 2 * this.#next >= this.#waiting.length)) {
      // Gives back their memory, also where there is always one more.
      this.#waiting.splice(0, this.#next)
      this.#next = 0
    }
    if (wasFull && !this.isFull) this.onRoom()
  }
}
