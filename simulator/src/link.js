/**
 * One connection to the broker, with a window: at most so many messages are under way, and a
 * message counts as acknowledged only when the broker says so. While the connection is down
 * mqtt.js keeps what is under way and sends it again, flagged as a duplicate.
 */

/** @typedef {Pick<import('mqtt').MqttClient, 'publish' | 'on' | 'endAsync'>} Client */

export class Totals {
  /** Messages given to a connection. */
  published = 0
  /** Messages that the broker acknowledged; at QoS 0, those written to the socket. */
  acknowledged = 0
  connections = 0
  reconnects = 0
  /** Why the last connection attempt failed; empty while all are up. */
  trouble = ''
}

export class Link {
  /** Messages that are not acknowledged yet. */
  inFlight = 0
  #client
  #options
  /** @type {(() => void)[]} */
  #waiting = []
  #onReconnect = () => {}

  /**
   * @param {Client} client
   * @param {object} options
   * @param {0 | 1 | 2} options.qos
   * @param {number} options.window
   * @param {Totals} options.totals
   * @param {(ms: number) => void} options.onAcknowledged  With the time since the publish.
   */
  constructor(client, options) {
    this.#client = client
    this.#options = options
    const { totals } = options
    let wasUp = false
    client.on('connect', () => {
      totals.connections++
      totals.trouble = ''
      if (wasUp) totals.reconnects++
      wasUp = true
    })
    let wasAccepted = false
    client.on('packetreceive', ({ cmd }) => {
      if (cmd !== 'connack') return
      // What is under way is sent again now; `connect` comes when all of that is acknowledged.
      if (wasAccepted) this.#onReconnect()
      wasAccepted = true
    })
    client.on('close', () => {
      if (wasUp) totals.connections = Math.max(0, totals.connections - 1)
    })
    client.on('error', (error) => {
      totals.trouble = describe(error)
    })
  }

  /** Whether nothing may be published before something is acknowledged. */
  get isFull() {
    return this.inFlight >= this.#options.window
  }

  /** Resolves once the window has room. */
  async ready() {
    while (this.isFull) await this.#change()
  }

  /**
   * Publishes a message; call after {@link ready}.
   *
   * @param {{ topic: string, payload: string }} message
   * @param {() => void} [onDone]  Called when it is acknowledged.
   */
  publish({ topic, payload }, onDone) {
    const { qos, totals, onAcknowledged } = this.#options
    const startMs = performance.now()
    this.inFlight++
    totals.published++
    this.#client.publish(topic, payload, { qos }, (error) => {
      this.inFlight--
      if (!error) {
        totals.acknowledged++
        onAcknowledged(performance.now() - startMs)
        onDone?.()
      }
      this.#wake()
    })
  }

  /**
   * @param {() => void} listener  Called whenever the connection is back: what is under way is
   *   sent again.
   */
  set onReconnect(listener) {
    this.#onReconnect = listener
  }

  /** Resolves once nothing is under way. */
  async settled() {
    while (this.inFlight > 0) await this.#change()
  }

  /** Closes the connection; what is not acknowledged by then is not counted as such. */
  async close() {
    await this.#client.endAsync(this.inFlight > 0)
  }

  #change() {
    return new Promise((resolve) => {
      this.#waiting.push(() => resolve(undefined))
    })
  }

  #wake() {
    for (const resolve of this.#waiting.splice(0)) resolve()
  }
}

/** @param {Error & { code?: string | number, errors?: (Error & { code?: string })[] }} error */
function describe(error) {
  return String(error.code ?? error.errors?.[0]?.code ?? error.message)
}
