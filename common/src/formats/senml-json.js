/** SenML in JSON (RFC 8428), the media type `application/senml+json`. */

import { jsonOf } from '../payload.js'
import { decodePack } from './encoding/senml.js'

/** @type {import('./types.js').Format} */
export const senmlJson = {
  name: 'senml-json',
  number: 10,
  help: 'SenML in JSON (RFC 8428), [{"bn": "boiler/", "n": "temp", "u": "Cel", "v": 21.5}]',
  namesSensor: true,
  decode: (place, payload) => decodePack(place, jsonOf(payload)),
}
