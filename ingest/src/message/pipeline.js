/**
 * Turns a message into rows and tracks them until all are durable; or into a dead letter. While the
 * database is away or slow it goes to the spool instead, and comes back out of it later.
 *
 * received + recovered = stored + dead-lettered + spooled + in flight + dropped + lost, at every
 * moment.
 */

import { NONE_LEFT } from '../write/recent.js'
import { Arrivals } from './arrivals.js'
import { PORTION } from './portions.js'
import { PartialRefusal, Refusal } from './refusal.js'
import { STATE } from './state.js'
import { timesOf, validate } from './validate.js'

/** How often messages in flight are looked at when somebody waits for the last one, in ms. */
const IDLE_MS = 20

/** What a measurement that was parsed costs, and what its rows do, in bytes. */
const MEASUREMENT_BYTES = 120
const ROWS_BYTES = 1_024

/** @typedef {import('./message.js').Message} Message */
/** @typedef {import('../write/row.js').Row} Row */
/** @typedef {import('../sensors/series.js').Sensor} Sensor */
/** @typedef {import('@sandglass/common/measurement').Measurement} Measurement */

/**
 * @typedef {object} PipelineParts
 * @property {import('../sparkplug/edge-nodes.js').EdgeNodes} edgeNodes
 * @property {import('./decoder.js').Decoder} decoder
 * @property {import('../decoders/stage.js').DecoderStage} decoders
 * @property {import('../sensors/registry.js').Registry} registry
 * @property {import('../write/past.js').Past} past
 * @property {import('./measurement-writer.js').MeasurementWriter} measurements
 * @property {import('./dead-letters.js').DeadLetters} deadLetters
 * @property {import('../rollup/dirty-hours.js').DirtyHours} dirtyHours
 * @property {import('../rules/watch.js').RuleWatch} rules
 * @property {(row: Row) => void} write
 * @property {(isUseless: (row: Row) => boolean) => void} unwrite  Forgets rows that wait.
 * @property {import('../counts.js').Counts} counts
 * @property {import('./in-flight.js').InFlight} inFlight
 * @property {import('../spool/diversion.js').Diversion} [diversion]  Nothing without a spool.
 * @property {import('../deletion/known.js').KnownDeletions} deletions  Of what the spool holds.
 */

export class Pipeline {
  #arrivals
  #decoder
  #decoders
  #registry
  #past
  #measurements
  #deadLetters
  #dirtyHours
  #rules
  #write
  #unwrite
  #counts
  #inFlight
  #diversion
  #deletions

