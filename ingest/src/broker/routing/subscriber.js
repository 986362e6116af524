/**
 * A client as subscribers are seen by the broker: what it gets, within what it can take.
 *
 * ```text
 * sent        PUBLISH is on its way; awaits PUBACK, or PUBREC
 * received    PUBREL is on its way; awaits PUBCOMP
 * ```
 *
 * What its session outlives waits in the queue until it is acknowledged; so does what it cannot
 * take yet, and what another member of a shared subscription would get in its place.
 */

import { maySubscribe } from '../entrance/access.js'
import { copyOf, TYPE } from '../frame.js'
import { REFUSED_FROM } from '../v5/reason.js'
import { wireOf } from './wire.js'

/** Memory that a packet id takes until it is acknowledged, in bytes. */
const IN_FLIGHT_BYTES = 64

/** Most messages that a client has at once, however many it takes. */
const IN_FLIGHT_MAX = 32_768

/** As many it has where there is no memory left for more. */
const IN_FLIGHT_MIN = 16

/** Bytes that wait for a client; with more of them it gets nothing that can wait, too. */
const OUTGOING_BYTES_MAX = 2 ** 20

/** Retained messages that are sent in one turn. */
const RETAINED_PER_TURN = 64

const PACKET_ID_MAX = 65_535

const NO_BYTES = Buffer.alloc(0)

/**
 * How a client connects.
 *
 * @typedef {object} Terms
 * @property {string} name  Of its session.
 * @property {number} version  Of the protocol: 4 (3.1 as well) or 5.
 * @property {boolean} clean  Whether the session begins anew.
 * @property {boolean} isKept  Whether it outlives the connection.
 * @property {number} receiveMax  Messages of QoS 1 and 2 that it takes at once.
 * @property {number} packetBytesMax  Largest packet that it takes.
 * @property {import('./wills.js').Will5 | undefined} will
 */

/**
 * A message, as one subscriber gets it.
 *
 * @typedef {object} Item
 * @property {'publish' | 'pubrel'} cmd
 * @property {string} topic
 * @property {Buffer} payload
 * @property {0 | 1 | 2} qos
 * @property {boolean} retain
 * @property {Buffer} passOn
 * @property {number} expiresMs
 * @property {readonly number[]} ids
 * @property {import('./shared-group.js').SharedGroup | undefined} group  That chose the subscriber.
 * @property {number | undefined} messageId  Once it was sent.
 */

/** @typedef {import('../port.js').Served} Served */
/** @typedef {import('./offline-queues.js').OfflineQueues} OfflineQueues */
/** @typedef {import('./offline-queues.js').Shared} Shared */
/** @typedef {import('./subscription.js').Subscription} Subscription */

export class Subscriber {
  /** By filter, as the client writes them. @type {Map<string, Subscription>} */
  subscriptions = new Map()
  /** @type {Served | undefined} */
  served = undefined
  /** Whether the session has ended, though the connection has not yet. */
  isOver = false
  isKept = false
  #queues
  #clockMs
  #receiveMax = 0
  #packetBytesMax = 0
  #wire = wireOf(5)
  /** What is awaited, by packet id. @type {Map<number, 'sent' | 'received'>} */
  #inFlight = new Map()
  /** Packet ids of what an earlier connection did not acknowledge. @type {Set<number>} */
  #toResend = new Set()
  #lastPacketId = 0
  /** Whether something may wait in the queue. */
  #mayWait = false
  /** Retained messages that are still to be sent, by filter. */
  /** @type {Map<string, Iterator<Item | undefined>>} */
  #retained = new Map()
  #isRetainedDue = false
  /** @type {Buffer[]} */
  #out = []
  #outBytes = 0

  /**
   * @param {string} name
   * @param {OfflineQueues} queues
   * @param {() => number} clockMs
   */
  constructor(name, queues, clockMs) {
    this.name = name
    this.#queues = queues
    this.#clockMs = clockMs
  }

  /** Whether it can take a message at once. */
  get isReady() {
    return this.served !== undefined && !this.#mayWait && this.#hasRoom
  }

