/** What is answered of each window: which sums, and what stands where there is nothing. */

import { Aggregate } from '@sandglass/common/aggregate'
import { startOf } from '@sandglass/common/rollup'

/** Aggregates that can be asked for, besides percentiles: `p50`, `p99.9`. */
const AGGREGATES = new Map([
  ['avg', (/** @type {Aggregate} */ { n, sum }) => sum / n],
  ['min', (/** @type {Aggregate} */ { min }) => min],
  ['max', (/** @type {Aggregate} */ { max }) => max],
  ['sum', (/** @type {Aggregate} */ { sum }) => sum],
  ['count', (/** @type {Aggregate} */ { n }) => n],
  ['first', (/** @type {Aggregate} */ { first }) => first],
  ['last', (/** @type {Aggregate} */ { last }) => last],
])

const PERCENTILE = /^p(\d{1,2}(?:\.\d{1,3})?|100)$/

/** What stands where there is nothing. */
export const FILLS = /** @type {const} */ (['none', 'null', 'previous', 'linear'])

/** @typedef {typeof FILLS[number]} Fill */
/** @typedef {Record<string, number | null>} Item  With `t`, where its window begins. */

/** Whether a word names an aggregate. @param {string} name */
export function isAggregate(name) {
  return AGGREGATES.has(name) || PERCENTILE.test(name)
}

/** Whether it is estimated from a sketch. @param {string} name */
export function isPercentile(name) {
  return PERCENTILE.test(name)
}

/** The sums of a range, by window. */
export class Windows {
  /** By where they begin, milliseconds since the Unix epoch. @type {Map<number, Aggregate>} */
  byStart = new Map()

  /** @param {number} stepMs  @param {boolean} hasSketch */
  constructor(stepMs, hasSketch) {
    this.stepMs = stepMs
    this.hasSketch = hasSketch
  }

  /** The sums of the window of a time. @param {number} timeMs */
  at(timeMs) {
    const startMs = startOf(timeMs, this.stepMs)
    let aggregate = this.byStart.get(startMs)
    if (!aggregate) {
      aggregate = this.hasSketch ? Aggregate.withSketch() : new Aggregate()
      this.byStart.set(startMs, aggregate)
    }
    return aggregate
  }

  /** Takes over the sums of another series. @param {Windows} other */
  merge(other) {
    for (const [startMs, aggregate] of other.byStart) this.at(startMs).merge(aggregate)
  }

  /**
   * @param {import('@sandglass/common/spans').Range} range
   * @param {readonly string[]} names  Of aggregates.
   * @param {Fill} fill
   * @returns {Item[]}  Oldest first.
   */
  items(range, names, fill) {
    return [...this.each(range, names, fill)]
  }

  /**
   * The same, made one by one: there may be very many.
   *
   * @param {import('@sandglass/common/spans').Range} range
   * @param {readonly string[]} names
   * @param {Fill} fill
   * @returns {Generator<Item, void, undefined>}
   */
  *each(range, names, fill) {
    const found = this.#found(names)
    if (fill === 'none') yield* found
    else yield* filled(found, range, this.stepMs, names, fill)
  }

  /** @param {readonly string[]} names  @returns {Generator<Item, void, undefined>} */
  *#found(names) {
    for (const [t, aggregate] of [...this.byStart].sort(([a], [b]) => a - b)) {
      yield itemOf(t, aggregate, names)
    }
  }
}

/** @param {number} t  @param {Aggregate} aggregate  @param {readonly string[]} names */
function itemOf(t, aggregate, names) {
  /** @type {Item} */
  const item = { t }
  for (const name of names) {
    const read = AGGREGATES.get(name)
    item[name] = read ? read(aggregate) : percentile(aggregate, name)
  }
  return item
}

/** @param {Aggregate} aggregate  @param {string} name */
function percentile({ sketch, min, max }, name) {
  const value = sketch?.quantile(Number(name.slice(1)) / 100) ?? Number.NaN
  return Math.min(max, Math.max(min, value))
}

/**
 * One item for each window of a range.
 *
 * @param {Iterator<Item, void, undefined>} found
 * @param {import('@sandglass/common/spans').Range} range
 * @param {number} stepMs
 * @param {readonly string[]} names
 * @param {Exclude<Fill, 'none'>} fill
 * @returns {Generator<Item, void, undefined>}
 */
function* filled(found, { fromMs, toMs }, stepMs, names, fill) {
  const take = () => found.next().value ?? undefined
  /** @type {Item | undefined} */
  let before
  let after = take()
  for (let t = startOf(fromMs, stepMs); t < toMs; t += stepMs) {
    if (after?.t === t) {
      yield after
      before = after
      after = take()
      continue
    }
    /** @type {Item} */
    const item = { t }
    for (const name of names) item[name] = between(before, after, t, name, fill)
    yield item
  }
}

/**
 * @param {Item | undefined} before
 * @param {Item | undefined} after
 * @param {number} t
 * @param {string} name
 * @param {Exclude<Fill, 'none'>} fill
 */
function between(before, after, t, name, fill) {
  if (name === 'count') return 0
  const [from, to] = [before?.[name] ?? null, after?.[name] ?? null]
  if (fill === 'null' || from === null) return null
  if (fill === 'previous') return from
  if (to === null || !before || !after) return null
  const share = (t - Number(before.t)) / (Number(after.t) - Number(before.t))
  return from + share * (to - from)
}
