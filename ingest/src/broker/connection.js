/**
 * One MQTT connection, between its socket and aedes.
 *
 * A PUBLISH goes into the pipeline and its acknowledgement into a queue, from which it leaves, in
 * order of arrival, once the message is settled. Everything else is answered or passed to aedes at
 * once, so that a client whose messages are held is still served. A DISCONNECT waits its turn in
 * the queue: what was published before it is acknowledged before the connection closes.
 *
 * Reading stops only at a limit. While it does, the client's keep-alive does not run: we are the
 * ones who do not listen.
 */

import { setTimeout as delay, setImmediate as turn } from 'node:timers/promises'
import { Message } from '../message/message.js'
import { EVERY_SENSOR, rightsOf } from '../message/rights.js'
import { sensorOf, sensorOfPublisher } from '../sensors/statuses.js'
import { mayPublish } from './access.js'
import { AcknowledgementQueue } from './acknowledgement-queue.js'
import { introductionOf } from './connect-packet.js'
import {
  CONNACK_IDENTIFIER_REJECTED,
  Framer,
  PINGRESP,
  ProtocolError,
  parseConnect,
  parsePublish,
  pushAcknowledgement,
  TYPE,
} from './frame.js'
import { Port } from './port.js'

/** Bytes that may wait for a client that does not read; then it is cut off. */
export const OUTGOING_BYTES_MAX = 8 * 2 ** 20

/** How long what was written may take to leave when a connection closes, in milliseconds. */
const LINGER_MS_MAX = 5_000

/**
 * How long a client may not yet take over from a connection with its id, in milliseconds. A CONNECT
 * that waited for us in the kernel may be of a client that gave up and has come back since: the end
 * of its connection follows it, and it must not cost the client the connection that it has now.
 */
const TAKE_OVER_MS = 200

const DISCONNECT = Buffer.from([TYPE.disconnect << 4, 0])

/** Why connections close when the service does. */
export const STOPPING = 'the service stops'

/** @typedef {import('./server.js').MqttServer} MqttServer */
/** @typedef {import('@sandglass/common/keys').Grant} Grant */
/** @typedef {import('./session.js').Session} Session */
/** @typedef {'fresh' | 'connecting' | 'open' | 'leaving' | 'closed'} Stage */

/**
 * What waits for its turn: an acknowledgement, or the end.
 *
 * @typedef {object} Turn
 * @property {number} type  `puback`, `pubrec` or `disconnect`.
 * @property {number} packetId
 * @property {boolean} isSettled
 */

export class Connection {
  /** @param {import('./listener.js').Line} socket  @param {MqttServer} server */
  constructor(socket, server) {
    /** @type {Stage} */
    this.stage = 'fresh'
    /** When the last packet arrived, milliseconds since the Unix epoch. */
    this.heardMs = Date.now()
    /** Longest silence that the client allows us to expect, in milliseconds; 0: any. */
    this.keepAliveMs = 0
    /** Whether a limit keeps us from reading on. */
    this.isBlocked = false
    /** Whether the server has it among those to flush. */
    this.isDirty = false
    /** @type {Session | undefined} */
    this.session = undefined
    /** What its key allows; undefined where none is required. @type {Grant | undefined} */
    this.grant = undefined
    /** What it may write. */
    this.rights = EVERY_SENSOR
    /** Bytes of its messages that are not durable. */
    this.bytesInFlight = 0
    /** The sensor that it stands for. @private @type {string | undefined} */
    this.sensorId = undefined
    /** The topic it published on last, and whether it may. @private */
    this.lastTopic = ''
    /** @private */
    this.mayPublishLast = false
    /** Which visit of the session this is. @private */
    this.visit = 0
    /** @private */
    this.socket = socket
    this.server = server
    /** @private */
    this.framer = new Framer(server.limits.packetBytesMax)
    /** Bytes of an incomplete packet that the server counts. */
    this.waitingBytes = 0
    /** @private @type {AcknowledgementQueue<Turn | Message>} */
    this.turns = new AcknowledgementQueue()
    /** @private @type {Port | undefined} */
    this.port = undefined
    /** Whether the client has closed its half. @private */
    this.isEnded = false

    socket.on('data', (chunk) => {
      if (this.stage === 'leaving' || this.stage === 'closed') return
      this.framer.push(chunk)
      this.read()
    })
    socket.on('end', () => {
      this.isEnded = true
      this.closeIfDone()
    })
    socket.on('error', () => {})
    socket.on('close', () => this.close('the connection is gone'))
  }

