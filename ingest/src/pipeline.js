/**
 * The way of a message: taken apart into rows, written, settled; or refused, and written as a dead
 * letter. Here it is decided how much is held, and what happens at the limit:
 *
 * - QoS 1 and 2: the gate is told to read no more until there is room. Nothing is dropped.
 * - QoS 0: the sender would not wait for us, so what comes beyond its limit is dropped and counted.
 *
 * received = stored + dead-lettered + held + dropped, at every moment.
 */

import {
  isMeasurementTopic,
  PayloadError,
  parsePayload,
  parseTopic,
} from '@sandglass/common/payload'
import { bucketOf, layoutAt } from '@sandglass/common/schema'
import { cover } from './coverage.js'
import { SEQ_MAX } from './recent.js'
import { Refusal } from './refusal.js'

/** Oldest event time that is believed, milliseconds since the Unix epoch: the year 2000. */
export const EVENT_MS_MIN = 946_684_800_000

/** How far a device's clock may be ahead, in milliseconds. */
export const EVENT_AHEAD_MS_MAX = 86_400_000

/** Most topics of which is remembered what they mean; then all are forgotten. */
const ROUTES_MAX = 200_000

/** Most metrics of one sensor. */
export const SENSOR_METRICS_MAX = 1_000

/** When a dead letter that the database refuses is written again, in milliseconds. */
const REFUSED_DEAD_LETTER_MS = 5_000

/** How often held messages are looked at when somebody waits for the last one, in milliseconds. */
const IDLE_MS = 20

/** @typedef {import('./message.js').Message} Message */
/** @typedef {import('./row.js').Row} Row */
/** @typedef {import('./series.js').Sensor} Sensor */
/** @typedef {import('@sandglass/common/measurement').Measurement} Measurement */
/** @typedef {{ sensor: Sensor, metric: string | undefined }} Route */

/**
 * @typedef {object} PipelineLimits
 * @property {number} heldBytesMax  Messages of QoS 1 and 2, in bytes.
 * @property {number} qos0BytesMax  Messages of QoS 0, in bytes.
 */

/**
 * @typedef {object} PipelineParts
 * @property {import('./registry.js').Registry} registry
 * @property {import('./rows.js').Rows} rows
 * @property {import('./recent.js').Recent} recent
 * @property {import('./latest.js').Latest} latest
 * @property {(row: Row) => void} write  Calls {@link Pipeline.stored} or refused some time later.
 * @property {() => boolean} isWritten  Whether no row waits or is on its way.
 * @property {import('./counts.js').Counts} counts
 * @property {PipelineLimits} limits
 */

export class Pipeline {
  /** @param {PipelineParts} parts */
  constructor({ registry, rows, recent, latest, write, isWritten, counts, limits }) {
    /** The gate sets it. @type {() => void} */
    this.onRoom = () => {}
    /** Bytes of held messages of QoS 1 and 2. */
    this.heldBytes = 0
    /** Bytes of held messages of QoS 0. */
    this.qos0Bytes = 0
    /** @private */
    this.registry = registry
    /** @private */
    this.rows = rows
    /** @private */
    this.recent = recent
    /** @private */
    this.latest = latest
    /** @private */
    this.write = write
    /** @private */
    this.isWritten = isWritten
    /** @private */
    this.counts = counts
    /** @private */
    this.limits = limits
    /** @private @type {Map<string, Route>} */
    this.routes = new Map()
  }

  /** Whether no more messages of QoS 1 and 2 should be given. */
  get isFull() {
    return this.heldBytes >= this.limits.heldBytesMax
  }

  /**
   * Takes a message; `message.origin.settled` is called once it is durable, or is none of ours.
   *
   * @param {Message} message
   */
  accept(message) {
    if (!isMeasurementTopic(message.topic)) {
      this.counts.passed++
      this.settle(message)
      return
    }
    this.counts.received++
    if (!this.hold(message)) return
    try {
      const known = this.routes.get(message.topic)
      const { sensor, metric } = known ?? parseTopic(message.topic)
      const measurements = parsePayload(metric, message.payload)
      // Only a sensor that once made sense is remembered.
      const found =
        typeof sensor === 'string' ? this.remember(message.topic, sensor, metric) : sensor
      this.dispatch(message, found, measurements)
    } catch (error) {
      if (!(error instanceof PayloadError)) throw error
      this.refuse(message, new Refusal(error.fault, error.message))
    }
  }

