/**
 * Who a sensor is, and what it and its metrics may be called. The id of a sensor is the UUID that a
 * device gives, else the version 5 UUID of its name: no look-up, so no two processes can disagree.
 */

import { v5 as uuidv5 } from 'uuid'

/** The namespace of sensor names. It must never change: every stored row depends on it. */
const NAMESPACE = '7b0a1a52-3c8e-5b59-9c43-1d4f2f9b6f0e'

/** The longest name, in characters. An MQTT topic level may be longer; a sensor's name may not. */
export const NAME_LENGTH_MAX = 128

/** What errors say of names that are refused, after the word for what is named. */
export const SENSOR_NAME_RULE =
  `must have 1 to ${NAME_LENGTH_MAX} characters, none of / + # and no control, direction or ` +
  'invisible characters, and must not be . or ..'
export const METRIC_NAME_RULE = `must have 1 to ${NAME_LENGTH_MAX} characters and no control, direction or invisible characters`

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/**
 * Characters that make a name look like another one, or break the line it is printed on: control
 * characters, halves of surrogate pairs (UTF-8 has none, so two such names become one), separators
 * of lines and paragraphs, controls of direction, and spaces without width. The joiners U+200C and
 * U+200D are not among them: Persian, Hindi and emoji are spelled with them.
 */
const MISLEADING = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Bidi_Control}\u200b\u2060\ufeff]/u

/** A step of a path: `/v1/sensors/../latest` is `/v1/latest` before a client even sends it. */
const PATH_STEP = /^\.\.?$/

/**
 * The id of a sensor, in lower case. Names that are refused today have one, too: what was stored
 * under them before can be read and deleted.
 *
 * @param {string} nameOrId  A UUID, or a name of 1 to {@link NAME_LENGTH_MAX} characters.
 */
export function sensorId(nameOrId) {
  return UUID.test(nameOrId) ? nameOrId.toLowerCase() : uuidv5(nameOrId, NAMESPACE)
}

/**
 * Whether this can be a sensor's name or id; {@link SENSOR_NAME_RULE} says it in words.
 *
 * @param {string} name
 */
export function isSensorName(name) {
  return isMetricName(name) && !/[/+#]/.test(name) && !PATH_STEP.test(name)
}

/**
 * Whether this can be the name of a metric; {@link METRIC_NAME_RULE} says it in words.
 *
 * @param {string} name
 */
export function isMetricName(name) {
  return name.length > 0 && name.length <= NAME_LENGTH_MAX && !MISLEADING.test(name)
}
