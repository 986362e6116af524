/**
 * What ingest would make of some items now, as far as they tell: the first of each list, and how
 * many there are. It is decided by the functions by which ingest decides.
 */

import { adviceOf } from '@sandglass/common/advice/advice'
import { NOWHERE } from '@sandglass/common/bodies'
import { keepBelieved } from '@sandglass/common/formats/believed'
import { decode } from '@sandglass/common/formats/registry'
import { KIND_NAMES, metricsFault } from '@sandglass/common/measurement'
import { PayloadError } from '@sandglass/common/payload'
import { sensorId } from '@sandglass/common/sensor'
import { arrivedIn } from './dead-letters.js'

/** @typedef {import('@sandglass/common/measurement').Measurement} Measurement */
/** @typedef {import('@sandglass/common/formats/types').Place} Place */

/** What an answer lists of each: a body of 100 KB can have 50,000, and nobody reads them. */
export const LISTED_MAX = 1_000

/** A list of the first, and how many there are. @template T */
class Listed {
  /** @type {T[]} */
  first = []
  count = 0

  /** @template S  @param {readonly S[]} some  @param {(one: S) => T} present  Of those listed. */
  add(some, present) {
    const room = LISTED_MAX - this.first.length
    if (room > 0) for (const one of some.slice(0, room)) this.first.push(present(one))
    this.count += some.length
  }
}

/**
 * @param {import('@sandglass/common/bodies').Item[]} items
 * @param {import('./turns.js').Turns} turns
 * @param {() => Place} [placeOf]  Of an MQTT message.
 * @param {string} [topic]  Of that.
 */
export async function decodeAll(items, turns, placeOf = () => NOWHERE, topic = '') {
  const nowMs = Date.now()
  /** @type {Listed<Record<string, unknown>>} */
  const decoded = new Listed()
  /** @type {Listed<{ item: number, reason: string, advice: string | null }>} */
  const faults = new Listed()
  /** @type {Listed<{ item: number, field: string, reason: string, advice: string | null }>} */
  const fields = new Listed()
  for (const [item, { format, payload }] of items.entries()) {
    await turns.pause()
    const adviceOn = (/** @type {string} */ reason) =>
      adviceOf({ reason, topic, format, ...arrivedIn(payload, format) })
    try {
      const said = decode(format, placeOf(), payload)
      keepBelieved(said, { receivedMs: nowMs, firstReceivedMs: nowMs })
      const { sensor, measurements, refused, units } = said
      requireFew(measurements)
      decoded.add(measurements, (measurement) => present(sensor, measurement, units))
      fields.add(refused, ({ field, reason }) => {
        return { item, field, reason, advice: adviceOn(reason) }
      })
    } catch (error) {
      if (!(error instanceof PayloadError)) throw error
      const { message: reason } = error
      faults.add([reason], () => ({ item, reason, advice: adviceOn(reason) }))
    }
  }
  return {
    items: decoded.first,
    refused: faults.first,
    refused_fields: fields.first,
    item_count: decoded.count,
    refused_count: faults.count,
    refused_field_count: fields.count,
  }
}

/**
 * What ingest asks of measurements before it knows their sensor.
 *
 * @param {Measurement[]} measurements
 * @throws {PayloadError}
 */
function requireFew(measurements) {
  const many = metricsFault(new Set(measurements.map(({ metric }) => metric)).size)
  if (many !== undefined) throw new PayloadError('value', many)
}

/**
 * @param {string} sensor
 * @param {Measurement} measurement
 * @param {ReadonlyMap<string, string>} [units]
 */
function present(sensor, { metric, timeMs, kind, value }, units) {
  const v = typeof value === 'bigint' ? String(value) : value
  const about = { t: timeMs ?? null, kind: KIND_NAMES.get(kind), v, unit: units?.get(metric) }
  return { sensor, id: sensorId(sensor), metric, ...about }
}
