// An edge node of Sparkplug with a real MQTT client: it has a will, sends its births whenever it is
// connected or asked for them, and data in between. All at QoS 0, as the specification says.

import { EdgeNode } from '@sandglass/common/formats/sparkplug/edge-node'
import { readPayload } from '@sandglass/common/formats/sparkplug/payload'
import { sensorId } from '@sandglass/common/sensor'
import mqtt from 'mqtt'

/** @typedef {import('@sandglass/common/formats/sparkplug/edge-node').Publication} Publication */

/** Times that are all different, of all edge nodes. */
let lastMs = 0
const now = () => {
  lastMs = Math.max(lastMs + 1, Date.now())
  return lastMs
}

export class EdgeClient {
  /** Rebirths that it was asked for. */
  rebirths = 0
  connects = 0
  /** Whether its births were sent by this connection. */
  #isBorn = false
  #isBornLate
  #ledger
  #node
  #client
  /** @type {Set<string>} */
  #noted = new Set()

  /**
   * @param {object} parts
   * @param {string} parts.url
   * @param {string} parts.name
   * @param {string[]} [parts.devices]
   * @param {import('./ledger.js').Ledger} parts.ledger
   * @param {() => number} parts.random
   * @param {boolean} [parts.isBornLate]  Whether it sends births only when it is asked for them.
   */
  constructor({ url, name, devices = [], ledger, random, isBornLate = false }) {
    this.#ledger = ledger
    this.#isBornLate = isBornLate
    this.#node = new EdgeNode({ group: 'plant', node: name, devices, random, now })
    const will = () => {
      const { topic, payload } = this.#node.will()
      return { topic, payload, qos: /** @type {const} */ (1), retain: false }
    }
    this.#client = mqtt.connect(url, {
      clientId: `edge-${name}`,
      clean: true,
      reconnectPeriod: 100,
      will: will(),
    })
    this.#client.on('error', () => {})
    this.#client.on('close', () => {
      this.#isBorn = false
      this.#client.options.will = will()
    })
    this.#client.on('connect', async () => {
      await this.#client.subscribeAsync(this.#node.commands, { qos: 1 }).catch(() => {})
      this.connects++
      if (!isBornLate) this.births()
    })
    this.#client.on('message', (_topic, payload) => {
      const [{ name: metric, value }] = readPayload(payload).metrics
      if (metric !== 'Node Control/Rebirth' || value?.content !== true) return
      this.rebirths++
      this.births()
    })
  }

  get isConnected() {
    return this.#client.connected
  }

  births() {
    this.#isBorn = true
    for (const one of this.#node.births()) this.#publish(one, false)
  }

  /** @param {boolean} isCertain  Whether nothing can go wrong: it must be stored. */
  data(isCertain) {
    if (this.#isBorn || this.#isBornLate) this.#publish(this.#node.data(), isCertain)
  }

  /** A message that never arrives. */
  lose() {
    return this.#note(this.#node.data(), false)
  }

  /** @param {Publication} one  @param {boolean} isCertain */
  #publish(one, isCertain) {
    if (!this.#client.connected) return
    this.#note(one, isCertain)
    this.#client.publish(one.topic, one.payload, { qos: 0 })
  }

  /** @param {Publication} one  @param {boolean} isCertain */
  #note({ values }, isCertain) {
    for (const { sensor, metric, timeMs, value } of values) {
      const place = `${sensor} ${metric} ${timeMs}`
      // A birth repeats what was told before.
      if (this.#noted.has(place)) continue
      this.#noted.add(place)
      const stored = this.#ledger.note(sensorId(sensor), metric, timeMs, value)
      if (isCertain) stored()
    }
  }

  /** Goes without a word. */
  cut() {
    this.#client.stream.destroy()
  }

  async end() {
    await this.#client.endAsync(true)
  }
}
