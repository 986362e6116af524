/**
 * The sessions of all clients. A session belongs to the key that made it: the same client id with
 * another key is another session. So nobody hears what is queued for another, takes over its
 * connection, or keeps an id from it. Without keys all clients are of one owner.
 *
 * A session ends with its connection if it is clean, and otherwise when its key is revoked or
 * expires, when its client stays away for too long, or when there is no room for it. What is
 * counted here is in one share of the memory budget, in parts that cannot take each other's room.
 */

import { MemoryShare } from '@sandglass/common/memory-share'
import { AllReceipts, RECEIPT_MS_MAX } from './receipts.js'
import { ABSENT_MS_MAX, Session, UNRELEASED_BYTES } from './session.js'
import { REASON } from './v5/reason.js'

/** Parts of the share for sessions. Together they are the whole. */
const PARTS = Object.freeze({
  subscriptions: 3 / 8,
  absent: 1 / 4,
  receipts: 1 / 4,
  unreleased: 1 / 8,
})

/** Subscriptions and will of one client, in bytes: hundreds of filters. */
export const CLIENT_SUBSCRIPTION_BYTES_MAX = 2 ** 20

/** The same of all clients with the key of one sensor, which is a device. */
export const DEVICE_SUBSCRIPTION_BYTES_MAX = 2 ** 19

export { ABSENT_MS_MAX }

/** Most sessions that wait for a client with the key of one sensor; then the longest gone ends. */
export const DEVICE_ABSENT_MAX = 8

/** @typedef {import('@sandglass/common/keys').Grant} Grant */
/** @typedef {import('./session.js').Serving} Serving */

/** A part of a share, which counts in both. */
class Part extends MemoryShare {
  #whole

  /** @param {MemoryShare} whole  @param {number} part  From 0 to 1. */
  constructor(whole, part) {
    super(Math.floor(whole.bytesMax * part))
    this.#whole = whole
  }

  /** @param {number} bytes */
  take(bytes) {
    const isTaken = super.take(bytes)
    if (isTaken) this.#whole.add(bytes)
    else this.#whole.refused++
    return isTaken
  }

  /** @param {number} bytes */
  add(bytes) {
    super.add(bytes)
    this.#whole.add(bytes)
  }

  /** @param {number} bytes */
  give(bytes) {
    super.give(bytes)
    this.#whole.give(bytes)
  }
}

/** Whose sessions: of a key, or of everybody where none is required. */
export class Owner {
  /** By client id. @type {Map<string, Session>} */
  sessions = new Map()
  /** Those without a connection, the longest gone first. @type {Set<Session>} */
  absent = new Set()
  subscriptionBytes = 0
  absentBytes = 0
  unreleasedBytes = 0
  /** Whether its key is good no more. */
  isOver = false
  /** When the database last said that the key is good, by the clock that only goes forward. */
  confirmedMs = Number.NEGATIVE_INFINITY

  /** @param {Grant | undefined} grant  What the key allows. @param {number} nowMs */
  constructor(grant, nowMs) {
    this.grant = grant
    /** When it was first heard of, by that clock. */
    this.sinceMs = nowMs
  }

  /** Whether the database was asked for its key since it was first heard of. */
  get isConfirmed() {
    return this.confirmedMs > Number.NEGATIVE_INFINITY
  }

  get isDevice() {
    return this.grant?.sensorId !== undefined
  }
}

/** Whether two grants of a key allow the same. @param {Grant} a  @param {Grant} b */
export function allowTheSame(a, b) {
  return (
    a.sensorId === b.sensorId &&
    a.scopes.size === b.scopes.size &&
    [...a.scopes].every((scope) => b.scopes.has(scope))
  )
}

export class Sessions {
  /** By key id; empty where none is required. @type {Map<string, Owner>} */
  #owners = new Map()
  /** @type {Map<string, Session>} */
  #byName = new Map()
  #subscriptions
  #absent
  #unreleased
  #onEnd

  /**
   * @param {object} parts
   * @param {MemoryShare} parts.share
   * @param {(session: Session) => void} [parts.onEnd]  A session that may have been kept is over.
   */
  constructor({ share, onEnd = () => {} }) {
    this.#subscriptions = new Part(share, PARTS.subscriptions)
    this.#absent = new Part(share, PARTS.absent)
    this.#unreleased = new Part(share, PARTS.unreleased)
    this.#onEnd = onEnd
    this.receipts = new AllReceipts(new Part(share, PARTS.receipts))
    /** Sessions that were ended before their time, for want of room. */
    this.evicted = 0
    /** Subscriptions and wills that were refused, because they take too much memory. */
    this.subscriptionsRefused = 0
  }

