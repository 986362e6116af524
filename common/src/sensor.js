/**
 * Who a sensor is. Its id is the UUID that a device gives, else the version 5 UUID of its name: no
 * look-up, so no two processes can disagree.
 */

import { v5 as uuidv5 } from 'uuid'

/** The namespace of sensor names. It must never change: every stored row depends on it. */
const NAMESPACE = '7b0a1a52-3c8e-5b59-9c43-1d4f2f9b6f0e'

/** The longest name, in characters. An MQTT topic level may be longer; a sensor's name may not. */
export const NAME_LENGTH_MAX = 128

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/**
 * The id of a sensor, in lower case.
 *
 * @param {string} nameOrId  A UUID, or a name of 1 to {@link NAME_LENGTH_MAX} characters.
 */
export function sensorId(nameOrId) {
  return UUID.test(nameOrId) ? nameOrId.toLowerCase() : uuidv5(nameOrId, NAMESPACE)
}

/**
 * Whether this can be a sensor's name or id.
 *
 * @param {string} name
 */
export function isSensorName(name) {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
  return name.length > 0 && name.length <= NAME_LENGTH_MAX && !/[\u0000-\u001f\u007f/+#]/.test(name)
}
