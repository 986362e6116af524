/**
 * The messages that are in memory and not durable yet: how many, how large, which is the oldest.
 * Here it is decided what happens at the limit:
 *
 * - QoS 1 and 2: the server is told to read no more until there is room. Nothing is dropped.
 * - QoS 0: the sender would not wait for us, so what comes beyond its limit is dropped and counted.
 */

/** @typedef {import('./message.js').Message} Message */

/** @typedef {import('@sandglass/common/memory-share').MemoryShare} MemoryShare */

/** So many senders share the memory at least: one alone cannot fill it. */
const SENDERS_AT_LEAST = 16

export class InFlight {
  /** How many. */
  count = 0
  /**
   * Ends of the list of all, by arrival. It is made of the messages themselves, because so many
   * come and go that a collection of them would cost more than all else that is decided here.
   *
   * @type {Message | undefined}
   */
  #oldest
  /** @type {Message | undefined} */
  #newest
  #acknowledged
  #qos0

  /** @param {{ inFlight: MemoryShare, qos0: MemoryShare }} shares */
  constructor({ inFlight, qos0 }) {
    /** Called when there is room again. @type {() => void} */
    this.onRoom = () => {}
    this.#acknowledged = inFlight
    this.#qos0 = qos0
  }

  get bytes() {
    return this.#acknowledged.bytes + this.#qos0.bytes
  }

  /** Whether no more messages of QoS 1 and 2 should be given. */
  get isFull() {
    return this.#acknowledged.isFull
  }

  /** Most bytes of one sender; then it is not read until there are less. */
  get senderBytesMax() {
    return Math.floor(this.#acknowledged.bytesMax / SENDERS_AT_LEAST)
  }

  /** When the oldest one arrived, by the clock that only goes forward. */
  get oldestMs() {
    return this.#oldest?.arrivedMs
  }

  /**
   * Counts a message that is not taken yet: nothing waits for the database because of it.
   *
   * @param {Message} message
   * @returns {boolean}  False if there is no room for it.
   */
  reserve({ qos, bytes, sender }) {
    if (qos > 0) this.#acknowledged.add(bytes)
    else if (!this.#qos0.take(bytes)) return false
    if (sender) sender.bytesInFlight += bytes
    return true
  }

  /** @param {Message} message  That was counted, and has not grown since. */
  unreserve({ qos, bytes, sender }) {
    if (sender) sender.bytesInFlight -= bytes
    if (qos === 0) this.#qos0.give(bytes)
    else this.release(bytes)
  }

  /** By arrival; one that was given may be removed. @returns {Generator<Message>} */
  *all() {
    for (let message = this.#oldest; message; ) {
      const { later } = message
      yield message
      message = later
    }
  }

  /** @param {Message} message  @returns {boolean}  False if there is no room for it. */
  add(message) {
    if (message.qos > 0) this.#acknowledged.add(message.bytes)
    else if (!this.#qos0.take(message.bytes)) return false
    this.count++
    if (message.sender) message.sender.bytesInFlight += message.bytes
    message.earlier = this.#newest
    if (this.#newest) this.#newest.later = message
    else this.#oldest = message
    this.#newest = message
    return true
  }

  /**
   * Counts what else a message turned out to cost, once it is known what it says.
   *
   * @param {Message} message  In flight.
   * @param {number} bytes
   */
  grow(message, bytes) {
    message.bytes += bytes
    if (message.sender) message.sender.bytesInFlight += bytes
    if (message.qos > 0) this.#acknowledged.add(bytes)
    else this.#qos0.add(bytes)
  }

  /** @param {Message} message */
  remove(message) {
    this.#unlink(message)
    if (message.sender) message.sender.bytesInFlight -= message.bytes
    if (message.qos === 0) this.#qos0.give(message.bytes)
    else this.release(message.bytes)
  }

  /** Counts bytes that a message of several parts takes besides these. @param {number} bytes */
  hold(bytes) {
    this.#acknowledged.add(bytes)
  }

  /** @param {number} bytes */
  release(bytes) {
    const wasFull = this.isFull
    this.#acknowledged.give(bytes)
    if (wasFull && !this.isFull) queueMicrotask(() => this.onRoom())
  }

  /** @param {Message} message */
  #unlink(message) {
    const { earlier, later } = message
    this.count--
    if (earlier) earlier.later = later
    else this.#oldest = later
    if (later) later.earlier = earlier
    else this.#newest = earlier
    message.earlier = undefined
    message.later = undefined
  }
}
