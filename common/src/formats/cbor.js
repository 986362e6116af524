/**
 * CBOR (RFC 8949) of the shapes that JSON has: a value, an object of metrics, `{ts, values}`, or an
 * array of these. Numbers are as in JSON: a double, and beyond 2^53 an integer.
 */

import { readCbor } from './encoding/cbor.js'
import { decodeRecord, decodeValue } from './json.js'

/** @type {import('./types.js').Format} */
export const cbor = {
  name: 'cbor',
  number: 12,
  help: 'CBOR (RFC 8949), of the same shapes as json',
  decode: ({ metric }, payload) => decodeValue(metric, readCbor(payload)),
}

/** @type {import('./types.js').Format} */
export const cborObject = {
  name: 'cbor-object',
  number: 14,
  help: 'CBOR: one object of metrics, of the same shapes as json-object',
  namesSensor: true,
  decode: ({ sensor }, payload) => decodeRecord(readCbor(payload), sensor),
}
