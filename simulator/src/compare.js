/**
 * What was published beside what is stored, value by value: what is missing, what is there that
 * nobody published, and what is another value than it was. Pure: both sides come as they are read,
 * so their length does not matter.
 *
 * What was published and not acknowledged may be stored or not, and what has no time and was sent
 * again when a connection was lost may be stored again; neither is a difference.
 */

import { valueKey } from './ledger.js'

/** Examples of differences that a series keeps. */
const EXAMPLES_MAX = 3
/** Most different values without a time that are told apart, of one sensor. */
const VALUES_MAX = 1_000_000

/**
 * A value as it was published.
 *
 * @typedef {object} Expected
 * @property {string} metric
 * @property {number} [timeMs]   Undefined where the platform chose it.
 * @property {unknown} value
 * @property {boolean} isAcknowledged
 * @property {number} [resent]   How often it was sent again, if it has no time.
 */

/**
 * A value as it is stored.
 *
 * @typedef {object} Stored
 * @property {string} metric
 * @property {number} timeMs
 * @property {unknown} value
 */

/** What differs in one series. */
export class Difference {
  /** Acknowledged, and not there. */
  missing = 0
  /** There, and not published. */
  extra = 0
  /** There with another value. */
  changed = 0
  /** Stored although it was never acknowledged, which is no difference. */
  unacknowledged = 0
  /** Stored once more because it was sent again. */
  repeated = 0
  /** Without a time, and received in the same millisecond as an equal one, which is none either. */
  merged = 0
  /** @type {string[]} */
  examples = []

  get total() {
    return this.missing + this.extra + this.changed
  }

  /** @param {string} text */
  example(text) {
    if (this.examples.length < EXAMPLES_MAX) this.examples.push(text)
  }
}

/** Differences by metric; those that were not asked for have none. */
export class Differences {
  /** @type {Map<string, Difference>} */
  series = new Map()

  /** @param {string} metric */
  of(metric) {
    let difference = this.series.get(metric)
    if (!difference) {
      difference = new Difference()
      this.series.set(metric, difference)
    }
    return difference
  }

  /** Whether they say why two digests are not the same. */
  get explain() {
    const values = [...this.series.values()]
    return values.some(
      ({ total, unacknowledged, repeated, merged }) =>
        total + unacknowledged + repeated + merged > 0,
    )
  }
}

/**
 * Compares the values of a sensor, both sides oldest first.
 *
 * @param {Iterable<Expected>} expected  All with a time.
 * @param {Iterable<Stored> | AsyncIterable<Stored>} stored
 */
export async function compareTimed(expected, stored) {
  const differences = new Differences()
  const moments = groupByTime(expected)
  let next = await moments.next()
  for await (const { timeMs, values } of groupByTime(stored)) {
    for (; !next.done && next.value.timeMs < timeMs; next = await moments.next()) {
      judge(differences, next.value.timeMs, next.value.values, [])
    }
    const isSame = !next.done && next.value.timeMs === timeMs
    judge(differences, timeMs, isSame ? (next.value?.values ?? []) : [], values)
    if (isSame) next = await moments.next()
  }
  for (; !next.done; next = await moments.next()) {
    judge(differences, next.value.timeMs, next.value.values, [])
  }
  return differences
}

/**
 * Compares the values of one millisecond.
 *
 * @param {Differences} differences
 * @param {number} timeMs
 * @param {Expected[]} expected
 * @param {Stored[]} stored
 */
