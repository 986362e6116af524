/** Lets a limited number of tasks run at once; the others wait in the order in which they came. */
export class Semaphore {
  #free
  /** @type {(() => void)[]} */
  #waiting = []

  /** @param {number} atOnceMax  At least 1. */
  constructor(atOnceMax) {
    this.#free = atOnceMax
  }

  /**
   * Runs a task when it is its turn.
   *
   * @template T
   * @param {() => Promise<T>} task
   * @param {AbortSignal} [signal]  Aborted: the task is not begun; what has begun goes on.
   * @returns {Promise<T>}
   */
  async run(task, signal) {
    if (this.#free > 0) this.#free -= 1
    else await new Promise((/** @type {(value: void) => void} */ pass) => this.#waiting.push(pass))
    try {
      signal?.throwIfAborted()
      return await task()
    } finally {
      const next = this.#waiting.shift()
      if (next) next()
      else this.#free += 1
    }
  }
}
