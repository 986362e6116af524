/**
 * Whose messages are read first: while more clients wait outside than come in in a turn of the
 * event loop, those who are let in are not read yet. What they have to send after an outage costs
 * many times what letting them in does, and whoever waits outside for too long gives up, and comes
 * again.
 *
 * There is a crowd when each door has brought somebody in a turn: then there may be more outside.
 * Clients that were read before are read on.
 */

/** Longest that one who was let in is not read, in milliseconds: a crowd may never end. */
export const UNREAD_MS_MAX = 2_000

/** Of those who wait, how many more are read in each turn without a crowd. */
export const READ_PER_TURN = 32

/**
 * @typedef {object} Newcomer
 * @property {boolean} isBlocked  Whether it is not read. False again if it is closed meanwhile.
 * @property {() => void} read
 */

export class Newcomers {
  /** How many connections can come in a turn; where that is one, nothing can be told from it. */
  doors = Number.POSITIVE_INFINITY
  #clockMs
  #nextTurn
  #came = 0
  #isCrowd = false
  #isScheduled = false
  /** Each connection at most once. @type {{ one: Newcomer, sinceMs: number }[]} */
  #waiting = []
  /** The first of them that was not read. */
  #head = 0

  /**
   * @param {object} parts
   * @param {() => number} parts.clockMs
   * @param {(call: () => void) => void} [parts.nextTurn]  Calls when all sockets were looked at.
   */
  constructor({ clockMs, nextTurn = setImmediate }) {
    this.#clockMs = clockMs
    this.#nextTurn = nextTurn
  }

  /** Somebody came in by a door. */
  came() {
    this.#came++
    this.#schedule()
  }

  /** Somebody was let in, and is to be read. @param {Newcomer} one */
  letIn(one) {
    if (!this.#isCrowd && this.#head === this.#waiting.length) {
      one.read()
      return
    }
    one.isBlocked = true
    this.#waiting.push({ one, sinceMs: this.#clockMs() })
    this.#schedule()
  }

  #schedule() {
    if (this.#isScheduled) return
    this.#isScheduled = true
    this.#nextTurn(() => this.#turn())
  }

  #turn() {
    this.#isScheduled = false
    this.#isCrowd = this.#came >= this.doors
    this.#came = 0
    const nowMs = this.#clockMs()
    for (let left = this.#isCrowd ? 0 : READ_PER_TURN; this.#head < this.#waiting.length; left--) {
      const { one, sinceMs } = this.#waiting[this.#head]
      if (left <= 0 && nowMs - sinceMs < UNREAD_MS_MAX) break
      this.#head++
      if (one.isBlocked) one.read()
    }
    if (this.#head === this.#waiting.length) {
      this.#waiting = []
      this.#head = 0
    }
    if (this.#isCrowd || this.#waiting.length > 0) this.#schedule()
  }
}
