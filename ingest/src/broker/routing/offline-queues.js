/**
 * Messages that wait for subscribers whose sessions outlive their connections: while they are away,
 * and until they have acknowledged them. Bounded for one subscriber in number and bytes, and for
 * all together in bytes. What there is no room for is dropped, as mosquitto does.
 */

/** Most messages that wait for one subscriber. */
export const QUEUE_MESSAGES_MAX = 1_000

/** Part of the room of all that one subscriber may have: an eighth. */
const QUEUE_PART = 1 / 8

/** Memory that a message takes for each subscriber, and once for all of them, in bytes. */
const ENTRY_BYTES = 256
const MESSAGE_BYTES = 384

/** @typedef {import('@sandglass/common/memory-share').MemoryShare} MemoryShare */

/**
 * @typedef {object} Packet
 * @property {string} cmd  `publish`, or `pubrel` once that was received.
 * @property {string} topic
 * @property {Buffer} payload
 * @property {Buffer} [passOn]  Properties, in MQTT 5.
 * @property {number} [messageId]  Once it was sent.
 */

/**
 * What the queues of a message share.
 *
 * @typedef {object} Shared
 * @property {number} bytes
 * @property {number} uses  How many queues have it.
 * @property {Buffer} [payload]  A copy of it, once one queue has it.
 * @property {Buffer} [passOn]  The same.
 */

/** @typedef {{ packet: Packet, bytes: number, shared: Shared }} Entry */

/** Memory that a message takes, however many wait for it, in bytes. */
/** @param {Pick<Packet, 'topic' | 'payload' | 'passOn'>} packet */
function messageBytes({ topic, payload, passOn }) {
  return MESSAGE_BYTES + 2 * topic.length + payload.length + (passOn?.length ?? 0)
}

class Queue {
  /** @type {Entry[]} */
  entries = []
  /** As if it were alone: with the whole of what it shares. */
  bytes = 0
}

export class OfflineQueues {
  /** By name of the session. @type {Map<string, Queue>} */
  #queues = new Map()

  /** @param {MemoryShare} share */
  constructor(share) {
    this.share = share
    /** Messages that were dropped. */
    this.dropped = 0
  }

  /** What the queues of a message share. */
  /** @param {Pick<Packet, 'topic' | 'payload' | 'passOn'>} packet  @returns {Shared} */
  sharedOf(packet) {
    return { bytes: messageBytes(packet), uses: 0 }
  }

  /**
   * @param {string} name  Of the session for which it waits.
   * @param {Shared} shared
   * @param {() => Packet} make  The packet; asked for if there is room.
   * @returns {boolean}  False: it is dropped.
   */
  addOne(name, shared, make) {
    const queue = this.#queues.get(name) ?? new Queue()
    const bytes = ENTRY_BYTES + shared.bytes
    if (
      queue.entries.length >= QUEUE_MESSAGES_MAX ||
      queue.bytes + bytes > this.share.bytesMax * QUEUE_PART ||
      !this.#take(queue, shared)
    ) {
      this.dropped++
      return false
    }
    shared.uses++
    this.#queues.set(name, queue)
    queue.entries.push({ packet: make(), bytes, shared })
    queue.bytes += bytes
    return true
  }

  /** Takes a message away. @param {string} name  @param {number} messageId */
  remove(name, messageId) {
    const queue = this.#queues.get(name)
    const at = queue?.entries.findIndex(({ packet }) => packet.messageId === messageId) ?? -1
    if (!queue || at < 0) return undefined
    const [entry] = queue.entries.splice(at, 1)
    this.#give(name, queue, entry)
    return entry.packet
  }

  /** What waits, oldest first. @param {string} name */
  packets(name) {
    return (this.#queues.get(name)?.entries ?? []).map(({ packet }) => packet)
  }

  /** Forgets what waits for a session. @param {string} name */
  forget(name) {
    const queue = this.#queues.get(name)
    while (queue?.entries.length) {
      this.#give(name, queue, /** @type {Entry} */ (queue.entries.pop()))
    }
  }

  /**
   * Takes memory for a message. When there is none left the longest queue loses its newest half,
   * unless it is this one.
   *
   * @param {Queue} queue
   * @param {Shared} shared
   */
  #take(queue, shared) {
    const bytes = ENTRY_BYTES + (shared.uses === 0 ? shared.bytes : 0)
    if (this.share.take(bytes)) return true
    const [name, largest] = this.#largest()
    if (!largest || largest.bytes <= queue.bytes + bytes) return false
    const keepBytes = largest.bytes / 2
    while (largest.bytes > keepBytes) {
      this.dropped++
      this.#give(name, largest, /** @type {Entry} */ (largest.entries.pop()))
    }
    // It may have been among them.
    return this.share.take(ENTRY_BYTES + (shared.uses === 0 ? shared.bytes : 0))
  }

  /** @returns {[string, Queue | undefined]} */
  #largest() {
    /** @type {[string, Queue | undefined]} */
    let largest = ['', undefined]
    for (const one of this.#queues) if (one[1].bytes > (largest[1]?.bytes ?? 0)) largest = one
    return largest
  }

  /** @param {string} name  @param {Queue} queue  @param {Entry} entry  Taken out of it. */
  #give(name, queue, { bytes, shared }) {
    queue.bytes -= bytes
    shared.uses--
    this.share.give(ENTRY_BYTES + (shared.uses === 0 ? shared.bytes : 0))
    if (queue.entries.length === 0) this.#queues.delete(name)
  }
}
