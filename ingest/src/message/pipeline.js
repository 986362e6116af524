/**
 * The way of a message: taken apart into rows, written, settled; or refused, and written as a dead
 * letter. While the database is away or slow it goes to the spool instead, is settled there, and
 * comes back later to go the same way.
 *
 * received + recovered = stored + dead-lettered + spooled + held + dropped + lost, at every moment.
 */

import { FORMAT, parseItem } from '@sandglass/common/bodies'
import { PayloadError, parsePayload } from '@sandglass/common/payload'
import { bucketOf, layoutAt } from '@sandglass/common/schema'
import { cover } from '../sensors/coverage.js'
import { NONE_LEFT } from '../write/recent.js'
import { PAYLOAD_KEPT_BYTES_MAX } from '../write/rows.js'
import { messagesOfLines } from './lines.js'
import { Refusal } from './refusal.js'
import { newestOf, validate } from './validate.js'

/** Most topics of which is remembered what they mean; then all are forgotten. */
const ROUTES_MAX = 200_000

/** When a dead letter that the database refuses is written again, in milliseconds. */
const REFUSED_DEAD_LETTER_MS = 5_000

/** How often held messages are looked at when somebody waits for the last one, in milliseconds. */
const IDLE_MS = 20

/** @typedef {import('./message.js').Message} Message */
/** @typedef {import('../write/row.js').Row} Row */
/** @typedef {import('../sensors/series.js').Sensor} Sensor */
/** @typedef {import('../sensors/series.js').Series} Series */
/** @typedef {import('@sandglass/common/measurement').Measurement} Measurement */
/** @typedef {{ sensor: Sensor, metric: string | undefined }} Route */

/** @typedef {{ series: Series, timeMs: number }} Place */
/** @type {readonly Place[]} */
const NONE = []

/**
 * @typedef {object} PipelineParts
 * @property {import('../sensors/registry.js').Registry} registry
 * @property {import('../write/rows.js').Rows} rows
 * @property {import('../write/hashed.js').Places} places  Of values within their millisecond.
 * @property {import('../write/past.js').Past} past
 * @property {import('../sensors/latest.js').Latest} latest
 * @property {import('../rollup/dirty-hours.js').DirtyHours} dirtyHours
 * @property {(row: Row) => void} write  Calls {@link Pipeline.stored} or refused some time later.
 * @property {(isUseless: (row: Row) => boolean) => void} unwrite  Forgets rows that wait.
 * @property {() => boolean} isWritten  Whether no row waits or is on its way.
 * @property {import('../counts.js').Counts} counts
 * @property {import('./in-flight.js').InFlight} inFlight
 * @property {import('../spool/diversion.js').Diversion} [diversion]  Nothing without a spool.
 * @property {import('./dead-letter-quota.js').DeadLetterQuota} deadLetterQuota
 * @property {import('@sandglass/common/topics').Topics} topics  That carry measurements.
 * @property {string} lineTopic  First levels of the topics whose messages are line protocol.
 */

export class Pipeline {
  /** @param {PipelineParts} parts */
  constructor(parts) {
    const { registry, rows, places, past, latest, write, unwrite, isWritten } = parts
    const { dirtyHours, counts, inFlight, diversion, topics, lineTopic, deadLetterQuota } = parts
    this.inFlight = inFlight
    /** @private */
    this.registry = registry
    /** @private */
    this.rows = rows
    /** @private */
    this.places = places
    /** @private */
    this.past = past
    /** @private */
    this.latest = latest
    /** @private */
    this.dirtyHours = dirtyHours
    /** @private */
    this.write = write
    /** @private */
    this.unwrite = unwrite
    /** @private */
    this.isWritten = isWritten
    /** @private */
    this.counts = counts
    /** @private */
    this.diversion = diversion
    /** @private */
    this.topics = topics
    /** @private */
    this.lineTopic = lineTopic
    /** @private */
    this.deadLetterQuota = deadLetterQuota
    /** @private @type {Map<string, Route>} */
    this.routes = new Map()
    /** Of the measurements of the message that is being stored. @private @type {number[]} */
    this.seqs = []
  }

  /** Whether no more messages of QoS 1 and 2 should be given. */
  get isFull() {
    return this.inFlight.isFull
  }

  /** @param {() => void} onRoom  Called when there is room again. */
  set onRoom(onRoom) {
    this.inFlight.onRoom = onRoom
  }

  /**
   * Takes a message; `message.origin.settled` is called once it is durable, or is none of ours.
   *
   * @param {Message} message
   */
  accept(message) {
    const { topic, format } = message
    if (format === FORMAT.topic && !this.routes.has(topic) && !this.topics.carry(topic)) {
      if (this.isOfLines(topic)) {
        this.split(message)
      } else {
        this.counts.passed++
        this.settle(message)
      }
      return
    }
    this.counts.received++
    if (this.inFlight.add(message)) this.take(message)
    else this.counts.droppedQos0++
  }

