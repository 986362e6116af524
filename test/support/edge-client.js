// An edge node of Sparkplug with a real MQTT client: it has a will, sends its births whenever it is
// connected or asked for them, and data in between. All at QoS 0, as the specification says.

import { setTimeout as delay } from 'node:timers/promises'
import { EdgeNode } from '@sandglass/common/formats/sparkplug/edge-node'
import { readPayload } from '@sandglass/common/formats/sparkplug/payload'
import { sensorId } from '@sandglass/common/sensor'
import mqtt from 'mqtt'
import { scanMeasurements } from './stored.js'
import { until } from './until.js'

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

/** How long an edge node waits after a message, in milliseconds. */
const EVERY_MS = 10

/** @param {EdgeClient[]} nodes  @param {number} count  @param {boolean} isCertain */
export async function publishData(nodes, count, isCertain) {
  for (let round = 0; round < count; round++) {
    for (const node of nodes) node.data(isCertain)
    await delay(EVERY_MS)
  }
}

/**
 * The sum of a metric of ingest, over its processes.
 *
 * @param {string} url  Of ingest's HTTP.
 * @param {string} name
 * @param {string} [label]
 */
export async function metricOf(url, name, label = '') {
  const text = await (await fetch(`${url}/metrics`)).text()
  const lines = text.matchAll(new RegExp(`^sandglass_ingest_${name}(?:{([^}]*)})? (.*)$`, 'gm'))
  const values = [...lines].filter(([, labels = '']) => labels.includes(label))
  return values.reduce((sum, [, , value]) => sum + Number(value), 0)
}

/** Waits until ingest knows the births of so many. @param {string} url  @param {number} count */
export async function areFollowed(url, count) {
  await until('all edge nodes are followed', async () => {
    return (await metricOf(url, 'sparkplug_edge_nodes', 'state="online"')) === count
  })
}

/**
 * All that had to be is stored, once, under its own name.
 *
 * @param {import('cassandra-driver').Client} client
 * @param {string} keyspace
 * @param {import('./ledger.js').Ledger} ledger
 * @returns {Promise<{ lost: string[], doubled: string[], foreign: string[] }>}
 */
export async function storedOf(client, keyspace, ledger) {
  return until(
    'all is stored that had to be',
    async () => {
      const found = ledger.compare(await scanMeasurements(client, keyspace))
      return found.lost.length === 0 && found
    },
    { everyMs: 200 },
  )
}
