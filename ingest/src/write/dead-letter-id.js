/**
 * The id of a message's dead letter, should it become one: of version 1, from the time it came. All
 * that is spooled gets one, and asking for a few random bytes costs as much as for thousands.
 */

import { randomFillSync } from 'node:crypto'
import cassandra from 'cassandra-driver'

const NODE_BYTES = 6
const CLOCK_BYTES = 2

/** Random bytes that are not used yet, and where they begin. */
const random = Buffer.alloc(8_192)
let at = random.length

/** @param {number} receivedMs  Milliseconds since the Unix epoch. */
export function deadLetterIdOf(receivedMs) {
  if (at === random.length) {
    randomFillSync(random)
    at = 0
  }
  const node = random.subarray(at, at + NODE_BYTES)
  const clock = random.subarray(at + NODE_BYTES, at + NODE_BYTES + CLOCK_BYTES)
  at += NODE_BYTES + CLOCK_BYTES
  return cassandra.types.TimeUuid.fromDate(new Date(receivedMs), undefined, node, clock)
}
