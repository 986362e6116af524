// Numbers that follow from a seed alone, on every machine.

/** Where a choice is one of several with weights. @template T @typedef {[number, T]} Weighted */

/** A 32-bit hash of a text (FNV-1a), to begin a sequence with. @param {string} text */
function hash(text) {
  let state = 0x811c9dc5
  for (const byte of Buffer.from(text)) state = Math.imul(state ^ byte, 0x01000193)
  return state >>> 0
}

/** A sequence of numbers (mulberry32). */
export class Random {
  #state

  /** @param {string} seed */
  constructor(seed) {
    this.#state = hash(seed)
  }

  /** From 0 to below 1. */
  next() {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let mixed = this.#state
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }

  /** A whole number from 0 to below `end`. @param {number} end */
  below(end) {
    return Math.floor(this.next() * end)
  }

  /** A whole number, both ends included. @param {number} first  @param {number} last */
  between(first, last) {
    return first + this.below(last - first + 1)
  }

  /** @param {number} probability */
  chance(probability) {
    return this.next() < probability
  }

  /** @template T @param {readonly T[]} choices @returns {T} */
  pick(choices) {
    if (choices.length === 0) throw new Error('nothing to pick from')
    return choices[this.below(choices.length)]
  }

  /** @template T @param {Weighted<T>[]} choices @returns {T} */
  weighted(choices) {
    let left = this.next() * choices.reduce((sum, [weight]) => sum + weight, 0)
    for (const [weight, choice] of choices) {
      left -= weight
      if (left < 0) return choice
    }
    return choices[0][1]
  }

  /** All of them in another order. @template T @param {readonly T[]} items @returns {T[]} */
  shuffled(items) {
    const all = [...items]
    for (let at = all.length - 1; at > 0; at--) {
      const other = this.below(at + 1)
      ;[all[at], all[other]] = [all[other], all[at]]
    }
    return all
  }

  /** Each with the same probability, in their order. @template T
   * @param {readonly T[]} items  @param {number} [probability] @returns {T[]} */
  some(items, probability = 0.5) {
    return items.filter(() => this.chance(probability))
  }
}