  /** @private @param {Message} message  @returns {boolean}  False if it was dropped. */
  hold(message) {
    const { qos, bytes } = message
    if (qos === 0 && this.qos0Bytes + bytes > this.limits.qos0BytesMax) {
      this.counts.droppedQos0++
      return false
    }
    if (qos === 0) this.qos0Bytes += bytes
    else this.heldBytes += bytes
    this.counts.held++
    return true
  }

  /**
   * @private
   * @param {string} topic
   * @param {string} name
   * @param {string | undefined} metric
   * @returns {Sensor}
   */
  remember(topic, name, metric) {
    const sensor = this.registry.sensor(name)
    if (this.routes.size >= ROUTES_MAX) this.routes.clear()
    this.routes.set(topic, { sensor, metric })
    return sensor
  }

  /**
   * @private
   * @param {Message} message
   * @param {Sensor} sensor
   * @param {Measurement[]} measurements
   */
  dispatch(message, sensor, measurements) {
    this.registry.refresh(sensor)
    if (sensor.state === 'ready') {
      this.store(message, sensor, measurements)
    } else if (sensor.state === 'refused') {
      const reason = `there are ${this.registry.sensorsMax} sensors already, which is the limit`
      this.refuse(message, new Refusal('sensors', reason))
      // It may be heard of again when it has been forgotten.
      this.routes.delete(message.topic)
    } else {
      sensor.waiters.push(() => this.dispatch(message, sensor, measurements))
    }
  }

  /**
   * @private
   * @param {Message} message
   * @param {Sensor} sensor
   * @param {Measurement[]} measurements
   */
  store(message, sensor, measurements) {
    if (sensor.isHidden) {
      this.refuse(message, new Refusal('hidden', 'the sensor was deleted'))
      return
    }
    const receivedMs = this.timeOfReceipt(message, measurements)
    const refusal = judge(message, sensor, measurements)
    if (refusal) {
      this.refuse(message, refusal)
      return
    }
    message.pending = 1
    for (const row of this.registry.register(sensor, message)) this.write(row)
    for (const one of measurements) this.storeOne(message, sensor, one, receivedMs)
    this.finish(message)
  }

  /** The time of measurements that carry none. @private */
  /** @param {Message} message  @param {Measurement[]} measurements */
  timeOfReceipt(message, measurements) {
    const { session, qos, receivedMs } = message
    const isClockless = measurements.some(({ timeMs }) => timeMs === undefined)
    if (!isClockless || qos === 0 || !session) return receivedMs
    const first = session.firstReceipt(message)
    if (first.isRedelivery) this.counts.duplicates++
    return first.receivedMs
  }

  /**
   * @private
   * @param {Message} message
   * @param {Sensor} sensor
   * @param {Measurement} measurement
   * @param {number} receivedMs
   */
  storeOne(message, sensor, measurement, receivedMs) {
    const { metric, kind, value } = measurement
    const timeMs = measurement.timeMs ?? receivedMs
    const series = sensor.seriesOf(metric)
    const layout = layoutAt(sensor.layouts, timeMs)
    const bucketS = bucketOf(layout.bucketS, timeMs)
    const seq = this.recent.place(series, timeMs, kind, value)
    if (seq > SEQ_MAX) {
      message.refusal ??= new Refusal('time', `more than ${SEQ_MAX} values at ${timeMs}`)
      return
    }
    const acceptedMs = message.receivedMs
    this.write(
      this.rows.measurement(message, series, {
        ...{ layout, bucketS, timeMs, seq, kind, value, acceptedMs },
      }),
    )
    for (const row of cover(this.rows, series, timeMs, message)) this.write(row)
    if (this.latest.note(series, { timeMs, seq, receivedMs, kind, value })) {
      if (series.newest) this.write(this.rows.latest(series, series.newest))
    }
  }

