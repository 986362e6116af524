/**
 * aedes, for everything in MQTT that is not storing: sessions, subscriptions, retained messages,
 * wills, and the fan-out to subscribers. No PUBLISH comes to it through a connection: the server
 * gives it each one when its time has come. So aedes acknowledges nothing and holds nothing.
 */

import { Aedes } from 'aedes'
import createExchange from 'mqemitter'
import { maySubscribe } from './access.js'
import { boundedPersistence } from './persistence.js'

/** Messages that are delivered to subscribers at the same time; more wait. */
const FANOUT_CONCURRENCY = 1_000

/** Bytes that may wait for their fan-out before the server takes no more messages. */
const FANOUT_BYTES_MAX = 16 * 2 ** 20

/** @typedef {import('../message/message.js').Message} Message */
/** @typedef {import('./port.js').Port} Port */

export class Broker {
  /**
   * @param {object} parts
   * @param {import('pino').Logger} parts.logger
   */
  constructor({ logger }) {
    /** @private */
    this.persistence = boundedPersistence()
    /** @private */
    this.exchange = countedExchange()
    /** @private */
    this.aedes = new Aedes({
      persistence: this.persistence,
      mq: this.exchange,
      // The port never reports that it is full, so nothing is waited for.
      drainTimeout: 0,
    })
    /** Listeners that are aedes's own. @private */
    this.ownListeners = 0
    /** Bytes of messages on their way to subscribers. */
    this.fanoutBytes = 0
    /** Called when the fan-out has room again. @type {() => void} */
    this.onRoom = () => {}
    this.aedes.authorizeSubscribe = (client, subscription, done) => {
      const { grant, server } = /** @type {Port} */ (client.conn).connection
      done(null, maySubscribe(grant, subscription.topic, server.topics) ? subscription : null)
    }
    this.aedes.on('clientError', (client, error) => {
      logger.debug({ client: client.id, reason: error.message }, 'client error')
    })
    this.aedes.on('connectionError', (_client, error) => {
      logger.debug({ reason: error.message }, 'connection error')
    })
    this.aedes.on('connackSent', ({ returnCode }, client) => {
      if (returnCode === 0) /** @type {Port} */ (client.conn).connection.opened(client)
    })
  }

  /** Messages that offline subscribers or the retained store had no room for. */
  get dropped() {
    return this.persistence.dropped
  }

  async start() {
    await this.aedes.listen()
    this.ownListeners = this.exchange.listeners.size
  }

  /** Whether anybody subscribed to anything. @private */
  get hasSubscribers() {
    return this.exchange.listeners.size > this.ownListeners || this.persistence.subscribers > 0
  }

  /** Whether the fan-out is behind. */
  get isFull() {
    return this.fanoutBytes > FANOUT_BYTES_MAX
  }

  /** A client connects. @param {Port} port */
  handle(port) {
    return this.aedes.handle(port)
  }

  /**
   * Gives a message to whoever subscribed, and keeps it if it is retained.
   *
   * @param {Message} message
   */
  publish(message) {
    const { topic, payload, qos, retain, bytes } = message
    // Most installations have no subscriber, and finding that out anew would cost the most.
    if (!retain && !this.hasSubscribers) return
    this.fanoutBytes += bytes
    const packet = /** @type {import('aedes').PublishPacket} */ ({
      cmd: 'publish',
      topic,
      payload,
      qos,
      retain,
      dup: false,
    })
    // Errors (a topic of too many levels) concern the subscribers alone: it is stored or refused.
    this.aedes.publish(packet, () => {
      const wasFull = this.isFull
      this.fanoutBytes -= bytes
      if (wasFull && !this.isFull) this.onRoom()
    })
  }

  async stop() {
    await new Promise((resolve) => this.aedes.close(() => resolve(undefined)))
  }
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
  return Object.assign(exchange, {
    listeners,
    on(/** @type {string} */ topic, /** @type {Function} */ notify, /** @type {unknown} */ done) {
      const topics = listeners.get(notify) ?? new Set()
      listeners.set(notify, topics.add(topic))
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
      return removeListener.call(exchange, topic, notify, done)
    },
  })
}
