/** What a CONNECT says of its client, besides what the broker makes of it. */

import { parser } from 'mqtt-packet'

/**
 * @param {Buffer} packet
 * @returns {import('./access.js').Introduction}  Empty where it is malformed: the broker says so.
 */
export function introductionOf(packet) {
  /** @type {import('./access.js').Introduction} */
  const introduction = { password: undefined, willTopic: undefined }
  const reader = parser()
  reader.on('error', () => {})
  reader.on('packet', (connect) => {
    if (connect.cmd !== 'connect') return
    introduction.password = connect.password?.toString()
    introduction.willTopic = connect.will?.topic
  })
  reader.parse(packet)
  return introduction
}
