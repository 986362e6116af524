/**
 * MessagePack of the shapes that JSON has: a value, an object of metrics, `{ts, values}`, or an
 * array of these. Numbers are as in JSON: a double, and beyond 2^53 an integer.
 */

import { readMessagePack } from './encoding/messagepack.js'
import { decodeRecord, decodeValue } from './json.js'

/** @type {import('./types.js').Format} */
export const messagepack = {
  name: 'messagepack',
  number: 13,
  help: 'MessagePack, of the same shapes as json',
  decode: ({ metric }, payload) => decodeValue(metric, readMessagePack(payload)),
}

/** @type {import('./types.js').Format} */
export const messagepackObject = {
  name: 'messagepack-object',
  number: 15,
  help: 'MessagePack: one object of metrics, of the same shapes as json-object',
  namesSensor: true,
  decode: ({ sensor }, payload) => decodeRecord(readMessagePack(payload), sensor),
}