function judge(differences, timeMs, expected, stored) {
  const rest = [...stored]
  const absent = expected.filter(({ metric, value, isAcknowledged }) => {
    const key = valueKey(value)
    const at = rest.findIndex((row) => row.metric === metric && valueKey(row.value) === key)
    if (at < 0) return isAcknowledged
    rest.splice(at, 1)
    if (!isAcknowledged) differences.of(metric).unacknowledged++
    return false
  })
  const when = new Date(timeMs).toISOString()
  for (const { metric, value } of absent) {
    const difference = differences.of(metric)
    const at = rest.findIndex((row) => row.metric === metric)
    if (at < 0) {
      difference.missing++
      difference.example(`${when}: ${valueKey(value)} is missing`)
    } else {
      const [row] = rest.splice(at, 1)
      difference.changed++
      difference.example(`${when}: ${valueKey(row.value)} instead of ${valueKey(value)}`)
    }
  }
  for (const { metric, value } of rest) {
    const difference = differences.of(metric)
    difference.extra++
    difference.example(`${when}: ${valueKey(value)} was not published`)
  }
}

/**
 * Compares things that have no time of their own, values of a sensor or messages: how often each is
 * there.
 *
 * @param {Iterable<Expected>} expected
 * @param {Iterable<Stored> | AsyncIterable<Stored>} stored
 * @param {(metric: string, key: string) => number} closeOf  How many of a value, by its key, may
 *   have been received in the same millisecond as an equal one, and then are one row.
 */
export async function compareTimeless(expected, stored, closeOf) {
  const counts = new Counts()
  for (const { metric, value, isAcknowledged, resent = 0 } of expected) {
    const count = counts.of(metric, value)
    count.resent += resent
    if (isAcknowledged) count.acknowledged++
    else count.pending++
  }
  for await (const { metric, value } of stored) counts.of(metric, value).stored++
  const differences = new Differences()
  for (const [metric, values] of counts.series) {
    const difference = differences.of(metric)
    for (const [key, { acknowledged, pending, resent, stored: there }] of values) {
      const surplus = there - acknowledged
      const unacknowledged = Math.max(0, Math.min(surplus, pending))
      const repeated = Math.max(0, Math.min(surplus - unacknowledged, resent))
      const extra = Math.max(0, surplus - unacknowledged - repeated)
      // Equal ones that became one row leave at least that one.
      const merged = there > 0 ? Math.min(Math.max(0, -surplus), closeOf(metric, key)) : 0
      const missing = Math.max(0, -surplus - merged)
      difference.unacknowledged += unacknowledged
      difference.repeated += repeated
      difference.merged += merged
      difference.extra += extra
      difference.missing += missing
      if (extra > 0) difference.example(`${key}: ${extra} more than published`)
      if (missing > 0) difference.example(`${key}: ${missing} missing`)
    }
  }
  return differences
}

/** @typedef {{ acknowledged: number, pending: number, resent: number, stored: number }} Count */

/** How often each value is on either side, by metric. */
class Counts {
  /** @type {Map<string, Map<string, Count>>} */
  series = new Map()
  #distinct = 0

  /** @param {string} metric  @param {unknown} value */
  of(metric, value) {
    let values = this.series.get(metric)
    if (!values) {
      values = new Map()
      this.series.set(metric, values)
    }
    let key = valueKey(value)
    // Beyond the limit new values are still counted, together.
    if (this.#distinct >= VALUES_MAX && !values.has(key)) key = 'other values'
    let count = values.get(key)
    if (!count) {
      count = { acknowledged: 0, pending: 0, resent: 0, stored: 0 }
      values.set(key, count)
      this.#distinct++
    }
    return count
  }
}

/**
 * Adjacent things of the same time, together.
 *
 * @template {{ timeMs?: number }} T
 * @param {Iterable<T> | AsyncIterable<T>} things
 * @returns {AsyncGenerator<{ timeMs: number, values: T[] }>}
 */
async function* groupByTime(things) {
  /** @type {{ timeMs: number, values: T[] } | undefined} */
  let group
  for await (const thing of things) {
    const timeMs = thing.timeMs ?? Number.NaN
    if (group?.timeMs === timeMs) {
      group.values.push(thing)
    } else {
      if (group) yield group
      group = { timeMs, values: [thing] }
    }
  }
  if (group) yield group
}
