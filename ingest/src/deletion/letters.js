/** Whose a dead letter is: what its topic says, else its payload, as far as that can be read. */

import { formatOfLetter } from '@sandglass/common/bodies'
import { originalOf, readEnvelope } from '@sandglass/common/expressions/envelope'
import { expression } from '@sandglass/common/formats/expression'
import { decode } from '@sandglass/common/formats/registry'
import { PayloadError } from '@sandglass/common/payload'
import { sensorId } from '@sandglass/common/sensor'

/** @typedef {import('../http/replay.js').Letter} Letter */
/** @typedef {import('@sandglass/common/topics').Topics} Topics */

/**
 * @callback SensorOfLetter
 * @param {string} topic
 * @param {() => Promise<Letter | undefined>} letter  Read where the topic does not tell.
 * @returns {Promise<string | undefined>}  Its id; nothing where nobody can say.
 */

/** @param {Topics} topics  @returns {SensorOfLetter} */
export function letterSensors(topics) {
  return async (topic, read) => {
    const name = topics.sensorOf(topic)
    if (name !== undefined) return sensorId(name)
    const letter = await read()
    const inside = letter && (decoded(topics, letter) ?? named(originalOf(letter.payload)))
    return inside === undefined ? undefined : sensorId(inside)
  }
}

/** As it would be replayed. @param {Topics} topics  @param {Letter} letter */
function decoded(topics, letter) {
  try {
    const format = formatOfLetter(letter)
    // What its topic meant, where it was refused.
    if (format === expression.number) {
      const { sensor } = readEnvelope(letter.payload)
      if (sensor !== undefined) return sensor
    }
    return decode(format, topics.place(letter.topic, format), letter.payload).sensor
  } catch (error) {
    if (error instanceof PayloadError) return undefined
    throw error
  }
}

/** What cannot be decoded may still be JSON that names it. @param {Buffer} payload */
function named(payload) {
  try {
    const { sensor } = JSON.parse(payload.toString()) ?? {}
    return typeof sensor === 'string' && sensor !== '' ? sensor : undefined
  } catch {
    return undefined
  }
}
