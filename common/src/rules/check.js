/** What a rule says of a number: wrong, right again, or neither. Pure, and asked for each value. */

/** @typedef {import('./rule.js').Rule} Rule */

/**
 * Outside of `lower` and `upper` a value is wrong; once it was, it is right again within
 * `lowerClear` and `upperClear`.
 *
 * @typedef {{ lower: number, upper: number, lowerClear: number, upperClear: number }} Limits
 */

/** @typedef {{ min: number | undefined, max: number | undefined }} Expected */

/**
 * The limits of a rule for a metric; undefined where it has none, as without an expected range.
 *
 * @param {Rule} rule
 * @param {Expected} expected  The range that the metadata of the metric tells.
 * @returns {Limits | undefined}
 */
export function limitsOf({ kind, above, below, clear }, expected) {
  if (kind === 'silence') return undefined
  if (kind === 'range') {
    const { min = Number.NEGATIVE_INFINITY, max = Infinity } = expected
    if (min === Number.NEGATIVE_INFINITY && max === Infinity) return undefined
    return { lower: min, upper: max, lowerClear: min, upperClear: max }
  }
  return {
    lower: below ?? Number.NEGATIVE_INFINITY,
    upper: above ?? Infinity,
    lowerClear: below === undefined ? Number.NEGATIVE_INFINITY : (clear ?? below),
    upperClear: above === undefined ? Infinity : (clear ?? above),
  }
}

/** @param {Limits} limits  @param {number} value */
export function isWrong({ lower, upper }, value) {
  return value > upper || value < lower
}

/** @param {Limits} limits  @param {number} value */
export function isRight({ lowerClear, upperClear }, value) {
  return value <= upperClear && value >= lowerClear
}

/**
 * The number by which a value is compared: a boolean is 0 or 1. Undefined for texts and places.
 *
 * @param {unknown} value
 * @returns {number | undefined}
 */
export function numberOf(value) {
  if (typeof value === 'number') return value
  if (typeof value === 'boolean') return value ? 1 : 0
  return typeof value === 'bigint' ? Number(value) : undefined
}
