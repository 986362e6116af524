/**
 * One MQTT connection, between its socket and aedes.
 *
 * A PUBLISH goes into the pipeline and its acknowledgement into a queue, from which it leaves, in
 * order of arrival, once the message is settled. Everything else is answered or passed to aedes at
 * once, so that a client whose messages are in flight is still served. A DISCONNECT waits in the
 * queue, too: what was published before it is acknowledged before the connection closes.
 *
 * Reading stops only at a limit. While it does, the client's keep-alive does not run: we are the
 * ones who do not listen.
 */

import { Message } from '../message/message.js'
import { EVERY_SENSOR } from '../message/rights.js'
import { sensorOfPublisher } from '../sensors/statuses.js'
import { AcknowledgementQueue } from './acknowledgement-queue.js'
import { mayPublish, maySubscribe } from './entrance/access.js'
import { connectFor, parseConnect, refusalOf } from './entrance/connect-packet.js'
import { letIn } from './entrance/let-in.js'
import {
  ChunkMessages,
  connackOf,
  Framer,
  PINGRESP,
  ProtocolError,
  parseFilters,
  parsePublish,
  pushAcknowledgement,
  TYPE,
} from './frame.js'
import { Port } from './port.js'

/** Bytes that may wait for a client that does not read; then it is cut off. */
export const OUTGOING_BYTES_MAX = 8 * 2 ** 20

/** How long what was written may take to leave when a connection closes, in milliseconds. */
const LINGER_MS_MAX = 5_000

