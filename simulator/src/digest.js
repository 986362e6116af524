/**
 * What a set of things is known by when the set itself is too large to be kept: how many they are,
 * and the sum of their hashes, which does not depend on their order. Two sets that differ have the
 * same digest once in 2^96 times.
 */

import { createHash } from 'node:crypto'

/** The sums wrap here, so that adding two of them stays exact. */
const WRAP = 2 ** 48

export class Digest {
  count = 0
  #first = 0
  #second = 0

  /** @param {string} thing */
  add(thing) {
    const bytes = createHash('sha1').update(thing).digest()
    this.count++
    this.#first = (this.#first + bytes.readUIntBE(0, 6)) % WRAP
    this.#second = (this.#second + bytes.readUIntBE(6, 6)) % WRAP
  }

  /** @param {Digest} other */
  equals(other) {
    return (
      this.count === other.count && this.#first === other.#first && this.#second === other.#second
    )
  }
}
