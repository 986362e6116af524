/**
 * Topics of Sparkplug B: `spBv1.0/<group>/<type>/<edge node>[/<device>]`. Pure.
 */

import { PayloadError } from '../../payload.js'

/** @typedef {import('./session.js').MessageType} MessageType */

const NODE_TYPES = new Set(['NBIRTH', 'NDATA', 'NDEATH'])
const DEVICE_TYPES = new Set(['DBIRTH', 'DDATA', 'DDEATH'])

/**
 * @param {string} topic
 * @returns {{ group: string, type: MessageType, node: string, device: string }}  The device is
 *   empty where the message is of the edge node itself.
 * @throws {PayloadError}  It is none that an edge node publishes measurements to.
 */
export function sparkplugTopic(topic) {
  const [namespace, group, type, node, device = '', ...more] = topic.split('/')
  const isNode = NODE_TYPES.has(type) && device === ''
  const isDevice = DEVICE_TYPES.has(type) && device !== ''
  const isWhole = namespace === 'spBv1.0' && more.length === 0 && !!group && !!node
  if (isWhole && (isNode || isDevice)) {
    return { group, type: /** @type {MessageType} */ (type), node, device }
  }
  throw new PayloadError('topic', 'topic is not spBv1.0/<group>/<type>/<node>[/<device>]')
}
