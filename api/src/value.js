/**
 * Stored values as JSON text: a number, `true` or `false`, a string, or `{"lat":…,"lon":…}`. An
 * integer of 64 bits keeps all its digits.
 *
 * All of it is written by `JSON.stringify`: a number that is made a string by itself is put into
 * V8's cache of such strings, which lies among the old objects, and a page of measurements filled
 * it with thousands of strings that nobody asks for again.
 */

/** @typedef {import('@sandglass/common/measurement').Value} Value */

/** @param {Value | null} value */
export function valueJson(value) {
  return typeof value === 'bigint' ? `${value}` : JSON.stringify(value)
}

/**
 * Measurements as they are answered: `{"metric":"temperature","t":1767225600000,"v":21.5}`, with
 * `seq` only where it is not 0.
 *
 * @param {readonly import('./merge.js').Row[]} rows
 * @returns {string}  A JSON array.
 */
export function rowsJson(rows) {
  if (rows.some(({ value }) => typeof value === 'bigint')) return `[${rows.map(rowJson).join()}]`
  return JSON.stringify(
    rows.map(({ metric, t, seq, value }) =>
      seq === 0 ? { metric, t, v: value } : { metric, t, seq, v: value },
    ),
  )
}

/** @param {import('./merge.js').Row} row */
function rowJson({ metric, t, seq, value }) {
  const head = JSON.stringify(seq === 0 ? { metric, t } : { metric, t, seq })
  return `${head.slice(0, -1)},"v":${valueJson(value)}}`
}
