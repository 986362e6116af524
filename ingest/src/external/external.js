/**
 * A broker that exists already, as a source of messages: ingest is its client, and acknowledges
 * each message when it is settled, as the server does for devices that connect to us.
 *
 * Several processes share one subscription [MQTT-4.8.2]: the broker gives each message to one of
 * them. It keeps a session for each, with what that one has not acknowledged, and sends it again
 * when the process is back. All is taken at QoS 1, whatever it was published with: at QoS 2 the
 * broker must not give what a lost process had to another one, and exactly once is what the
 * database makes of at least once.
 */

import { Message } from '../message/message.js'
import { STATE } from '../message/state.js'
import { Acknowledgements } from './acknowledgements.js'
import { BrokerClient } from './client.js'
import { carriesTime } from './retained.js'

/** When a subscription that the broker refused is asked for again, in milliseconds. */
const RESUBSCRIBE_MS = 5_000

/** Silence after which a broker that gives us nothing new has nothing left, in milliseconds. */
const EMPTY_MS = 3_000

/** @typedef {import('./client.js').Packet} Packet */
/** @typedef {import('./acknowledgements.js').Stream} Stream */
/** @typedef {import('../broker/session.js').Session} Session */
/** @typedef {import('../broker/server.js').Sink} Sink */

/**
 * @typedef {object} ExternalOptions
 * @property {string} share  Name of the group that shares the subscription; empty: none.
 * @property {import('@sandglass/common/topics').Topics} topics  That carry measurements.
 * @property {string} lineTopic
 * @property {() => void} [onEmpty]  If it is given, we are here for the last time: we take what is
 *   left for us, call this, and end the session.
 * @property {number} [resubscribeMs]
 * @property {number} [emptyMs]
 */

export class External {
  #sink
  #state
  #session
  #logger
  #clientOptions
  #topics
  #share
  #lineTopic
  #filters
  #resubscribeMs
  #onEmpty
  #emptyMs
  /** Whether nothing is left for us, and nothing more will come. */
  #isEmpty = false
  /** When the last message came, by the clock that only goes forward. */
  #heardMs = 0
  /** @type {BrokerClient | undefined} */
  #client
  /** Of the connection there is. @type {Acknowledgements | undefined} */
  #acknowledgements
  #isStopping = false
  /** The last reason why there is no connection; said once. */
  #failure = ''
  /** Of the connection there is; another one without it, and with the next. */
  #epoch = 0
  /** @type {NodeJS.Timeout | undefined} */
  #timer

  /**
   * @param {object} parts
   * @param {Sink} parts.sink
   * @param {Session} parts.session  Remembers receipts; messages have its name for a client.
   * @param {import('./client.js').ClientOptions} parts.client
   * @param {ExternalOptions} parts.options
   * @param {import('../sparkplug/host-state.js').HostState} [parts.state]  That is told there.
   * @param {import('pino').Logger} parts.logger
   */
  constructor({ sink, session, client, options, state, logger }) {
    const { share, topics, lineTopic, onEmpty } = options
    const { resubscribeMs = RESUBSCRIBE_MS, emptyMs = EMPTY_MS } = options
    /** Whether messages can come. */
    this.isConnected = false
    /** Connections that were made. */
    this.connects = 0
    /** Messages that the broker says it sent before. */
    this.redeliveries = 0
    /** Retained messages without a time of their own. */
    this.retainedIgnored = 0
    /** Called when a connection by which messages came is closed. @type {() => void} */
    this.onClosed = () => {}
    /** Called when messages can come. @type {() => void} */
    this.onSubscribed = () => {}
    this.#sink = sink
    this.#session = session
    this.#logger = logger
    this.#state = state
    this.#clientOptions = state ? { ...client, will: () => this.#will(state) } : client
    this.#topics = topics
    this.#share = share
    this.#lineTopic = lineTopic
    this.#filters = this.#wanted()
    this.#resubscribeMs = resubscribeMs
    this.#onEmpty = onEmpty
    this.#emptyMs = emptyMs
    sink.onRoom = () => this.#readOn()
  }

