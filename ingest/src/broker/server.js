/**
 * The MQTT listener: all connections, the limits they share, and the clock of their keep-alives.
 */

import { once } from 'node:events'
import { Connection, STOPPING } from './connection.js'
import { openDoors } from './entrance/doors.js'
import { Newcomers } from './entrance/newcomers.js'
import { KeyWatch } from './key-watch.js'
import { createListener } from './listener.js'
import { termsOf5 } from './routing/terms.js'
import { Sessions } from './sessions.js'
import { REASON } from './v5/reason.js'

/** How often keep-alives are looked at, in milliseconds. */
const SWEEP_MS = 1_000

/** How long a new connection may take to send its CONNECT, in milliseconds. */
const CONNECT_MS_MAX = 30_000

/** How long connections may take to close when the service stops, in milliseconds. */
const STOP_MS_MAX = 2_000

/** Connections that may wait in the kernel until they are accepted, if its own limit allows it. */
const BACKLOG = 4_096

/** How often sessions whose clients have been away for too long are ended, in milliseconds. */
const AGE_MS = 1_000

/** @typedef {import('./listener.js').Line} Line */
/** @typedef {import('@sandglass/common/memory-share').MemoryShare} MemoryShare */
/** @typedef {import('../message/message.js').Message} Message */
/** @typedef {import('../sensors/statuses.js').Status} Status */

/**
 * @typedef {object} ServerLimits
 * @property {number} packetBytesMax  Largest packet, in bytes.
 * @property {number} clientMessagesMax  Most unacknowledged messages of one client.
 * @property {number} connectionsMax
 * @property {number} [handshakeMsMax]  Longest handshake of TLS, or upgrade, in milliseconds.
 */

/**
 * What takes the messages.
 *
 * @typedef {object} Sink
 * @property {(message: Message) => void} accept  Calls `message.origin.settled` some time later.
 * @property {number} senderBytesMax  Most bytes in flight of one sender of them.
 * @property {boolean} isFull  Whether no more messages of QoS 1 and 2 should be given.
 * @property {(msMax: number) => Promise<void>} idle  Resolves when nothing is in flight, or at
 *   the latest after so many milliseconds.
 * @property {() => void} onRoom  Called when it has room again; the server sets it.
 */

/**
 * @typedef {object} Clock
 * @property {() => number} wallMs  Milliseconds since the Unix epoch.
 * @property {() => number} clockMs  Milliseconds by the clock that only goes forward.
 */

/** @type {Clock} */
const CLOCK = { wallMs: () => Date.now(), clockMs: () => performance.now() }

export class MqttServer {
  #sink
  #statuses
  #shares
  #logger
  #clock
  #keyWatch
  #member
  #onGone
  /** @type {Set<Connection>} */
  #connections = new Set()
  /** What has connected, whether or not it has said a word. @type {Set<Line>} */
  #sockets = new Set()
  /** Connections that have something to send. @type {Connection[]} */
  #dirty = []
  /** Connections that wait for the shared limit. @type {Set<Connection>} */
  #waiting = new Set()
  /** @type {NodeJS.Timeout | undefined} */
  #sweeper
  #sweptMs = 0
  #agedMs = 0
  /** @type {import('node:net').Server[]} */
  #servers = []
  #doorCount
  /** More doors to the same sockets. @type {import('./entrance/doors.js').Doors[]} */
  #doors = []

  /**
   * @param {object} parts
   * @param {import('../source.js').AnyBroker} parts.broker
   * @param {Sink} parts.sink
   * @param {Record<'packets' | 'outgoing' | 'sessions', MemoryShare>} parts.shares
   * @param {ServerLimits} parts.limits
   * @param {import('./entrance/access.js').Access} [parts.access]  Undefined: all is allowed.
   * @param {import('../sensors/statuses.js').Statuses} [parts.statuses]
   * @param {import('@sandglass/common/topics').Topics} parts.topics
   * @param {import('../processes/member.js').Member} [parts.member]  Of several processes.
   * @param {(connection: Connection) => void} [parts.onGone]  Called when a connection is closed.
   * @param {number} [parts.doors]  By how many connections come in: each takes one a turn.
   * @param {import('pino').Logger} parts.logger
   * @param {Clock} [parts.clock]
   */
  constructor(parts) {
    const { broker, sink, shares, limits, access, clock = CLOCK } = parts
    this.broker = broker
    this.limits = limits
    this.access = access
    this.topics = parts.topics
    this.#member = parts.member
    this.#onGone = parts.onGone
    this.sessions = new Sessions({
      share: shares.sessions,
      onEnd: ({ name, owner }) => broker.forget(name, owner.isOver),
    })
    /** Redeliveries of QoS 2 that were recognised by their packet id. */
    this.duplicates = 0
    /** Connections that were refused because there are too many. */
    this.refused = 0
    /** Connections that failed before they could say anything in MQTT. */
    this.handshakesFailed = 0
    /** Connections that were closed because what they have us hold takes too much memory. */
    this.cutOff = 0
    this.#statuses = parts.statuses
    this.#sink = sink
    this.#shares = shares
    this.#logger = parts.logger
    this.#clock = clock
    this.#doorCount = parts.doors ?? 1
    /** Who was let in, and is not read yet. */
    this.newcomers = new Newcomers({ clockMs: () => this.clockMs() })
    const { wallMs, clockMs } = clock
    this.#keyWatch =
      access && new KeyWatch({ keys: access.keys, sessions: this.sessions, wallMs, clockMs })
    sink.onRoom = () => this.#resume()
    broker.onRoom = () => this.#resume()
  }

