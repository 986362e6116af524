/** SenML in CBOR (RFC 8428 §6), the media type `application/senml+cbor`: labels are numbers. */

import { readCbor } from './encoding/cbor.js'
import { decodePack } from './encoding/senml.js'

/** RFC 8428, table 4. @type {Map<string, string>} */
const LABELS = new Map([
  ['-1', 'bver'],
  ['-2', 'bn'],
  ['-3', 'bt'],
  ['-4', 'bu'],
  ['-5', 'bv'],
  ['-6', 'bs'],
  ['0', 'n'],
  ['1', 'u'],
  ['2', 'v'],
  ['3', 'vs'],
  ['4', 'vb'],
  ['5', 's'],
  ['6', 't'],
  ['7', 'ut'],
  ['8', 'vd'],
])

/** @type {import('./types.js').Format} */
export const senmlCbor = {
  name: 'senml-cbor',
  number: 11,
  help: 'SenML in CBOR (RFC 8428)',
  namesSensor: true,
  decode(place, payload) {
    const pack = readCbor(payload)
    return decodePack(place, Array.isArray(pack) ? pack.map(labelled) : pack)
  },
}

/** @param {unknown} record  @returns {unknown} */
function labelled(record) {
  if (typeof record !== 'object' || record === null || Array.isArray(record)) return record
  const named = Object.create(null)
  for (const [label, value] of Object.entries(record)) named[LABELS.get(label) ?? label] = value
  return named
}