  get #hasRoom() {
    const { size } = this.#inFlight
    return size < this.#receiveMax && (size < IN_FLIGHT_MIN || !this.#queues.share.isFull)
  }

  /** Whether it has yet to take what was sent. */
  get #isBehind() {
    return this.#outBytes + (this.served?.outgoingBytes ?? 0) > OUTGOING_BYTES_MAX
  }

  /** Its client has connected. @param {Served} served  @param {Terms} terms */
  opened(served, { version, isKept, receiveMax, packetBytesMax }) {
    this.served = served
    this.#wire = wireOf(version)
    this.isKept = isKept
    this.#receiveMax = Math.min(receiveMax, IN_FLIGHT_MAX)
    this.#packetBytesMax = packetBytesMax
    // [MQTT-4.4.0-1]
    for (const { cmd, messageId } of this.#items()) {
      if (messageId === undefined) continue
      if (cmd === 'publish') {
        this.#toResend.add(messageId)
      } else {
        this.#await(messageId, 'received')
        this.write(this.#wire.pubrel(messageId, true))
      }
    }
    this.#mayWait = true
    this.#pump()
  }

  /** Its connection is gone. */
  closed() {
    this.served = undefined
    this.#queues.share.give(this.#inFlight.size * IN_FLIGHT_BYTES)
    this.#inFlight.clear()
    this.#toResend.clear()
    this.#retained.clear()
    this.#out = []
    this.#outBytes = 0
  }

  /** @returns {Item[]} */
  #items() {
    return /** @type {any[]} */ (this.#queues.packets(this.name))
  }

  /**
   * Gives it a message.
   *
   * @param {Item} item
   * @param {Shared} shared  Memory that it shares with other subscribers.
   */
  deliver(item, shared) {
    if (item.qos === 0) {
      if (this.served) this.#write(item, 0, false)
      return
    }
    if (!this.served && !this.isKept) return
    const isNow = this.isReady
    const isQueued = (!isNow || this.isKept || item.group) && this.#enqueue(item, shared)
    // What there is no room to keep is sent all the same: it is lost with the connection alone.
    if (isNow) this.#send(item)
    else if (isQueued) this.#mayWait = true
  }

  /** @param {Item} item  @param {Shared} shared  @returns {boolean} */
  #enqueue(item, shared) {
    return this.#queues.addOne(this.name, shared, () => {
      // The chunk in which it came must not be kept with it.
      shared.payload ??= copyOf(item.payload)
      shared.passOn ??= copyOf(item.passOn)
      item.payload = shared.payload
      item.passOn = shared.passOn
      return /** @type {any} */ (item)
    })
  }

  /**
   * Gives it the retained messages of a subscription, as it can take them, in place of those of the
   * same filter that it was to get before.
   *
   * @param {string} filter
   * @param {Iterator<Item | undefined>} items  Undefined: a step without a message.
   */
  deliverRetained(filter, items) {
    this.#retained.set(filter, items)
    this.#pumpRetainedSoon()
  }

  /** It is subscribed to this no more. @param {string} filter */
  dropRetained(filter) {
    this.#retained.delete(filter)
  }

  /** Sends a message, now. @param {Item} item  @returns {number}  Its packet id. */
  #send(item) {
    const isAgain = item.messageId !== undefined
    const packetId = item.messageId ?? this.#nextPacketId()
    item.messageId = packetId
    this.#toResend.delete(packetId)
    if (this.#write(item, packetId, isAgain)) this.#await(packetId, 'sent')
    else this.#queues.remove(this.name, packetId)
    return packetId
  }

  /** @param {number} packetId  @param {'sent' | 'received'} state */
  #await(packetId, state) {
    if (!this.#inFlight.has(packetId)) this.#queues.share.add(IN_FLIGHT_BYTES)
    this.#inFlight.set(packetId, state)
  }

  /**
   * @param {Item} item
   * @param {number} packetId
   * @param {boolean} dup
   * @returns {boolean}  False: the client must not have it, or cannot take it.
   */
  #write(item, packetId, dup) {
    const { served } = this
    if (!served || !maySubscribe(served.grant, item.topic, served.server.topics)) return false
    const leftMs = item.expiresMs - this.#clockMs()
    if (leftMs <= 0 && !dup) return false
    const expiryS = leftMs === Number.POSITIVE_INFINITY ? undefined : Math.ceil(leftMs / 1_000)
    const bytes = this.#wire.encodePublish({
      ...item,
      dup,
      packetId,
      expiryS: expiryS && Math.max(0, expiryS),
    })
    // [MQTT-3.1.2-24]
    if (bytes.length > this.#packetBytesMax) return false
    this.write(bytes)
    return true
  }

  /** Sends bytes with others of this turn. @param {Buffer} bytes */
  write(bytes) {
    this.#outBytes += bytes.length
    if (this.#out.push(bytes) === 1) queueMicrotask(() => this.#flush())
  }

  #flush() {
    const out = this.#out
    this.#out = []
    this.#outBytes = 0
    if (out.length > 0) this.served?.send(out.length === 1 ? out[0] : Buffer.concat(out))
  }

  /** A number that no message has. @returns {number} */
  #nextPacketId() {
    do this.#lastPacketId = (this.#lastPacketId % PACKET_ID_MAX) + 1
    while (this.#inFlight.has(this.#lastPacketId) || this.#toResend.has(this.#lastPacketId))
    return this.#lastPacketId
  }

  /** The client acknowledges. */
  /** @param {number} type  @param {number} packetId  @param {number} code */
  acknowledged(type, packetId, code) {
    const state = this.#inFlight.get(packetId)
    if (type === TYPE.pubrec && code < REFUSED_FROM) {
      if (state === 'sent') this.#received(packetId)
      // [MQTT-4.3.3-4]
      this.write(this.#wire.pubrel(packetId, state !== undefined))
      return
    }
    if (state !== (type === TYPE.pubcomp ? 'received' : 'sent')) return
    this.#inFlight.delete(packetId)
    this.#queues.share.give(IN_FLIGHT_BYTES)
    this.#queues.remove(this.name, packetId)
    this.#pump()
  }

  /** @param {number} packetId */
  #received(packetId) {
    this.#inFlight.set(packetId, 'received')
    for (const item of this.#items()) {
      if (item.messageId !== packetId) continue
      item.cmd = 'pubrel'
      item.payload = NO_BYTES
      return
    }
  }

  /** Its client has taken bytes. */
  hasTaken() {
    if (this.#mayWait || this.#retained.size > 0) this.#pump()
  }

  /** Sends what waits, as far as the client takes it. */
  #pump() {
    while (this.#mayWait && this.served && this.#hasRoom && !this.#isBehind) {
      const item = this.#items().find(({ cmd, messageId }) => {
        return cmd === 'publish' && (messageId === undefined || !this.#inFlight.has(messageId))
      })
      if (!item) {
        this.#mayWait = false
        break
      }
      const packetId = this.#send(item)
      const isSent = this.#inFlight.has(packetId)
      if (isSent && !this.isKept && !item.group) this.#queues.remove(this.name, packetId)
    }
    this.#pumpRetainedSoon()
  }

  #pumpRetainedSoon() {
    if (this.#isRetainedDue || this.#retained.size === 0) return
    this.#isRetainedDue = true
    setImmediate(() => {
      this.#isRetainedDue = false
      this.#pumpRetained()
    })
  }

  /** A few steps: there may be many topics, and none of them meant. */
  #pumpRetained() {
    for (let count = 0; count < RETAINED_PER_TURN; count++) {
      const [first] = this.#retained
      if (!first || !this.isReady || this.#isBehind) return
      const [filter, items] = first
      const { value: item, done } = items.next()
      if (done) this.#retained.delete(filter)
      else if (item?.qos === 0) this.#write(item, 0, false)
      else if (item) this.deliver(item, this.#queues.sharedOf(item))
    }
    this.#pumpRetainedSoon()
  }
}
