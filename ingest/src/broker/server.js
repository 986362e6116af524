/**
 * The MQTT listener: all connections, the limits they share, and the clock of their keep-alives.
 */

import { once } from 'node:events'
import { Connection, STOPPING } from './connection.js'
import { createListener } from './listener.js'
import { Sessions } from './session.js'

/** How often keep-alives are looked at, in milliseconds. */
const SWEEP_MS = 1_000

/** How long a new connection may take to send its CONNECT, in milliseconds. */
const CONNECT_MS_MAX = 30_000

/** Bytes of packets that have not arrived whole, of all connections together. */
const WAITING_BYTES_MAX = 64 * 2 ** 20

/** @typedef {import('../message/message.js').Message} Message */
/** @typedef {import('../sensors/statuses.js').Status} Status */

/**
 * @typedef {object} ServerLimits
 * @property {number} packetBytesMax  Largest packet, in bytes.
 * @property {number} clientMessagesMax  Most unacknowledged messages of one client.
 * @property {number} connectionsMax
 */

/**
 * What takes the messages.
 *
 * @typedef {object} Sink
 * @property {(message: Message) => void} accept  Calls `message.origin.settled` some time later.
 * @property {number} senderBytesMax  Most bytes in flight of one sender of them.
 * @property {boolean} isFull  Whether no more messages of QoS 1 and 2 should be given.
 * @property {(msMax: number) => Promise<void>} idle  Resolves when nothing is held, or at
 *   the latest after so many milliseconds.
 * @property {() => void} onRoom  Called when it has room again; the server sets it.
 */

export class MqttServer {
  /**
   * @param {object} parts
   * @param {import('./broker.js').Broker} parts.broker
   * @param {Sink} parts.sink
   * @param {ServerLimits} parts.limits
   * @param {import('./access.js').Access} [parts.access]  Undefined: everybody may do everything.
   * @param {import('../sensors/statuses.js').Statuses} [parts.statuses]
   * @param {import('@sandglass/common/topics').Topics} parts.topics
   * @param {import('pino').Logger} parts.logger
   */
  constructor({ broker, sink, limits, access, statuses, topics, logger }) {
    this.broker = broker
    this.limits = limits
    this.access = access
    this.topics = topics
    /** @private */
    this.statuses = statuses
    this.sessions = new Sessions()
    /** Redeliveries of QoS 2 that were recognised by their packet id. */
    this.duplicates = 0
    /** Connections that were refused because there are too many. */
    this.refused = 0
    /** @private */
    this.sink = sink
    /** @private */
    this.logger = logger
    /** @private @type {Set<Connection>} */
    this.connections = new Set()
    /** Connections that have something to send. @private @type {Connection[]} */
    this.dirty = []
    /** Connections that wait for the shared limit. @private @type {Set<Connection>} */
    this.waiting = new Set()
    /** @private */
    this.waitingBytes = 0
    /** @private @type {NodeJS.Timeout | undefined} */
    this.sweeper = undefined
    /** @private */
    this.sweptMs = 0
    /** @private */
    this.servers = /** @type {import('node:net').Server[]} */ ([])
    sink.onRoom = () => this.resume()
    broker.onRoom = () => this.resume()
  }

  /** Open connections. */
  get connectionCount() {
    return this.connections.size
  }

  /** Connections that are not read because of a limit. */
  get blockedCount() {
    let count = 0
    for (const { isBlocked } of this.connections) if (isBlocked) count++
    return count
  }

  /**
   * Lets clients connect; may be called several times.
   *
   * @param {import('./listener.js').Listen} what
   * @param {import('./listener.js').Identity} [identity]
   * @returns {Promise<number>}  The port.
   */
  async start(what, identity) {
    const { packetBytesMax, connectionsMax } = this.limits
    const asksForKeys = this.access !== undefined
    const onLine = (/** @type {import('./listener.js').Line} */ line) => this.add(line)
    const server = createListener(what, { identity, packetBytesMax, asksForKeys, onLine })
    server.maxConnections = connectionsMax
    server.on('drop', () => this.refused++)
    server.listen({ ...what.listen, backlog: 4_096 })
    await once(server, 'listening')
    this.servers.push(server)
    this.sweptMs = this.nowMs()
    this.sweeper ??= setInterval(() => this.sweep(), SWEEP_MS)
    return /** @type {import('node:net').AddressInfo} */ (server.address()).port
  }

