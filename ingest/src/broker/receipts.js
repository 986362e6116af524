/**
 * When messages without a time were first received, so that a redelivery is the same measurement.
 *
 * What a redelivery is, MQTT says: on one connection a packet id stands for one message until that
 * is acknowledged, and for another one afterwards, whatever the DUP flag says [MQTT-4.3.2-2]. On
 * the next connection a client sends again what it has no acknowledgement for, with that flag
 * [MQTT-4.4.0-1]: also what we did acknowledge, if that was lost with the connection. Whether it
 * was, nothing tells; so a receipt is kept until the client has shown that it has the
 * acknowledgement, or one that was written after it:
 *
 * - it uses the packet id for another message; or
 * - it is heard on that connection {@link ACK_MS_MAX} later.
 *
 * Bounded in time and bytes; nothing here outlives the process.
 */

/** Longest that a redelivery is recognised, in milliseconds. */
export const RECEIPT_MS_MAX = 600_000

/** Most receipts of one client. A client redelivers what it had in flight, not more. */
export const CLIENT_RECEIPTS_MAX = 4_096

/** Memory that one takes, measured with its places in three collections, in bytes. */
export const RECEIPT_BYTES = 224

/**
 * How long an acknowledgement may be on its way while its client is still heard, in milliseconds.
 * TCP sends what is lost again after a second or two, and takes the connection down if that fails.
 */
export const ACK_MS_MAX = 5_000

/** @typedef {import('../message/message.js').Message} Message */

/**
 * @typedef {object} Receipt
 * @property {Receipts} of
 * @property {number} packetId
 * @property {number} qos
 * @property {number} hash  Of topic and payload.
 * @property {number} receivedMs  Milliseconds since the Unix epoch.
 * @property {number} arrivedMs  The same moment by the clock that only goes forward.
 * @property {number} acknowledgedMs  When it was acknowledged, by that clock; -1: not yet.
 */

/**
 * Whether a PUBLISH is a redelivery of the last one with its packet id.
 *
 * @param {object} known  That last one.
 * @param {number} known.qos
 * @param {number} known.hash
 * @param {boolean} known.isAcknowledged
 * @param {boolean} known.isHere  Whether it came by the same connection.
 * @param {object} packet
 * @param {number} packet.qos
 * @param {number} packet.hash
 * @param {boolean} packet.dup
 */
export function isRedelivery(known, { qos, hash, dup }) {
  if (known.qos !== qos || known.hash !== hash) return false
  if (!known.isHere) return dup
  // At QoS 2 the id cannot be used for anything else before it is released [MQTT-4.3.3-2].
  return !known.isAcknowledged && (dup || qos === 2)
}

/** The receipts of all clients: the oldest are forgotten first, whoever they are of. */
export class AllReceipts {
  /** @type {Set<Receipt>} */
  #receipts = new Set()
  #share

  /** @param {import('@sandglass/common/memory-share').MemoryShare} share */
  constructor(share) {
    this.#share = share
  }

  get count() {
    return this.#receipts.size
  }

