/** Measurements that arrive in one request: each is a message, and the answer waits for all. */

import { Message } from '../message/message.js'

/** @typedef {import('@sandglass/common/bodies').Item} Item */

/**
 * @typedef {object} Sink
 * @property {(message: Message) => void} accept  Settles it some time later.
 * @property {boolean} isFull
 */

/**
 * @typedef {object} Delivered
 * @property {number} received  Items.
 * @property {number} stored  Of these: durable, in the database or in the spool.
 * @property {{ item: number, reason: string }[]} refused  The others, by their place in the body,
 *   from 0. They are dead letters.
 */

/**
 * Resolves when every item is durable, or is a dead letter.
 *
 * @param {Sink} sink
 * @param {Item[]} items
 * @param {string} path  By which they came: what dead letters have for a topic.
 * @param {string} client  Who sent them.
 * @returns {Promise<Delivered>}
 */
export async function deliver(sink, items, path, client) {
  /** @type {Delivered} */
  const delivered = { received: items.length, stored: 0, refused: [] }
  const receivedMs = Date.now()
  const arrivedMs = performance.now()
  await Promise.all(
    items.map(
      ({ format, payload }, item) =>
        new Promise((/** @type {(value?: undefined) => void} */ resolve) => {
          const settled = (/** @type {Message} */ { refusal }) => {
            if (refusal) delivered.refused.push({ item, reason: refusal.reason })
            else delivered.stored++
            resolve()
          }
          sink.accept(
            new Message({
              ...{ origin: { settled }, clientId: client, session: undefined, visit: 0 },
              ...{ topic: path, payload, format, qos: 1, dup: false, retain: false, packetId: 0 },
              ...{ receivedMs, arrivedMs },
            }),
          )
        }),
    ),
  )
  delivered.refused.sort((a, b) => a.item - b.item)
  return delivered
}
