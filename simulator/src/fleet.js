/**
 * The sensors that are simulated: what each is called, what kind it is and the seed of its values.
 * The only user of casual; the same seed gives the same fleet.
 */

import casual from 'casual'
import { FLEETS, KINDS } from './kinds.js'
import { hash } from './signals.js'

/**
 * @typedef {object} Sensor
 * @property {string} name  As it stands in the topic, e.g. `climate-port-elena-7`.
 * @property {string} kind  A key of {@link KINDS}.
 * @property {string} place  Where it is, or whose.
 * @property {number} seed  Of its signals.
 * @property {string[]} metrics
 * @property {boolean} hasClock  Without one its messages carry no time.
 */

/**
 * Builds a fleet in which every kind appears in turn.
 *
 * @param {object} options
 * @param {number} options.sensors
 * @param {number} options.seed
 * @param {string} options.fleet  A key of {@link FLEETS}.
 * @param {number} options.clocklessPercent  Share of sensors without a clock: if it is not 0, at
 *   least one.
 * @returns {Sensor[]}
 */
export function buildFleet({ sensors, seed, fleet: name, clocklessPercent }) {
  casual.seed(seed)
  const kinds = FLEETS[name]
  const fleet = Array.from({ length: sensors }, (_, index) => {
    const kind = kinds[index % kinds.length]
    const place = kind === 'collar' ? casual.first_name : casual.city
    return {
      name: `${kind}-${slug(place)}-${index + 1}`,
      kind,
      place,
      seed: casual.integer(1, 2 ** 31 - 1),
      metrics: Object.keys(KINDS[kind]),
      hasClock: true,
    }
  })
  const clockless = Math.ceil((sensors * clocklessPercent) / 100)
  if (clockless > 0) {
    // Not the first ones: those may all be of one kind.
    const drawn = fleet.toSorted((a, b) => hash(a.seed, 71) - hash(b.seed, 71))
    for (const sensor of drawn.slice(0, clockless)) sensor.hasClock = false
  }
  return fleet
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
