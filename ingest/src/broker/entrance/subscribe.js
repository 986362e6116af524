/** What a client is told that asks for subscriptions. */

import { partsOf } from '../v5/packets.js'
import { REASON } from '../v5/reason.js'
import { maySubscribe } from './access.js'

/**
 * Counts those that it may have.
 *
 * @param {string[]} filters
 * @param {import('../session.js').Session | undefined} session  Undefined: it has none any more.
 * @param {import('@sandglass/common/keys').Grant | undefined} grant  What its key allows.
 * @param {import('@sandglass/common/topics').Topics} topics
 * @returns {number[]}  A reason for each: 0 if it may.
 */
export function subscribe(filters, session, grant, topics) {
  return filters.map((filter) => {
    const pattern = session?.version === 5 ? partsOf(filter).pattern : filter
    if (!maySubscribe(grant, pattern, topics)) return REASON.notAuthorized
    return session?.subscribe(filter) ? REASON.success : REASON.quota
  })
}