  /** @param {PipelineParts} parts */
  constructor(parts) {
    this.#decoder = parts.decoder
    this.#decoders = parts.decoders
    this.#registry = parts.registry
    this.#past = parts.past
    this.#measurements = parts.measurements
    this.#deadLetters = parts.deadLetters
    this.#dirtyHours = parts.dirtyHours
    this.#rules = parts.rules
    this.#write = parts.write
    this.#unwrite = parts.unwrite
    this.#counts = parts.counts
    this.#inFlight = parts.inFlight
    this.#diversion = parts.diversion
    this.#deletions = parts.deletions
    this.#arrivals = new Arrivals(parts, {
      take: (message) => this.take(message),
      settle: (message) => this.#settle(message),
    })
  }

  /** Whether no more messages of QoS 1 and 2 should be given. */
  get isFull() {
    return this.#inFlight.isFull
  }

  /** Most bytes in flight of one sender. */
  get senderBytesMax() {
    return this.#inFlight.senderBytesMax
  }

  /** @param {() => void} onRoom  Called when there is room again. */
  set onRoom(onRoom) {
    this.#inFlight.onRoom = onRoom
  }

  /**
   * Takes a message; `message.origin.settled` is called once it is durable, or dropped, or is no
   * measurement.
   *
   * @param {Message} message
   */
  accept(message) {
    this.#arrivals.accept(message)
  }

  /**
   * Takes a message that is counted already: one out of the spool.
   *
   * @param {Message} message
   */
  take(message) {
    const decoded = this.#decode(message)
    if (decoded instanceof Refusal) {
      if (message.arrival === 'spool') this.#refuseLeft(message, decoded)
      else this.#refuse(message, decoded)
      return
    }
    const { sensor, measurements, refused, units } = decoded
    if (measurements.length === 0) {
      this.#storeNothing(message)
      return
    }
    if (refused.length > 0) message.partial ??= new PartialRefusal(refused)
    message.units = units
    this.#countCost(message, measurements.length + refused.length + (units?.size ?? 0))
    // While the database cannot be asked about sensors, unknown ones are not even remembered.
    if (this.#diversion?.takes(message)) this.#diversion.add(message)
    else this.#dispatch(message, this.#known(message, sensor), measurements)
  }

  /**
   * What a message says, with the times that follow from its receipt.
   *
   * @param {Message} message
   * @returns {import('./decoder.js').Decoded | Refusal}
   */
  #decode(message) {
    const decoded = this.#decoder.decode(message)
    if (decoded instanceof Refusal) return decoded
    this.#noteReceipt(message, decoded.measurements)
    return this.#decoder.believed(message, decoded)
  }

  /** It is understood, and says nothing that is stored. @param {Message} message */
  #storeNothing(message) {
    message.move(STATE.storing)
    message.pending = 1
    this.#finish(message)
  }

  /** What it says may cost far more than its bytes. */
  /** @param {Message} message  @param {number} count  Of measurements. */
  #countCost(message, count) {
    if (count === 1 || message.arrival === 'spool') return
    const { topic, payload } = message
    const rowsBytes = Math.min(count, PORTION) * ROWS_BYTES
    const bytes = topic.length + payload.length + count * MEASUREMENT_BYTES + rowsBytes
    if (bytes > message.bytes) this.#inFlight.grow(message, bytes - message.bytes)
  }

  /** @param {Message} message  @param {Sensor | string} sensor */
  #known(message, sensor) {
    if (typeof sensor !== 'string') return sensor
    const found = this.#registry.sensor(sensor)
    this.#decoder.remember(message, found, sensor)
    return found
  }

  /** The time of measurements that carry none is that of the first receipt. */
  /** @param {Message} message  @param {Measurement[]} measurements */
  #noteReceipt(message, measurements) {
    const { session, qos } = message
    if (qos === 0 || !session || message.receipt !== undefined) return
    if (measurements.every(({ timeMs }) => timeMs !== undefined)) return
    const first = session.firstReceipt(message)
    if (first.isRedelivery) this.#counts.duplicates++
    message.receipt = first.receivedMs
  }

  /**
   * @param {Message} message
   * @param {Sensor} sensor
   * @param {Measurement[]} measurements
   */
  #dispatch(message, sensor, measurements) {
    this.#registry.use(sensor, message)
    this.#registry.refresh(sensor)
    if (sensor.state === 'ready') {
      if (message.arrival === 'spool') this.#storeLeft(message, sensor, measurements)
      else this.#store(message, sensor, measurements)
    } else if (sensor.state === 'refused') {
      const reason = `there are ${this.#registry.sensorsMax} sensors already, which is the limit`
      this.#refuse(message, new Refusal('sensors', reason))
    } else {
      this.#wait(message, sensor, measurements)
    }
  }

  /**
   * Dispatches a message again when the database has told of its sensor.
   *
   * @param {Message} message
   * @param {Sensor} sensor
   * @param {Measurement[]} measurements
   */
  #wait(message, sensor, measurements) {
    message.move(STATE.waiting)
    message.waitsFor = sensor
    sensor.waiters.set(message, () => {
      message.waitsFor = undefined
      this.#dispatch(message, sensor, measurements)
    })
  }

  /**
   * Stores what was not deleted while it was in the spool.
   *
   * @param {Message} message
   * @param {Sensor} sensor
   * @param {Measurement[]} measurements
   */
  #storeLeft(message, sensor, measurements) {
    if (this.#deletions.knows(sensor.id)) {
      const left = this.#deletions.left(message, sensor.id, measurements)
      if (left.length > 0) this.#store(message, sensor, left)
      else this.#storeNothing(message)
      return
    }
    message.move(STATE.waiting)
    const asked = ++message.asked
    void this.#deletions
      .learn(sensor.id, () => message.asked === asked)
      .then((isWanted) => isWanted && this.#dispatch(message, sensor, measurements))
  }

  /**
   * Refuses a message out of the spool, unless its sensor was deleted while it was there: then it
   * does not even become a dead letter.
   *
   * @param {Message} message
   * @param {Refusal} refusal
   */
  #refuseLeft(message, refusal) {
    const id = this.#decoder.sensorOf(message.topic)
    if (id === undefined || this.#deletions.knows(id)) {
      if (id !== undefined && this.#deletions.isGone(message, id)) this.#storeNothing(message)
      else this.#refuse(message, refusal)
      return
    }
    message.move(STATE.waiting)
    const asked = ++message.asked
    void this.#deletions
      .learn(id, () => message.asked === asked)
      .then((isWanted) => isWanted && this.#refuseLeft(message, refusal))
  }

  /**
   * @param {Message} message
   * @param {Sensor} sensor
   * @param {Measurement[]} measurements
   */
  #store(message, sensor, measurements) {
    const refusal = validate(sensor, measurements)
    if (refusal) {
      this.#refuse(message, refusal)
      return
    }
    const times = timesOf(message, measurements)
    if (!this.#registry.knowsLayouts(sensor, times)) {
      this.#reach(message, sensor, measurements, times.newestMs)
      return
    }
    const { seqs, unknown } = this.#measurements.place(message, sensor, measurements)
    if (unknown.length > 0) {
      this.#learn(message, sensor, measurements, unknown)
      return
    }
    if (seqs.includes(NONE_LEFT)) {
      this.#refuse(message, new Refusal('time', 'too many values of one millisecond'))
      return
    }
    message.move(STATE.storing)
    message.pending = 1
    message.placedUntilMs = this.#registry.placedUntil(sensor, times.oldestMs)
    this.#measurements.store(message, sensor, measurements, seqs)
    if (message.partial) this.#deadLetters.keepFields(message, message.partial)
    this.#finish(message)
  }

  /**
   * Has the database asked for layouts that we may not have heard of, and that hold already at a
   * time of the message.
   *
   * @param {Message} message
   * @param {Sensor} sensor
   * @param {Measurement[]} measurements
   * @param {number} newestMs  The latest of its times.
   */
  #reach(message, sensor, measurements, newestMs) {
    if (newestMs < this.#registry.layoutsUntilMs) {
      this.#wait(message, sensor, measurements)
      this.#registry.ask(sensor)
      return
    }
    const reason = `it is of ${newestMs}, far ahead of our clock, which was wrong when it came`
    this.#refuse(message, new Refusal('time', reason))
  }

  /**
   * Dispatches a message again when it is known what the database has at its times.
   *
   * @param {Message} message
   * @param {Sensor} sensor
   * @param {Measurement[]} measurements
   * @param {readonly import('./measurement-writer.js').UnknownTime[]} unknown
   */
  #learn(message, sensor, measurements, unknown) {
    message.move(STATE.waiting)
    const asked = ++message.asked
    void this.#past
      .learn(unknown, () => message.asked === asked)
      .then((isWanted) => isWanted && this.#dispatch(message, sensor, measurements))
  }

  /** A row is durable. @param {Row} row */
  stored(row) {
    row.series?.landed(row.timeMs)
    row.onDone?.()
    if (row.message) this.#finish(row.message)
    if (row.waiters) for (const message of row.waiters) this.#finish(message)
  }

  /** A row will never be stored. @param {Row} row  @param {Error} error */
  refused(row, error) {
    if (row.message?.state === STATE.refused) {
      this.#deadLetters.retry(row.message, row)
      return
    }
    const refusal = new Refusal('database', `the database refuses it: ${error.message}`)
    if (row.message) row.message.refusal ??= refusal
    if (row.waiters) for (const message of row.waiters) message.refusal ??= refusal
    this.stored(row)
  }

  /** One thing less that a message waits for. @param {Message} message */
  #finish(message) {
    message.pending--
    // One that is given to the spool is settled there, and its rows may still come back.
    if (message.pending > 0 || message.state === STATE.spooling || message.isSettled) return
    const isDead = message.state === STATE.refused
    // One that the database refuses in part has rows all the same, which a rollup may have missed.
    if (!isDead && this.#dirtyHours.isTooLate(message)) {
      this.#markAgain(message)
      return
    }
    if (message.refusal && !isDead) {
      this.#refuse(message, message.refusal)
      return
    }
    if (message.writeMore) {
      message.pending = 1
      message.writeMore()
      this.#finish(message)
      return
    }
    if (!isDead && this.#registry.isPlacedTooLate(message)) {
      this.#placeAgain(message)
      return
    }
    if (!isDead && !this.#rules.isMarked(message)) {
      this.#markRules(message)
      return
    }
    if (isDead) this.#counts.deadLetter(/** @type {Refusal} */ (message.refusal).kind)
    else this.#counts.stored(message)
    if (message.arrival === 'replay' && !isDead && !message.partial) this.#counts.replayed++
    if (message.arrival === 'spool') this.#counts.spooled--
    else this.#inFlight.remove(message)
    this.#settle(message)
  }

  /** @param {Message} message */
  #markAgain(message) {
    const { sensor, measurements } = this.#decodeAgain(message)
    message.pending = 1
    this.#measurements.markAgain(message, sensor, measurements)
    this.#finish(message)
  }

  /** The rows are durable: whoever reads a mark now finds them. @param {Message} message */
  #markRules(message) {
    message.pending = 1
    for (const row of this.#rules.markRows(message)) this.#write(row)
    this.#finish(message)
  }

  /** The rows are durable, but readers may look elsewhere by now. @param {Message} message */
  #placeAgain(message) {
    const { sensor, measurements } = this.#decodeAgain(message)
    this.#wait(message, sensor, measurements)
    this.#registry.ask(sensor)
  }

  /** @param {Message} message */
  #decodeAgain(message) {
    const decoded = this.#decode(message)
    if (decoded instanceof Refusal) throw new Error(`it was decoded before: ${decoded.reason}`)
    const { sensor, measurements } = decoded
    return { sensor: this.#known(message, sensor), measurements }
  }

  /** @param {Message} message  @param {Refusal} refusal */
  #refuse(message, refusal) {
    message.refusal = refusal
    message.writeMore = undefined
    if (this.#diversion?.takes(message)) {
      this.#diversion.add(message)
      return
    }
    message.move(STATE.refused)
    if (this.#deadLetters.keep(message)) return
    message.pending = 1
    this.#finish(message)
  }

  /** Messages are durable in the spool. @param {Message[]} messages */
  spooled(messages) {
    let haveRows = false
    for (const message of messages) {
      haveRows ||= message.hasRows
      this.#counts.spooled++
      this.#inFlight.remove(message)
      this.#settle(message)
    }
    // Rows of these alone need not be written; others wait for what tells of sensors and series.
    if (haveRows) this.#unwrite(({ message, onDone }) => message?.isSettled === true && !onDone)
  }

  /** They could not be spooled: they wait for the database again. @param {Message[]} messages */
  notSpooled(messages) {
    for (const message of messages) {
      const state = message.comeBack()
      if (state === STATE.arrived || state === STATE.waiting) {
        this.take(message)
      } else if (message.pending === 0) {
        message.pending = 1
        this.#finish(message)
      }
    }
  }

  /** @param {Message} message */
  #settle(message) {
    message.move(STATE.settled)
    message.writeMore = undefined
    this.#registry.release(message)
    message.origin.settled(message)
  }

  /** Resolves when nothing is in flight. @param {number} msMax  Longest wait, in milliseconds. */
  async idle(msMax) {
    const untilMs = performance.now() + msMax
    while (this.#inFlight.count + this.#decoders.waiting > 0 && performance.now() < untilMs) {
      await new Promise((resolve) => setTimeout(resolve, IDLE_MS))
    }
  }
}
