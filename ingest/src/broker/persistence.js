/**
 * What aedes keeps in memory, within limits: its own store has none, so that one subscriber that
 * went away for the night, or one publisher of retained messages, would fill the memory.
 *
 * A client is known here by the name of its session.
 */

import { Readable } from 'node:stream'
import { matchesTopic } from '@sandglass/common/topic-match'
import aedesPersistence from 'aedes-persistence'
import { copyOf } from './frame.js'
import { OfflineQueues } from './offline-queues.js'

// What a packet is among the parts of aedes.
const createStore = /** @type {any} */ (aedesPersistence)
const { Packet } = createStore

/** Memory that a retained message takes besides topic and payload, in bytes. */
const RETAINED_BYTES = 512

/** @typedef {import('./offline-queues.js').Packet} Queued */
/** @typedef {Queued & { qos?: number, delivery?: import('./v5/dialect.js').Delivery }} Retained */
/** @typedef {{ id: string }} Client */
/** @typedef {{ clientId: string, topic: string }} Subscriber */
/** @typedef {{ topic: string, qos: number }} Subscription */

/**
 * @typedef {object} Shares
 * @property {import('@sandglass/common/memory-share').MemoryShare} retained
 * @property {import('@sandglass/common/memory-share').MemoryShare} queues
 */

export class BoundedPersistence {
  #store = createStore()
  #retained
  /** And the bytes of each, by topic. @type {Map<string, { packet: Retained, bytes: number }>} */
  #retainedByTopic = new Map()
  #isGranted
  #clockMs
  /** Sessions with subscriptions that outlive their connections. @type {Set<string>} */
  #subscribers = new Set()

  /**
   * @param {Shares} shares
   * @param {(name: string, filter: string) => boolean} isGranted  Whether a session has a
   *   subscription. aedes stores all of a SUBSCRIBE once one of them is granted.
   * @param {() => number} [clockMs]  By the clock that only goes forward.
   */
  constructor({ retained, queues }, isGranted, clockMs = () => performance.now()) {
    this.#clockMs = clockMs
    this.#retained = retained
    this.#isGranted = isGranted
    this.queues = new OfflineQueues(queues, (packet) => new Packet(packet))
    /** Retained messages that there was no room for. */
    this.retainedRefused = 0
  }

  /** How many sessions have subscriptions that outlive their connections. */
  get subscribers() {
    return this.#subscribers.size
  }

  /** @param {import('aedes').Aedes} broker */
  async setup(broker) {
    await this.#store.setup(broker)
  }

  /** @param {Retained} packet  An empty payload takes the last one away [MQTT-3.3.1-10]. */
  async storeRetained(packet) {
    const { topic, payload } = packet
    const before = this.#retainedByTopic.get(topic)?.bytes ?? 0
    const passOnBytes = packet.delivery?.passOn.length ?? 0
    const wholeBytes = RETAINED_BYTES + 2 * topic.length + payload.length + passOnBytes
    const bytes = payload.length === 0 ? 0 : wholeBytes
    this.#retained.give(before)
    if (bytes > 0 && !this.#retained.take(bytes)) {
      this.#retained.add(before)
      this.retainedRefused++
      return
    }
    if (bytes > 0) this.#retainedByTopic.set(topic, { packet: owned(packet), bytes })
    else this.#retainedByTopic.delete(topic)
  }

  /** @param {string[]} filters */
  createRetainedStreamCombi(filters) {
    return Readable.from(this.retainedFor(filters))
  }

  /** @param {string[]} filters */
  *retainedFor(filters) {
    for (const filter of filters) {
      for (const [topic, { packet, bytes }] of this.#retainedByTopic) {
        if (!matchesTopic(filter, topic)) continue
        const { delivery } = packet
        // [MQTT-3.3.2-5]
        if (delivery && delivery.expiresMs <= this.#clockMs()) this.#dropRetained(topic, bytes)
        else yield packet
      }
    }
  }

  /** @param {string} topic  @param {number} bytes */
  #dropRetained(topic, bytes) {
    this.#retained.give(bytes)
    this.#retainedByTopic.delete(topic)
  }

  /** @param {Client} client  @param {Subscription[]} subscriptions */
  async addSubscriptions({ id }, subscriptions) {
    const granted = subscriptions.filter(({ topic }) => this.#isGranted(id, topic))
    if (granted.length === 0) return
    this.#subscribers.add(id)
    await this.#store.addSubscriptions({ id }, granted)
  }

  /** @param {Client} client  @param {string[]} filters */
  async removeSubscriptions({ id }, filters) {
    await this.#store.removeSubscriptions({ id }, filters)
  }

  /** @param {Client} client */
  async cleanSubscriptions({ id }) {
    this.#subscribers.delete(id)
    await this.#store.cleanSubscriptions({ id })
  }

  /** @param {Client} client */
  async subscriptionsByClient({ id }) {
    return this.#store.subscriptionsByClient({ id })
  }

  /** @param {string} topic */
  async subscriptionsByTopic(topic) {
    return this.#store.subscriptionsByTopic(topic)
  }

  /** Forgets a session. @param {string} name */
  forget(name) {
    this.queues.forget(name)
    void this.cleanSubscriptions({ id: name })
  }

  /** @param {Subscriber[]} subscribers  @param {Queued} packet */
  async outgoingEnqueueCombi(subscribers, packet) {
    // One whose session has ended meanwhile is none any more.
    const names = subscribers
      .map(({ clientId }) => clientId)
      .filter((id) => this.#subscribers.has(id))
    if (names.length > 0) this.queues.add(names, owned(packet))
  }

  /** @param {Subscriber} subscriber  @param {Queued} packet */
  async outgoingEnqueue(subscriber, packet) {
    await this.outgoingEnqueueCombi([subscriber], packet)
  }

  /** @param {Client} client  @param {Queued} packet */
  async outgoingUpdate({ id }, packet) {
    // A message that was not queued is delivered once, and not again after a reconnection.
    this.queues.update(id, packet)
  }

  /** @param {Client} client  @param {Queued} packet */
  async outgoingClearMessageId({ id }, { messageId }) {
    return this.queues.remove(id, messageId)
  }

  /** @param {Client} client */
  outgoingStream({ id }) {
    return Readable.from(this.queues.packets(id))
  }

  /** No PUBLISH comes to aedes by a connection. */
  async cleanIncoming() {}

  /** @param {Client} client  @param {Queued} packet */
  async putWill(client, packet) {
    await this.#store.putWill(client, packet)
  }

  /** @param {Client} client */
  async delWill(client) {
    return this.#store.delWill(client)
  }

  /**
   * Wills that other brokers left behind. There is none; and a step of the clock, by which aedes
   * tells whether a broker lives, must not have it take ourselves for one.
   */
  streamWill() {
    return Readable.from([])
  }
}

/**
 * A packet that does not keep the whole chunk alive in which its payload arrived, nor a part of a
 * pool.
 *
 * @template {Queued} P
 * @param {P} packet
 * @returns {P}
 */
function owned(packet) {
  const own = { payload: copyOf(packet.payload) }
  return Object.assign(Object.create(Object.getPrototypeOf(packet)), packet, own)
}
