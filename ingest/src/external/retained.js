/**
 * Which retained messages are measurements. A broker gives the last one of a topic to whoever
 * subscribes, long after it was published: without a time of its own it says nothing about now.
 * Pure.
 */

import { lineItems, parseItem } from '@sandglass/common/bodies'
import { decode, formatAt } from '@sandglass/common/formats/registry'
import { PayloadError } from '@sandglass/common/payload'

/** @typedef {import('@sandglass/common/topics').Topics} Topics */

/**
 * Whether every measurement of a message has its own time.
 *
 * @param {Topics} topics  That carry measurements.
 * @param {string} topic
 * @param {Buffer} payload
 * @returns {boolean}  False also for what is no measurement.
 */
export function carriesTime(topics, topic, payload) {
  try {
    return measurementsOf(topics, topic, payload).every(({ timeMs }) => timeMs !== undefined)
  } catch (error) {
    if (!(error instanceof PayloadError)) throw error
    return false
  }
}

/** @param {Topics} topics  @param {string} topic  @param {Buffer} payload */
function measurementsOf(topics, topic, payload) {
  const format = topics.formatOf(topic)
  // An old birth would make new data mean something else.
  const { isFollowed, isEvaluated } = formatAt(format ?? -1) ?? {}
  if (isFollowed) throw new PayloadError('format', 'what is retained is not of this connection')
  // Only its expression could say when it was measured.
  if (isEvaluated) throw new PayloadError('format', 'its time is not known')
  if (format !== undefined) {
    return decode(format, topics.place(topic, format), payload).measurements
  }
  return lineItems(payload).flatMap((item) => parseItem(item).measurements)
}
