/**
 * Whether the platform stores what it acknowledged, of every series, and nothing else.
 *
 * Every sensor is read back once, and its digests are compared. Only where they differ it is read
 * again, beside what the plan says was published. What is missing is waited for: it may still be
 * in the spool.
 */

import { Semaphore } from '@sandglass/common/semaphore'
import { compareTimed, compareTimeless, Difference, Differences } from './compare.js'
import { Digest } from './digest.js'
import { entryOf } from './ledger.js'

/** Sensors that are read back at once. */
const SENSORS_AT_ONCE = 4
/** Between two looks at what is missing, in milliseconds. */
const PAUSE_MS = 500
/** How far the clock that dates dead letters may be behind ours, in milliseconds. */
const SKEW_MS_MAX = 3_600_000

/** Looks at a sensor whose values change between one look and the next. */
const ATTEMPTS_MAX = 5

const NONE = new Digest()

/** Stands for the dead letters of a sensor, where the name of a metric would be. */
export const LETTERS = '(dead letters)'

/** @typedef {import('./plan.js').Plan} Plan */
/** @typedef {import('./plan.js').Planned} Planned */
/** @typedef {import('./ledger.js').Ledger} Ledger */
/** @typedef {import('./readback.js').Readback} Readback */
/** @typedef {import('./compare.js').Stored} Stored */
/** @typedef {import('./compare.js').Expected} Expected */

/**
 * What became of one series.
 *
 * @typedef {object} Verdict
 * @property {number} index  Of the sensor in the fleet.
 * @property {string} sensor
 * @property {string} metric  Or {@link LETTERS}.
 * @property {number} acknowledged
 * @property {number} stored
 * @property {Difference} difference
 */

export class Reconciliation {
  #plan
  #ledger
  #readback
  #options
  /** Before the run: the time of the newest value of each sensor without a clock that has one. */
  /** @type {Map<number, number>} */
  #before = new Map()
  /** @type {Map<string, number>}  Index in the fleet by name. */
  #indexes
  #gate = new Semaphore(SENSORS_AT_ONCE)

  /**
   * @param {object} parts
   * @param {Plan} parts.plan
   * @param {Ledger} parts.ledger
   * @param {Readback} parts.readback
   * @param {object} options
   * @param {string} options.clients  With which the names of our clients begin, and no others.
   * @param {number} options.startMs  When the run began, in milliseconds since the Unix epoch.
   * @param {number} options.waitMs  How long something missing is waited for since the last came.
   * @param {(ms: number) => Promise<unknown>} options.sleep
   * @param {(done: number, all: number) => void} options.onRead  Called when a sensor was read.
   */
  constructor({ plan, ledger, readback }, options) {
    this.#plan = plan
    this.#ledger = ledger
    this.#readback = readback
    this.#options = options
    this.#indexes = new Map(plan.fleet.map(({ name }, index) => [name, index]))
  }

  /** To be called before anything is published: what is there already is not of this run. */
  async begin() {
    const sensors = [...this.#plan.fleet.keys()]
    const learn = async (/** @type {number} */ sensor) => {
      const newestMs = await this.#readback.newestMs(this.#plan.fleet[sensor].name)
      if (newestMs !== undefined) this.#before.set(sensor, newestMs)
    }
    // One is asked in any case: a platform that does not answer is better found out now.
    const asked = sensors.filter((sensor) => sensor === 0 || !this.#plan.carriesTime(sensor))
    await Promise.all(asked.map((sensor) => this.#gate.run(() => learn(sensor))))
  }

  /**
   * To be called when nothing more is published.
   *
   * @returns {Promise<Verdict[]>}  One for each series, and for the dead letters of each sensor.
   */
  async finish() {
    const series = await this.#settle((sensors) => this.#readSensors(sensors))
    const letters = await this.#settle((sensors) => this.#readLetters(sensors))
    return [...series, ...letters]
  }

  /**
   * Reads again where something is missing, until it is there or does not come any more.
   *
   * @param {(sensors: number[]) => Promise<Verdict[]>} read
   */
  async #settle(read) {
    /** @type {Verdict[]} */
    const settled = []
    let sensors = [...this.#plan.fleet.keys()]
    let untilMs = Number.POSITIVE_INFINITY
    let missingMin = Number.POSITIVE_INFINITY
    for (;;) {
      const verdicts = await read(sensors)
      const missing = verdicts.reduce((sum, { difference }) => sum + difference.missing, 0)
      const nowMs = performance.now()
      if (missing < missingMin) untilMs = nowMs + this.#options.waitMs
      missingMin = Math.min(missing, missingMin)
      if (missing === 0 || nowMs >= untilMs) return [...settled, ...verdicts]
      const open = new Set(
        verdicts.filter(({ difference }) => difference.missing > 0).map(({ index }) => index),
      )
      settled.push(...verdicts.filter(({ index }) => !open.has(index)))
      sensors = [...open]
      await this.#options.sleep(PAUSE_MS)
    }
  }

  /** @param {number[]} sensors */
  async #readSensors(sensors) {
    let done = 0
    const verdicts = await Promise.all(
      sensors.map((sensor) =>
        this.#gate.run(async () => {
          const found = await this.#readSensor(sensor)
          this.#options.onRead(++done, sensors.length)
          return found
        }),
      ),
    )
    return verdicts.flat()
  }

  /**
   * @param {number} index  Of the sensor.
   * @returns {Promise<Verdict[]>}
   */
  async #readSensor(index) {
    const acknowledged = this.#ledger.seriesOf(index)
    for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
      const stored = await digestsOf(this.#stored(index), this.#plan.carriesTime(index))
      const metrics = [...new Set([...acknowledged.keys(), ...stored.keys()])].sort()
      const isSame = metrics.every((metric) =>
        (stored.get(metric) ?? NONE).equals(acknowledged.get(metric) ?? NONE),
      )
      const differences = isSame ? new Differences() : await this.#examine(index)
      // Otherwise it came between the two looks.
      if (!isSame && !differences.explain) continue
      return metrics.map((metric) => ({
        index,
        sensor: this.#plan.fleet[index].name,
        metric,
        acknowledged: acknowledged.get(metric)?.count ?? 0,
        stored: stored.get(metric)?.count ?? 0,
        difference: differences.of(metric),
      }))
    }
    throw new Error(`what was noted of ${this.#plan.fleet[index].name} is not what was planned`)
  }

