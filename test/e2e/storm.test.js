// Storms of redeliveries: the connections of all devices break again and again, and each time all
// that was not acknowledged is sent once more, with the duplicate flag. Half of the messages carry
// no time of their own, so that nothing but the flag tells a redelivery from a new measurement.
import { setTimeout as delay } from 'node:timers/promises'
import { sensorId } from '@sandglass/common/sensor'
import { unaccounted } from '../support/accounts.js'
import { openPublishers } from '../support/publisher.js'
import { startStack, UNSPOOLED } from '../support/stack.js'
import { scanMeasurements } from '../support/stored.js'
import { until } from '../support/until.js'

const DEVICES = 20
const IN_FLIGHT = 50
/** Messages of a device while nothing keeps them from being stored. */
const MESSAGES = 1_000
const STORMS = 15
const START_MS = Date.UTC(2024, 0, 1)

/** @typedef {import('../support/stack.js').Stack} Stack */
/** @typedef {import('../support/ledger.js').Stored} Stored */

/**
 * What a device published; each value once, so that it tells the message.
 *
 * @typedef {object} Sent
 * @property {number | undefined} timeMs  That it carries.
 * @property {number} fromMs  When it was published.
 * @property {number} toMs  When it was acknowledged.
 */

/** Devices that publish with and without a time, in turn. */
class Devices {
  /** By sensor and value. @type {Map<string, Sent>} */
  #sent = new Map()
  #acknowledged = 0
  #number = 0

  /** @param {string} name  @param {import('../support/publisher.js').Publisher[]} publishers */
  constructor(name, publishers) {
    this.name = name
    this.publishers = publishers
  }

  get acknowledged() {
    return this.#acknowledged
  }

  /** Resolves when all is acknowledged. @param {number} count  Of each device. */
  async publish(count) {
    const from = this.#number
    this.#number += count
    await Promise.all(
      this.publishers.flatMap((publisher, device) =>
        Array.from({ length: count }, (_, index) => this.#one(publisher, device, from + index)),
      ),
    )
  }

  /**
   * @param {import('../support/publisher.js').Publisher} publisher
   * @param {number} device
   * @param {number} value
   */
  async #one(publisher, device, value) {
    const sensor = `${this.name}-${device}`
    const timeMs = value % 2 === 0 ? START_MS + value : undefined
    const payload = timeMs === undefined ? String(value) : JSON.stringify({ t: timeMs, v: value })
    const sent = { timeMs, fromMs: Date.now(), toMs: Number.POSITIVE_INFINITY }
    this.#sent.set(`${sensorId(sensor)} ${value}`, sent)
    await publisher.publish(`sensors/${sensor}/m`, payload)
    sent.toMs = Date.now()
    this.#acknowledged++
  }

  /** Breaks all connections; resolves when all are open again. */
  async storm() {
    await this.areConnected()
    const before = this.publishers.map(({ disconnects }) => disconnects)
    for (const publisher of this.publishers) publisher.cut()
    await until('all are connected again', () =>
      this.publishers.every(
        ({ connected, disconnects }, at) => connected && disconnects > before[at],
      ),
    )
  }

  async areConnected() {
    await until('all are connected', () => this.publishers.every(({ connected }) => connected))
  }

