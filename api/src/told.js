/**
 * Which rows of a series somebody has been told: the keys of the last ones, and one key up to which
 * all were. With it nothing is told twice, and what becomes visible late, between rows that were
 * told already, is not missed.
 */

/** Most keys that are kept of a series; what is older counts as told. */
export const TOLD_KEYS_MAX = 500

/** @typedef {{ t: number, seq: number }} Key  Of a row: event time in milliseconds, and `seq`. */

/** @param {Key} a  @param {Key} b */
export function compareKeys(a, b) {
  return a.t - b.t || a.seq - b.seq
}

export class Told {
  /** @type {Map<string, Key>} */
  #keys = new Map()
  /** Up to this one, inclusive, all count as told. @type {Key | undefined} */
  floor

  /** @param {{ floor?: Key, keys?: Key[] }} [told] */
  constructor({ floor, keys = [] } = {}) {
    this.floor = floor
    for (const key of keys) this.add(key)
  }

  /**
   * @param {Key} key
   * @returns {boolean}  Whether it was not told before.
   */
  add({ t, seq }) {
    if (this.floor && compareKeys({ t, seq }, this.floor) <= 0) return false
    const name = `${t} ${seq}`
    if (this.#keys.has(name)) return false
    this.#keys.set(name, { t, seq })
    // In most cases keys come in order, so that half of them at a time is worth a sort.
    if (this.#keys.size > 2 * TOLD_KEYS_MAX) this.#keep(this.keys(), TOLD_KEYS_MAX)
    return true
  }

  /** In order. */
  keys() {
    return [...this.#keys.values()].sort(compareKeys)
  }

  /**
   * Forgets what is older one by one: nobody looks there any more.
   *
   * @param {number} sinceMs
   */
  advance(sinceMs) {
    const keys = this.keys()
    this.#keep(keys, keys.filter(({ t }) => t >= sinceMs).length)
  }

  /** @param {Key[]} keys  In order.  @param {number} count  Of the newest. */
  #keep(keys, count) {
    const older = keys.slice(0, Math.max(0, keys.length - count))
    for (const { t, seq } of older) this.#keys.delete(`${t} ${seq}`)
    const last = older.at(-1)
    if (last && (!this.floor || compareKeys(last, this.floor) > 0)) this.floor = last
  }
}