  /** @private @param {import('./listener.js').Line} line */
  add(line) {
    if (this.connections.size < this.limits.connectionsMax) {
      this.connections.add(new Connection(line, this))
      return
    }
    this.refused++
    line.on('error', () => {})
    line.destroy()
  }

  /** A device came or went. @param {Omit<Status, 'timeMs'>} what */
  noteStatus(what) {
    this.statuses?.note({ ...what, timeMs: this.nowMs() })
  }

  /** Milliseconds since the Unix epoch. */
  nowMs() {
    return Date.now()
  }

  /** Most bytes in flight of one client; then it is not read until there are less. */
  get clientBytesMax() {
    return this.sink.senderBytesMax
  }

  /** Whether messages of QoS 1 and 2 must wait, whoever sends them. */
  get isFull() {
    return this.sink.isFull || this.broker.isFull
  }

  /** @param {Message} message */
  accept(message) {
    this.sink.accept(message)
  }

  /**
   * Passes a message on to the subscribers.
   *
   * @param {Message} message
   */
  forward(message) {
    // Topics that begin with $ are the broker's own [MQTT-4.7.2-1].
    const isOurs = message.topic.charCodeAt(0) === 36
    if (!isOurs && message.isForSubscribers) this.broker.publish(message)
  }

  noteDuplicate() {
    this.duplicates++
  }

  /** A connection has something to send, in the turn that comes. @param {Connection} connection */
  markDirty(connection) {
    if (connection.isDirty) return
    connection.isDirty = true
    if (this.dirty.push(connection) === 1) queueMicrotask(() => this.flush())
  }

  /** @private */
  flush() {
    const { dirty } = this
    this.dirty = []
    for (const connection of dirty) {
      connection.isDirty = false
      connection.flush()
    }
  }

  /** @param {Connection} connection */
  waitForRoom(connection) {
    this.waiting.add(connection)
  }

  /** Lets those read on that waited for room, the longest waiting first. @private */
  resume() {
    for (const connection of this.waiting) {
      if (this.isFull) return
      this.waiting.delete(connection)
      connection.read()
    }
  }

  /**
   * Counts bytes of incomplete packets.
   *
   * @param {number} bytes  More, or less if negative.
   */
  countWaiting(bytes) {
    this.waitingBytes += bytes
    if (bytes > 0 && this.waitingBytes > WAITING_BYTES_MAX) this.closeLargest()
  }

  /** Too much is incomplete: the connection that has most of it is the one to lose. @private */
  closeLargest() {
    let largest
    for (const connection of this.connections) {
      if (connection.waitingBytes >= (largest?.waitingBytes ?? 0)) largest = connection
    }
    largest?.close('incomplete packets take too much memory')
  }

  /** @param {Connection} connection  @param {string} reason */
  removed(connection, reason) {
    this.connections.delete(connection)
    this.waiting.delete(connection)
    const { session } = connection
    if (session) this.sessions.leave(session, connection, this.nowMs())
    this.logger.debug({ client: session?.clientId, reason }, 'connection closed')
  }

  /** Closes whoever was silent for too long. @private */
  sweep() {
    const nowMs = this.nowMs()
    const isLate = nowMs - this.sweptMs > 2 * SWEEP_MS
    this.sweptMs = nowMs
    // We were the ones who did not listen: what was sent meanwhile is read first.
    if (isLate) return
    for (const connection of this.connections) {
      const { stage, keepAliveMs, heardMs, isBlocked } = connection
      const silentMs = nowMs - heardMs
      if (stage === 'fresh' && silentMs > CONNECT_MS_MAX) {
        connection.close('no CONNECT arrived')
      } else if (stage === 'open' && keepAliveMs > 0 && !isBlocked && silentMs > keepAliveMs) {
        connection.close('keep-alive timeout')
      }
    }
  }

  /**
   * Takes no more connections and messages, acknowledges what becomes durable meanwhile, and closes
   * the connections.
   *
   * @param {number} holdMsMax  Longest wait for messages that are held, in milliseconds.
   */
  async stop(holdMsMax) {
    clearInterval(this.sweeper)
    const closed = this.servers.map((server) => once(server, 'close'))
    for (const server of this.servers) server.close()
    for (const connection of this.connections) connection.stopReading()
    await this.sink.idle(holdMsMax)
    this.flush()
    for (const connection of this.connections) connection.close(STOPPING)
    await Promise.all(closed)
  }
}