  /** Those who have sessions. */
  get owners() {
    return this.#owners.values()
  }

  /** How many there are. */
  get count() {
    return this.#byName.size
  }

  /** @param {string} name  What the broker behind knows it by. */
  byName(name) {
    return this.#byName.get(name)
  }

  /** The one a client has. @param {Grant | undefined} grant  @param {string} clientId */
  connectionOf(grant, clientId) {
    const owner = this.#owners.get(grant?.keyId ?? '')
    return owner?.sessions.get(clientId)?.connection
  }

  /**
   * The session of a client that connects.
   *
   * @param {Grant | undefined} grant  What its key allows.
   * @param {string} clientId
   * @param {boolean} clean  Whether it begins anew, and ends with the connection.
   * @param {Serving} connection
   * @param {number} nowMs  By the clock that only goes forward.
   * @param {{ version: number, keptMs: number }} [terms]  Of its protocol, and how long the session
   *   outlives the connection.
   */
  enter(grant, clientId, clean, connection, nowMs, terms = termsOf3(clean)) {
    const session = this.create(grant, clientId, nowMs)
    const isThere = session.connection !== undefined
    const isExpired = !isThere && nowMs - session.leftMs > session.keptMs
    this.#isBack(session)
    // What waits for a client is of one version of the protocol.
    const isOther = session.visit > 0 && session.version !== terms.version
    session.isPresent = !clean && session.isKept && !isExpired && !isOther
    if (!session.isPresent) session.clean()
    // The broker behind must not keep what is not counted any more, even if it is not let in.
    if (session.visit > 0 && !session.isPresent) this.#onEnd(session)
    session.version = terms.version
    session.isWillDelayed = false
    session.keepFor(terms.keptMs)
    session.opened(connection)
    return session
  }

  /**
   * The session of a client, which is made if there is none.
   *
   * @param {Grant | undefined} grant  What its key allows.
   * @param {string} clientId
   * @param {number} nowMs  By the clock that only goes forward.
   */
  create(grant, clientId, nowMs) {
    const owner = this.#ownerOf(grant, nowMs)
    const known = owner.sessions.get(clientId)
    if (known) return known
    const session = new Session(owner, clientId, this)
    owner.sessions.set(clientId, session)
    this.#byName.set(session.name, session)
    return session
  }

  /**
   * A connection of a session is gone; the session may stay for a while.
   *
   * @param {Session} session
   * @param {Serving} connection
   * @param {number} heardMs  When the client was heard last, by the clock that only goes forward.
   * @param {number} nowMs
   */
  leave(session, connection, heardMs, nowMs) {
    // Another connection of the same client may have taken over [MQTT-3.1.4-2].
    if (session.connection !== connection) return
    session.closed(heardMs)
    if (!session.isWorthKeeping) {
      this.end(session)
      return
    }
    // What is kept recognises redeliveries, and nothing else.
    if (!session.isKept) this.#onEnd(session)
    const { owner } = session
    session.leftMs = nowMs
    owner.absent.add(session)
    owner.absentBytes += session.absentBytes
    this.#absent.add(session.absentBytes)
    if (owner.isDevice && owner.absent.size > DEVICE_ABSENT_MAX) this.#evictOldest(owner)
    while (this.#absent.bytes > this.#absent.bytesMax) this.#evictOldest(this.#most('absentBytes'))
  }

  /** Ends the sessions whose clients have been away for too long. @param {number} nowMs */
  age(nowMs) {
    for (const { absent } of this.#owners.values()) {
      for (const session of absent) {
        const goneMs = nowMs - session.leftMs
        if (goneMs > Math.max(session.keptMs, RECEIPT_MS_MAX)) this.end(session)
        else if (session.isKept && goneMs > session.keptMs) this.#expire(session)
      }
    }
  }

  /** Ends what a session means in MQTT; its redeliveries are recognised for longer. */
  /** @param {Session} session  Without a connection. */
  #expire(session) {
    session.expire()
    if (session.isWorthKeeping) this.#onEnd(session)
    else this.end(session)
  }