  /**
   * Takes a message that is counted already: one out of the spool.
   *
   * @param {Message} message
   */
  take(message) {
    if (message.isForbidden) {
      this.refuse(message, new Refusal('forbidden', `${message.clientId} may not publish here`))
      return
    }
    try {
      const { sensor, measurements } = this.parse(message)
      this.noteReceipt(message, measurements)
      // While the database cannot be asked about sensors, unknown ones are not even remembered.
      if (this.diversion?.takes(message)) this.diversion.add(message)
      else this.dispatch(message, this.known(message, sensor), measurements)
    } catch (error) {
      if (!(error instanceof PayloadError)) throw error
      this.refuse(message, new Refusal(error.fault, error.message))
    }
  }

  /**
   * @private
   * @param {Message} message
   * @returns {{ sensor: Sensor | string, measurements: Measurement[] }}  A name where the topic was
   *   not seen before.
   * @throws {PayloadError}
   */
  parse(message) {
    if (message.format !== FORMAT.topic) return parseItem(message)
    const { sensor, metric } = this.routes.get(message.topic) ?? this.topics.parse(message.topic)
    return { sensor, measurements: parsePayload(metric, message.payload) }
  }

  /**
   * The sensor; what its topic means is remembered, as it once made sense.
   *
   * @private
   * @param {Message} message
   * @param {Sensor | string} sensor
   */
  known({ format, topic }, sensor) {
    if (typeof sensor !== 'string') return sensor
    const found = this.registry.sensor(sensor)
    if (format === FORMAT.topic) {
      if (this.routes.size >= ROUTES_MAX) this.routes.clear()
      this.routes.set(topic, { sensor: found, metric: this.topics.parse(topic).metric })
    }
    return found
  }

  /** @private @param {string} topic */
  isOfLines(topic) {
    return topic === this.lineTopic || topic.startsWith(`${this.lineTopic}/`)
  }

  /** Takes a message of several lines apart. @private @param {Message} message */
  split(message) {
    const lines = messagesOfLines(message, () => this.settle(message))
    if (lines.length === 0) {
      this.counts.passed++
      this.settle(message)
    }
    for (const line of lines) this.accept(line)
  }

