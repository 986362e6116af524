// How tests of decoders show what a payload became.
/** @typedef {import('../../src/formats/types.js').Format} Format */

/**
 * @param {Format} format
 * @param {string | undefined} metric  Of the topic.
 * @param {unknown} payload  A text, bytes, or what becomes JSON.
 * @param {string} [sensor]
 */
export function outcome(format, metric, payload, sensor) {
  const bytes = bytesOf(payload)
  const result = format.decode({ topic: 'x', sensor, metric }, bytes)
  const times = new Set(result.measurements.map(({ timeMs }) => timeMs))
  return {
    sensor: result.sensor,
    times: [...times],
    stored: Object.fromEntries(result.measurements.map((one) => [one.metric, one.value])),
    lost: result.refused.map(({ field }) => field),
    units: Object.fromEntries(result.units ?? []),
  }
}

/** @param {unknown} payload  A text, bytes, or what becomes JSON. */
export function bytesOf(payload) {
  if (Buffer.isBuffer(payload)) return payload
  return Buffer.from(typeof payload === 'string' ? payload : JSON.stringify(payload))
}
