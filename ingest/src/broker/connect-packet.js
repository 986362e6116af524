/** What a CONNECT says of its client, besides what the broker makes of it. */

import { parser } from 'mqtt-packet'

/** @typedef {import('./access.js').Introduction & { clientId: string }} Introduction */

/**
 * @param {Buffer} packet
 * @returns {Introduction}  Empty where it is malformed: the broker says so.
 */
export function introductionOf(packet) {
  /** @type {Introduction} */
  const introduction = { clientId: '', password: undefined, willTopic: undefined }
  const reader = parser()
  reader.on('error', () => {})
  reader.on('packet', (connect) => {
    if (connect.cmd !== 'connect') return
    introduction.clientId = connect.clientId
    introduction.password = connect.password?.toString()
    introduction.willTopic = connect.will?.topic
  })
  reader.parse(packet)
  return introduction
}
