/**
 * aedes, for everything in MQTT that is not storing: sessions, subscriptions, retained messages,
 * wills, and the fan-out to subscribers. No PUBLISH comes to it through a connection: the server
 * gives it each one when its time has come. So aedes acknowledges nothing and holds nothing.
 *
 * For clients of MQTT 5, which aedes does not know, the router does the same (`v5/router.js`).
 */

import { Aedes } from 'aedes'
import createExchange from 'mqemitter'
import { writeToStream } from 'mqtt-packet'
import { maySubscribe } from './entrance/access.js'
import { BoundedPersistence } from './persistence.js'
import { Router } from './v5/router.js'

/** Messages that are delivered to subscribers at the same time; more wait. */
const FANOUT_CONCURRENCY = 1_000

/**
 * Deliveries of messages at the same time: each takes about half a kilobyte until it is written.
 * With many subscriptions fewer messages are delivered at once.
 */
const DELIVERIES_MAX = 50_000

/** Memory that a will takes on its way besides its bytes. */
const WILL_BYTES = 512

/** Longest client id, in bytes of UTF-8, with the name of a key before it. */
const NAME_BYTES_MAX = 65_535

// Else the first packet makes a buffer for each of 65,536 numbers, 7 MiB that are kept for ever.
writeToStream.cacheNumbers = false

/** @typedef {import('./port.js').Port} Port */
/** @typedef {import('@sandglass/common/memory-share').MemoryShare} MemoryShare */

/**
 * @typedef {object} Subscriptions
 * @property {(name: string) => { hasFilter: (filter: string) => boolean } | undefined} byName  A
 *   session.
 */

export class Broker {
  #aedes
  #exchange
  #fanout
  #persistence
  #router
  /** Listeners that are aedes's own. */
  #ownListeners = 0
  /** @type {Subscriptions} */
  #sessions = { byName: () => undefined }