  /** Value by value. @param {number} index  Of the sensor. */
  async #examine(index) {
    const expected = this.#expected(index)
    if (this.#plan.carriesTime(index)) return compareTimed(expected, this.#stored(index))
    return compareTimeless(expected, this.#stored(index), (metric, key) =>
      this.#ledger.closeOf(index, metric, key),
    )
  }

  /** What is stored of a sensor in the time of this run. @param {number} index */
  #stored(index) {
    const newestMs = this.#before.get(index)
    const range = this.#plan.carriesTime(index)
      ? this.#plan.scheduleOf(index).range
      : { fromMs: newestMs === undefined ? undefined : newestMs + 1 }
    return this.#readback.measurements(this.#plan.fleet[index].name, range)
  }

  /** What was published of a sensor. @param {number} index  @returns {Generator<Expected>} */
  *#expected(index) {
    for (const { turn, timeMs, values = {} } of this.#plan.published(index)) {
      const isAcknowledged = !this.#ledger.isPending(index, turn)
      const resent = this.#ledger.resentOf(index, turn)
      for (const [metric, value] of Object.entries(values)) {
        yield { metric, timeMs, value, isAcknowledged, resent }
      }
    }
  }

  /**
   * @param {number[]} sensors
   * @returns {Promise<Verdict[]>}
   */
  async #readLetters(sensors) {
    /** @type {Map<number, Digest>} */
    const found = new Map()
    for await (const { index, text } of this.#letters()) {
      const digest = found.get(index) ?? new Digest()
      digest.add(text)
      found.set(index, digest)
    }
    const differs = (/** @type {number} */ index) =>
      !(found.get(index) ?? NONE).equals(this.#ledger.lettersOf(index))
    const differences = await this.#examineLetters(sensors.filter(differs))
    return sensors.flatMap((index) => {
      const stored = found.get(index)?.count ?? 0
      const acknowledged = this.#ledger.lettersOf(index).count
      if (stored === 0 && acknowledged === 0) return []
      const difference = differences.get(index) ?? new Difference()
      const sensor = this.#plan.fleet[index].name
      return { index, sensor, metric: LETTERS, acknowledged, stored, difference }
    })
  }

  /**
   * @param {number[]} sensors  Of which something differs.
   * @returns {Promise<Map<number, Difference>>}
   */
  async #examineLetters(sensors) {
    /** @type {Map<number, Stored[]>} */
    const stored = new Map(sensors.map((index) => [index, []]))
    if (sensors.length > 0) {
      for await (const { index, text, received } of this.#letters()) {
        stored.get(index)?.push({ metric: LETTERS, timeMs: received, value: text })
      }
    }
    const differences = new Map()
    for (const [index, letters] of stored) {
      const found = await compareTimeless(this.#expectedLetters(index), letters, () => 0)
      differences.set(index, found.of(LETTERS))
    }
    return differences
  }

  /** @param {number} index  Of the sensor.  @returns {Generator<Expected>} */
  *#expectedLetters(index) {
    for (const { turn, topic, payload, values } of this.#plan.published(index)) {
      if (values) continue
      const isAcknowledged = !this.#ledger.isPending(index, turn)
      const resent = this.#ledger.resentOf(index, turn)
      yield { metric: LETTERS, value: `${topic} ${payload}`, isAcknowledged, resent }
    }
  }

  /** The dead letters of our clients. */
  async *#letters() {
    const { clients, startMs } = this.#options
    for await (const { received, topic, client, payload } of this.#readback.letters()) {
      if (received < startMs - SKEW_MS_MAX) return
      const index = this.#indexes.get(topic.split('/')[1])
      if (index !== undefined && client.startsWith(clients)) {
        yield { index, text: `${topic} ${payload}`, received }
      }
    }
  }
}

/**
 * @param {AsyncIterable<Stored>} stored
 * @param {boolean} hasTime  Whether the publisher chose the times.
 */
async function digestsOf(stored, hasTime) {
  /** @type {Map<string, Digest>} */
  const digests = new Map()
  for await (const { metric, timeMs, value } of stored) {
    let digest = digests.get(metric)
    if (!digest) {
      digest = new Digest()
      digests.set(metric, digest)
    }
    digest.add(entryOf(hasTime ? timeMs : undefined, value))
  }
  return digests
}
