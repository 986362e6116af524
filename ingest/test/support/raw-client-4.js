/** A client that speaks raw packets of MQTT 3.1.1. */

import { PacketClient } from './packet-client.js'

export { endAll } from './packet-client.js'

export class RawClient4 extends PacketClient {
  /** @param {number} port */
  constructor(port) {
    super(port, 4)
  }
}
