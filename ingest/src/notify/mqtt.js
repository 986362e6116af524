/** Tells a receiver by a message of MQTT: the broker has it, or its row stays in the queue. */

/** @typedef {import('./sender.js').Carrier} Carrier */

/**
 * Publishes; resolves once the broker has the message.
 *
 * @typedef {(topic: string, payload: Buffer) => Promise<void>} Publish
 */

/** @param {Publish} publish  @returns {Carrier} */
export function mqttCarrier(publish) {
  return {
    async send({ topic = '' }, { id, body }) {
      // Who hears it twice knows it by the id, as of a webhook.
      await publish(topic, Buffer.from(JSON.stringify({ id, ...JSON.parse(body) })))
    },
  }
}
