/** Takes a message of several lines apart: each line is stored, or refused, by itself. */

import { FORMAT } from '@sandglass/common/bodies'
import { splitLines } from '@sandglass/common/line-protocol'
import { Message } from './message.js'

/**
 * @param {Message} message  Of line protocol.
 * @param {() => void} onSettled  Called when all of the lines are settled.
 * @returns {Message[]}  One a line.
 */
export function messagesOfLines(message, onSettled) {
  const { session, qos, receivedMs, clientId, topic, arrivedMs } = message
  if (session && qos > 0) message.firstReceivedMs = session.firstReceipt(message).receivedMs
  const { firstReceivedMs } = message
  const lines = splitLines(message.payload.toString())
  let left = lines.length
  const settled = () => {
    left--
    if (left === 0) onSettled()
  }
  return lines.map(
    (line) =>
      new Message({
        ...{ origin: { settled }, clientId, session: undefined, visit: 0, topic, qos },
        ...{ payload: Buffer.from(line), format: FORMAT.line, dup: false, retain: false },
        ...{ packetId: 0, receivedMs, arrivedMs, firstReceivedMs },
      }),
  )
}
