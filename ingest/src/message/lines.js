/** Takes a message of several lines apart: each line is stored, or refused, by itself. */

import { FORMAT } from '@sandglass/common/bodies'
import { splitLines } from '@sandglass/common/line-protocol'
import { derive } from './message.js'
import { takeInPortions } from './portions.js'

/** @typedef {import('./message.js').Message} Message */

/**
 * @param {Message} message  Of line protocol.
 * @param {(line: Message) => void} accept
 * @param {() => void} onDone  Called when all of the lines are settled.
 * @returns {boolean}  False where there is no line: nothing is called.
 */
export function takeLines(message, accept, onDone) {
  // A character for each byte, so that a line that is not UTF-8 is refused by itself.
  const lines = splitLines(message.payload.toString('latin1'))
  if (lines.length === 0) return false
  const { session, qos } = message
  if (session && qos > 0) message.receipt = session.firstReceipt(message).receivedMs
  takeInPortions({
    count: lines.length,
    make: (at, origin) =>
      derive(message, { origin, payload: Buffer.from(lines[at], 'latin1'), format: FORMAT.line }),
    accept,
    onDone,
  })
  return true
}