  /** The time of measurements that carry none is that of the first receipt. @private */
  /** @param {Message} message  @param {Measurement[]} measurements */
  noteReceipt(message, measurements) {
    const { session, qos } = message
    const isClockless = measurements.some(({ timeMs }) => timeMs === undefined)
    if (!isClockless || qos === 0 || !session || message.isNoted) return
    message.isNoted = true
    const first = session.firstReceipt(message)
    if (first.isRedelivery) this.counts.duplicates++
    message.firstReceivedMs = first.receivedMs
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
      this.wait(message, sensor, measurements)
    }
  }

  /**
   * Dispatches a message again when the database has told of its sensor.
   *
   * @private
   * @param {Message} message
   * @param {Sensor} sensor
   * @param {Measurement[]} measurements
   */
  wait(message, sensor, measurements) {
    message.waitsFor = sensor
    sensor.waiters.set(message, () => {
      message.waitsFor = undefined
      this.dispatch(message, sensor, measurements)
    })
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
    const refusal = validate(message, sensor, measurements)
    if (refusal) {
      this.refuse(message, refusal)
      return
    }
    const newestMs = newestOf(message, measurements)
    if (newestMs >= sensor.layoutsUntilMs) {
      this.reach(message, sensor, measurements, newestMs)
      return
    }
    const unknown = this.place(message, sensor, measurements)
    if (unknown.length > 0) {
      const asked = ++message.asked
      void this.past
        .learn(unknown, () => message.asked === asked)
        .then((isWanted) => isWanted && this.dispatch(message, sensor, measurements))
      return
    }
    const { seqs } = this
    if (seqs.includes(NONE_LEFT)) {
      this.refuse(message, new Refusal('time', 'too many values of one millisecond'))
      return
    }
    message.isWritten = true
    message.pending = 1
    for (const row of this.registry.register(sensor, message)) this.write(row)
    for (let at = 0; at < measurements.length; at++) {
      this.storeOne(message, sensor, measurements[at], seqs[at])
    }
    this.finish(message)
  }

  /**
   * Has the database asked for layouts that we may not have heard of, and that hold already at a
   * time of the message.
   *
   * @private
   * @param {Message} message
   * @param {Sensor} sensor
   * @param {Measurement[]} measurements
   * @param {number} newestMs  The latest of its times.
   */
  reach(message, sensor, measurements, newestMs) {
    if (newestMs < this.registry.layoutsUntilMs) {
      this.wait(message, sensor, measurements)
      this.registry.ask(sensor)
      return
    }
    const reason = `it is of ${newestMs}, far ahead of our clock, which was wrong when it came`
    this.refuse(message, new Refusal('time', reason))
  }

  /**
   * Decides under which `seq` each measurement is stored, in `this.seqs`. To place one again
   * changes nothing.
   *
   * @private
   * @param {Message} message
   * @param {Sensor} sensor
   * @param {Measurement[]} measurements
   * @returns {readonly Place[]}  Of what the database must be asked first.
   */
  place({ firstReceivedMs }, sensor, measurements) {
    this.seqs.length = 0
    /** @type {Place[] | undefined} */
    let unknown
    for (const { metric, kind, value, timeMs = firstReceivedMs } of measurements) {
      const series = sensor.seriesOf(metric)
      if (!this.places.knows(series, timeMs)) {
        unknown ??= []
        unknown.push({ series, timeMs })
      } else if (!unknown) {
        this.seqs.push(this.places.place(series, timeMs, kind, value))
      }
    }
    return unknown ?? NONE
  }

  /**
   * @private
   * @param {Message} message
   * @param {Sensor} sensor
   * @param {Measurement} measurement
   * @param {number} seq
   */
  storeOne(message, sensor, { metric, kind, value, timeMs: ownMs }, seq) {
    const receivedMs = message.firstReceivedMs
    const timeMs = ownMs ?? receivedMs
    if (ownMs !== undefined) this.counts.event(message.receivedMs - ownMs)
    const series = sensor.seriesOf(metric)
    if (!message.isFromSpool) sensor.count(receivedMs - timeMs, value)
    const layout = layoutAt(sensor.layouts, timeMs)
    const bucketS = bucketOf(layout.bucketS, timeMs)
    const what = { layout, bucketS, timeMs, seq, kind, value }
    series.sent(timeMs)
    this.write(this.rows.measurement(message, series, what))
    for (const row of cover(this.rows, series, timeMs, message)) this.write(row)
    for (const row of this.dirtyHours.note(series, kind, timeMs, message)) this.write(row)
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
    row.series?.landed(row.timeMs)
    row.onDone?.()
    if (row.message) this.finish(row.message)
    if (row.waiters) for (const message of row.waiters) this.finish(message)
  }

  /** A row will never be stored. @param {Row} row  @param {Error} error */
  refused(row, error) {
    // A dead letter can be mended only by mending the database; until then its message is held.
    if (row.message?.isDead) {
      const { message } = row
      setTimeout(() => {
        if (!message.isSettled) this.write(row)
      }, REFUSED_DEAD_LETTER_MS)
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
    // One that is given to the spool is settled there.
    if (message.pending > 0 || message.isSpooling) return
    if (message.refusal && !message.isDead) {
      this.refuse(message, message.refusal)
      return
    }
    if (!message.isDead && this.dirtyHours.isTooLate(message)) {
      this.markAgain(message)
      return
    }
    if (message.isDead) this.counts.deadLetter(/** @type {Refusal} */ (message.refusal).kind)
    else this.counts.stored(message)
    if (message.isReplay && !message.isDead) this.counts.replayed++
    if (message.isFromSpool) this.counts.spooled--
    else this.inFlight.remove(message)
    this.settle(message)
  }

  /** Its rows are durable, but whom their marks told may have looked before. @private */
  /** @param {Message} message */
  markAgain(message) {
    message.pending = 1
    const { sensor: of, measurements } = this.parse(message)
    const sensor = typeof of === 'string' ? this.registry.sensor(of) : of
    for (const { metric, kind, timeMs = message.firstReceivedMs } of measurements) {
      const series = sensor.seriesOf(metric)
      for (const row of this.dirtyHours.note(series, kind, timeMs, message)) this.write(row)
    }
    this.finish(message)
  }

  /** @private @param {Message} message  @param {Refusal} refusal */
  refuse(message, refusal) {
    message.refusal = refusal
    if (this.diversion?.takes(message)) {
      this.diversion.add(message)
      return
    }
    message.isWritten = true
    message.isDead = true
    const { clientId, payload, isReplay, receivedMs } = message
    const keptBytes = Math.min(payload.length, PAYLOAD_KEPT_BYTES_MAX)
    if (isReplay || this.deadLetterQuota.takes(clientId, keptBytes, receivedMs)) {
      this.write(this.rows.deadLetter(message, refusal.reason))
      return
    }
    this.counts.unkeptLetters++
    message.pending = 1
    this.finish(message)
  }

  /** Messages are durable in the spool. @param {Message[]} messages */
  spooled(messages) {
    let areWritten = false
    for (const message of messages) {
      areWritten ||= message.isWritten
      this.counts.spooled++
      this.inFlight.remove(message)
      this.settle(message)
    }
    // Rows of these alone need not be written; others wait for what tells of sensors and series.
    if (areWritten) this.unwrite(({ message, onDone }) => message?.isSettled === true && !onDone)
  }

  /** They could not be spooled: they wait for the database again. @param {Message[]} messages */
  notSpooled(messages) {
    for (const message of messages) {
      message.isSpooling = false
      if (!message.isWritten) {
        this.take(message)
      } else if (message.pending === 0) {
        message.pending = 1
        this.finish(message)
      }
    }
  }

  /** @private @param {Message} message */
  settle(message) {
    message.isSettled = true
    message.origin.settled(message)
  }

  /** Resolves when nothing is held. @param {number} msMax  Longest wait, in milliseconds. */
  async idle(msMax) {
    const untilMs = performance.now() + msMax
    while (this.inFlight.count > 0 && performance.now() < untilMs) {
      await new Promise((resolve) => setTimeout(resolve, IDLE_MS))
    }
  }
}
