/**
 * The desired state of a device: what somebody wants it to be, as a JSON object that is retained on
 * a topic of its own, and what the device reports beside it. Pure. ADR 0074.
 *
 * ```text
 * desired/<sensor>    {"interval": 30, "led": {"on": true}}     to the device, retained
 * sensors/<sensor>    {"interval": 30, "led": {"on": true}}     from it, as measurements
 * ```
 */

/** The first level of the topics; only the platform publishes there. */
export const DESIRED_LEVEL = 'desired'

/** Most bytes of a desired state, as JSON. */
export const DESIRED_BYTES_MAX = 16_384

/** Most objects and lists within each other. */
export const DESIRED_DEPTH_MAX = 16

/** @typedef {string | number | boolean | null | unknown[] | object} Leaf */

/** @param {string} sensor  As topics name it. */
export function desiredTopic(sensor) {
  return `${DESIRED_LEVEL}/${sensor}`
}

/** Whether a topic or filter is one of these, or could be. @param {string} topic */
export function isDesiredTopic(topic) {
  return topic === DESIRED_LEVEL || topic.startsWith(`${DESIRED_LEVEL}/`)
}

/** The sensor that a topic or filter is of. @param {string} topic  @returns {string | undefined} */
export function desiredSensorOf(topic) {
  if (!isDesiredTopic(topic)) return undefined
  const [, sensor, ...more] = topic.split('/')
  return sensor === undefined || sensor === '' || more.length > 0 ? undefined : sensor
}

/**
 * What is wanted of each metric: an object in it stands for metrics with dots in their names, as in
 * measurements; a place (`lat` and `lon` alone) is one value.
 *
 * @param {Record<string, unknown>} desired
 * @returns {{ metric: string, value: Leaf }[]}
 * @throws {RangeError}  Where objects lie deeper within each other than is allowed.
 */
export function leavesOf(desired) {
  requireShallow(desired, 1)
  return leavesIn(desired, '')
}

/** @param {object} value  @param {number} depth */
function requireShallow(value, depth) {
  if (depth > DESIRED_DEPTH_MAX) {
    throw new RangeError(`more than ${DESIRED_DEPTH_MAX} objects or lists within each other`)
  }
  for (const inner of Object.values(value)) {
    if (typeof inner === 'object' && inner !== null) requireShallow(inner, depth + 1)
  }
}

/**
 * @param {Record<string, unknown>} object
 * @param {string} prefix
 * @returns {{ metric: string, value: Leaf }[]}
 */
function leavesIn(object, prefix) {
  return Object.entries(object).flatMap(([key, value]) => {
    const metric = `${prefix}${key}`
    if (typeof value !== 'object' || value === null || Array.isArray(value) || isPlace(value)) {
      return [{ metric, value: /** @type {Leaf} */ (value) }]
    }
    return leavesIn(/** @type {Record<string, unknown>} */ (value), `${metric}.`)
  })
}

/** @param {object} value */
function isPlace(value) {
  return Object.keys(value).sort().join() === 'lat,lon'
}

/**
 * Whether what a device reports is what is wanted.
 *
 * @param {Leaf} wanted
 * @param {import('./measurement.js').Value | null | undefined} reported
 */
export function isAsWanted(wanted, reported) {
  if (reported === undefined || reported === null) return wanted === null
  if (typeof reported === 'bigint')
    return Number.isInteger(wanted) && BigInt(String(wanted)) === reported
  if (typeof reported === 'object') {
    const { lat, lon } = /** @type {{ lat?: unknown, lon?: unknown }} */ (wanted ?? {})
    return lat === reported.lat && lon === reported.lon
  }
  return wanted === reported
}
