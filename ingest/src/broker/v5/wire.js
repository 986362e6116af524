/** What the broker hears from subscribers of MQTT 5, and tells them. */

import { generate } from 'mqtt-packet'
import { encodePublish5 } from './encode.js'
import { parseAcknowledgement5, parseSubscribe5, parseUnsubscribe5 } from './packets.js'
import { REASON } from './reason.js'

const V5 = { protocolVersion: 5 }

/** @type {import('../routing/wire.js').Wire} */
export const wire5 = {
  parseSubscribe: parseSubscribe5,
  parseUnsubscribe: parseUnsubscribe5,
  parseAcknowledgement: parseAcknowledgement5,
  encodePublish: encodePublish5,
  suback: (messageId, granted) => generate({ cmd: 'suback', messageId, granted }, V5),
  unsuback(messageId, were) {
    const granted = were.map((was) => (was ? REASON.success : REASON.noSubscription))
    return generate(/** @type {any} */ ({ cmd: 'unsuback', messageId, granted }), V5)
  },
  pubrel(messageId, isKnown) {
    const reasonCode = isKnown ? REASON.success : REASON.packetIdUnknown
    return generate({ cmd: 'pubrel', messageId, reasonCode }, V5)
  },
}
