/**
 * Everything in MQTT that is not storing: subscriptions, retained messages, wills, and the fan-out
 * to subscribers. No PUBLISH comes to it through a connection: the server gives it each one when
 * its time has come. So it acknowledges nothing to publishers.
 */

import { writeToStream } from 'mqtt-packet'
import { Fanout } from './routing/fanout.js'
import { OfflineQueues } from './routing/offline-queues.js'
import { ownBytes } from './routing/own-bytes.js'
import { RetainedMessages } from './routing/retained.js'
import { Router } from './routing/router.js'

/** Memory that a will takes on its way besides its bytes. */
const WILL_BYTES = 512

// Else the first packet makes a buffer for each of 65,536 numbers, 7 MiB that are kept for ever.
writeToStream.cacheNumbers = false

/** @typedef {import('./port.js').Port} Port */
/** @typedef {import('@sandglass/common/memory-share').MemoryShare} MemoryShare */

export class Broker {
  #queues
  #retained
  #router
  /** @type {Fanout<import('../source.js').Published>} */
  #fanout

  /**
   * @param {object} parts
   * @param {Record<'fanout' | 'retained' | 'queues', MemoryShare>} parts.shares
   * @param {() => number} [parts.clockMs]  By the clock that only goes forward.
   */
  constructor({ shares, clockMs = () => performance.now() }) {
    this.#queues = new OfflineQueues(shares.queues)
    this.#retained = new RetainedMessages(shares.retained, clockMs)
    this.#router = new Router({
      queues: this.#queues,
      clockMs,
      retainedFor: (filter) => this.#retained.matching(filter),
      publish: (message) => this.publish({ ...message, bytes: bytesOf(message) }),
    })
    this.#fanout = new Fanout(shares.fanout, (message) => this.#router.publish(message), ownBytes)
  }

  /** Messages that subscribers, their queues or the retained messages had no room for. */
  get dropped() {
    return this.#fanout.dropped + this.#queues.dropped + this.#retained.refused
  }

  /** Whether anybody subscribed to anything. */
  get hasSubscribers() {
    return this.#router.hasSubscribers
  }

  /** Whether the fan-out is behind. */
  get isFull() {
    return this.#fanout.isFull
  }

  /** @param {() => void} onRoom  Called when the fan-out has room again. */
  set onRoom(onRoom) {
    this.#fanout.onRoom = onRoom
  }

  /** A client connects. @param {Port} port */
  handle(port) {
    this.#router.open(port)
  }

  /**
   * A session has ended.
   *
   * @param {string} name
   * @param {boolean} [isOver]  Because its key is good no more: there will be no will.
   */
  forget(name, isOver = false) {
    this.#router.forget(name, isOver)
  }

  /**
   * Gives a message to whoever subscribed, and keeps it if it is retained. While too many are on
   * their way those of QoS 0 are dropped; of the others the server takes no more.
   *
   * @param {import('../source.js').Published} message
   */
  publish(message) {
    if (message.retain) this.#retained.store(message)
    this.#passOn(message)
  }

  /**
   * The same with what is retained.
   *
   * @param {import('../source.js').Published} message
   * @returns {boolean}  False if there was no room to retain it.
   */
  retain(message) {
    const isKept = this.#retained.store(message)
    this.#passOn(message)
    return isKept
  }

  /** @param {import('../source.js').Published} message */
  #passOn(message) {
    // Most installations have no subscriber.
    if (this.hasSubscribers) this.#fanout.add(message)
  }

  stop() {
    this.#router.stop()
  }
}

/** What a will counts on its way. @param {import('./routing/router.js').Heard} message */
const bytesOf = ({ topic, payload, delivery }) =>
  topic.length + payload.length + (delivery?.passOn.length ?? 0) + WILL_BYTES
