/**
 * The messages that are in memory and not durable yet: how many, how large, which is the oldest.
 * Here it is decided what happens at the limit:
 *
 * - QoS 1 and 2: the server is told to read no more until there is room. Nothing is dropped.
 * - QoS 0: the sender would not wait for us, so what comes beyond its limit is dropped and counted.
 */

/** @typedef {import('./message.js').Message} Message */

/**
 * @typedef {object} InFlightLimits
 * @property {number} heldBytesMax  Messages of QoS 1 and 2, in bytes.
 * @property {number} qos0BytesMax  Messages of QoS 0, in bytes.
 */

export class InFlight {
  /** How many. */
  count = 0
  /**
   * Ends of the list of all, by arrival. It is made of the messages themselves, because so many
   * come and go that a collection of them would cost more than all else that is decided here.
   *
   * @private @type {Message | undefined}
   */
  oldest
  /** @private @type {Message | undefined} */
  newest
  /** Bytes of messages of QoS 1 and 2. @private */
  heldBytes = 0
  /** Bytes of messages of QoS 0. @private */
  qos0Bytes = 0

  /** @param {InFlightLimits} limits */
  constructor(limits) {
    /** Called when there is room again. @type {() => void} */
    this.onRoom = () => {}
    /** @private */
    this.limits = limits
  }

  get bytes() {
    return this.heldBytes + this.qos0Bytes
  }

  /** Whether no more messages of QoS 1 and 2 should be given. */
  get isFull() {
    return this.heldBytes >= this.limits.heldBytesMax
  }

  /** When the oldest one arrived, by the clock that only goes forward. */
  get oldestMs() {
    return this.oldest?.arrivedMs
  }

  /** By arrival; one that was given may be removed. @returns {Generator<Message>} */
  *all() {
    for (let message = this.oldest; message; ) {
      const { later } = message
      yield message
      message = later
    }
  }

  /** @param {Message} message  @returns {boolean}  False if there is no room for it. */
  add(message) {
    const { qos, bytes } = message
    if (qos > 0) this.heldBytes += bytes
    else if (this.qos0Bytes + bytes > this.limits.qos0BytesMax) return false
    else this.qos0Bytes += bytes
    this.count++
    message.earlier = this.newest
    if (this.newest) this.newest.later = message
    else this.oldest = message
    this.newest = message
    return true
  }

  /** @param {Message} message */
  remove(message) {
    this.unlink(message)
    if (message.qos === 0) {
      this.qos0Bytes -= message.bytes
      return
    }
    const wasFull = this.isFull
    this.heldBytes -= message.bytes
    if (wasFull && !this.isFull) queueMicrotask(() => this.onRoom())
  }

  /** @private @param {Message} message */
  unlink(message) {
    const { earlier, later } = message
    this.count--
    if (earlier) earlier.later = later
    else this.oldest = later
    if (later) later.earlier = earlier
    else this.newest = earlier
    message.earlier = undefined
    message.later = undefined
  }
}
