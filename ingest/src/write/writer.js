/**
 * Writes requests until they are written. What the database cannot do now is tried again, for ever:
 * the messages are held meanwhile, within the limits. What it refuses to do is looked for: the
 * request is cut in halves until the row that it refuses is alone, and only that one is given up.
 */

/** First and longest pause between two attempts, in milliseconds. */
const RETRY_MS_MIN = 50
const RETRY_MS_MAX = 1_000

/** @typedef {import('./row.js').Row} Row */

/**
 * What the caller does about a failure.
 *
 * `retry`: the same again, later. `split`: something in the request may be to blame. `refuse`: the
 * same would fail again, for ever.
 *
 * @typedef {'retry' | 'split' | 'refuse'} Remedy
 */

/**
 * @typedef {object} Store
 * @property {(rows: readonly Row[]) => Promise<void>} insert  One request; all or an error.
 * @property {(error: Error) => Remedy} remedy
 */

/**
 * @typedef {object} Outcome
 * @property {(row: Row) => void} stored
 * @property {(ms: number) => void} wrote  How long a request took that succeeded.
 * @property {(row: Row, error: Error) => void} refused
 * @property {(error: Error) => void} failed  For counting and logging; it will be tried again.
 */

export class Writer {
  #store
  #outcome
  /** @type {Set<() => void>} */
  #sleepers = new Set()
  #pause
  #isClosed = false

  /**
   * @param {object} parts
   * @param {Store} parts.store
   * @param {Outcome} parts.outcome
   * @param {(wait: { ms: number }) => Promise<void>} [parts.pause]
   */
  constructor({ store, outcome, pause }) {
    this.#store = store
    this.#outcome = outcome
    this.#pause = pause ?? (({ ms }) => this.#sleep(ms))
  }

  /** Ends the pauses: the database is back. */
  wake() {
    for (const wake of this.#sleepers) wake()
  }

  /** Gives up trying; what is held stays unacknowledged. */
  stop() {
    this.#isClosed = true
    this.wake()
  }

  /** @param {Row[]} rows */
  async write(rows) {
    for (let ms = RETRY_MS_MIN; !this.#isClosed; ms = Math.min(2 * ms, RETRY_MS_MAX)) {
      const beganMs = performance.now()
      try {
        await this.#store.insert(rows)
        this.#outcome.wrote(performance.now() - beganMs)
        for (const row of rows) this.#outcome.stored(row)
        return
      } catch (thrown) {
        const error = /** @type {Error} */ (thrown)
        const remedy = this.#store.remedy(error)
        if (remedy === 'refuse' && rows.length === 1) {
          this.#outcome.refused(rows[0], error)
          return
        }
        if (remedy !== 'retry' && rows.length > 1) {
          await this.#halve(rows)
          return
        }
        this.#outcome.failed(error)
        await this.#pause({ ms })
      }
    }
  }

  /** @param {Row[]} rows */
  async #halve(rows) {
    const half = rows.length >> 1
    await Promise.all([this.write(rows.slice(0, half)), this.write(rows.slice(half))])
  }

  /** @param {number} ms */
  #sleep(ms) {
    return /** @type {Promise<void>} */ (
      new Promise((resolve) => {
        const wake = () => {
          clearTimeout(timer)
          this.#sleepers.delete(wake)
          resolve()
        }
        const timer = setTimeout(wake, ms / 2 + (Math.random() * ms) / 2)
        this.#sleepers.add(wake)
      })
    )
  }
}
