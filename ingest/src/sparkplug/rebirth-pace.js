/**
 * How many rebirths are asked for: after a broker's restart all edge nodes are unknown at once, and
 * a birth is the largest message that each of them has.
 */

/** Rebirths that are asked for in a second, and at once after a while without any. */
export const REBIRTHS_PER_S = 20
export const REBIRTHS_AT_ONCE = 100

export class RebirthPace {
  #left = REBIRTHS_AT_ONCE
  #atMs

  /** @param {number} nowMs  By a clock that only goes forward. */
  constructor(nowMs) {
    this.#atMs = nowMs
  }

  /** Whether one more may be asked for. @param {number} nowMs */
  isDue(nowMs) {
    const more = ((nowMs - this.#atMs) * REBIRTHS_PER_S) / 1_000
    return this.#left + more >= 1
  }

  /** One was asked for. @param {number} nowMs */
  asked(nowMs) {
    const more = ((nowMs - this.#atMs) * REBIRTHS_PER_S) / 1_000
    this.#left = Math.min(REBIRTHS_AT_ONCE, this.#left + more) - 1
    this.#atMs = nowMs
  }
}