  /**
   * Ends a session, and the connection that serves it.
   *
   * @param {Session} session
   * @param {string} [reason]  Why.
   * @param {number} [code]  The same for a client of MQTT 5.
   */
  end(session, reason = 'its session has ended', code = REASON.notAuthorized) {
    const { owner, connection, clientId, name } = session
    if (this.#byName.get(name) !== session) return
    this.#isBack(session)
    owner.sessions.delete(clientId)
    this.#byName.delete(name)
    if (owner.sessions.size === 0) this.#owners.delete(owner.grant?.keyId ?? '')
    session.connection = undefined
    session.forget()
    connection?.close(reason, code)
    this.#onEnd(session)
  }

  /** Ends all sessions of a key. @param {Owner} owner  @param {string} reason */
  endAll(owner, reason) {
    owner.isOver = true
    for (const session of [...owner.sessions.values()]) this.end(session, reason)
  }

  /** @param {Session} session  @param {number} bytes  @returns {boolean}  False: no room. */
  takeSubscription(session, bytes) {
    const { owner } = session
    const isTaken =
      session.subscriptionBytes + bytes <= CLIENT_SUBSCRIPTION_BYTES_MAX &&
      (!owner.isDevice || owner.subscriptionBytes + bytes <= DEVICE_SUBSCRIPTION_BYTES_MAX) &&
      this.#subscriptions.take(bytes)
    if (isTaken) {
      session.subscriptionBytes += bytes
      owner.subscriptionBytes += bytes
    } else {
      this.subscriptionsRefused++
    }
    return isTaken
  }

  /** @param {Session} session  @param {number} bytes */
  giveSubscription(session, bytes) {
    session.subscriptionBytes -= bytes
    session.owner.subscriptionBytes -= bytes
    this.#subscriptions.give(bytes)
  }

  /** One more QoS 2 packet id. @param {Session} session  @returns {boolean}  False: it is over. */
  addUnreleased(session) {
    session.owner.unreleasedBytes += UNRELEASED_BYTES
    this.#unreleased.add(UNRELEASED_BYTES)
    while (this.#unreleased.bytes > this.#unreleased.bytesMax) {
      let most
      for (const one of this.#most('unreleasedBytes').sessions.values()) {
        if (one.unreleasedBytes > (most?.unreleasedBytes ?? 0)) most = one
      }
      this.evicted++
      const reason = 'too many QoS 2 messages await their release'
      this.end(/** @type {Session} */ (most), reason, REASON.quota)
    }
    return this.#byName.get(session.name) === session
  }

  /** @param {Session} session  @param {number} count */
  giveUnreleased(session, count) {
    session.owner.unreleasedBytes -= count * UNRELEASED_BYTES
    this.#unreleased.give(count * UNRELEASED_BYTES)
  }

  /** @param {Grant | undefined} grant  @param {number} nowMs */
  #ownerOf(grant, nowMs) {
    const keyId = grant?.keyId ?? ''
    let owner = this.#owners.get(keyId)
    if (owner?.grant && grant && !allowTheSame(owner.grant, grant)) {
      this.endAll(owner, RIGHTS_CHANGED)
      owner = undefined
    }
    owner ??= new Owner(grant, nowMs)
    this.#owners.set(keyId, owner)
    return owner
  }

  /** @param {Session} session */
  #isBack(session) {
    const { owner } = session
    if (!owner.absent.delete(session)) return
    owner.absentBytes -= session.absentBytes
    this.#absent.give(session.absentBytes)
  }

  /** @param {Owner} owner */
  #evictOldest(owner) {
    const [oldest] = owner.absent
    this.evicted++
    this.end(oldest)
  }

  /** Who takes most of a kind. @param {'absentBytes' | 'unreleasedBytes'} kind  @returns {Owner} */
  #most(kind) {
    let most
    for (const owner of this.#owners.values()) if (owner[kind] > (most?.[kind] ?? 0)) most = owner
    return /** @type {Owner} */ (most)
  }
}

/** [MQTT-3.1.2-4], [MQTT-3.1.2-6] @param {boolean} clean */
const termsOf3 = (clean) => ({ version: 4, keptMs: clean ? 0 : ABSENT_MS_MAX })

/** Why connections close when what their key allows is another thing than before. */
export const RIGHTS_CHANGED = 'what its key allows was changed'
