/**
 * What aedes keeps in memory, with limits: its own store has none, so that one subscriber that went
 * away for the night, or one publisher of retained messages, would fill the memory.
 */

import memory from 'aedes-persistence'

/** Most messages that wait for one subscriber; what comes after is dropped, as mosquitto does. */
const QUEUE_MESSAGES_MAX = 1_000

/** Most retained messages, and their payloads in bytes. */
const RETAINED_MESSAGES_MAX = 100_000
const RETAINED_BYTES_MAX = 32 * 2 ** 20

/** @typedef {{ clientId: string }} Subscriber */
/** @typedef {{ id: string }} Client */
/** @typedef {{ topic: string, payload: Buffer }} Packet */

/** A store for aedes; `dropped` counts what it had no room for. */
export function boundedPersistence() {
  const store = /** @type {any} */ (memory)()
  /** @type {Map<string, number>} Messages that wait, by client. */
  const waiting = new Map()
  /** @type {Map<string, number>} Bytes of retained messages, by topic. */
  const retained = new Map()
  let retainedBytes = 0
  const { storeRetained, outgoingEnqueueCombi, outgoingUpdate, outgoingClearMessageId } =
    bound(store)
  const bounded = Object.assign(store, {
    dropped: 0,

    /** @param {Packet} packet */
    async storeRetained(packet) {
      const bytes = packet.payload.length
      const oldBytes = retained.get(packet.topic) ?? 0
      const isFull =
        retainedBytes - oldBytes + bytes > RETAINED_BYTES_MAX ||
        (retained.size >= RETAINED_MESSAGES_MAX && !retained.has(packet.topic))
      if (isFull && bytes > 0) {
        bounded.dropped++
        return
      }
      retainedBytes += bytes - oldBytes
      if (bytes > 0) retained.set(packet.topic, bytes)
      else retained.delete(packet.topic)
      await storeRetained(owned(packet))
    },

    /** @param {Subscriber[]} subscribers  @param {Packet} packet */
    async outgoingEnqueueCombi(subscribers, packet) {
      if (subscribers.length === 0) return
      const taken = subscribers.filter(({ clientId }) => {
        const count = waiting.get(clientId) ?? 0
        if (count >= QUEUE_MESSAGES_MAX) return false
        waiting.set(clientId, count + 1)
        return true
      })
      bounded.dropped += subscribers.length - taken.length
      await outgoingEnqueueCombi(taken, owned(packet))
    },

    /** @param {Subscriber} subscriber  @param {Packet} packet */
    async outgoingEnqueue(subscriber, packet) {
      await bounded.outgoingEnqueueCombi([subscriber], packet)
    },

    /** @param {Client} client  @param {Packet} packet */
    async outgoingUpdate(client, packet) {
      // A message that was not queued is delivered once, and not again after a reconnection.
      await outgoingUpdate(client, packet).catch(() => {})
    },

    /** @param {Client} client  @param {Packet} packet */
    async outgoingClearMessageId(client, packet) {
      const cleared = await outgoingClearMessageId(client, packet)
      const count = (waiting.get(client.id) ?? 0) - (cleared ? 1 : 0)
      if (count > 0) waiting.set(client.id, count)
      else waiting.delete(client.id)
      return cleared
    },
  })
  return bounded
}

/** @param {any} store */
function bound(store) {
  return {
    storeRetained: store.storeRetained.bind(store),
    outgoingEnqueueCombi: store.outgoingEnqueueCombi.bind(store),
    outgoingUpdate: store.outgoingUpdate.bind(store),
    outgoingClearMessageId: store.outgoingClearMessageId.bind(store),
  }
}

/** A packet that does not keep the whole chunk alive in which its payload arrived. @param {Packet} packet */
function owned(packet) {
  return Object.assign(Object.create(Object.getPrototypeOf(packet)), packet, {
    payload: Buffer.from(packet.payload),
  })
}
