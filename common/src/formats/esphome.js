/**
 * ESPHome: a value as plain text below `<prefix>/<component>/<object id>/state`
 * (esphome.io/components/mqtt). Lights and other components publish an object instead, whose
 * members are metrics below it. `nan` is what a sensor publishes that has not measured: it is
 * refused.
 */

import { addValue, metricOf } from './device.js'
import { readPlainOrObject } from './encoding/text.js'
import { emptyPayload, requireSome } from './fields.js'

/** @type {import('./types.js').Format} */
export const esphome = {
  name: 'esphome',
  number: 24,
  help: 'ESPHome, for the template esphome/{sensor}/{component}/{metric}/state',
  decode(place, payload) {
    const into = emptyPayload()
    addValue(into, metricOf(place), undefined, readPlainOrObject(payload))
    requireSome(into)
    return into
  },
}
