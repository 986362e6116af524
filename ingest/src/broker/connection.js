/**
 * One MQTT connection, between its socket and the broker behind.
 *
 * A PUBLISH goes into the pipeline and its acknowledgement into a queue, from which it leaves, in
 * order of arrival, once the message is settled. Everything else is answered or passed on at once,
 * so that a client whose messages are in flight is still served. A DISCONNECT waits in the queue,
 * too: what was published before it is acknowledged before the connection closes.
 *
 * Reading stops only at a limit. While it does, the client's keep-alive does not run: we are the
 * ones who do not listen.
 */

import { Message } from '../message/message.js'
import { EVERY_SENSOR } from '../message/rights.js'
import { AcknowledgementQueue } from './acknowledgement-queue.js'
import { Behind } from './behind.js'
import { mayPublish } from './entrance/access.js'
import { parseConnect, refusalOf, refusalOf5 } from './entrance/connect-packet.js'
import { letIn } from './entrance/let-in.js'
import { subscribe } from './entrance/subscribe.js'
import {
  ChunkMessages,
  checkFlags,
  connackOf,
  Framer,
  PINGRESP,
  ProtocolError,
  parsePublish,
  pushAcknowledgement,
  TYPE,
} from './frame.js'
import { Presence } from './presence.js'
import { enter3, enter5 } from './routing/enter.js'
import { checkPacket3 } from './v3/packets.js'
import { refusingConnack } from './v5/dialect.js'
import { REASON, reasonOfRefusal } from './v5/reason.js'

/** Bytes that may wait for a client that does not read; then it is cut off. */
export const OUTGOING_BYTES_MAX = 8 * 2 ** 20

/** How long what was written may take to leave when a connection closes, in milliseconds. */
const LINGER_MS_MAX = 5_000

/** Why connections close when the service does. */
export const STOPPING = 'the service stops'

/** @typedef {import('./server.js').MqttServer} MqttServer */
/** @typedef {import('@sandglass/common/keys').Grant} Grant */
/** @typedef {import('./session.js').Session} Session */
/** @typedef {import('./entrance/connect-packet.js').Connect} Connect */
/** @typedef {'fresh' | 'connecting' | 'open' | 'leaving' | 'closed'} Stage */

/** @typedef {import('./acknowledgement-queue.js').Due} Due */

export class Connection {
  /** What its key allows; undefined where none is required. @type {Grant | undefined} */
  grant = undefined
  /** @type {Session | undefined} */
  session = undefined
  /** @type {Stage} */
  stage = 'fresh'
  /** Longest silence that the client allows us to expect, in milliseconds; 0: any. */
  keepAliveMs = 0
  /** Whether a limit keeps us from reading on. */
  isBlocked = false
  /** Whether the server has it among those to flush. */
  isDirty = false
  /** Bytes of incomplete packets that the server counts. */
  heldBytes = 0
  /** Bytes that were written and have not left. */
  outgoingBytes = 0
  /** What it may write. */
  rights = EVERY_SENSOR
  /** Bytes of its messages that are not durable. */
  bytesInFlight = 0
  #socket
  #framer
  #chunkMessages = new ChunkMessages()
  /** @type {AcknowledgementQueue<Due | Message>} */
  #acknowledgements = new AcknowledgementQueue()
  #behind = new Behind(this)
  #presence = new Presence(this)
  /** What it speaks, if that is MQTT 5. @type {import('./v5/dialect.js').Dialect | undefined} */
  #dialect
  /** Which visit of the session this is. */
  #visit = 0
  /** Whether its will is published though it disconnects. */
  #leavesWill = false
  /** Whether it has sent DISCONNECT. */
  #hasLeft = false
  /** Whether the client has closed its half. */
  #isEnded = false
  /** Whether its socket is closed. */
  #isGone = false
  /** Whether a SUBSCRIBE or UNSUBSCRIBE of it is not answered yet. */
  #isAsking = false

  /** @param {import('./listener.js').Line} socket  @param {MqttServer} server */
  constructor(socket, server) {
    this.server = server
    /** When the last packet arrived, by the clock that only goes forward. */
    this.heardMs = server.clockMs()
    this.#socket = socket
    this.#framer = new Framer(server.limits.packetBytesMax)
    socket.on('data', (chunk) => this.receive(chunk))
    socket.on('held', () => this.#countHeld())
    socket.on('end', () => {
      this.#isEnded = true
      this.#closeIfDone()
    })
    socket.on('error', () => {})
    socket.on('close', () => {
      this.#isGone = true
      this.server.countOutgoing(-this.outgoingBytes)
      this.outgoingBytes = 0
      this.close('the connection is gone')
    })
  }

  /** Messages (and a DISCONNECT) that are not acknowledged yet. */
  get unacknowledged() {
    return this.#acknowledgements.count
  }

  /** The session, while no other connection has taken it over. */
  get #ownSession() {
    return this.session?.connection === this ? this.session : undefined
  }

