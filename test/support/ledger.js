// The publisher's own ledger of what it published, and its comparison with what is stored.
//
// A measurement is identified by sensor, metric, time and seq. The publisher knows the first three;
// the seq of values that share them is the platform's choice. So the comparison is of the set of
// values at each (sensor, metric, time): every acknowledged one is stored, exactly once, and
// nothing is stored that was not published.

/**
 * One measurement as it is read back.
 *
 * @typedef {object} Stored
 * @property {string} sensorId
 * @property {string} metric
 * @property {number} timeMs
 * @property {number} seq
 * @property {unknown} value
 */

/** Examples of each kind of difference that a report shows. */
const EXAMPLES_MAX = 5

export class Ledger {
  /** @type {Map<string, Map<unknown, boolean>>}  Place → value → whether it was acknowledged. */
  #places = new Map()
  published = 0
  acknowledged = 0

  /**
   * Notes that a value is about to be published. The same value at the same place is one message.
   *
   * @param {string} sensorId
   * @param {string} metric
   * @param {number} timeMs
   * @param {unknown} value
   * @returns {() => void}  To be called when it is acknowledged.
   */
  note(sensorId, metric, timeMs, value) {
    const place = `${sensorId} ${metric} ${timeMs}`
    let values = this.#places.get(place)
    if (!values) {
      values = new Map()
      this.#places.set(place, values)
    }
    if (values.has(value)) throw new Error(`${value} at ${place} is published twice`)
    values.set(value, false)
    this.published++
    return () => {
      if (values.get(value)) return
      values.set(value, true)
      this.acknowledged++
    }
  }

  /**
   * Compares with everything that is stored.
   *
   * @param {Iterable<Stored>} rows
   * @returns {{ lost: string[], doubled: string[], foreign: string[], counts: object }}  All three
   *   empty if each acknowledged measurement is stored once and each stored one was published.
   */
  compare(rows) {
    /** @type {Map<string, { value: unknown, seq: number }[]>} */
    const stored = new Map()
    let count = 0
    for (const row of rows) {
      const place = `${row.sensorId} ${row.metric} ${row.timeMs}`
      const values = stored.get(place)
      if (values) values.push(row)
      else stored.set(place, [row])
      count++
    }
    const doubled = new Examples()
    const foreign = new Examples()
    for (const [place, values] of stored) {
      const published = this.#places.get(place)
      const seen = new Set()
      for (const { value, seq } of values) {
        if (!published?.has(value)) foreign.add(`${value} at ${place}, seq ${seq}`)
        else if (seen.has(value)) doubled.add(`${value} at ${place}, seq ${seq}`)
        seen.add(value)
      }
    }
    const lost = this.#lost(stored)
    return {
      lost: lost.list,
      doubled: doubled.list,
      foreign: foreign.list,
      counts: { stored: count, lost: lost.count, doubled: doubled.count, foreign: foreign.count },
    }
  }

  /** @param {Map<string, { value: unknown }[]>} stored */
  #lost(stored) {
    const lost = new Examples()
    for (const [place, values] of this.#places) {
      const there = new Set(stored.get(place)?.map((row) => row.value))
      for (const [value, acknowledged] of values) {
        if (acknowledged && !there.has(value)) lost.add(`${value} at ${place}`)
      }
    }
    return lost
  }
}

/** Counts all, keeps a few. */
class Examples {
  /** @type {string[]} */
  list = []
  count = 0

  /** @param {string} example */
  add(example) {
    if (this.count++ < EXAMPLES_MAX) this.list.push(example)
  }
}