  /**
   * @param {object} parts
   * @param {Record<'fanout' | 'retained' | 'queues', MemoryShare>} parts.shares
   * @param {import('pino').Logger} parts.logger
   * @param {() => number} [parts.clockMs]  By the clock that only goes forward.
   */
  constructor({ shares, logger, clockMs = () => performance.now() }) {
    this.#fanout = shares.fanout
    this.#persistence = new BoundedPersistence(
      shares,
      (name, filter) => this.#sessions.byName(name)?.hasFilter(filter) ?? false,
      clockMs,
    )
    this.#router = new Router({
      queues: this.#persistence.queues,
      clockMs,
      retainedFor: (filters) => this.#persistence.retainedFor(filters),
      publish: (message) => this.publish({ ...message, bytes: bytesOf(message) }),
    })
    this.#exchange = countedExchange()
    this.#aedes = new Aedes({
      persistence: /** @type {any} */ (this.#persistence),
      mq: this.#exchange,
      // The port never reports that it is full, so nothing is waited for.
      drainTimeout: 0,
      maxClientsIdLength: NAME_BYTES_MAX,
    })
    /** Messages of QoS 0 that were not given to subscribers, because too many are on their way. */
    this.fanoutDropped = 0
    /** Called when the fan-out has room again. @type {() => void} */
    this.onRoom = () => {}
    this.#authorize()
    this.#aedes.on('clientError', (client, error) => {
      logger.debug({ client: client.id, reason: error.message }, 'client error')
    })
    this.#aedes.on('connectionError', (_client, error) => {
      logger.debug({ reason: error.message }, 'connection error')
    })
    this.#aedes.on('connackSent', ({ returnCode }, client) => {
      if (returnCode === 0) portOf(client).opened()
    })
  }

  /** Messages that subscribers, their queues or the retained messages had no room for. */
  get dropped() {
    const { queues, retainedRefused } = this.#persistence
    return this.fanoutDropped + queues.dropped + retainedRefused
  }

  /** @param {Subscriptions} sessions  Whose subscriptions are kept. */
  async start(sessions) {
    this.#sessions = sessions
    await this.#aedes.listen()
    this.#ownListeners = this.#exchange.listeners.size
  }

  /** What a client may do is decided anew each time: the rights of its key may be gone. */
  #authorize() {
    this.#aedes.authorizeSubscribe = (client, subscription, done) => {
      const give = (/** @type {number} */ code) => done(null, code === 0 ? subscription : null)
      const answer = connectionOf(client).subscribe(subscription.topic)
      if (answer instanceof Promise) void answer.then(give)
      else give(answer)
    }
    this.#aedes.authorizePublish = (client, will, done) => {
      const isAllowed = client !== null && connectionOf(client).mayPublishWill(will.topic)
      done(isAllowed ? null : new Error('its key does not allow the will'))
      if (isAllowed) this.#router.publish(/** @type {any} */ (will))
    }
    this.#aedes.authorizeForward = (client, packet) => {
      const { grant, server } = connectionOf(client)
      return maySubscribe(grant, packet.topic, server.topics) ? packet : null
    }
  }

  /** Whether anybody subscribed to anything. */
  get hasSubscribers() {
    return this.#router.hasSubscribers || this.#hasAedesSubscribers
  }

  get #hasAedesSubscribers() {
    return this.#exchange.listeners.size > this.#ownListeners || this.#persistence.subscribers > 0
  }

  /** Whether the fan-out is behind. */
  get isFull() {
    return this.#fanout.isFull
  }

  /** A client connects. @param {Port} port */
  handle(port) {
    if (port.terms) this.#router.open(port)
    else this.#aedes.handle(port)
  }

  /**
   * A session has ended.
   *
   * @param {string} name
   * @param {boolean} [isOver]  Because its key is good no more: there will be no will.
   */
  forget(name, isOver = false) {
    if (!this.#router.forget(name, isOver)) this.#persistence.forget(name)
  }

  /**
   * Gives a message to whoever subscribed, and keeps it if it is retained. While too many are on
   * their way those of QoS 0 are dropped; of the others the server takes no more.
   *
   * @param {import('../source.js').Published} message
   */
  publish(message) {
    const { topic, payload, qos, retain, bytes, delivery } = message
    // Most installations have no subscriber, and finding that out anew would cost the most.
    if (!retain && !this.hasSubscribers) return
    if (retain && delivery) {
      void this.#persistence.storeRetained({ cmd: 'publish', topic, payload, qos, delivery })
    }
    this.#router.publish(message)
    const isStored = delivery !== undefined
    if ((isStored || !retain) && !this.#hasAedesSubscribers) return
    if (qos > 0) {
      this.#fanout.add(bytes)
    } else if (!this.#fanout.take(bytes)) {
      this.fanoutDropped++
      return
    }
    const packet = /** @type {import('aedes').PublishPacket} */ ({
      cmd: 'publish',
      topic,
      payload,
      qos,
      // What has properties is stored with them, and not once more without.
      retain: retain && !isStored,
      dup: false,
    })
    // Errors (a topic of too many levels) concern the subscribers alone: it is stored or refused.
    this.#aedes.publish(packet, () => {
      const wasFull = this.isFull
      this.#fanout.give(bytes)
      if (wasFull && !this.isFull) this.onRoom()
    })
  }

  async stop() {
    this.#router.stop()
    await new Promise((resolve) => this.#aedes.close(() => resolve(undefined)))
  }
}

/** What a will counts on its way. @param {{ topic: string, payload: Buffer }} message */
const bytesOf = ({ topic, payload }) => topic.length + payload.length + WILL_BYTES

/** @param {import('aedes').Client} client  @returns {import('./port.js').Served} */
function connectionOf(client) {
  return portOf(client).connection
}

/** @param {import('aedes').Client} client */
function portOf(client) {
  return /** @type {Port} */ (client.conn)
}

/** What aedes hands messages to subscribers with; it knows who listens. */
function countedExchange() {
  const exchange = /** @type {any} */ (createExchange)({
    concurrency: FANOUT_CONCURRENCY,
    matchEmptyLevels: true, // [MQTT-4.7.1-3]
  })
  const { on, removeListener } = exchange
  /** @type {Map<Function, Set<string>>} Topics by listener. */
  const listeners = new Map()
  const adapt = () => {
    const most = Math.floor(DELIVERIES_MAX / listeners.size)
    exchange.concurrency = Math.max(1, Math.min(FANOUT_CONCURRENCY, most))
  }
  return Object.assign(exchange, {
    listeners,
    on(/** @type {string} */ topic, /** @type {Function} */ notify, /** @type {unknown} */ done) {
      const topics = listeners.get(notify) ?? new Set()
      listeners.set(notify, topics.add(topic))
      adapt()
      return on.call(exchange, topic, notify, done)
    },
    removeListener(
      /** @type {string} */ topic,
      /** @type {Function} */ notify,
      /** @type {unknown} */ done,
    ) {
      const topics = listeners.get(notify)
      topics?.delete(topic)
      if (topics?.size === 0) listeners.delete(notify)
      adapt()
      return removeListener.call(exchange, topic, notify, done)
    },
  })
}