  /** @param {Receipt} receipt */
  add(receipt) {
    this.#receipts.add(receipt)
    this.#share.add(RECEIPT_BYTES)
    for (const oldest of this.#receipts) {
      const isOld = receipt.arrivedMs - oldest.arrivedMs > RECEIPT_MS_MAX
      if (!isOld && this.#share.bytes <= this.#share.bytesMax) return
      oldest.of.drop(oldest)
    }
  }

  /** @param {Receipt} receipt */
  remove(receipt) {
    if (this.#receipts.delete(receipt)) this.#share.give(RECEIPT_BYTES)
  }
}

/** The receipts of one client. */
export class Receipts {
  #all
  /** Of the connection there is, by packet id, in order of arrival. @type {Map<number, Receipt>} */
  #here = new Map()
  /** Of earlier connections. @type {Map<number, Receipt>} */
  #before = new Map()

  /** @param {AllReceipts} all */
  constructor(all) {
    this.#all = all
  }

  get count() {
    return this.#here.size + this.#before.size
  }

  /**
   * When a message that carries no time was first received: now, unless it is a redelivery.
   *
   * @param {Message} message  Of QoS 1 or 2, that has just arrived by the connection there is.
   * @returns {{ receivedMs: number, isRedelivery: boolean }}  Milliseconds since the Unix epoch.
   */
  note({ packetId, qos, dup, topic, payload, receivedMs, arrivedMs }) {
    this.heard(arrivedMs)
    const hash = hashOf(topic, payload)
    const here = this.#here.get(packetId)
    const known = here ?? this.#before.get(packetId)
    const isHere = here !== undefined
    const isAcknowledged = known !== undefined && known.acknowledgedMs >= 0
    const isSame =
      known !== undefined &&
      arrivedMs - known.arrivedMs <= RECEIPT_MS_MAX &&
      isRedelivery({ qos: known.qos, hash: known.hash, isAcknowledged, isHere }, { qos, hash, dup })
    if (isHere && isAcknowledged && !dup) this.#haveArrived(packetId)
    if (known) this.drop(known)
    const first = isSame ? known : { receivedMs, arrivedMs }
    const receipt = { of: this, packetId, qos, hash, acknowledgedMs: -1, ...first }
    receipt.acknowledgedMs = -1
    this.#here.set(packetId, receipt)
    this.#all.add(receipt)
    if (this.count > CLIENT_RECEIPTS_MAX) this.#dropOldest()
    return { receivedMs: receipt.receivedMs, isRedelivery: isSame }
  }

  /** The connection there is has acknowledged a packet id. */
  /** @param {number} packetId  @param {number} nowMs  By the clock that only goes forward. */
  acknowledged(packetId, nowMs) {
    const receipt = this.#here.get(packetId)
    if (receipt) receipt.acknowledgedMs = nowMs
  }

  /** The client will not send a packet of QoS 2 again. @param {number} packetId */
  released(packetId) {
    const receipt = this.#here.get(packetId) ?? this.#before.get(packetId)
    if (receipt) this.drop(receipt)
  }

  /** The client was heard by the connection there is. @param {number} nowMs */
  heard(nowMs) {
    for (const receipt of this.#here.values()) {
      const { acknowledgedMs } = receipt
      if (acknowledgedMs < 0 || nowMs - acknowledgedMs <= ACK_MS_MAX) return
      this.drop(receipt)
    }
  }

  /** The connection there was is gone. */
  closed() {
    for (const [packetId, receipt] of this.#here) {
      // A map keeps the place of a key that it has.
      this.#before.delete(packetId)
      this.#before.set(packetId, receipt)
    }
    this.#here.clear()
  }

  /** Forgets a receipt. @param {Receipt} receipt */
  drop(receipt) {
    const { packetId } = receipt
    if (this.#here.get(packetId) === receipt) this.#here.delete(packetId)
    else if (this.#before.get(packetId) === receipt) this.#before.delete(packetId)
    this.#all.remove(receipt)
  }

  /** Forgets all. */
  clear() {
    for (const of of [this.#here, this.#before])
      for (const receipt of of.values()) this.drop(receipt)
  }

  /** Acknowledgements arrive in order: with that of a packet id have those before it. */
  /** @param {number} packetId  Of the connection there is. */
  #haveArrived(packetId) {
    for (const receipt of this.#here.values()) {
      if (receipt.packetId === packetId) return
      if (receipt.acknowledgedMs >= 0) this.drop(receipt)
    }
  }

  #dropOldest() {
    const [oldest] = this.#before.size > 0 ? this.#before.values() : this.#here.values()
    this.drop(oldest)
  }
}

/** 53 bits of two FNV-1a. @param {string} topic  @param {Buffer} payload */
function hashOf(topic, payload) {
  let high = 0x811c9dc5
  let low = 0x01000193
  const add = (/** @type {number} */ unit) => {
    high = Math.imul(high ^ unit, 0x01000193)
    low = Math.imul(low ^ unit, 0x85ebca6b)
  }
  for (let at = 0; at < topic.length; at++) add(topic.charCodeAt(at))
  add(0x10000)
  for (let at = 0; at < payload.length; at++) add(payload[at])
  return (high >>> 0) * 2 ** 21 + (low >>> 11)
}
