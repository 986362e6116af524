/**
 * What is remembered of a client by its id, beyond its connection: which QoS 2 packet ids are not
 * released yet, and when messages that carry no time were first received, so that a redelivery is
 * the same measurement. Bounded in time and number; nothing here outlives the process.
 */

/** Longest that a redelivery is recognised, in milliseconds. */
export const RECEIPT_MS_MAX = 600_000

/** Most receipts of one client, and of all. A client redelivers what it had in flight, not more. */
export const CLIENT_RECEIPTS_MAX = 4_096
export const RECEIPTS_MAX = 262_144

/** Most sessions of clients that are not connected; then the longest gone is forgotten. */
const ABSENT_SESSIONS_MAX = 50_000

/** Most QoS 2 packet ids that await release in all; then a client that adds one is closed. */
const UNRELEASED_MAX = 1_000_000

/** @typedef {import('../message/message.js').Message} Message */

/**
 * @typedef {object} Receipt
 * @property {Session} session
 * @property {number} packetId
 * @property {number} receivedMs  Milliseconds since the Unix epoch.
 * @property {string} topic
 * @property {number} hash
 * @property {number} visit
 */

export class Session {
  /** @param {string} clientId  @param {Sessions} all */
  constructor(clientId, all) {
    this.clientId = clientId
    /** QoS 2 packet ids that were acknowledged and not released. @type {Set<number>} */
    this.unreleased = new Set()
    /** The connection that serves it. @type {object | undefined} */
    this.connection = undefined
    /** How many connections it has had. */
    this.visit = 0
    /** When its last connection closed, milliseconds since the Unix epoch. */
    this.leftMs = 0
    /** @private @type {Map<number, Receipt>} By packet id, oldest first. */
    this.receipts = new Map()
    /** @private */
    this.all = all
  }

  /** Notes a QoS 2 packet id; false if there are too many. @param {number} packetId */
  noteUnreleased(packetId) {
    if (this.all.unreleasedCount >= UNRELEASED_MAX) return false
    this.all.unreleasedCount -= this.unreleased.size
    this.unreleased.add(packetId)
    this.all.unreleasedCount += this.unreleased.size
    return true
  }

  /** The client will not send this QoS 2 packet again. @param {number} packetId */
  release(packetId) {
    if (this.unreleased.delete(packetId)) this.all.unreleasedCount--
    const receipt = this.receipts.get(packetId)
    if (receipt) this.drop(receipt)
  }

  /**
   * When a message that carries no time was first received: now, unless it is a redelivery.
   *
   * @param {Message} message  Of QoS 1 or 2.
   * @returns {{ receivedMs: number, isRedelivery: boolean }}  Milliseconds since the Unix epoch.
   */
  firstReceipt(message) {
    const { packetId, receivedMs, topic, visit } = message
    const hash = hashOf(message.payload)
    const known = this.receipts.get(packetId)
    if (known) this.drop(known)
    // Without the DUP flag the same id is a redelivery only where MQTT forbids any other use of it:
    // at QoS 2, on the same connection, before its release.
    const same =
      known !== undefined &&
      (message.dup || (message.qos === 2 && known.visit === visit)) &&
      known.topic === topic &&
      known.hash === hash &&
      receivedMs - known.receivedMs <= RECEIPT_MS_MAX
    const receipt = same ? known : { session: this, packetId, receivedMs, topic, hash, visit }
    receipt.visit = visit
    this.receipts.set(packetId, receipt)
    this.all.receipts.add(receipt)
    trim(this.receipts.values(), () => this.receipts.size > CLIENT_RECEIPTS_MAX, receivedMs)
    trim(this.all.receipts, () => this.all.receipts.size > RECEIPTS_MAX, receivedMs)
    return { receivedMs: receipt.receivedMs, isRedelivery: same }
  }

  /** Forgets a receipt. @param {Receipt} receipt */
  drop(receipt) {
    this.receipts.delete(receipt.packetId)
    this.all.receipts.delete(receipt)
  }

  /** Forgets everything that a session means in MQTT [MQTT-3.1.2-6]. */
  clean() {
    this.all.unreleasedCount -= this.unreleased.size
    this.unreleased.clear()
  }

  /** Forgets everything. */
  forget() {
    this.clean()
    for (const receipt of this.receipts.values()) this.drop(receipt)
  }
}

/**
 * Forgets what is too old or too much.
 *
 * @param {Iterable<Receipt>} receipts  Oldest first.
 * @param {() => boolean} isCrowded
 * @param {number} nowMs
 */
function trim(receipts, isCrowded, nowMs) {
  for (const receipt of receipts) {
    if (!isCrowded() && nowMs - receipt.receivedMs <= RECEIPT_MS_MAX) return
    receipt.session.drop(receipt)
  }
}

/** FNV-1a. @param {Buffer} bytes */
function hashOf(bytes) {
  let hash = 0x811c9dc5
  for (let at = 0; at < bytes.length; at++) hash = Math.imul(hash ^ bytes[at], 0x01000193)
  return hash
}

/** The sessions of all clients. */
export class Sessions {
  constructor() {
    /** @private @type {Map<string, Session>} */
    this.byClient = new Map()
    /** Sessions without a connection, the longest gone first. @private @type {Set<Session>} */
    this.absent = new Set()
    /** Of all sessions, oldest first. @type {Set<Receipt>} */
    this.receipts = new Set()
    this.unreleasedCount = 0
  }

  /** Whether a client has a connection. @param {string} clientId */
  isConnected(clientId) {
    return this.byClient.get(clientId)?.connection !== undefined
  }

  /**
   * The session of a client that connects.
   *
   * @param {string} clientId
   * @param {boolean} clean  Whether it begins anew.
   * @param {object} connection
   */
  enter(clientId, clean, connection) {
    let session = this.byClient.get(clientId)
    if (!session) {
      session = new Session(clientId, this)
      this.byClient.set(clientId, session)
    }
    this.absent.delete(session)
    if (clean) session.clean()
    session.connection = connection
    session.visit++
    return session
  }

  /**
   * A connection of a session is gone; the session stays for a while.
   *
   * @param {Session} session
   * @param {object} connection
   * @param {number} nowMs
   */
  leave(session, connection, nowMs) {
    // Another connection of the same client may have taken over [MQTT-3.1.4-2].
    if (session.connection !== connection) return
    session.connection = undefined
    session.leftMs = nowMs
    this.absent.add(session)
    for (const oldest of this.absent) {
      const isCrowded = this.absent.size > ABSENT_SESSIONS_MAX
      if (!isCrowded && nowMs - oldest.leftMs <= RECEIPT_MS_MAX) return
      oldest.forget()
      this.absent.delete(oldest)
      this.byClient.delete(oldest.clientId)
    }
  }
}
