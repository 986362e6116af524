// What random statements are about. One that the engine does not have yet is turned off here.

/** @typedef {keyof typeof KINDS} Kind */

export const KINDS = {
  /** Writes of rows, partitions and columns; batches; SELECT; ALTER; TRUNCATE. */
  rows: true,
  /** STATIC columns. */
  statics: true,
  /** DELETE of a range of rows. */
  ranges: true,
  /** UPDATE and DELETE with IN. */
  severalRows: true,
  /** Lists, sets and maps that are not frozen. */
  collections: true,
  /** Types that users define, frozen and not. */
  types: true,
  /** What depends on where in a list an element is. */
  places: true,
  /** Tables of counters. */
  counters: true,
  /** IF NOT EXISTS, IF EXISTS, IF column = value. */
  conditions: true,
}

/**
 * The kinds that are on, or those that a list names.
 *
 * @param {string} [list]
 * @returns {Set<Kind>}
 */
export function kindsOf(list) {
  const all = /** @type {Kind[]} */ (Object.keys(KINDS))
  if (list === undefined) return new Set(all.filter((kind) => KINDS[kind]))
  const named = list.split(',')
  const unknown = named.find((name) => !all.some((kind) => kind === name))
  if (unknown) throw new Error(`--kinds ${unknown} is none of ${all.join(', ')}`)
  return new Set(all.filter((kind) => named.includes(kind)))
}