const CONNACK = connackOf(0)
const DISCONNECT = Buffer.from([TYPE.disconnect << 4, 0])

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
  /** To aedes, once there is something for it. @type {Port | undefined} */
  #port
  /** What it gets when it has let the client in. @type {Buffer | undefined} */
  #firstForPort
  /** The sensor that it stands for. @type {string | undefined} */
  #sensorId
  /** The topic it published on last, and whether it may. */
  #lastTopic = ''
  #mayPublishLast = false
  /** Which visit of the session this is. */
  #visit = 0
  /** Whether the client was ever let in. */
  #wasOpen = false
  /** Whether the client has closed its half. */
  #isEnded = false
  /** Whether its socket is closed. */
  #isGone = false

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
      this.close(error.message)
    }
    this.#closeIfDone()
    if (this.stage === 'closed') return
    if (this.isBlocked || this.stage === 'connecting') this.#socket.pause()
    else if (this.#socket.isPaused()) this.#socket.resume()
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
    if (first >> 4 !== TYPE.publish || (first & 0x06) === 0) return false
    if (this.unacknowledged >= this.server.limits.clientMessagesMax) return true
    if (this.unacknowledged > 0 && this.bytesInFlight >= this.server.clientBytesMax) return true
    if (!this.server.isFull) return false
    this.server.waitForRoom(this)
    return true
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
    const { buffer, packetStart, bodyStart, packetEnd } = this.#framer
    if (this.stage === 'fresh') {
      // [MQTT-3.1.0-1]
      if (type !== TYPE.connect) throw new ProtocolError('the first packet is not CONNECT')
      this.#connect(parseConnect(buffer, bodyStart, packetEnd))
      return
    }
    switch (type) {
      case TYPE.publish:
        this.#publish(flags)
        break
      case TYPE.pingreq:
        this.send(PINGRESP)
        break
      case TYPE.pubrel:
        this.#release(flags)
        break
      case TYPE.disconnect:
        this.stage = 'leaving'
        this.#acknowledgements.push({ type, packetId: 0, isSettled: true })
        this.server.markDirty(this)
        break
      case TYPE.connect:
        // [MQTT-3.1.0-2]
        throw new ProtocolError('a second CONNECT')
      case TYPE.subscribe:
      case TYPE.unsubscribe: {
        const filters = parseFilters(buffer, bodyStart, packetEnd, type === TYPE.subscribe)
        if (type === TYPE.unsubscribe) {
          for (const filter of filters) this.#ownSession?.unsubscribe(filter)
        }
        this.#pass(buffer.subarray(packetStart, packetEnd))
        break
      }
      default:
        this.#pass(buffer.subarray(packetStart, packetEnd))
    }
  }

  /** Gives a packet to aedes. @param {Buffer} packet */
  #pass(packet) {
    if (this.#port) {
      this.#port.push(packet)
    } else if (this.session) {
      this.stage = 'connecting'
      this.#firstForPort = packet
      this.#openPort(new Port(this, true), { clean: true, will: undefined }, this.session)
    }
  }

  /**
   * Lets aedes let the client in.
   *
   * @param {Port} port
   * @param {Pick<Connect, 'clean' | 'will'>} connect
   * @param {Session} session
   */
  #openPort(port, connect, session) {
    this.#port = port
    this.server.broker.handle(port)
    port.push(connectFor(connect, session.name))
  }

  /** @param {Connect} connect */
  #connect(connect) {
    const code = refusalOf(connect)
    if (code !== undefined) {
      this.#refuse(code, 'its CONNECT asks for what there is not')
      return
    }
    if (this.server.passOn(connect.clientId, this.#socket, this.#framer)) {
      this.close('its client belongs to another process', true)
      return
    }
    // [MQTT-3.1.2-24]
    this.keepAliveMs = connect.keepAliveS * 1_500
    this.stage = 'connecting'
    void this.#enter(connect)
  }

  /** @param {number} code  Of `REFUSED`.  @param {string} reason */
  #refuse(code, reason) {
    this.send(connackOf(code))
    this.close(reason)
  }

  /** @param {Connect} connect */
  async #enter(connect) {
    const answer = await letIn(this, connect, this.#socket.remoteAddress ?? '')
    // Another connection of the client may have taken over already.
    if (!answer || this.stage !== 'connecting') return
    if ('code' in answer) {
      this.#refuse(answer.code, answer.reason)
      return
    }
    const { session, sensorId } = answer
    this.#visit = session.visit
    this.#sensorId = sensorId
    if (connect.clean && !connect.will) {
      // Nothing of it outlives the connection: aedes need not know it before it subscribes.
      this.server.broker.forget(session.name)
      this.send(CONNACK)
      this.opened()
    } else {
      this.#openPort(new Port(this, false), connect, session)
    }
  }

  /** The client is let in, by us or by aedes. */
  opened() {
    if (this.stage !== 'connecting') return
    this.stage = 'open'
    this.heardMs = this.server.clockMs()
    const isNew = !this.#wasOpen
    if (isNew) {
      this.#wasOpen = true
      this.#noteStatus('online', 'connected')
    }
    if (this.#firstForPort) {
      this.#port?.push(this.#firstForPort)
      this.#firstForPort = undefined
    }
    if (isNew) this.server.newcomers.letIn(this)
    else this.read()
  }

  /** The client asks for a subscription. @param {string} filter  @returns {boolean} */
  subscribe(filter) {
    if (!maySubscribe(this.grant, filter, this.server.topics)) return false
    return this.#ownSession?.subscribe(filter) ?? false
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
    const { buffer, bodyStart, packetEnd } = this.#framer
    const { topic, packetId, payload } = parsePublish(buffer, qos, bodyStart, packetEnd)
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
      isForSubscribers: this.#mayPublish(topic),
      clientId: this.session?.clientId ?? '',
      session,
      visit: this.#visit,
      topic,
      payload,
      qos,
      dup: (flags & 8) !== 0,
      retain: (flags & 1) !== 0,
      packetId,
      receivedMs: this.server.wallMs(),
      arrivedMs: this.heardMs,
    })
    if (qos > 0) this.#acknowledgements.push(message)
    else this.server.forward(message)
    this.server.accept(message)
    this.#chunkMessages.add(message, buffer)
  }

  /** Whether it may publish on a topic, most often the one of before. @param {string} topic */
  #mayPublish(topic) {
    if (topic === this.#lastTopic) return this.#mayPublishLast
    this.#lastTopic = topic
    this.#mayPublishLast = mayPublish(this.grant, topic, this.server.topics)
    if (this.#sensorId === undefined && this.session) {
      this.#sensorId = sensorOfPublisher(this.session.clientId, topic, this.server.topics)
      this.#noteStatus('online', 'published')
    }
    return this.#mayPublishLast
  }

  /** @param {import('../sensors/statuses.js').State} state  @param {string} reason */
  #noteStatus(state, reason) {
    const { session } = this
    if (this.#sensorId !== undefined && session && this.#wasOpen) {
      const { clientId } = session
      this.server.noteStatus({ id: this.#sensorId, state, clientId, reason })
    }
  }

  /** @param {number} flags */
  #release(flags) {
    const { buffer, bodyStart, packetEnd } = this.#framer
    // [MQTT-3.8.1-1]
    if (flags !== 2 || packetEnd - bodyStart !== 2) throw new ProtocolError('a malformed PUBREL')
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
    if (hasLeft && this.#port) this.#port.push(DISCONNECT)
    else if (hasLeft) this.close()
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
    if (qos === 2 && !session.noteUnreleased(packetId)) return
    pushAcknowledgement(bytes, qos === 1 ? TYPE.puback : TYPE.pubrec, packetId)
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
   * @param {boolean} [isPassedOn]  Its socket is not ours any more.
   */
  close(reason = 'closed', isPassedOn = false) {
    if (this.stage === 'closed') return
    const isLeaving = this.stage === 'leaving'
    this.stage = 'closed'
    this.isBlocked = false
    this.server.countHeld(-this.heldBytes)
    const left = isLeaving ? 'offline' : 'lost'
    this.#noteStatus(reason === STOPPING ? 'unknown' : left, reason)
    this.server.removed(this, reason)
    const port = this.#port
    if (isLeaving && port && !port.destroyed) {
      // [MQTT-3.1.2-10]: after a DISCONNECT there is no will.
      port.push(DISCONNECT)
      port.push(null)
    } else {
      port?.destroy()
    }
    if (isPassedOn || this.#socket.destroyed) return
    this.#socket.resume()
    this.#socket.destroySoon()
    setTimeout(() => this.#socket.destroy(), LINGER_MS_MAX).unref()
  }
}
