/**
 * Zigbee2MQTT: what it publishes to `zigbee2mqtt/<friendly name>`, an object of the states that a
 * device exposes (www.zigbee2mqtt.io/guide/usage/mqtt_topics_and_messages.html).
 *
 * ```text
 * last_seen    the time of all metrics, if it tells one; it is not a metric itself
 * device       what include_device_information adds: it is about the device and not measured
 * color        {"x", "y"}: color.x and color.y
 * state        ON and OFF are texts, as they stand
 * ```
 *
 * A topic below the device's is of that metric, so `…/availability` gives `availability.state`.
 */

import { PayloadError, shown, timeOf } from '../payload.js'
import { addTree, addValue } from './device.js'
import { readPlainOrObject } from './encoding/text.js'
import { emptyPayload, isTree, refuse, requireSome } from './fields.js'
import { zonedMs } from './local-time.js'

/** Last levels of topics to which commands are sent. */
const COMMANDS = new Set(['set', 'get'])

/** @type {import('./types.js').Format} */
export const zigbee2mqtt = {
  name: 'zigbee2mqtt',
  number: 20,
  help: 'Zigbee2MQTT, for the template zigbee2mqtt/{sensor}',
  decode({ metric }, payload) {
    if (metric !== undefined && COMMANDS.has(metric.split(/[./]/)[0])) {
      throw new PayloadError('topic', `${shown(metric)} is a command to the device`)
    }
    const body = readPlainOrObject(payload)
    const into = emptyPayload()
    if (isTree(body)) {
      const { last_seen: seen, device, ...states } = /** @type {Record<string, unknown>} */ (body)
      addTree(into, metric, seenMs(into, seen), states)
    } else if (metric !== undefined) {
      addValue(into, metric, undefined, body)
    } else {
      throw new PayloadError('value', 'this is not an object such as {"temperature": 27.34}')
    }
    requireSome(into)
    return into
  },
}

/**
 * ISO 8601 or milliseconds, as `last_seen` is configured.
 *
 * @param {import('./types.js').DecodedPayload} into
 * @param {unknown} seen
 */
function seenMs(into, seen) {
  try {
    return typeof seen === 'string' ? zonedMs(seen, 'last_seen') : timeOf(seen, 'last_seen')
  } catch (error) {
    refuse(into, 'last_seen', error)
    return undefined
  }
}
