/** Messages that are kept: their bytes are their own, and keep no chunk and no slab alive. */

import { copyOf } from '../frame.js'

/** @typedef {import('../v5/dialect.js').Delivery} Delivery */

/**
 * @template {{ payload: Buffer, delivery?: Delivery }} M
 * @param {M} message
 * @returns {M}
 */
export function ownBytes(message) {
  const { payload, delivery } = message
  const own = { ...message, payload: copyOf(payload) }
  if (delivery) own.delivery = { ...delivery, passOn: copyOf(delivery.passOn) }
  return own
}
