/**
 * What was seen of one series at which millisecond. Values come in the order of their times as a
 * rule, and are numbers: these are in two plain arrays, in which nothing is hashed, and which the
 * garbage collector has not to follow. The few others are in a map.
 */

export class SeenTimes {
  /** Ascending. @type {number[]} */
  #times = []
  /** What was seen at them. @type {number[]} */
  #numbers = []
  /** What else was seen; it goes before the numbers. @type {Map<number, unknown> | undefined} */
  #others
  /** The latest time, in milliseconds. */
  toMs = Number.NEGATIVE_INFINITY

  /** How many times there are. */
  get size() {
    let size = this.#times.length
    for (const timeMs of this.#others?.keys() ?? []) if (this.#indexOf(timeMs) < 0) size++
    return size
  }

  /** @param {number} timeMs  @returns {unknown}  Undefined where nothing was seen. */
  get(timeMs) {
    if (timeMs > this.toMs) return undefined
    const other = this.#others?.get(timeMs)
    if (other !== undefined) return other
    const index = this.#indexOf(timeMs)
    return index < 0 ? undefined : this.#numbers[index]
  }

  /** @param {number} timeMs  @param {unknown} seen */
  set(timeMs, seen) {
    if (timeMs > this.toMs) {
      this.toMs = timeMs
      if (typeof seen === 'number') {
        this.#times.push(timeMs)
        this.#numbers.push(seen)
        return
      }
    }
    this.#others ??= new Map()
    this.#others.set(timeMs, seen)
  }

  /** @param {number} timeMs  @returns {number}  Less than 0 where it is not among the numbers. */
  #indexOf(timeMs) {
    const times = this.#times
    let low = 0
    let high = times.length - 1
    while (low <= high) {
      const middle = (low + high) >> 1
      if (times[middle] === timeMs) return middle
      if (times[middle] < timeMs) low = middle + 1
      else high = middle - 1
    }
    return -1
  }
}
