/**
 * A format of somebody's own: a decoder that is stored, with an expression of JSONata
 * (`expressions/`). The expression was evaluated when the message arrived; here is what it said.
 */

import { EXPRESSION_FORMAT, OUTCOME, readEnvelope } from '../expressions/envelope.js'
import { PayloadError } from '../payload.js'
import { emptyPayload } from './fields.js'
import { json, jsonObject } from './json.js'

/** Stands for the sensor of a message that says nothing. */
const UNNAMED = '-'

/** @type {import('./types.js').Format} */
export const expression = {
  name: 'expression',
  number: EXPRESSION_FORMAT,
  help: 'a format of your own: an expression of JSONata, see /v1/decoders',
  namesSensor: true,
  isEvaluated: true,
  // What arrived, and what the expression said. Both have limits of their own.
  bytesMax: 2 ** 26,
  decode(_place, payload) {
    const { outcome, said, sensor, metric } = readEnvelope(payload)
    // What the topic meant then: its template may be another one by now.
    const place = { topic: '', sensor, metric }
    switch (outcome) {
      case OUTCOME.value:
        return { ...json.decode(place, said), sensor }
      case OUTCOME.record:
        return jsonObject.decode(place, said)
      case OUTCOME.nothing:
        return { ...emptyPayload(), sensor: sensor ?? UNNAMED, isSilent: true }
      case OUTCOME.refused:
        throw new PayloadError('expression', said.toString())
      default:
        throw new PayloadError('expression', 'its expression was not evaluated')
    }
  },
}
