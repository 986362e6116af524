/** Measurements that arrive in one request: each is a message, and the answer waits for all. */

import { Message } from '../message/message.js'
import { takeInPortions } from '../message/portions.js'

/** @typedef {import('@sandglass/common/bodies').Item} Item */
/** @typedef {{ sensor: string, retention: string }} Kept */
/** @typedef {{ item: number, field: string, reason: string }} LostField */

/** Most fields that are remembered of a request: an answer tells of fewer. */
const FIELDS_MAX = 1_000

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
 * @property {LostField[]} fields  Fields of stored items that are no measurements: the first ones.
 *   Such an item is a dead letter, too.
 * @property {number} fieldCount  Of all of these.
 * @property {Kept[]} kept  Sensors that exist and keep another class than was wished.
 */

/**
 * Resolves when every item is durable, or is a dead letter.
 *
 * @param {Sink} sink
 * @param {Item[]} items
 * @param {object} from
 * @param {string} from.path  By which they came: what dead letters have for a topic.
 * @param {string} from.client  Who sent them.
 * @param {string} [from.retention]  Class of sensors that register themselves by them.
 * @returns {Promise<Delivered>}
 */
export async function deliver(sink, items, { path, client, retention }) {
  /** @type {Delivered} */
  const delivered = {
    received: items.length,
    stored: 0,
    refused: [],
    fields: [],
    fieldCount: 0,
    kept: [],
  }
  if (items.length === 0) return delivered
  /** @type {Map<string, Kept>} */
  const kept = new Map()
  const receivedMs = Date.now()
  const arrivedMs = performance.now()
  await new Promise((/** @type {(value?: undefined) => void} */ resolve) => {
    takeInPortions({
      count: items.length,
      make: (at, origin) =>
        new Message({
          origin,
          clientId: client,
          retention,
          topic: path,
          payload: items[at].payload,
          format: items[at].format,
          receivedMs,
          arrivedMs,
        }),
      accept: (message) => sink.accept(message),
      onSettled({ refusal, partial, keptAs }, item) {
        if (keptAs) kept.set(keptAs.sensor, keptAs)
        if (refusal) delivered.refused.push({ item, reason: refusal.reason })
        else delivered.stored++
        if (partial && !refusal) noteFields(delivered, item, partial.fields)
      },
      onDone: resolve,
      hasRoom: () => !sink.isFull,
    })
  })
  delivered.refused.sort((a, b) => a.item - b.item)
  delivered.fields.sort((a, b) => a.item - b.item)
  delivered.kept = [...kept.values()]
  return delivered
}

/**
 * @param {Delivered} delivered
 * @param {number} item
 * @param {import('@sandglass/common/formats/types').RefusedField[]} fields
 */
function noteFields(delivered, item, fields) {
  delivered.fieldCount += fields.length
  const room = FIELDS_MAX - delivered.fields.length
  for (const { field, reason } of fields.slice(0, room)) {
    delivered.fields.push({ item, field, reason })
  }
}
