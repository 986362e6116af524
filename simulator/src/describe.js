/**
 * Says over REST what the simulated sensors are: type and tags of each, and what the metrics of
 * each type mean. What somebody has said already stays. Nothing that is published waits for it.
 */

import { MEANINGS } from './about.js'

/** Most sensors whose type and tags are set, the first of the fleet. */
export const DESCRIBED_MAX = 1_000

/** Between two looks at sensors that the platform does not know yet, in milliseconds. */
const LOOK_MS = 2_000

/** How long the api is asked again that does not answer, in milliseconds, and how often. */
const PATIENCE_MS = 120_000
const RETRY_MS = 1_000

const ANSWER_MS_MAX = 5_000

/** Requests at the same time. */
const AT_ONCE = 4

/** The api will not have it. */
export class DescribeError extends Error {}

/** @typedef {import('./fleet.js').Sensor} Sensor */
/** @typedef {{ status: number, body: any }} Answer */

export class Describer {
  #url
  #fleet
  #fleetName
  #signal
  #sleep
  #fetch
  #now
  /** Whether the api has ever answered. */
  isHeard = false
  /** Sensors that were described, or had been. */
  sensors = 0

  /**
   * @param {object} parts
   * @param {string} parts.apiUrl
   * @param {readonly Sensor[]} parts.fleet
   * @param {string} parts.fleetName
   * @param {AbortSignal} parts.signal  Ends it.
   * @param {(ms: number, signal: AbortSignal) => Promise<void>} parts.sleep
   * @param {typeof fetch} [parts.fetch]
   * @param {() => number} [parts.now]  A clock that only goes forward, in milliseconds.
   */
  constructor(parts) {
    this.#url = parts.apiUrl
    this.#fleet = parts.fleet.slice(0, DESCRIBED_MAX)
    this.#fleetName = parts.fleetName
    this.#signal = parts.signal
    this.#sleep = parts.sleep
    this.#fetch = parts.fetch ?? fetch
    this.#now = parts.now ?? (() => performance.now())
  }

  /** How many are to be described. */
  get all() {
    return this.#fleet.length
  }

  /**
   * Ends when all sensors are described, or the signal says so.
   *
   * @throws {DescribeError}
   */
  async run() {
    for (const kind of new Set(this.#fleet.map((sensor) => sensor.kind))) {
      await this.#describeType(kind)
    }
    let left = [...this.#fleet]
    for (;;) {
      left = await this.#describeSensors(left)
      if (left.length === 0 || this.#signal.aborted) return
      await this.#sleep(LOOK_MS, this.#signal)
    }
  }

  /** @param {string} kind */
  async #describeType(kind) {
    const path = `/v1/types/${encodeURIComponent(kind)}/metrics`
    const { body } = await this.#ask('GET', path)
    const known = new Set(body?.items?.map((/** @type {any} */ { metric }) => metric))
    for (const [metric, meaning] of Object.entries(MEANINGS[kind])) {
      if (known.has(metric) || this.#signal.aborted) continue
      await this.#ask('PUT', `${path}/${encodeURIComponent(metric)}`, meaning)
    }
  }

  /**
   * @param {readonly Sensor[]} sensors
   * @returns {Promise<Sensor[]>}  Those that the platform does not know yet.
   */
  async #describeSensors(sensors) {
    /** @type {Sensor[]} */
    const unknown = []
    const next = sensors.values()
    const worker = async () => {
      for (const sensor of next) {
        if (this.#signal.aborted) return
        if (await this.#describeSensor(sensor)) this.sensors++
        else unknown.push(sensor)
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, worker))
    return unknown
  }

  /** @param {Sensor} sensor  @returns {Promise<boolean>}  Whether it is known. */
  async #describeSensor({ name, kind, place }) {
    const path = `/v1/sensors/${encodeURIComponent(name)}`
    const { status, body } = await this.#ask('GET', path)
    if (status !== 200) return false
    const isSaid = body.type !== null || body.unit !== null || Object.keys(body.tags).length > 0
    if (isSaid) return true
    const tags = { source: 'simulator', fleet: this.#fleetName, place }
    return (await this.#ask('PATCH', path, { type: kind, tags })).status === 200
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {object} [body]
   * @returns {Promise<Answer>}
   * @throws {DescribeError}
   */
  async #ask(method, path, body) {
    const url = new URL(path, this.#url)
    const headers = body === undefined ? undefined : { 'content-type': 'application/json' }
    const untilMs = this.#now() + PATIENCE_MS
    for (;;) {
      const answer = await this.#try(url, { method, headers, body: JSON.stringify(body) })
      if (typeof answer !== 'string') return answer
      if (this.#signal.aborted || this.#now() > untilMs) {
        throw new DescribeError(`${url.origin}: ${answer}`)
      }
      await this.#sleep(RETRY_MS, this.#signal)
    }
  }

  /**
   * @param {URL} url
   * @param {RequestInit} options
   * @returns {Promise<Answer | string>}  What the trouble is, if it may be over soon.
   * @throws {DescribeError}  It will not be.
   */
  async #try(url, options) {
    try {
      const signal = AbortSignal.timeout(ANSWER_MS_MAX)
      const response = await this.#fetch(url, { ...options, signal })
      const text = await response.text()
      const { status } = response
      if (status >= 500 || status === 429) return `status ${status}`
      this.isHeard = true
      const body = text === '' ? undefined : JSON.parse(text)
      if (status < 400 || status === 404) return { status, body }
      throw new DescribeError(`${url.pathname}: ${status} ${body?.detail ?? ''}`)
    } catch (error) {
      if (error instanceof DescribeError) throw error
      const { message, cause } = /** @type {Error & { cause?: { code?: string } }} */ (error)
      return cause?.code ?? message
    }
  }
}