  /** @param {Buffer} chunk */
  receive(chunk) {
    if (this.stage === 'leaving' || this.stage === 'closed') return
    this.#framer.push(chunk)
    this.read()
  }

  /** Takes the packets that are there, up to a limit. */
  read() {
    // While it had to wait it was not listened to: its silence begins now.
    if (this.isBlocked) this.heardMs = this.server.clockMs()
    this.isBlocked = false
    try {
      while (this.#canRead()) {
        const first = this.#framer.peek()
        if (first < 0) break
        if (this.#mustWait(first)) {
          this.isBlocked = true
          break
        }
        if (!this.#framer.next()) break
        this.heardMs = this.server.clockMs()
        this.#take(first >> 4, first & 0x0f)
      }
      this.#chunkMessages.end(this.#framer.buffer)
      this.#framer.compact()
      this.#countHeld()
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error
      this.#fail(error)
    }
    this.#closeIfDone()
    if (this.stage === 'closed') return
    if (this.isBlocked || this.stage === 'connecting') this.#socket.pause()
    else if (this.#socket.isPaused()) this.#socket.resume()
  }

  /** @param {ProtocolError} error */
  #fail({ message, code }) {
    if (this.stage === 'fresh' && code === REASON.protocol)
      this.send(refusingConnack(code, message))
    this.close(message, code)
  }

  /** Closes once the client has closed its half, and all it said is read and answered. */
  #closeIfDone() {
    if (!this.#isEnded || this.unacknowledged > 0 || this.isBlocked) return
    if (this.stage === 'connecting' && this.#framer.waitingBytes > 0) return
    this.close('the client closed the connection')
  }

  #canRead() {
    return this.stage === 'fresh' || this.stage === 'open'
  }

  /** Whether a packet with this first byte has to wait. @param {number} first */
  #mustWait(first) {
    const type = first >> 4
    if (type === TYPE.disconnect) return this.#isAsking
    if (type === TYPE.subscribe || type === TYPE.unsubscribe) {
      return this.#isAsking || this.#waitsFor(this.server.broker)
    }
    if (type !== TYPE.publish || (first & 0x06) === 0) return false
    // One of MQTT 5 was told how many it may send, and closes with more.
    const { clientMessagesMax } = this.server.limits
    if (!this.#dialect && this.unacknowledged >= clientMessagesMax) return true
    if (this.unacknowledged > 0 && this.bytesInFlight >= this.server.clientBytesMax) return true
    return this.#waitsFor(this.server)
  }

  /** @param {{ isFull: boolean }} what  That would take the packet. */
  #waitsFor({ isFull }) {
    if (isFull) this.server.waitForRoom(this)
    return isFull
  }