  /**
   * How what is stored differs from what was published.
   *
   * @param {Stored[]} rows  Of other devices, too.
   */
  compare(rows) {
    const ids = new Set(this.publishers.map((_, device) => sensorId(`${this.name}-${device}`)))
    /** @type {Map<string, number[]>} */
    const stored = new Map()
    for (const { sensorId: id, timeMs, value } of rows.filter((row) => ids.has(row.sensorId))) {
      const times = stored.get(`${id} ${value}`)
      if (times) times.push(timeMs)
      else stored.set(`${id} ${value}`, [timeMs])
    }
    const isRight = (/** @type {Sent} */ sent, /** @type {number} */ timeMs) =>
      sent.timeMs === undefined
        ? timeMs >= sent.fromMs && timeMs <= sent.toMs
        : timeMs === sent.timeMs
    const counts = { lost: 0, clockedTwice: 0, clocklessTwice: 0, foreign: 0, wrongTime: 0 }
    for (const [place, sent] of this.#sent) {
      const times = stored.get(place) ?? []
      if (times.length === 0) counts.lost++
      if (times.length > 1) counts[sent.timeMs === undefined ? 'clocklessTwice' : 'clockedTwice']++
      if (!times.every((timeMs) => isRight(sent, timeMs))) counts.wrongTime++
    }
    for (const place of stored.keys()) if (!this.#sent.has(place)) counts.foreign++
    return counts
  }

  async close() {
    await Promise.all(this.publishers.map((publisher) => publisher.close()))
  }
}

const CLEAN = { lost: 0, clockedTwice: 0, clocklessTwice: 0, foreign: 0, wrongTime: 0 }

describe('all that is not acknowledged is sent again and again', () => {
  /** @type {Stack} */
  let stack

  beforeAll(async () => {
    stack = await startStack({ parts: ['engine', 'ingest'], ingestEnv: UNSPOOLED })
  })
  afterAll(() => stack?.end())

  test('while it is stored: each is stored once, as of its first receipt', async () => {
    const devices = await open('stored')
    const all = devices.publish(MESSAGES)
    for (let storm = 0; storm < STORMS; storm++) {
      await devices.storm()
      await delay(20)
    }
    await all
    expect(await compared(devices)).toEqual(CLEAN)
    const { duplicates } = await stack.stats()
    expect(duplicates).toBeGreaterThan(0)
    await devices.close()
  })

  test('while the database is away: each is stored once when it is back', async () => {
    const devices = await open('held')
    const before = await stack.stats()
    await stack.databaseAway()
    const all = devices.publish(IN_FLIGHT)
    for (let storm = 0; storm < STORMS; storm++) {
      await until('all was sent again', async () => {
        const { received } = await stack.stats()
        return received - before.received >= (storm + 1) * DEVICES * IN_FLIGHT
      })
      await devices.storm()
    }
    expect(devices.acknowledged).toBe(0)
    expect(unaccounted(await stack.stats())).toBe(0)
    await stack.databaseBack()
    await all
    expect(await compared(devices)).toEqual(CLEAN)
    const { duplicates } = await stack.stats()
    const clockless = (DEVICES * IN_FLIGHT) / 2
    expect(duplicates - before.duplicates).toBeGreaterThanOrEqual((STORMS - 1) * clockless)
    await devices.close()
  })

  test('to a process that was killed: what has a time is stored once, the rest at least once', async () => {
    const devices = await open('killed')
    const all = devices.publish(MESSAGES)
    for (const share of [0.3, 0.6]) {
      const count = share * DEVICES * MESSAGES
      await until('some are acknowledged', () => devices.acknowledged >= count, { everyMs: 1 })
      await stack.part('ingest').kill9()
      await stack.part('ingest').start()
      await devices.storm()
    }
    await all
    const { clocklessTwice, ...counts } = await compared(devices)
    expect(counts).toEqual({ lost: 0, clockedTwice: 0, foreign: 0, wrongTime: 0 })
    // Only what was on its way when the process was killed.
    expect(clocklessTwice).toBeLessThanOrEqual(2 * DEVICES * IN_FLIGHT)
    await devices.close()
  })

  /** @param {string} name */
  async function open(name) {
    const options = { ...stack.mqtt, inFlightMax: IN_FLIGHT }
    return new Devices(name, await openPublishers(DEVICES, name, options))
  }

  /** @param {Devices} devices */
  async function compared(devices) {
    await stack.emptied()
    const client = await stack.client()
    const rows = await until('the database answers', () => scanMeasurements(client, stack.keyspace))
    return devices.compare(rows)
  }
})
