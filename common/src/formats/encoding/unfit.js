/**
 * What stands in a tree for a value that no measurement can have, such as binary data: an empty
 * array, which every decoder refuses, field by field. Nobody takes it for an object of metrics.
 */

/** @type {readonly never[]} */
export const UNFIT = Object.freeze([])
