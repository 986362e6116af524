/**
 * Stored values as JSON text: a number, `true` or `false`, a string, or `{"lat":…,"lon":…}`. An
 * integer of 64 bits keeps all its digits, and -0 its sign.
 *
 * All of it is written by `JSON.stringify`: a number that is made a string by itself is put into
 * V8's cache of such strings, which lies among the old objects, and a page of measurements filled
 * it with thousands of strings that nobody asks for again.
 */

import { jsonText } from '@sandglass/common/json'

/** @typedef {import('@sandglass/common/measurement').Value} Value */

/** @param {Value | null} value */
export function valueJson(value) {
  return isPlain(value) ? JSON.stringify(value) : jsonText(value)
}

/** Whether `JSON.stringify` writes all of it. @param {Value | null} value */
function isPlain(value) {
  if (typeof value === 'object' && value !== null) return !hasMinus0(value)
  return typeof value !== 'bigint' && !Object.is(value, -0)
}

/** @param {import('@sandglass/common/measurement').Location} place */
function hasMinus0({ lat, lon }) {
  return Object.is(lat, -0) || Object.is(lon, -0)
}

/**
 * Measurements as they are answered: `{"metric":"temperature","t":1767225600000,"v":21.5}`, with
 * `seq` only where it is not 0.
 *
 * @param {readonly import('./merge.js').Row[]} rows
 * @returns {string}  A JSON array.
 */
export function rowsJson(rows) {
  if (!rows.every(({ value }) => isPlain(value))) return `[${rows.map(rowJson).join()}]`
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