  /** Writes those newest values whose turn has come. */
  writeLatest() {
    for (const series of this.latest.takeDue()) {
      if (series.newest) this.write(this.rows.latest(series, series.newest))
    }
  }

  /**
   * Writes all newest values, as the service stops.
   *
   * @param {number} msMax  Longest wait, in milliseconds.
   */
  async finishLatest(msMax) {
    const untilMs = performance.now() + msMax
    for (const series of this.latest.takeAll()) {
      if (series.newest) this.write(this.rows.latest(series, series.newest))
    }
    while (!this.isWritten() && performance.now() < untilMs) {
      await new Promise((resolve) => setTimeout(resolve, IDLE_MS))
    }
  }

  /** A row is durable. @param {Row} row */
  stored(row) {
    row.onDone?.()
    if (row.message) this.finish(row.message)
    if (row.waiters) for (const message of row.waiters) this.finish(message)
  }

  /** A row will never be stored. @param {Row} row  @param {Error} error */
  refused(row, error) {
    // A dead letter can be mended only by mending the database; until then its message is held.
    if (row.message?.isDead) {
      setTimeout(() => this.write(row), REFUSED_DEAD_LETTER_MS)
      return
    }
    const refusal = new Refusal('database', `the database refuses it: ${error.message}`)
    if (row.message) row.message.refusal ??= refusal
    if (row.waiters) for (const message of row.waiters) message.refusal ??= refusal
    this.stored(row)
  }

  /** One thing less that a message waits for. @private @param {Message} message */
  finish(message) {
    message.pending--
    if (message.pending > 0) return
    if (message.refusal && !message.isDead) {
      this.refuse(message, message.refusal)
      return
    }
    if (message.isDead) this.counts.deadLetter(/** @type {Refusal} */ (message.refusal).kind)
    else this.counts.stored(message)
    this.release(message)
    this.settle(message)
  }

  /** @private @param {Message} message  @param {Refusal} refusal */
  refuse(message, refusal) {
    message.refusal = refusal
    message.isDead = true
    this.write(this.rows.deadLetter(message, refusal.reason))
  }

  /** @private @param {Message} message */
  release(message) {
    this.counts.held--
    if (message.qos === 0) {
      this.qos0Bytes -= message.bytes
      return
    }
    const wasFull = this.isFull
    this.heldBytes -= message.bytes
    if (wasFull && !this.isFull) queueMicrotask(() => this.onRoom())
  }

  /** @private @param {Message} message */
  settle(message) {
    message.isSettled = true
    message.origin.settled(message)
  }

  /** Resolves when nothing is held. @param {number} msMax  Longest wait, in milliseconds. */
  async idle(msMax) {
    const untilMs = performance.now() + msMax
    while (this.counts.held > 0 && performance.now() < untilMs) {
      await new Promise((resolve) => setTimeout(resolve, IDLE_MS))
    }
  }
}

/**
 * Why a message cannot be stored, as far as its measurements tell.
 *
 * @param {Message} message
 * @param {Sensor} sensor
 * @param {Measurement[]} measurements
 */
function judge(message, sensor, measurements) {
  let metricsNew = 0
  for (const { metric, timeMs } of measurements) {
    if (timeMs !== undefined && timeMs < EVENT_MS_MIN) {
      return new Refusal('time', `t is ${timeMs}, before the year 2000: t is milliseconds`)
    }
    if (timeMs !== undefined && timeMs > message.receivedMs + EVENT_AHEAD_MS_MAX) {
      return new Refusal('time', `t is ${timeMs}, more than 24 hours ahead: t is milliseconds`)
    }
    if (!sensor.series.has(metric)) metricsNew++
  }
  if (metricsNew > 0 && sensor.series.size + metricsNew > SENSOR_METRICS_MAX) {
    return new Refusal('value', `a sensor has at most ${SENSOR_METRICS_MAX} metrics`)
  }
  return undefined
}
