/** What one answer may cost: rows that are read, and time. Both ends are one refusal. */

/** Thrown when a request would cost too much. */
export class OverBudget extends Error {}

export class Budget {
  #rows
  #untilMs
  #clock

  /**
   * @param {object} limits
   * @param {number} limits.rows
   * @param {number} limits.ms  From now on, in milliseconds.
   * @param {() => number} clock  Milliseconds, by a clock that only goes forward.
   */
  constructor({ rows, ms }, clock) {
    this.#rows = rows
    this.#untilMs = clock() + ms
    this.#clock = clock
  }

  /** How many rows may still be read. */
  get rows() {
    return this.#rows
  }

  /**
   * @param {number} rows  That were read. Zero only looks at the clock.
   * @throws {OverBudget}
   */
  spend(rows) {
    this.#rows -= rows
    if (this.#rows < 0 || this.#clock() > this.#untilMs) throw new OverBudget()
  }

  /** Gives rows back: what was made of them is thrown away. @param {number} rows */
  restore(rows) {
    this.#rows = rows
  }
}

/**
 * Waits for all, like `Promise.all`, and also where one fails: nothing goes on reading afterwards.
 *
 * @template T
 * @param {readonly Promise<T>[]} promises
 * @returns {Promise<T[]>}
 */
export async function allEnded(promises) {
  await Promise.allSettled(promises)
  return Promise.all(promises)
}
