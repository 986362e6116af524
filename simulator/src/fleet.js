/**
 * The sensors that are simulated: what each is called, what kind it is and the seed of its values.
 * The only user of casual; the same seed gives the same fleet.
 */

import casual from 'casual'
import { KINDS } from './signals.js'

/**
 * @typedef {object} Sensor
 * @property {string} name  As it stands in the topic, e.g. `climate-port-elena-7`.
 * @property {string} kind  A key of {@link KINDS}.
 * @property {number} seed  Of its signals.
 * @property {string[]} metrics
 */

/**
 * Builds a fleet in which every kind appears in turn.
 *
 * @param {{ sensors: number, seed: number }} options
 * @returns {Sensor[]}
 */
export function buildFleet({ sensors, seed }) {
  casual.seed(seed)
  const kinds = Object.keys(KINDS)
  return Array.from({ length: sensors }, (_, index) => {
    const kind = kinds[index % kinds.length]
    return {
      name: `${kind}-${slug(casual.city)}-${index + 1}`,
      kind,
      seed: casual.integer(1, 2 ** 31 - 1),
      metrics: Object.keys(KINDS[kind]),
    }
  })
}

/**
 * What a topic level takes without quoting: lower-case letters and digits joined by hyphens.
 *
 * @param {string} text
 */
function slug(text) {
  return text
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '')
}