  /** Keys that lost their connections and sessions. */
  get keysEnded() {
    return this.#keyWatch?.ended ?? 0
  }

  /** Open connections. */
  get connectionCount() {
    return this.#connections.size
  }

  /** Connections that are not read because of a limit. */
  get blockedCount() {
    let count = 0
    for (const { isBlocked } of this.#connections) if (isBlocked) count++
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
    const { packetBytesMax, connectionsMax, handshakeMsMax } = this.limits
    const server = createListener(what, {
      identity,
      packetBytesMax,
      handshakeMsMax,
      asksForKeys: this.access !== undefined,
      onSocket: (socket) => {
        this.newcomers.came()
        this.#addSocket(socket)
      },
      onLine: (line) => this.#connections.add(new Connection(line, this)),
      onFailed: () => this.handshakesFailed++,
    })
    server.maxConnections = connectionsMax
    server.on('drop', () => this.refused++)
    server.listen({ ...what.listen, backlog: BACKLOG })
    await once(server, 'listening')
    this.#servers.push(server)
    if (this.#doorCount > 1) void this.#openDoors(server)
    this.#sweptMs = this.clockMs()
    this.#sweeper ??= setInterval(() => this.sweep(), SWEEP_MS)
    return /** @type {import('node:net').AddressInfo} */ (server.address()).port
  }

  /** @param {import('node:net').Server} server */
  async #openDoors(server) {
    const doors = openDoors(server, { count: this.#doorCount - 1, backlog: BACKLOG })
    this.#doors.push(doors)
    try {
      await doors.opened
      this.newcomers.doors = this.#doorCount
    } catch (error) {
      const { message: reason } = /** @type {Error} */ (error)
      this.#logger.warn({ reason }, 'many clients that come at once are let in more slowly')
    }
  }

  /**
   * Gives a connection to the process that its client belongs to.
   *
   * @param {string} clientId
   * @param {Line} line
   * @param {import('./frame.js').Framer} framer  Which has its CONNECT.
   * @returns {boolean}  Whether it is not ours any more.
   */
  passOn(clientId, line, framer) {
    const home = this.#member?.elsewhere(clientId)
    if (home !== undefined) this.#member?.give(home, line, framer.fromPacket())
    return home !== undefined
  }

  /**
   * Takes a connection that another process accepted.
   *
   * @param {Line} line
   * @param {Buffer} bytes  What was read of it.
   */
  take(line, bytes) {
    this.#addSocket(line)
    if (line.destroyed) return
    const connection = new Connection(line, this)
    this.#connections.add(connection)
    connection.receive(bytes)
  }

  /** Those who have not said anything yet count, too: they cost the same. @param {Line} socket */
  #addSocket(socket) {
    if (this.#sockets.size >= this.limits.connectionsMax) {
      this.refused++
      socket.destroy()
      return
    }
    this.#sockets.add(socket)
    socket.on('close', () => this.#sockets.delete(socket))
  }

  /**
   * The session of a client that connects with a key that was found to be good.
   *
   * @param {Connection} connection
   * @param {string} clientId
   * @param {import('./entrance/connect-packet.js').Connect} connect
   */
  enter(connection, clientId, connect) {
    const session = this.sessions.enter(
      connection.grant,
      clientId,
      connect.clean,
      connection,
      this.clockMs(),
      connect.level === 5 ? termsOf5(connect) : undefined,
    )
    if (!session.owner.isConfirmed) this.#keyWatch?.lookSoon()
    return session
  }

  /** A device came or went. @param {Omit<Status, 'timeMs'>} what */
  noteStatus(what) {
    this.#statuses?.note({ ...what, timeMs: this.wallMs() })
  }

  /** Milliseconds since the Unix epoch. */
  wallMs() {
    return this.#clock.wallMs()
  }

  /** Milliseconds by the clock that only goes forward, which no step of the other one moves. */
  clockMs() {
    return this.#clock.clockMs()
  }

  /** Most bytes in flight of one client; then it is not read until there are less. */
  get clientBytesMax() {
    return this.#sink.senderBytesMax
  }

  /** Whether messages of QoS 1 and 2 must wait, whoever sends them. */
  get isFull() {
    return this.#sink.isFull || this.broker.isFull
  }

  /** @param {Message} message */
  accept(message) {
    this.#sink.accept(message)
  }

  /**
   * Passes a message on to the subscribers.
   *
   * @param {Message} message
   */
  forward(message) {
    // Topics that begin with $ are the broker's own [MQTT-4.7.2-1].
    const isOurs = message.topic.charCodeAt(0) === 36
    if (isOurs || !message.isForSubscribers) return
    if (!message.original) {
      this.broker.publish(message)
      return
    }
    const { topic, original: payload, qos, retain, bytes, delivery } = message
    this.broker.publish({ topic, payload, qos, retain, bytes, delivery })
  }

  noteDuplicate() {
    this.duplicates++
  }

  /** A connection has something to send, in the turn that comes. @param {Connection} connection */
  markDirty(connection) {
    if (connection.isDirty) return
    connection.isDirty = true
    if (this.#dirty.push(connection) === 1) queueMicrotask(() => this.#flush())
  }

  #flush() {
    const dirty = this.#dirty
    this.#dirty = []
    for (const connection of dirty) {
      connection.isDirty = false
      connection.flush()
    }
  }

  /** @param {Connection} connection */
  waitForRoom(connection) {
    this.#waiting.add(connection)
  }

  /** Lets those read on that waited for room, the longest waiting first. */
  #resume() {
    for (const connection of this.#waiting) {
      if (this.isFull) return
      this.#waiting.delete(connection)
      connection.read()
    }
  }

  /**
   * Counts bytes of packets that are not whole, or must wait. If they are too many, the connection
   * that has most of them is the one to lose: of those that wait for us only if there is no other.
   *
   * @param {number} bytes  More, or less if negative.
   */
  countHeld(bytes) {
    const { packets } = this.#shares
    packets.add(bytes)
    if (bytes <= 0) return
    while (packets.bytes > packets.bytesMax) {
      const largest =
        this.#most('heldBytes', ({ isBlocked }) => !isBlocked) ?? this.#most('heldBytes')
      if (!largest) return
      this.cutOff++
      largest.close('incomplete packets take too much memory', REASON.quota)
    }
  }

  /**
   * Counts bytes that were written and have not left. If they are too many, the connection that has
   * most of them is cut off.
   *
   * @param {number} bytes  More, or less if negative.
   */
  countOutgoing(bytes) {
    const { outgoing } = this.#shares
    outgoing.add(bytes)
    if (bytes <= 0 || outgoing.bytes <= outgoing.bytesMax) return
    const largest = this.#most('outgoingBytes')
    if (!largest) return
    this.cutOff++
    largest.cutOff()
  }

  /**
   * @param {'heldBytes' | 'outgoingBytes'} kind
   * @param {(connection: Connection) => boolean} [isMeant]
   */
  #most(kind, isMeant = () => true) {
    /** @type {Connection | undefined} */
    let most
    for (const connection of this.#connections) {
      if (connection[kind] > (most?.[kind] ?? 0) && isMeant(connection)) most = connection
    }
    return most
  }

  /** @param {Connection} connection  @param {string} reason */
  removed(connection, reason) {
    this.#connections.delete(connection)
    this.#waiting.delete(connection)
    this.#onGone?.(connection)
    const { session, heardMs } = connection
    if (session) this.sessions.leave(session, connection, heardMs, this.clockMs())
    this.#logger.debug({ client: session?.clientId, reason }, 'connection closed')
  }

  /** Closes whoever was silent for too long, or has a key that is good no more. */
  sweep() {
    const nowMs = this.clockMs()
    const isLate = nowMs - this.#sweptMs > 2 * SWEEP_MS
    this.#sweptMs = nowMs
    this.#keyWatch?.look()
    if (nowMs - this.#agedMs >= AGE_MS) {
      this.#agedMs = nowMs
      this.sessions.age(nowMs)
    }
    // We were the ones who did not listen: what was sent meanwhile is read first.
    if (isLate) return
    for (const connection of this.#connections) {
      const { stage, keepAliveMs, heardMs, isBlocked } = connection
      const silentMs = nowMs - heardMs
      if (stage === 'fresh' && silentMs > CONNECT_MS_MAX) {
        connection.close('no CONNECT arrived')
      } else if (stage === 'open' && keepAliveMs > 0 && !isBlocked && silentMs > keepAliveMs) {
        connection.close('keep-alive timeout', REASON.keepAlive)
      }
    }
  }

  /**
   * Takes no more connections and messages, acknowledges what becomes durable meanwhile, and closes
   * the connections.
   *
   * @param {number} holdMsMax  Longest wait for messages that are in flight, in milliseconds.
   */
  async stop(holdMsMax) {
    clearInterval(this.#sweeper)
    this.#keyWatch?.stop()
    const stopped = this.#doors.map((doors) => doors.stop())
    const servers = [...this.#servers, ...this.#doors.flatMap((doors) => doors.servers)]
    const closed = servers.map((server) => once(server, 'close'))
    for (const server of servers) server.close()
    for (const connection of this.#connections) connection.stopReading()
    await this.#sink.idle(holdMsMax)
    this.#flush()
    for (const connection of this.#connections) connection.close(STOPPING, REASON.shuttingDown)
    const timer = setTimeout(() => {
      for (const socket of this.#sockets) socket.destroy()
    }, STOP_MS_MAX)
    await Promise.all([...closed, ...stopped])
    clearTimeout(timer)
  }
}
