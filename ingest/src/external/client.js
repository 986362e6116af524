/**
 * mqtt.js as the client of a broker whose messages are acknowledged when we say so.
 *
 * This is the only file that relies on what mqtt.js does and does not document; its version is
 * pinned, and `ingest/test/external.test.js` fails where it changes:
 *
 * - It takes one packet at a time: the next one when `handleMessage` calls back. Called back with
 *   an error, it writes no PUBACK of its own and goes on. So every message is called back at once,
 *   and nothing is read only while the callback is kept.
 * - `stream` is the connection, another one after each reconnect, and may be written to.
 * - While a callback is kept, no PINGRESP is seen, so `sendPing` and `reschedulePing` are called
 *   for it: the broker hears of us, and mqtt.js does not think that the broker is gone.
 */

import mqtt from 'mqtt'

/** How long the connection may be silent, in seconds; then it is pinged. */
const KEEP_ALIVE_S = 30

/** Pause before a connection that was lost, or refused, is tried again, in milliseconds. */
const RECONNECT_MS = 1_000

/** How long a broker may take to accept a connection, in milliseconds. */
const CONNECT_MS_MAX = 10_000

/** How long a DISCONNECT may take to leave, in milliseconds; then the connection is cut. */
const END_MS_MAX = 1_000

/** `handleMessage` called back with it: do not acknowledge. */
const UNACKNOWLEDGED = new Error('acknowledged when it is stored')

/** What reason codes mean [MQTT5 2.4]. @type {Record<number, string>} */
const REASONS = {
  ...mqtt.ReasonCodes,
  // The one that a wrong setting brings: two processes that take the session from one another.
  142: 'another process has the same client id',
}

/** How long the broker may take to say that it has what is retained, in milliseconds. */
const RETAIN_MS_MAX = 10_000

/** @typedef {import('mqtt').IPublishPacket} Packet */
/** @typedef {import('./acknowledgements.js').Stream} Stream */

/**
 * @typedef {object} ClientOptions
 * @property {string} url  `mqtt:` or `mqtts:`.
 * @property {string} clientId
 * @property {number} sessionS  How long the broker keeps the session without us, in seconds.
 * @property {number} receiveMax  Messages of QoS 1 that it may send ahead of acknowledgements.
 * @property {number} packetBytesMax
 * @property {string | undefined} username
 * @property {string | undefined} password
 * @property {Buffer | undefined} ca  Certificates of who may sign the broker's, in PEM.
 * @property {Buffer | undefined} cert  Our certificate, in PEM.
 * @property {Buffer | undefined} key  Its key, in PEM.
 * @property {number} [keepAliveS]
 * @property {() => import('mqtt').IClientOptions['will']} [will]  Of each connection.
 */

/**
 * @typedef {object} Handlers
 * @property {(packet: Packet, stream: Stream) => boolean} message  A message arrived by a
 *   connection; false: give no more until {@link BrokerClient.resume} is called.
 * @property {() => void} connected
 * @property {() => void} closed  The connection is gone, or could not be made.
 * @property {(reason: string) => void} failed
 */

export class BrokerClient {
  /** When the broker sent something last, by the clock that only goes forward, in milliseconds. */
  heardMs = 0
  /** Calls back for the message after which we stopped reading. */
  #kept = /** @type {(() => void) | undefined} */ (undefined)
  /** @type {NodeJS.Timeout | undefined} */
  #pinger
  #client