  /** Messages (and a DISCONNECT) that are not acknowledged yet. */
  get unacknowledged() {
    return this.turns.count
  }

  /** Takes the packets that are there, up to a limit. */
  read() {
    // While it had to wait it was not listened to: its silence begins now.
    if (this.isBlocked) this.heardMs = this.server.nowMs()
    this.isBlocked = false
    try {
      while (this.canRead()) {
        const first = this.framer.peek()
        if (first < 0) break
        if (this.mustWait(first)) {
          this.isBlocked = true
          break
        }
        if (!this.framer.next()) break
        this.heardMs = this.server.nowMs()
        this.take(first >> 4, first & 0x0f)
      }
      this.countWaiting()
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error
      this.close(error.message)
    }
    this.closeIfDone()
    if (this.stage === 'closed') return
    if (this.isBlocked || this.stage === 'connecting') this.socket.pause()
    else if (this.socket.isPaused()) this.socket.resume()
  }

  /** Closes once the client has closed its half, and all it said is read and answered. @private */
  closeIfDone() {
    if (!this.isEnded || this.unacknowledged > 0 || this.isBlocked) return
    if (this.stage === 'connecting' && this.framer.waitingBytes > 0) return
    this.close('the client closed the connection')
  }

  /** @private */
  canRead() {
    return this.stage === 'fresh' || this.stage === 'open'
  }

  /** Whether a packet with this first byte has to wait. @private @param {number} first */
  mustWait(first) {
    if (first >> 4 !== TYPE.publish || (first & 0x06) === 0) return false
    if (this.unacknowledged >= this.server.limits.clientMessagesMax) return true
    if (this.unacknowledged > 0 && this.bytesInFlight >= this.server.clientBytesMax) return true
    if (!this.server.isFull) return false
    this.server.waitForRoom(this)
    return true
  }

  /** Tells the server how much of an incomplete packet waits here. @private */
  countWaiting() {
    const bytes = this.canRead() && !this.isBlocked ? this.framer.waitingBytes : 0
    const moreBytes = bytes - this.waitingBytes
    this.waitingBytes = bytes
    this.server.countWaiting(moreBytes)
  }

  /** @private @param {number} type  @param {number} flags */
  take(type, flags) {
    const { buffer, packetStart, bodyStart, packetEnd } = this.framer
    if (this.stage === 'fresh') {
      // [MQTT-3.1.0-1]
      if (type !== TYPE.connect) throw new ProtocolError('the first packet is not CONNECT')
      this.connect(buffer.subarray(packetStart, packetEnd), bodyStart - packetStart)
      return
    }
    switch (type) {
      case TYPE.publish:
        this.publish(flags)
        break
      case TYPE.pingreq:
        this.send(PINGRESP)
        break
      case TYPE.pubrel:
        this.release(flags)
        break
      case TYPE.disconnect:
        this.stage = 'leaving'
        this.turns.push({ type, packetId: 0, isSettled: true })
        this.server.markDirty(this)
        break
      case TYPE.connect:
        // [MQTT-3.1.0-2]
        throw new ProtocolError('a second CONNECT')
      default:
        this.port?.push(buffer.subarray(packetStart, packetEnd))
    }
  }

