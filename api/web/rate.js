/** How many things happen in a second, over the last moments. */

/** How long the last moments are, in whole seconds. */
const SPAN_S = 5

export class Rate {
  /** Counts by second. @type {Map<number, number>} */
  #counts = new Map()
  #sinceMs

  /** @param {number} nowMs */
  constructor(nowMs) {
    this.#sinceMs = nowMs
  }

  /** @param {number} nowMs */
  note(nowMs) {
    const second = Math.floor(nowMs / 1_000)
    this.#counts.set(second, (this.#counts.get(second) ?? 0) + 1)
  }

  /** Of the last whole seconds; the one that is under way is not over. @param {number} nowMs */
  perS(nowMs) {
    const now = Math.floor(nowMs / 1_000)
    let sum = 0
    for (const [second, count] of this.#counts) {
      if (second < now - SPAN_S) this.#counts.delete(second)
      else if (second < now) sum += count
    }
    const passedS = now - Math.floor(this.#sinceMs / 1_000)
    return sum / Math.min(SPAN_S, Math.max(1, passedS))
  }
}
