/** What the broker hears from subscribers of MQTT 3.1 and 3.1.1, and tells them. */

import { generate } from 'mqtt-packet'
import { encodePublish3 } from './encode.js'
import { parseAcknowledgement3, parseSubscribe3, parseUnsubscribe3 } from './packets.js'

/** Says in a SUBACK that there is no subscription, whyever. */
const FAILED = 0x80

/** @type {import('../routing/wire.js').Wire} */
export const wire3 = {
  parseSubscribe: parseSubscribe3,
  parseUnsubscribe: parseUnsubscribe3,
  parseAcknowledgement: parseAcknowledgement3,
  encodePublish: encodePublish3,
  suback(messageId, codes) {
    // [MQTT-3.9.3-2]
    const granted = codes.map((code) => (code > 2 ? FAILED : code))
    return generate({ cmd: 'suback', messageId, granted })
  },
  unsuback: (messageId) => generate({ cmd: 'unsuback', messageId, granted: [] }),
  pubrel: (messageId) => generate({ cmd: 'pubrel', messageId }),
}
