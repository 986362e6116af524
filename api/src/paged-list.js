/**
 * A list that is read whole and told page by page. A first page is of what is there now. Further
 * pages may be of what was read a moment ago, so that all of them together cost little more than
 * one: how old that may be follows from how long it takes to read.
 */

import { compare } from './text-page.js'

/** It may be this many times as old as it took to read, and at most this old in milliseconds. */
const AGE_PER_READ = 10
const AGE_MS_MAX = 10_000

/** @template T */
export class PagedList {
  #read
  #keyOf
  /** @type {Promise<T[]> | undefined} */
  #kept

  /**
   * @param {() => Promise<T[]>} read  All of it, in any order.
   * @param {(item: T) => [text: string, id: string]} keyOf  By which it is put in order.
   */
  constructor(read, keyOf) {
    this.#read = read
    this.#keyOf = keyOf
  }

  /**
   * All of it, in order. Whoever asks for a further page while it is read waits for the same.
   *
   * @param {{ cursor?: string }} query  Of a page.
   * @returns {Promise<T[]>}
   */
  for({ cursor }) {
    if (cursor !== undefined && this.#kept) return this.#kept
    const reading = this.#readFor(() => {
      if (this.#kept === reading) this.#kept = undefined
    })
    this.#kept = reading
    return reading
  }

  /** @param {() => void} drop */
  async #readFor(drop) {
    const startMs = performance.now()
    try {
      const list = await this.#read()
      list.sort((a, b) => compare(this.#keyOf(a), this.#keyOf(b)))
      const ageMs = Math.min(AGE_PER_READ * (performance.now() - startMs), AGE_MS_MAX)
      setTimeout(drop, ageMs).unref()
      return list
    } catch (error) {
      drop()
      throw error
    }
  }
}