  /** @private @param {Buffer} bytes  @param {number} bodyStart */
  connect(bytes, bodyStart) {
    const { keepAliveS, anonymousSession, packet } = parseConnect(bytes, bodyStart)
    if (anonymousSession) {
      this.send(CONNACK_IDENTIFIER_REJECTED)
      throw new ProtocolError('a kept session without a client id')
    }
    // [MQTT-3.1.2-24]
    this.keepAliveMs = keepAliveS * 1_500
    this.stage = 'connecting'
    void this.enter(introductionOf(bytes), packet)
  }

  /**
   * @private
   * @param {import('./connect-packet.js').Introduction} introduction
   * @param {Buffer} packet
   */
  async enter(introduction, packet) {
    const { access, sessions } = this.server
    if (!(await this.stillWantsIn(0))) return
    if (access) {
      const answer = await access.admit(introduction, this.socket.remoteAddress ?? '')
      if (this.stage !== 'connecting') return
      if (typeof answer === 'number') {
        this.send(Buffer.from([0x20, 2, 0, answer]))
        this.close('its key does not let it in')
        return
      }
      this.grant = answer
      this.rights = rightsOf(answer)
    }
    const isThere = sessions.isConnected(introduction.clientId)
    if (isThere && !(await this.stillWantsIn(TAKE_OVER_MS))) return
    this.sensorId = sensorOf(this.grant, introduction.willTopic, this.server.topics)
    this.port = new Port(this)
    this.server.broker.handle(this.port)
    this.port.push(packet)
  }

  /**
   * Whether the client has not left meanwhile. One whose CONNECT waited in the kernel until it gave
   * up is not worth the work of letting it in: where many come at once, those who still wait would
   * wait for that, and give up in their turn.
   *
   * @private
   * @param {number} ms  How long it is given.
   */
  async stillWantsIn(ms) {
    if (ms > 0) await delay(ms, undefined, { ref: false })
    // Timers are before what has arrived in a turn of the loop; this is after it.
    await turn()
    return this.stage === 'connecting'
  }

  /** aedes has accepted the client. @param {import('aedes').Client} client */
  opened(client) {
    if (this.stage !== 'connecting') return
    this.stage = 'open'
    this.heardMs = this.server.nowMs()
    this.session = this.server.sessions.enter(client.id, client.clean, this)
    this.visit = this.session.visit
    this.noteStatus('online', 'connected')
    this.read()
  }

  /** @private @param {number} flags */
  publish(flags) {
    const qos = /** @type {0 | 1 | 2} */ ((flags >> 1) & 3)
    // [MQTT-3.3.1-4]
    if (/** @type {number} */ (qos) === 3) throw new ProtocolError('a PUBLISH of QoS 3')
    const { buffer, bodyStart, packetEnd } = this.framer
    const { topic, packetId, payload } = parsePublish(buffer, qos, bodyStart, packetEnd)
    const session = /** @type {Session} */ (this.session)
    if (qos === 2 && session.unreleased.has(packetId)) {
      // [MQTT-4.3.3-2]: it is stored; only its PUBREC was lost.
      this.server.noteDuplicate()
      this.turns.push({ type: TYPE.pubrec, packetId, isSettled: true })
      this.server.markDirty(this)
      return
    }
    const message = new Message({
      origin: this,
      sender: this,
      rights: this.rights,
      isForSubscribers: this.mayPublish(topic),
      clientId: session.clientId,
      session,
      visit: this.visit,
      topic,
      payload,
      qos,
      dup: (flags & 8) !== 0,
      retain: (flags & 1) !== 0,
      packetId,
      receivedMs: this.heardMs,
      arrivedMs: performance.now(),
    })
    if (qos > 0) this.turns.push(message)
    else this.server.forward(message)
    this.server.accept(message)
  }

  /** Whether it may publish on a topic; most often it is the one of before. @private */
  /** @param {string} topic */
  mayPublish(topic) {
    if (topic === this.lastTopic) return this.mayPublishLast
    this.lastTopic = topic
    this.mayPublishLast = mayPublish(this.grant, topic, this.server.topics)
    if (this.sensorId === undefined && this.session) {
      this.sensorId = sensorOfPublisher(this.session.clientId, topic, this.server.topics)
      this.noteStatus('online', 'published')
    }
    return this.mayPublishLast
  }