  /** @param {ClientOptions} options  @param {Handlers} handlers */
  constructor(options, handlers) {
    const { url, clientId, username, password, ca, cert, key, sessionS } = options
    this.#client = mqtt.connect(url, {
      clientId,
      username,
      password,
      ca,
      cert,
      key,
      protocolVersion: 5,
      clean: false,
      resubscribe: false,
      keepalive: options.keepAliveS ?? KEEP_ALIVE_S,
      reconnectPeriod: RECONNECT_MS,
      reconnectOnConnackError: true,
      connectTimeout: CONNECT_MS_MAX,
      will: options.will?.(),
      properties: {
        sessionExpiryInterval: sessionS,
        receiveMaximum: options.receiveMax,
        maximumPacketSize: options.packetBytesMax,
      },
    })
    this.#client.handleMessage = (packet, done) => {
      const next = () => done(packet.qos > 0 ? UNACKNOWLEDGED : undefined)
      if (handlers.message(packet, this.#client.stream)) next()
      else this.#keep(next)
    }
    this.#client.on('packetreceive', () => {
      this.heardMs = performance.now()
    })
    this.#client.on('connect', () => {
      // A few acknowledgements must not wait until the broker's host confirms those before them.
      const socket = /** @type {import('node:net').Socket} */ (this.#client.stream)
      socket.setNoDelay(true)
      handlers.connected()
    })
    this.#client.on('close', () => {
      // What is behind the message on that connection comes again on the next one.
      this.#kept = undefined
      clearInterval(this.#pinger)
      this.#client.options.will = options.will?.()
      handlers.closed()
    })
    this.#client.on('error', (error) => handlers.failed(reasonOf(error)))
    this.#client.on('disconnect', ({ reasonCode = 0, properties }) => {
      const text = properties?.reasonString ?? REASONS[reasonCode] ?? reasonCode
      handlers.failed(`the broker ends the connection: ${text}`)
    })
  }

  /** Reads no more. @param {() => void} next */
  #keep(next) {
    this.#kept = next
    const everyMs = (this.#client.keepalive * 1_000) / 3
    this.#pinger = setInterval(() => {
      this.#client.sendPing()
      this.#client.reschedulePing(true)
    }, everyMs)
  }

  /** Reads on. */
  resume() {
    const kept = this.#kept
    this.#kept = undefined
    clearInterval(this.#pinger)
    kept?.()
  }

  /**
   * Subscribes at QoS 1.
   *
   * @param {string[]} filters
   * @throws {Error}  If the broker refuses one of them, or the connection is lost.
   */
  async subscribe(filters) {
    // Retained messages come once: when the subscription is new.
    const options = /** @type {const} */ ({ qos: 1, rap: false, rh: 1 })
    const granted = await this.#client.subscribeAsync(filters, options)
    const lower = granted.find(({ qos }) => qos !== 1)
    if (lower) throw new Error(`the broker gives ${lower.topic} with QoS ${lower.qos} only`)
  }

  /**
   * Publishes something; without a connection it is lost.
   *
   * @param {string} topic
   * @param {Buffer} payload
   * @param {{ qos?: 0 | 1, retain?: boolean }} [how]
   */
  publish(topic, payload, { qos = 0, retain = false } = {}) {
    if (this.#client.connected) this.#client.publish(topic, payload, { qos, retain })
  }

  /**
   * Publishes at QoS 1, and waits for the acknowledgement.
   *
   * @param {string} topic
   * @param {Buffer} payload
   * @param {{ retain: boolean }} how
   * @throws {Error}  If the broker does not say in time that it has it.
   */
  async deliver(topic, payload, { retain }) {
    if (!this.#client.connected) throw new Error('there is no connection to the broker')
    /** @type {NodeJS.Timeout | undefined} */
    let timer
    const isLate = new Promise((_resolve, reject) => {
      timer = setTimeout(() => reject(new Error('the broker does not answer')), RETAIN_MS_MAX)
    })
    try {
      await Promise.race([this.#client.publishAsync(topic, payload, { qos: 1, retain }), isLate])
    } finally {
      clearTimeout(timer)
    }
  }

  /**
   * Has the broker give us no more than what it set aside already.
   *
   * @param {string[]} filters
   */
  async unsubscribe(filters) {
    await this.#client.unsubscribeAsync(filters)
  }

  /** Says goodbye. @param {{ keepsSession: boolean }} how  Whether the broker keeps the session. */
  async end({ keepsSession }) {
    clearInterval(this.#pinger)
    if (!this.#client.connected) {
      await this.#client.endAsync(true)
      return
    }
    const how = keepsSession ? {} : { properties: { sessionExpiryInterval: 0 } }
    // It would wait for ever for a PUBACK that does not come.
    await new Promise((/** @type {(value?: undefined) => void} */ resolve) => {
      const timer = setTimeout(() => {
        this.#client.stream.destroy()
        resolve()
      }, END_MS_MAX)
      this.#client.end(false, how, () => {
        clearTimeout(timer)
        resolve()
      })
    })
  }
}

/** @param {Error & { code?: unknown }} error  Of several addresses Node's message is empty. */
function reasonOf({ message, code }) {
  return message || String(code)
}
