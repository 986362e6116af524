// One measured figure, beside the floor that it must reach.

/**
 * @typedef {object} Figure
 * @property {string} benchmark  The benchmark that measured it.
 * @property {string} name
 * @property {number} value
 * @property {string} unit
 * @property {'at least' | 'at most' | ''} bound  Empty if nothing is promised.
 * @property {number | ''} floor
 */

/**
 * What makes the figures of a benchmark: from a name, a value, a unit and what is promised.
 *
 * @param {string} benchmark
 */
export function figuresOf(benchmark) {
  /**
   * @param {string} name
   * @param {number} value
   * @param {string} [unit]
   * @param {{ atLeast?: number, atMost?: number }} [promise]
   * @returns {Figure}
   */
  return (name, value, unit = '', { atLeast, atMost } = {}) => {
    const floor = atLeast ?? atMost ?? ''
    if (floor === '') return { benchmark, name, value, unit, bound: '', floor }
    const bound = atLeast === undefined ? 'at most' : 'at least'
    return { benchmark, name, value, unit, bound, floor }
  }
}

/** @param {Figure} figure  @returns {boolean | undefined}  Undefined if nothing is promised. */
export function reached({ value, bound, floor }) {
  if (bound === '' || floor === '') return undefined
  return bound === 'at least' ? value >= floor : value <= floor
}

/**
 * A value as it is written: four significant digits, whole numbers whole.
 *
 * @param {number} value
 */
export function written(value) {
  if (Number.isInteger(value) || Math.abs(value) >= 1000) return String(Math.round(value))
  return String(Number(value.toPrecision(4)))
}
