/**
 * A stored value as JSON text: a number, `true` or `false`, a string, or `{"lat":…,"lon":…}`.
 *
 * Rows are turned into JSON while they are read, because a page of a thousand of them is nothing
 * but this text in the end. A 64-bit integer keeps all its digits.
 */

import { KIND } from '@sandglass/common/measurement'

/**
 * The columns of a value; of a measurement only those of its kind are set.
 *
 * @typedef {object} ValueColumns
 * @property {number | null} [kind]  In `latest`, where columns of older kinds may be set as well.
 * @property {number | null} [v]
 * @property {{ toString(): string } | null} [i]
 * @property {boolean | null} [b]
 * @property {string | null} [s]
 * @property {number | null} [lat]
 * @property {number | null} [lon]
 */

/**
 * @param {ValueColumns} row
 * @returns {string}  `null` if there is no value, or none that JSON has.
 */
export function valueJson(row) {
  const { kind, v, i, b, s, lat, lon } = row
  if (v != null && (kind == null || kind === KIND.number)) return numberJson(v)
  if (b != null && (kind == null || kind === KIND.boolean)) return b ? 'true' : 'false'
  if (s != null && (kind == null || kind === KIND.text)) return JSON.stringify(s)
  if (i != null && (kind == null || kind === KIND.integer)) return i.toString()
  if (lat != null && lon != null) return `{"lat":${numberJson(lat)},"lon":${numberJson(lon)}}`
  return 'null'
}

/** @param {number} value */
function numberJson(value) {
  return Number.isFinite(value) ? String(value) : 'null'
}

/**
 * Measurements as they are answered: `{"metric":"temperature","t":1767225600000,"v":21.5}`, with
 * `seq` only where it is not 0.
 *
 * @param {readonly import('./merge.js').Row[]} rows
 * @returns {string}  A JSON array.
 */
export function rowsJson(rows) {
  /** @type {Map<string, string>} */
  const starts = new Map()
  let text = '['
  for (const { metric, t, seq, value } of rows) {
    let start = starts.get(metric)
    if (start === undefined) {
      start = `{"metric":${JSON.stringify(metric)},"t":`
      starts.set(metric, start)
    }
    if (text.length > 1) text += ','
    text += seq === 0 ? `${start}${t},"v":${value}}` : `${start}${t},"seq":${seq},"v":${value}}`
  }
  return `${text}]`
}