  /** Tells the server how much memory is held by packets that are not whole, or must wait. */
  #countHeld() {
    if (this.stage === 'closed') return
    const bytes = this.#framer.heldBytes + (this.#socket.heldBytes ?? 0)
    const moreBytes = bytes - this.heldBytes
    this.heldBytes = bytes
    this.server.countHeld(moreBytes)
  }

  /** @param {number} type  @param {number} flags */
  #take(type, flags) {
    const { buffer, bodyStart, packetEnd } = this.#framer
    if (this.stage === 'fresh') {
      // [MQTT-3.1.0-1]
      if (type !== TYPE.connect) throw new ProtocolError('the first packet is not CONNECT')
      checkFlags(type, flags)
      this.#connect(parseConnect(buffer, bodyStart, packetEnd))
      return
    }
    const dialect = this.#dialect
    switch (type) {
      case TYPE.publish:
        this.#publish(flags)
        break
      case TYPE.pingreq:
        this.#check(type, flags)
        this.send(PINGRESP)
        break
      case TYPE.pubrel:
        this.#release(flags)
        break
      case TYPE.disconnect:
        if (dialect) this.#leavesWill = dialect.leave(flags, buffer, bodyStart, packetEnd)
        else this.#check(type, flags)
        this.#hasLeft = true
        this.stage = 'leaving'
        this.#acknowledgements.push({ type, packetId: 0, isSettled: true })
        this.server.markDirty(this)
        break
      case TYPE.connect:
        // [MQTT-3.1.0-2]
        throw new ProtocolError('a second CONNECT', REASON.protocol)
      default:
        this.#passOn(type, flags)
    }
  }

  /** Gives a packet that makes sense to the broker. @param {number} type  @param {number} flags */
  #passOn(type, flags) {
    const { buffer, packetStart, packetEnd } = this.#framer
    this.#check(type, flags)
    const { session } = this
    if (!session) return
    // The broker may not know the client yet.
    if (!this.#behind.isOpen) this.#behind.openLate(session, this.#dialect?.limits)
    if (type === TYPE.subscribe || type === TYPE.unsubscribe) this.#isAsking = true
    this.#behind.push(buffer.subarray(packetStart, packetEnd))
  }

  /** @param {number} type  @param {number} flags  @throws {ProtocolError} */
  #check(type, flags) {
    const { buffer, bodyStart, packetEnd } = this.#framer
    if (this.#dialect) this.#dialect.check(type, flags, buffer, bodyStart, packetEnd)
    else checkPacket3(type, flags, buffer, bodyStart, packetEnd)
  }

  /** @param {Connect} connect */
  #connect(connect) {
    const isNew = connect.level === 5
    const code = (isNew ? refusalOf5(connect) : undefined) ?? refusalOf(connect)
    if (code !== undefined) {
      this.#refuse(connect, code, 'its CONNECT asks for what there is not')
      return
    }
    if (this.server.passOn(connect.clientId, this.#socket, this.#framer)) {
      this.close('its client belongs to another process', 0, true)
      return
    }
    // [MQTT-3.1.2-24]
    this.keepAliveMs = connect.keepAliveS * 1_500
    this.stage = 'connecting'
    void this.#enter(connect)
  }

  /** @param {Connect} connect  @param {number} code  @param {string} reason */
  #refuse({ level }, code, reason) {
    this.send(level === 5 ? refusingConnack(reasonOfRefusal(code), reason) : connackOf(code))
    this.close(reason)
  }

  /** @param {Connect} connect */
  async #enter(connect) {
    const answer = await letIn(this, connect, this.#socket.remoteAddress ?? '')
    // Another connection of the client may have taken over already.
    if (!answer || this.stage !== 'connecting') return
    if ('code' in answer) {
      this.#refuse(connect, answer.code, answer.reason)
      return
    }
    const { session, sensorId } = answer
    this.#visit = session.visit
    this.#presence.isOf(sensorId)
    if (connect.level === 5) {
      this.#dialect = enter5(this, this.#behind, connect, session)
      if (!this.#dialect) {
        this.close('it takes no packet as large as a CONNACK')
        return
      }
    } else {
      enter3(this, this.#behind, connect, session)
    }
    if (this.stage !== 'connecting') return
    this.stage = 'open'
    this.heardMs = this.server.clockMs()
    this.#presence.opened()
    this.server.newcomers.letIn(this)
  }

  /** @param {string[]} filters  @returns {number[]}  A reason for each: 0 if it may. */
  subscribe(filters) {
    return subscribe(filters, this.#ownSession, this.grant, this.server.topics)
  }

  /** @param {string[]} filters  That are subscribed to no more. */
  unsubscribe(filters) {
    for (const filter of filters) this.#ownSession?.unsubscribe(filter)
  }

  /** What it asked for is answered. */
  answered() {
    this.#isAsking = false
    if (this.isBlocked) this.read()
  }

  /** Whether its will may still be published. @param {string} topic */
  mayPublishWill(topic) {
    const isOver = this.session?.owner.isOver ?? true
    return !isOver && mayPublish(this.grant, topic, this.server.topics)
  }

  /** @param {number} flags */
  #publish(flags) {
    const qos = /** @type {0 | 1 | 2} */ ((flags >> 1) & 3)
    // [MQTT-3.3.1-4]
    if (/** @type {number} */ (qos) === 3) throw new ProtocolError('a PUBLISH of QoS 3')
    // [MQTT-3.3.1-2]
    if (qos === 0 && flags & 8) throw new ProtocolError('a PUBLISH of QoS 0 that is a duplicate')
    const { buffer, bodyStart, packetEnd } = this.#framer
    const { topic, packetId, payload, delivery } =
      this.#dialect?.publish(flags, buffer, bodyStart, packetEnd, this.heardMs) ??
      parsePublish(buffer, qos, bodyStart, packetEnd)
    const session = this.#ownSession
    if (qos === 2 && session?.isUnreleased(packetId)) {
      // [MQTT-4.3.3-2]: it is stored; only its PUBREC was lost.
      this.server.noteDuplicate()
      this.#acknowledgements.push({ type: TYPE.pubrec, packetId, isSettled: true })
      this.server.markDirty(this)
      return
    }
    const message = new Message({
      origin: this,
      sender: this,
      rights: this.rights,
      isForSubscribers: this.#presence.mayPublish(topic),
      clientId: this.session?.clientId ?? '',
      session,
      visit: this.#visit,
      topic,
      payload,
      qos,
      dup: (flags & 8) !== 0,
      retain: (flags & 1) !== 0,
      packetId,
      delivery,
      receivedMs: this.server.wallMs(),
      arrivedMs: this.heardMs,
    })
    if (qos > 0) this.#acknowledgements.push(message)
    else this.server.forward(message)
    this.server.accept(message)
    this.#chunkMessages.add(message, buffer)
  }

  /** @param {number} flags */
  #release(flags) {
    const { buffer, bodyStart, packetEnd } = this.#framer
    if (this.#dialect) {
      this.send(this.#dialect.release(flags, buffer, bodyStart, packetEnd))
      return
    }
    this.#check(TYPE.pubrel, flags)
    const packetId = buffer.readUInt16BE(bodyStart)
    this.#ownSession?.release(packetId)
    /** @type {number[]} */
    const bytes = []
    pushAcknowledgement(bytes, TYPE.pubcomp, packetId)
    this.send(Buffer.from(bytes))
  }

  /** A message is durable. @param {Message} message */
  settled(message) {
    if (message.qos > 0 && this.#acknowledgements.first === message) this.server.markDirty(this)
  }

  /** Sends the acknowledgements that are due, and reads on if that made room. */
  flush() {
    /** @type {number[]} */
    const bytes = []
    let hasLeft = false
    for (let one = this.#acknowledgements.take(); one; one = this.#acknowledgements.take()) {
      if (one instanceof Message) this.#acknowledge(one, bytes)
      else if (one.type === TYPE.disconnect) hasLeft = true
      else pushAcknowledgement(bytes, one.type, one.packetId)
    }
    if (bytes.length > 0) this.send(Buffer.from(bytes))
    if (this.stage === 'closed') return
    if (hasLeft) this.close()
    else if (this.isBlocked) this.read()
    else this.#closeIfDone()
  }

  /** @param {Message} message  @param {number[]} bytes */
  #acknowledge(message, bytes) {
    this.server.forward(message)
    // Where another connection has taken over, or this one is closed, nothing is acknowledged.
    const session = this.#ownSession
    if (!session) return
    const { qos, packetId } = message
    const told = this.#dialect?.acknowledge(message)
    if (told?.isRefused) session.release(packetId)
    else if (qos === 2 && !session.noteUnreleased(packetId)) return
    if (told?.bytes) bytes.push(...told.bytes)
    else pushAcknowledgement(bytes, qos === 1 ? TYPE.puback : TYPE.pubrec, packetId)
    session.acknowledged(packetId, this.server.clockMs())
  }

  /** @param {Buffer} bytes */
  send(bytes) {
    if (this.stage === 'closed' || this.#socket.destroyed) return
    const { length } = bytes
    this.outgoingBytes += length
    this.#socket.write(bytes, () => {
      if (this.#isGone) return
      this.outgoingBytes -= length
      this.server.countOutgoing(-length)
      this.#behind.taken()
    })
    this.server.countOutgoing(length)
    if (this.#socket.writableLength > OUTGOING_BYTES_MAX) this.cutOff()
  }

  /** Closes the connection of a client that does not read. */
  cutOff() {
    this.#socket.destroy()
    this.close('the client does not read')
  }

  /** Takes no more packets; what is in flight may still be acknowledged. */
  stopReading() {
    if (this.stage === 'closed') return
    this.stage = 'leaving'
    this.isBlocked = false
    this.#socket.pause()
  }

  /**
   * Closes the connection, once. What was written is sent first; messages that are in flight go on
   * their way, without an acknowledgement.
   *
   * @param {string} [reason]
   * @param {number} [code]  The same for a client of MQTT 5: it hears it.
   * @param {boolean} [isPassedOn]  Its socket is not ours any more.
   */
  close(reason = 'closed', code = 0, isPassedOn = false) {
    if (this.stage === 'closed') return
    const isLeaving = this.stage === 'leaving'
    // [MQTT-3.14.0-1]
    if (code > 0 && this.#dialect && this.#presence.isOpen && !this.#hasLeft) {
      this.send(this.#dialect.disconnect(code, reason))
    }
    this.#dialect?.close()
    this.stage = 'closed'
    this.isBlocked = false
    this.server.countHeld(-this.heldBytes)
    const left = isLeaving ? 'offline' : 'lost'
    this.#presence.note(reason === STOPPING ? 'unknown' : left, reason)
    this.server.removed(this, reason)
    this.#behind.close(isLeaving && !this.#leavesWill)
    if (isPassedOn || this.#socket.destroyed) return
    this.#socket.resume()
    this.#socket.destroySoon()
    setTimeout(() => this.#socket.destroy(), LINGER_MS_MAX).unref()
  }
}
