/** One line of InfluxDB line protocol, whose grammar is in `../line-protocol.js`. */

import { parseLine } from '../line-protocol.js'
import { textOf } from '../payload.js'

/** @type {import('./types.js').Format} */
export const line = {
  name: 'line-protocol',
  number: 2,
  help: 'InfluxDB line protocol, one line',
  namesSensor: true,
  decode: (_place, payload) => parseLine(textOf(payload, 'line')),
}
