/**
 * Sparkplug B. The type of a message is a level of its topic. Data name their metrics by aliases
 * that births tell; ingest, which follows edge nodes, writes the names into the payload first
 * (`sparkplug/complete.js`). What has no name by then is refused.
 */

import { PayloadError } from '../payload.js'
import { measurementsOf } from './sparkplug/measurements.js'
import { readPayload } from './sparkplug/payload.js'

/** @typedef {import('./sparkplug/session.js').MessageType} MessageType */

/** Between group, edge node and device in a sensor's name, which has no slash: U+2215. */
const JOINT = '∕'

const NODE_TYPES = new Set(['NBIRTH', 'NDATA', 'NDEATH'])
const DEVICE_TYPES = new Set(['DBIRTH', 'DDATA', 'DDEATH'])

/** Largest payload in bytes: one of a mebibyte, and the names of 10,000 metrics. */
const BYTES_MAX = 8 * 2 ** 20

/** @type {import('./types.js').Format} */
export const sparkplugB = {
  name: 'sparkplug-b',
  number: 30,
  help: 'Sparkplug B, for the template spBv1.0/{group}/{type}/{node}[/{device}]',
  bytesMax: BYTES_MAX,
  isFollowed: true,
  shape: {
    levels: ['{group}', '{type}', '{node}', '{device}'],
    name: `{group}${JOINT}{node}[${JOINT}{device}]`,
    joint: JOINT,
    commands: { '{type}': 'NCMD', '{device}': undefined },
    // Commands and states of hosts are ordinary MQTT traffic.
    carries: (words) => {
      const type = words.get('{type}') ?? ''
      return NODE_TYPES.has(type) || DEVICE_TYPES.has(type)
    },
  },
  decode({ words }, payload) {
    const sort = words ? sortOf(words) : { type: 'NDATA' }
    if (!sort) {
      const fault = words?.get('{device}') ? 'is of an edge node, but names a device' : 'names none'
      throw new PayloadError('topic', `a topic of ${words?.get('{type}')} ${fault}`)
    }
    return measurementsOf(sort.type, readPayload(payload))
  },
}

/**
 * What sort of message it is.
 *
 * @param {ReadonlyMap<string, string>} words  Of its topic.
 * @returns {{ type: MessageType, device: string } | undefined}  The device is empty where it is of
 *   the edge node itself. Undefined where type and device do not go together.
 */
export function sortOf(words) {
  const type = words.get('{type}') ?? ''
  const device = words.get('{device}')
  const isWhole = device === undefined ? NODE_TYPES.has(type) : DEVICE_TYPES.has(type) && device
  return isWhole ? { type: /** @type {MessageType} */ (type), device: device ?? '' } : undefined
}
