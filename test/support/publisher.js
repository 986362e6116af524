// A device at QoS 1 over a bare socket, which never gives up a message: what is not acknowledged is
// sent again after a reconnect, with the duplicate flag, as MQTT-4.4.0-1 asks.
//
// It counts what libraries hide: how often the broker closed the connection, and how often it was
// answered. A promise of `publish` that is kept is the proof that the broker said "stored".
import { connect as connectSocket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import * as wire from './wire.js'

/** Shortest pause before a lost connection is tried again, in milliseconds. */
const RECONNECT_MS = 100
/**
 * Longest wait for the broker to accept a connection, in milliseconds, as long as that of mqtt.js;
 * then it is tried again.
 */
const CONNACK_MS_MAX = 30_000

/**
 * @typedef {object} PublisherOptions
 * @property {string} host
 * @property {number} port
 * @property {string} clientId
 * @property {number} [keepAliveS]  Pings are sent twice within it. 0 sends none. Default 30.
 * @property {number} [inFlightMax]  Messages sent and not acknowledged; more wait here. Default 20.
 * @property {boolean} [clean]  Whether the broker shall forget the session. Default false.
 * @property {number} [reconnectMsMax]  Longest pause before a lost connection is tried again; of
 *   many, each takes another one. Default 100.
 */

/**
 * @typedef {object} Message
 * @property {string} topic
 * @property {string} payload
 * @property {boolean} sent  Whether it may have reached the broker before.
 * @property {() => void} acknowledged
 */

export class Publisher {
  /** Times that the connection was lost without our asking. */
  disconnects = 0
  /** Messages for which a PUBACK came. */
  acknowledged = 0
  /** Answers to our pings. */
  pongs = 0

  /** @type {Required<PublisherOptions>} */
  #options
  /** @type {import('node:net').Socket | undefined} */
  #socket
  /** @type {Map<number, Message>}  In the order in which they were first sent. */
  #inFlight = new Map()
  /** @type {Message[]} */
  #waiting = []
  /** @type {Error | undefined} */
  #broken
  #id = 0
  #sentBefore = false
  #ready = false
  #ended = false
  /** @type {NodeJS.Timeout | undefined} */
  #pinger

  /** @param {PublisherOptions} options */
  constructor(options) {
    this.#options = {
      keepAliveS: 30,
      inFlightMax: 20,
      clean: false,
      reconnectMsMax: RECONNECT_MS,
      ...options,
    }
  }

  /** Connects; resolves once the broker accepted. */
  async open() {
    await this.#connect()
    const { keepAliveS } = this.#options
    if (keepAliveS === 0) return
    this.#pinger = setInterval(() => {
      if (this.#ready) this.#socket?.write(wire.ping())
    }, keepAliveS * 500).unref()
  }

  /**
   * Publishes at QoS 1; resolves when the broker acknowledged it, however often that took.
   *
   * @param {string} topic
   * @param {string} payload
   * @returns {Promise<void>}
   */
  publish(topic, payload) {
    if (this.#broken) return Promise.reject(this.#broken)
    return new Promise((resolve) => {
      this.#waiting.push({ topic, payload, sent: this.#sentBefore, acknowledged: resolve })
      this.#send()
    })
  }

  /**
   * Goes on as a device that was switched off: with this packet id next, and, if the message may
   * have reached the broker before, with the duplicate flag.
   *
   * @param {{ id: number, duplicate: boolean }} state
   */
  startAt({ id, duplicate }) {
    this.#id = id - 1
    this.#sentBefore = duplicate
  }

  /** Whether the broker has accepted the connection. */
  get connected() {
    return this.#ready
  }

  /** Messages that are published and not acknowledged. */
  get pending() {
    return this.#inFlight.size + this.#waiting.length
  }

  /** Drops the connection as a failing network does; it is opened again by itself. */
  cut() {
    this.#socket?.destroy()
  }

  /** Says goodbye and closes. Messages that are not acknowledged stay so. */
  async close() {
    this.#ended = true
    clearInterval(this.#pinger)
    const socket = this.#socket
    if (!socket || socket.destroyed) return
    const closed = new Promise((resolve) => socket.once('close', resolve))
    socket.end(wire.disconnect())
    await Promise.race([closed, delay(1000)])
    socket.destroy()
  }

  /** @returns {Promise<void>} */
  #connect() {
    const { host, port, clientId, keepAliveS, clean } = this.#options
    const socket = connectSocket({ host, port, noDelay: true })
    const reader = new wire.PacketReader()
    this.#socket = socket
    // A test that failed leaves publishers behind; they must not keep its process alive.
    socket.unref()
    socket.write(wire.connect({ clientId, keepAliveS, clean }))
    return new Promise((resolve, reject) => {
      /** @param {number} type @param {number} body */
      const take = (type, body) => {
        if (type === wire.TYPE.connack) {
          if (body & 0xff)
            return reject(new Error(`the broker refused ${clientId}: ${body & 0xff}`))
          this.#connected()
          resolve()
        } else if (type === wire.TYPE.puback) this.#puback(body)
        else if (type === wire.TYPE.pingresp) this.pongs++
      }
      const timer = setTimeout(() => !this.#ready && socket.destroy(), CONNACK_MS_MAX).unref()
      socket.on('data', (chunk) => reader.push(chunk, take))
      socket.on('error', reject)
      socket.on('close', () => {
        clearTimeout(timer)
        reject(new Error(`the broker closed the connection of ${clientId} before it accepted it`))
        this.#lost()
      })
    })
  }

  #connected() {
    this.#ready = true
    for (const [id, message] of this.#inFlight) this.#write(id, message)
    this.#send()
  }

  #lost() {
    const wasReady = this.#ready
    this.#ready = false
    if (this.#ended) return
    if (wasReady) this.disconnects++
    const spreadMs = Math.random() * (this.#options.reconnectMsMax - RECONNECT_MS)
    setTimeout(() => {
      if (!this.#ended) this.#connect().catch(() => {})
    }, RECONNECT_MS + spreadMs).unref()
  }

  #send() {
    while (this.#ready && this.#inFlight.size < this.#options.inFlightMax) {
      const message = this.#waiting.shift()
      if (!message) return
      do this.#id = (this.#id % wire.PACKET_ID_MAX) + 1
      while (this.#inFlight.has(this.#id))
      this.#inFlight.set(this.#id, message)
      this.#write(this.#id, message)
    }
  }

  /** @param {number} id @param {Message} message */
  #write(id, message) {
    this.#socket?.write(wire.publish(message.topic, message.payload, id, message.sent))
    message.sent = true
  }

  /** @param {number} id */
  #puback(id) {
    const message = this.#inFlight.get(id)
    // A broker that acknowledges what it was not sent is broken, and so is the proof built on it.
    if (!message) {
      this.#broken = new Error(`${this.#options.clientId}: PUBACK ${id} for nothing in flight`)
      throw this.#broken
    }
    this.#inFlight.delete(id)
    this.acknowledged++
    message.acknowledged()
    this.#send()
  }
}

/**
 * Opens `count` publishers, named `prefix-0` and so on, a hundred at a time.
 *
 * @param {number} count
 * @param {string} prefix
 * @param {Omit<PublisherOptions, 'clientId'>} options
 */
export async function openPublishers(count, prefix, options) {
  const publishers = Array.from(
    { length: count },
    (_, index) => new Publisher({ ...options, clientId: `${prefix}-${index}` }),
  )
  for (let at = 0; at < count; at += 100) {
    await Promise.all(publishers.slice(at, at + 100).map((publisher) => publisher.open()))
  }
  return publishers
}
