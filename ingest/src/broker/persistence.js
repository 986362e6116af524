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
  const retained = new RetainedBytes()
  const inner = bound(store)
  const { storeRetained, outgoingEnqueueCombi, outgoingUpdate, outgoingClearMessageId } = inner
  const countSubscribers = async () => {
    bounded.subscribers = (await store.countOffline()).clientsCount
  }
  const bounded = Object.assign(store, {
    dropped: 0,
    /** Clients whose subscriptions outlive their connection. */
    subscribers: 0,

    /** @param {Client} client  @param {unknown[]} subscriptions */
    async addSubscriptions(client, subscriptions) {
      await inner.addSubscriptions(client, subscriptions)
      await countSubscribers()
    },

    /** @param {Client} client  @param {unknown[]} subscriptions */
    async removeSubscriptions(client, subscriptions) {
      await inner.removeSubscriptions(client, subscriptions)
      await countSubscribers()
    },

    /** @param {Client} client */
    async cleanSubscriptions(client) {
      await inner.cleanSubscriptions(client)
      await countSubscribers()
    },

    /** @param {Packet} packet */
    async storeRetained(packet) {
      if (!retained.take(packet)) {
        bounded.dropped++
        return
      }
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

/** How much is retained. */
class RetainedBytes {
  constructor() {
    /** @private @type {Map<string, number>} By topic. */
    this.bytesOf = new Map()
    /** @private */
    this.bytes = 0
  }

  /** Counts a message in the place of its topic's last; false if there is no room for it. */
  /** @param {Packet} packet  An empty payload takes the last one away [MQTT-3.3.1-10]. */
  take({ topic, payload }) {
    const moreBytes = payload.length - (this.bytesOf.get(topic) ?? 0)
    const isFull =
      this.bytes + moreBytes > RETAINED_BYTES_MAX ||
      (this.bytesOf.size >= RETAINED_MESSAGES_MAX && !this.bytesOf.has(topic))
    if (isFull && payload.length > 0) return false
    this.bytes += moreBytes
    if (payload.length > 0) this.bytesOf.set(topic, payload.length)
    else this.bytesOf.delete(topic)
    return true
  }
}

/** @param {any} store */
function bound(store) {
  return {
    addSubscriptions: store.addSubscriptions.bind(store),
    removeSubscriptions: store.removeSubscriptions.bind(store),
    cleanSubscriptions: store.cleanSubscriptions.bind(store),
    storeRetained: store.storeRetained.bind(store),
    outgoingEnqueueCombi: store.outgoingEnqueueCombi.bind(store),
    outgoingUpdate: store.outgoingUpdate.bind(store),
    outgoingClearMessageId: store.outgoingClearMessageId.bind(store),
  }
}

/**
 * A packet that does not keep the whole chunk alive in which its payload arrived.
 *
 * @param {Packet} packet
 */
function owned(packet) {
  return Object.assign(Object.create(Object.getPrototypeOf(packet)), packet, {
    payload: Buffer.from(packet.payload),
  })
}
