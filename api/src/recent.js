/**
 * What was read whole a moment ago, for those who ask for it page by page. How old it may be
 * follows from how long it takes to read, so that reading takes a small share of the time.
 */

/** It may be this many times as old as it took to read, and at most this old in milliseconds. */
const AGE_PER_READ = 10
const AGE_MS_MAX = 10_000

/** @template T */
export class Recent {
  #read
  /** @type {Promise<T> | undefined} */
  #kept

  /** @param {() => Promise<T>} read */
  constructor(read) {
    this.#read = read
  }

  /** @returns {Promise<T>}  Whoever asks while it is read waits for the same. */
  get() {
    if (!this.#kept) {
      const reading = this.#readFor(() => {
        if (this.#kept === reading) this.#kept = undefined
      })
      this.#kept = reading
    }
    return this.#kept
  }

  /** It has changed: who asks from now on gets what is read from now on. */
  forget() {
    this.#kept = undefined
  }

  /** @param {() => void} drop */
  async #readFor(drop) {
    const startMs = performance.now()
    try {
      const value = await this.#read()
      const ageMs = Math.min(AGE_PER_READ * (performance.now() - startMs), AGE_MS_MAX)
      setTimeout(drop, ageMs).unref()
      return value
    } catch (error) {
      drop()
      throw error
    }
  }
}