  /** Filters of what is taken. */
  #wanted() {
    const topics = this.#topics
    const share = this.#share
    const followed = new Set(topics.followedFilters)
    const filters = [...topics.filters, `${this.#lineTopic}/#`].map((filter) =>
      // Each process hears all of these: what one message means, those before it tell.
      share === '' || followed.has(filter) ? filter : `$share/${share}/${filter}`,
    )
    return this.#state ? [...filters, this.#state.topic] : filters
  }

  /** Other topics carry measurements from now on. */
  follow() {
    const before = this.#filters
    this.#filters = this.#wanted()
    const over = before.filter((filter) => !this.#filters.includes(filter))
    if (!this.isConnected || this.#onEmpty) return
    clearTimeout(this.#timer)
    void this.#subscribe(this.#epoch)
    if (over.length > 0) void this.#client?.unsubscribe(over).catch(() => {})
  }

  /**
   * Whether more messages may be read. mosquitto 2.0.11 forgets the receive maximum [MQTT-3.3.4-9]
   * after a reconnection: what it sends beyond that stays in the connection.
   */
  get #hasRoom() {
    return !this.#sink.isFull && this.unacknowledged < this.#clientOptions.receiveMax
  }

  /** When the broker sent something last; undefined while messages cannot come. */
  get heardMs() {
    return this.isConnected ? this.#client?.heardMs : undefined
  }

  /** What the broker says of us if the next connection breaks. */
  /** @param {import('../sparkplug/host-state.js').HostState} state */
  #will(state) {
    state.begin(Date.now())
    return state.offline
  }

  /** @param {import('../sparkplug/host-state.js').State | undefined} said */
  #say(said) {
    if (said) this.#client?.publish(said.topic, said.payload, said)
  }

  /** @param {string} topic  @param {Buffer} payload */
  publish(topic, payload) {
    this.#client?.publish(topic, payload)
  }

  /** Publishes what is retained. @param {string} topic  @param {Buffer} payload */
  async retain(topic, payload) {
    if (!this.#client) throw new Error('there is no connection to the broker')
    await this.#client.deliver(topic, payload, { retain: true })
  }

  /** Publishes at QoS 1; rejects if the broker has not taken it. */
  /** @param {string} topic  @param {Buffer} payload */
  async deliver(topic, payload) {
    if (!this.#client) throw new Error('there is no connection to the broker')
    await this.#client.deliver(topic, payload, { retain: false })
  }

  #readOn() {
    if (this.#hasRoom) this.#client?.resume()
  }

  /** Messages that are not acknowledged. */
  get unacknowledged() {
    return this.#acknowledgements?.count ?? 0
  }

  /** Connections that were made after the first one. */
  get reconnects() {
    return Math.max(0, this.connects - 1)
  }

  /** Connects, and goes on trying. */
  start() {
    this.#client = new BrokerClient(this.#clientOptions, {
      message: (packet, stream) => this.#take(packet, stream),
      connected: () => this.#connected(),
      closed: () => this.#closed(),
      failed: (reason) => this.#failed(reason),
    })
  }

  #connected() {
    this.connects++
    this.#epoch++
    void (this.#onEmpty ? this.#leave(this.#epoch) : this.#subscribe(this.#epoch))
  }

  /**
   * Subscribes on every connection, also where the session goes on: mosquitto keeps sessions over a
   * restart, but not shared subscriptions.
   *
   * @param {number} epoch
   */
  async #subscribe(epoch) {
    try {
      await this.#client?.subscribe(this.#filters)
      if (this.#epoch !== epoch) return
      this.isConnected = true
      this.#failure = ''
      this.#say(this.#state?.online)
      this.onSubscribed()
      this.#logger.info({ broker: this.#session.clientId, topics: this.#filters }, 'subscribed')
    } catch (error) {
      if (this.#epoch !== epoch || this.#isStopping) return
      this.#failed(/** @type {Error} */ (error).message)
      this.#timer = setTimeout(() => this.#subscribe(epoch), this.#resubscribeMs)
    }
  }

  /**
   * Waits until the broker has nothing left for us.
   *
   * @param {number} epoch
   */
  async #leave(epoch) {
    try {
      await this.#client?.unsubscribe(this.#filters)
    } catch (error) {
      if (this.#epoch === epoch) this.#failed(/** @type {Error} */ (error).message)
      return
    }
    if (this.#epoch !== epoch) return
    this.isConnected = true
    this.#heardMs = performance.now()
    this.#lookForMore()
  }

  #lookForMore() {
    const leftMs = this.#heardMs + this.#emptyMs - performance.now()
    if (leftMs > 0 || this.unacknowledged > 0) {
      this.#timer = setTimeout(() => this.#lookForMore(), Math.max(leftMs, this.#emptyMs / 10))
      return
    }
    this.#isEmpty = true
    this.#logger.info({ broker: this.#session.clientId }, 'nothing is left: the session ends')
    this.#onEmpty?.()
  }

  #closed() {
    clearTimeout(this.#timer)
    this.#epoch++
    this.isConnected = false
    if (!this.#acknowledgements) return
    this.#acknowledgements.close()
    this.#acknowledgements = undefined
    this.#session.closed(this.#heardMs)
    this.onClosed()
  }

  /** @param {string} reason */
  #failed(reason) {
    if (reason === this.#failure || this.#isStopping) return
    this.#failure = reason
    this.#logger.warn({ broker: this.#session.clientId, reason }, 'no messages from the broker')
  }

  /**
   * @param {Packet} packet
   * @param {Stream} stream  The connection by which it came.
   * @returns {boolean}  Whether there is room for more.
   */
  #take(packet, stream) {
    // What comes while we stop is not acknowledged, and comes again to whoever is next.
    if (this.#isStopping) return true
    const acknowledgements = this.#acknowledgementsOf(stream)
    const message = this.#messageOf(packet, acknowledgements)
    this.#heardMs = message.arrivedMs
    if (message.qos > 0) acknowledgements.add(message)
    if (message.dup) this.redeliveries++
    if (this.isConnected && this.#state?.isContradicted(packet.topic, packet.payload)) {
      this.#say(this.#state.online)
    }
    if (packet.retain && !carriesTime(this.#topics, message.topic, message.payload)) {
      this.retainedIgnored++
      message.move(STATE.settled)
      acknowledgements.settled(message)
    } else {
      this.#sink.accept(message)
    }
    return message.qos === 0 || this.#hasRoom
  }

  /** @param {Stream} stream */
  #acknowledgementsOf(stream) {
    // Messages of a session that goes on may come before we hear that it does.
    if (this.#acknowledgements?.stream !== stream) {
      this.#acknowledgements?.close()
      const session = this.#session
      this.#acknowledgements = new Acknowledgements(stream, () => this.#readOn(), session)
      session.opened(this.#acknowledgements)
    }
    return this.#acknowledgements
  }

  /** @param {Packet} packet  @param {Acknowledgements} origin */
  #messageOf({ topic, payload, qos, dup, messageId }, origin) {
    const session = this.#session
    return new Message({
      origin,
      clientId: session.clientId,
      session,
      visit: session.visit,
      topic,
      payload: /** @type {Buffer} */ (payload),
      qos,
      dup,
      retain: false,
      packetId: messageId ?? 0,
      receivedMs: Date.now(),
      arrivedMs: performance.now(),
    })
  }

  /**
   * Takes no more messages, acknowledges what becomes durable meanwhile, and leaves. The broker
   * keeps the session, unless nothing is left in it and we will not be back.
   *
   * @param {number} holdMsMax  Longest wait for messages in flight, in milliseconds.
   */
  async stop(holdMsMax) {
    this.#isStopping = true
    clearTimeout(this.#timer)
    this.#client?.resume()
    await this.#sink.idle(holdMsMax)
    this.#acknowledgements?.flush()
    this.#acknowledgements?.close()
    this.#say(this.#state?.offline)
    await this.#client?.end({ keepsSession: !this.#isEmpty })
  }
}
