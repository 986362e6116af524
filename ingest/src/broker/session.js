/**
 * What is remembered of a client beyond its connection: which QoS 2 packet ids are not released,
 * which topics it subscribed to, and what recognises its redeliveries. Nothing here outlives the
 * process.
 */

import { Receipts } from './receipts.js'
import { LEVEL_BYTES } from './routing/level-tree.js'

/** Longest that a session waits for its client, in milliseconds: a week. */
export const ABSENT_MS_MAX = 7 * 24 * 3_600_000

/** Memory that a session takes while its client is away, without what it holds, in bytes. */
const SESSION_BYTES = 1_536

/** Memory that a QoS 2 packet id takes that is not released, in bytes. */
export const UNRELEASED_BYTES = 32

/** Memory that a subscription takes besides the levels of its filter, in bytes; if kept, twice. */
const SUBSCRIPTION_BYTES = 800

/** @typedef {import('../message/message.js').Message} Message */
/** @typedef {import('./sessions.js').Sessions} Sessions */
/** @typedef {import('./sessions.js').Owner} Owner */

/**
 * The connection that serves a session.
 *
 * @typedef {object} Serving
 * @property {(reason: string, code?: number) => void} close  The code is for MQTT 5.
 */

/**
 * Memory that a subscription takes, in bytes.
 *
 * @param {string} filter
 * @param {boolean} isKept  Whether it outlives the connection.
 */
export function subscriptionBytes(filter, isKept) {
  const once = SUBSCRIPTION_BYTES + LEVEL_BYTES * filter.split('/').length
  return 2 * filter.length + (isKept ? 2 * once : once)
}

export class Session {
  #all
  #receipts
  /** Bytes by filter. @type {Map<string, number>} */
  #filters = new Map()
  #willBytes = 0
  /** QoS 2 packet ids that were acknowledged and not released. @type {Set<number>} */
  #unreleased = new Set()

  /** @param {Owner} owner  @param {string} clientId  @param {Sessions} all */
  constructor(owner, clientId, all) {
    this.owner = owner
    this.clientId = clientId
    /** What the broker behind knows it by. */
    this.name = owner.grant ? `${owner.grant.keyId}/${clientId}` : clientId
    /** The connection that serves it. @type {Serving | undefined} */
    this.connection = undefined
    /** How many connections it has had. */
    this.visit = 0
    /** How long it outlives its connection, in milliseconds. */
    this.keptMs = 0
    /** Of the protocol that its client speaks. */
    this.version = 4
    /** Whether its client, when it came last, found what it had left. */
    this.isPresent = false
    /** Whether its will may be published some time after its connection is gone. */
    this.isWillDelayed = false
    /** When its last connection closed, by the clock that only goes forward. */
    this.leftMs = 0
    /** Bytes of its subscriptions and its will. */
    this.subscriptionBytes = 0
    this.#all = all
    this.#receipts = new Receipts(all.receipts)
  }

  /** Whether it outlives its connection. */
  get isKept() {
    return this.keptMs > 0
  }

  /** Bytes that it takes while its client is away. */
  get absentBytes() {
    return SESSION_BYTES + 4 * this.clientId.length
  }

  get unreleasedBytes() {
    return this.#unreleased.size * UNRELEASED_BYTES
  }

  /** Whether anything of it is worth being remembered without a connection. */
  get isWorthKeeping() {
    return this.isKept || this.#receipts.count > 0
  }

  /** Filters that it subscribed to. */
  get filters() {
    return [...this.#filters.keys()]
  }

  /** @param {string} filter */
  hasFilter(filter) {
    return this.#filters.has(filter)
  }

  /**
   * Counts a subscription.
   *
   * @param {string} filter
   * @returns {boolean}  False if there is no room for it.
   */
  subscribe(filter) {
    if (this.#filters.has(filter)) return true
    const bytes = subscriptionBytes(filter, this.isKept)
    if (!this.#all.takeSubscription(this, bytes)) return false
    this.#filters.set(filter, bytes)
    return true
  }

  /** @param {string} filter */
  unsubscribe(filter) {
    const bytes = this.#filters.get(filter)
    if (bytes === undefined) return
    this.#filters.delete(filter)
    this.#all.giveSubscription(this, bytes)
  }

  /** The client says how long it is to be kept. @param {number} ms */
  keepFor(ms) {
    this.keptMs = Math.min(ms, ABSENT_MS_MAX)
  }

  /** Counts what else its client has us hold. @param {number} bytes  @returns {boolean} */
  takeBytes(bytes) {
    return this.#all.takeSubscription(this, bytes)
  }

  /** @param {number} bytes  That were taken. */
  giveBytes(bytes) {
    this.#all.giveSubscription(this, bytes)
  }

  /** Counts a will. @param {number} bytes  @returns {boolean}  False: there is no room for it. */
  setWill(bytes) {
    this.dropWill()
    if (bytes > 0 && !this.#all.takeSubscription(this, bytes)) return false
    this.#willBytes = bytes
    return true
  }

  dropWill() {
    this.#all.giveSubscription(this, this.#willBytes)
    this.#willBytes = 0
  }

  /** @param {number} packetId  Of QoS 2. */
  isUnreleased(packetId) {
    return this.#unreleased.has(packetId)
  }

  /**
   * Notes a QoS 2 packet id that was acknowledged. If that takes too much memory, whoever takes
   * most of it loses its session.
   *
   * @param {number} packetId
   * @returns {boolean}  False if it is this one.
   */
  noteUnreleased(packetId) {
    if (this.#unreleased.has(packetId)) return true
    this.#unreleased.add(packetId)
    return this.#all.addUnreleased(this)
  }

  /** The client will not send this QoS 2 packet again. @param {number} packetId */
  release(packetId) {
    if (this.#unreleased.delete(packetId)) this.#all.giveUnreleased(this, 1)
    this.#receipts.released(packetId)
  }

  /**
   * When a message that carries no time was first received: now, unless it is a redelivery.
   *
   * @param {Message} message  Of QoS 1 or 2.
   */
  firstReceipt(message) {
    return this.#receipts.note(message)
  }

  /** Its connection acknowledged a message. @param {number} packetId  @param {number} nowMs */
  acknowledged(packetId, nowMs) {
    this.#receipts.acknowledged(packetId, nowMs)
  }

  /** Another connection serves it. @param {Serving} connection */
  opened(connection) {
    this.#receipts.closed()
    this.connection = connection
    this.visit++
  }

  /**
   * Its connection is gone.
   *
   * @param {number} heardMs  When the client was heard last.
   */
  closed(heardMs) {
    this.#receipts.heard(heardMs)
    this.#receipts.closed()
    this.connection = undefined
    if (!this.isWillDelayed || !this.isKept) this.dropWill()
    if (!this.isKept) this.clean()
  }

  /** Forgets everything that a session means in MQTT [MQTT-3.1.2-6]. */
  clean() {
    this.#all.giveUnreleased(this, this.#unreleased.size)
    this.#unreleased.clear()
    for (const filter of this.filters) this.unsubscribe(filter)
  }

  /** Its client has been away for too long. */
  expire() {
    this.keptMs = 0
    this.dropWill()
    this.clean()
  }

  /** Forgets everything. */
  forget() {
    this.clean()
    this.dropWill()
    this.#receipts.clear()
  }
}