  /** @private @param {import('../sensors/statuses.js').State} state  @param {string} reason */
  noteStatus(state, reason) {
    const { sensorId: id, session } = this
    if (id !== undefined && session) {
      this.server.noteStatus({ id, state, clientId: session.clientId, reason })
    }
  }

  /** @private @param {number} flags */
  release(flags) {
    const { buffer, bodyStart, packetEnd } = this.framer
    // [MQTT-3.8.1-1]
    if (flags !== 2 || packetEnd - bodyStart !== 2) throw new ProtocolError('a malformed PUBREL')
    const packetId = buffer.readUInt16BE(bodyStart)
    this.session?.release(packetId)
    /** @type {number[]} */
    const bytes = []
    pushAcknowledgement(bytes, TYPE.pubcomp, packetId)
    this.send(Buffer.from(bytes))
  }

  /** A message is durable. @param {Message} message */
  settled(message) {
    if (message.qos > 0 && this.turns.first === message) this.server.markDirty(this)
  }

  /** Sends the acknowledgements whose turn has come, and reads on if that made room. */
  flush() {
    /** @type {number[]} */
    const bytes = []
    let hasLeft = false
    for (let turn = this.turns.take(); turn; turn = this.turns.take()) {
      if (turn instanceof Message) this.acknowledge(turn, bytes)
      else if (turn.type === TYPE.disconnect) hasLeft = true
      else pushAcknowledgement(bytes, turn.type, turn.packetId)
    }
    if (bytes.length > 0) this.send(Buffer.from(bytes))
    if (this.stage === 'closed') return
    if (hasLeft) this.port?.push(DISCONNECT)
    else if (this.isBlocked) this.read()
    else this.closeIfDone()
  }

  /** @private @param {Message} message  @param {number[]} bytes */
  acknowledge(message, bytes) {
    this.server.forward(message)
    if (message.qos === 1) {
      pushAcknowledgement(bytes, TYPE.puback, message.packetId)
    } else if (this.session?.connection !== this) {
      // Another connection has taken over: the packet ids are its own.
    } else if (this.session.noteUnreleased(message.packetId)) {
      pushAcknowledgement(bytes, TYPE.pubrec, message.packetId)
    } else {
      this.close('too many QoS 2 messages await their release')
    }
  }

  /** @param {Buffer} bytes */
  send(bytes) {
    if (this.stage === 'closed' || this.socket.destroyed) return
    this.socket.write(bytes)
    if (this.socket.writableLength > OUTGOING_BYTES_MAX) {
      this.socket.destroy()
      this.close('the client does not read')
    }
  }

  /** Takes no more packets; what is held may still be acknowledged. */
  stopReading() {
    if (this.stage === 'closed') return
    this.stage = 'leaving'
    this.isBlocked = false
    this.socket.pause()
  }

  /**
   * Closes the connection, once. What was written is sent first; messages that are held go on
   * their way, without an acknowledgement.
   *
   * @param {string} [reason]
   */
  close(reason = 'closed') {
    if (this.stage === 'closed') return
    const isLeaving = this.stage === 'leaving'
    this.stage = 'closed'
    this.isBlocked = false
    this.server.countWaiting(-this.waitingBytes)
    const left = isLeaving ? 'offline' : 'lost'
    this.noteStatus(reason === STOPPING ? 'unknown' : left, reason)
    this.server.removed(this, reason)
    if (isLeaving && this.port && !this.port.destroyed) {
      // [MQTT-3.1.2-10]: after a DISCONNECT there is no will.
      this.port.push(DISCONNECT)
      this.port.push(null)
    } else {
      this.port?.destroy()
    }
    if (this.socket.destroyed) return
    this.socket.resume()
    this.socket.destroySoon()
    setTimeout(() => this.socket.destroy(), LINGER_MS_MAX).unref()
  }
}
