/**
 * An edge node of Sparkplug B that is simulated: each of its values is another one, and what its
 * aliases mean changes with every birth, so that a name that is taken from a wrong birth is found.
 */

import { DATATYPE } from './value.js'
import { writePayload } from './write.js'

const SEQ_COUNT = 256

/** Between the parts of a sensor's name. */
const JOINT = '∕'

/** Metrics of the edge node, and of each of its devices. */
const METRICS = ['temp', 'Folder/flow', 'level']

/** @typedef {import('./write.js').Written} Written */
/** @typedef {{ sensor: string, metric: string, timeMs: number, value: number }} Value */

/**
 * @typedef {object} Publication
 * @property {string} type
 * @property {number} seq
 * @property {string} topic
 * @property {Buffer} payload
 * @property {Value[]} values  That are in it.
 */

/** Of all edge nodes, so that no value is sent twice. */
let count = 0

export class EdgeNode {
  #name
  #devices
  #random
  #now
  #bdSeq = 0
  #seq = 0
  /** What metrics of each scope were last. @type {Map<string, Pick<Value, 'timeMs' | 'value'>>} */
  #last = new Map()
  /** @type {Map<string, number>} */
  #aliases = new Map()
  /** Devices that are born. @type {Set<string>} */
  #born = new Set()

  /**
   * @param {object} parts
   * @param {string} parts.group
   * @param {string} parts.node
   * @param {string[]} parts.devices
   * @param {() => number} parts.random
   * @param {() => number} parts.now  Milliseconds since the Unix epoch; always more than before.
   */
  constructor({ group, node, devices, random, now }) {
    this.group = group
    this.#name = node
    this.#devices = devices
    this.#random = random
    this.#now = now
  }

  get commands() {
    return this.#topic('NCMD', '')
  }

  get hasDevices() {
    return this.#devices.length > 0
  }

  /** Its will, for the connection that it opens next. @returns {Publication} */
  will() {
    this.#bdSeq = (this.#bdSeq + 1) % SEQ_COUNT
    return { ...this.#publication('NDEATH', '', [this.#bdMetric()], []), seq: -1 }
  }

  /** All births. @returns {Publication[]} */
  births() {
    this.#shuffleAliases()
    this.#seq = -1
    const node = this.#birth('NBIRTH', '')
    return [node, ...this.#devices.map((device) => this.deviceBirth(device))]
  }

  /** @param {string} device */
  deviceBirth(device) {
    this.#born.add(device)
    return this.#birth('DBIRTH', device)
  }

  /** @param {string} device */
  deviceDeath(device) {
    this.#born.delete(device)
    return this.#next('DDEATH', device, [], [])
  }

  /** Some data of the edge node, or of a device. */
  data() {
    const born = ['', ...this.#born]
    const device = born[Math.floor(this.#random() * born.length)]
    const metrics = METRICS.filter(() => this.#random() < 0.5)
    const values = metrics.map((metric) => this.#measure(device, metric))
    const written = values.map(({ metric, timeMs, value }) => ({
      alias: this.#aliases.get(`${device} ${metric}`),
      timeMs,
      double: value,
    }))
    return this.#next(device === '' ? 'NDATA' : 'DDATA', device, written, values)
  }

  /** @param {string} type  @param {string} device */
  #birth(type, device) {
    const values = METRICS.map((metric) => {
      const last = this.#last.get(`${device} ${metric}`)
      return last
        ? { sensor: this.#sensor(device), metric, ...last }
        : this.#measure(device, metric)
    })
    const written = values.map(({ metric, timeMs, value }) => ({
      name: metric,
      alias: this.#aliases.get(`${device} ${metric}`),
      datatype: DATATYPE.Double,
      timeMs,
      double: value,
    }))
    const control = { name: 'Node Control/Rebirth', datatype: DATATYPE.Boolean, boolean: false }
    const own = device === '' ? [this.#bdMetric(), control] : []
    return this.#next(type, device, [...own, ...written], values)
  }

  #bdMetric() {
    return { name: 'bdSeq', datatype: DATATYPE.Int64, long: BigInt(this.#bdSeq) }
  }

  #shuffleAliases() {
    const all = ['', ...this.#devices].flatMap((at) => METRICS.map((metric) => `${at} ${metric}`))
    const numbers = all.map((_, at) => at)
    for (let at = all.length - 1; at > 0; at--) {
      const other = Math.floor(this.#random() * (at + 1))
      ;[numbers[at], numbers[other]] = [numbers[other], numbers[at]]
    }
    this.#aliases = new Map(all.map((one, at) => [one, numbers[at]]))
  }

  /** @param {string} device  @param {string} metric  @returns {Value} */
  #measure(device, metric) {
    const now = { timeMs: this.#now(), value: ++count }
    this.#last.set(`${device} ${metric}`, now)
    return { sensor: this.#sensor(device), metric, ...now }
  }

  /** @param {string} device */
  #sensor(device) {
    return [this.group, this.#name, ...(device === '' ? [] : [device])].join(JOINT)
  }

  /** @param {string} type  @param {string} device */
  #topic(type, device) {
    const end = device === '' ? '' : `/${device}`
    return `spBv1.0/${this.group}/${type}/${this.#name}${end}`
  }

  /**
   * @param {string} type
   * @param {string} device
   * @param {Written[]} metrics
   * @param {Value[]} values
   * @returns {Publication}
   */
  #next(type, device, metrics, values) {
    this.#seq = (this.#seq + 1) % SEQ_COUNT
    return this.#publication(type, device, metrics, values, this.#seq)
  }

  /**
   * @param {string} type
   * @param {string} device
   * @param {Written[]} metrics
   * @param {Value[]} values
   * @param {number} [seq]
   */
  #publication(type, device, metrics, values, seq) {
    const payload = writePayload({ timeMs: this.#now(), seq, metrics })
    return { type, seq: seq ?? -1, topic: this.#topic(type, device), payload, values }
  }
}
