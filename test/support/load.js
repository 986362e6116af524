// Devices that publish at a steady rate for as long as a test disturbs the platform, and the record
// that they keep of it.
import { sensorId } from '@sandglass/common/sensor'
import { Ledger } from './ledger.js'
import { openPublishers } from './publisher.js'
import { until } from './until.js'

/** How often messages are given to the devices, in milliseconds. */
const TICK_MS = 20
const START_MS = Date.UTC(2024, 0, 1)
/** Every so many messages of a device one has the time of the one before, and another value. */
const SAME_TIME_EVERY = 7
const METRIC = 'm'

/**
 * @typedef {object} LoadOptions
 * @property {string} name  The devices, and their sensors, are `name-0` and so on.
 * @property {number} devices
 * @property {number} perSecond  Messages of all devices together.
 * @property {string} [filler]  A text that each message carries besides, and is not compared.
 */

/**
 * Connects the devices; nothing is published yet.
 *
 * @param {Omit<import('./publisher.js').PublisherOptions, 'clientId'>} broker
 * @param {LoadOptions} options
 */
export async function openLoad(broker, options) {
  return new Load(await openPublishers(options.devices, options.name, broker), options)
}

class Load {
  ledger = new Ledger()
  #options
  #sensors
  /** Messages that were given to the devices, in turn. */
  #given = 0
  /** @type {NodeJS.Timeout | undefined} */
  #timer

  /**
   * @param {import('./publisher.js').Publisher[]} publishers
   * @param {LoadOptions} options
   */
  constructor(publishers, options) {
    this.publishers = publishers
    this.#options = options
    this.#sensors = publishers.map((_, device) => `${options.name}-${device}`)
  }

  /** Begins to publish. */
  start() {
    const { perSecond } = this.#options
    const before = this.#given
    const beganMs = performance.now()
    const tick = () => {
      const due = before + ((performance.now() - beganMs) / 1000) * perSecond
      while (this.#given < due) this.#publishOne()
    }
    this.#timer = setInterval(tick, TICK_MS)
  }

  /** Stops publishing; what was published may not be acknowledged yet. */
  stop() {
    clearInterval(this.#timer)
  }

  /** Resolves once so many more are acknowledged. @param {number} count */
  async acknowledges(count, deadlineMs = 60_000) {
    const { ledger } = this
    const wanted = ledger.acknowledged + count
    await until(`${count} more are acknowledged`, () => ledger.acknowledged >= wanted, {
      deadlineMs,
    })
  }

  /** Stops; resolves once everything that was published is acknowledged. */
  async finish(deadlineMs = 60_000) {
    this.stop()
    const { ledger } = this
    await until('all is acknowledged', () => ledger.acknowledged === ledger.published, {
      deadlineMs,
    })
  }

  /**
   * How what is stored differs from what was published.
   *
   * @param {import('./ledger.js').Stored[]} rows  Of other sensors, too.
   */
  compare(rows) {
    const ids = new Set(this.#sensors.map((sensor) => sensorId(sensor)))
    const isOurs = (/** @type {import('./ledger.js').Stored} */ { sensorId: id, metric }) =>
      ids.has(id) && metric === METRIC
    return this.ledger.compare(rows.filter(isOurs))
  }

  /** What `compare` gives when each message is stored once, and nothing else is. */
  get clean() {
    const counts = { stored: this.ledger.published, lost: 0, doubled: 0, foreign: 0 }
    return { lost: [], doubled: [], foreign: [], counts }
  }

  async close() {
    this.stop()
    await Promise.all(this.publishers.map((publisher) => publisher.close()))
  }

  #publishOne() {
    const { filler } = this.#options
    const number = this.#given++
    const device = number % this.publishers.length
    const index = Math.floor(number / this.publishers.length)
    const sensor = this.#sensors[device]
    const timeMs = START_MS + index - (index % SAME_TIME_EVERY === 1 ? 1 : 0)
    const acknowledged = this.ledger.note(sensorId(sensor), METRIC, timeMs, number)
    const payload = { t: timeMs, [METRIC]: number, ...(filler && { filler }) }
    void this.publishers[device]
      .publish(`sensors/${sensor}`, JSON.stringify(payload))
      .then(acknowledged)
  }
}
