/** A client that speaks raw packets of MQTT 5. */

import { PacketClient } from './packet-client.js'

export { endAll } from './packet-client.js'

export class RawClient5 extends PacketClient {
  /** @param {number} port */
  constructor(port) {
    super(port, 5)
  }
}
