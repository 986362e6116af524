/**
 * Which sensors there are, and how their measurements are laid out. The database is asked about a
 * sensor when it is first heard of, and again now and then; one that nobody knows registers itself,
 * up to a limit.
 */

import { layoutsKnownUntil } from '@sandglass/common/layout'
import { firstLayout } from '@sandglass/common/schema'
import { sensorId } from '@sandglass/common/sensor'
import { ownText } from '@sandglass/common/text'
import { isPlacedTooLate, placedUntil, SETTLE_MS } from './placement.js'
import { Sensor } from './series.js'

/** How long what the database said is believed, in milliseconds. */
export const BELIEVED_MS_MAX = 60_000

/** Requests for what the database knows of sensors that are under way at the same time. */
const READS_MAX = 32

/** Sensors about which one request asks. */
const READ_SENSORS_MAX = 32

/**
 * How long it waits for others until the database is asked again about a sensor that is known well
 * enough meanwhile, in milliseconds.
 */
const COMPANY_MS = 100

/** First and longest pause before the database is asked again, in milliseconds. */
const RETRY_MS_MIN = 100
const RETRY_MS_MAX = 1_000

/** How long a sensor is idle before it is forgotten, in milliseconds. */
const IDLE_MS_MIN = 3_600_000

/** Sensors that are looked at in one call, ordinarily and while memory is short. */
const LOOKS_MAX = 2_000
const SHORT_LOOKS_MAX = 20_000

/** Most sensors beyond the limit that are remembered as such. */
const REFUSED_MAX = 10_000

/** @typedef {import('@sandglass/common/memory-share').MemoryShare} MemoryShare */
/** @typedef {import('@sandglass/common/schema').Layout} Layout */
/** @typedef {import('../message/message.js').Message} Message */
/** @typedef {import('../write/row.js').Row} Row */

/**
 * What the database knows of a sensor.
 *
 * @typedef {object} KnownSensor
 * @property {boolean} isRegistered  Whether it has a row of its own.
 * @property {boolean} isHidden
 * @property {Layout[]} layouts  Ordered by `fromMs`.
 * @property {Map<string, number>} lastTimes  `last_ts` of its series, in milliseconds, by
 *   metric.
 * @property {Map<string, import('./units.js').ToldUnit>} units  That it told, by metric.
 * @property {import('./series.js').Words} [words]  That a person says of it.
 * @property {Map<string, import('@sandglass/common/metadata').Metadata>} [said]  The same of its
 *   metrics.
 * @property {Map<string, number>} [eras]  Of `latest`, by metric, where values were deleted.
 * @property {Map<string, number>} [coverEras]  By metric, where all values were deleted.
 */

/**
 * @typedef {object} SensorReader
 * @property {(ids: readonly string[]) => Promise<ReadonlyMap<string, KnownSensor>>} readSensors  Of
 *   each id, by id.
 * @property {() => Promise<number>} countSensors
 */

export class Registry {
  #reader
  #rows
  #share
  #now
  #wallNow
  #settleMs
  /** @type {Map<string, Sensor>} */
  #sensors = new Map()
  /** Those that are looked at next, whether they are idle. @type {Iterator<Sensor>} */
  #cursor
  /** @type {Set<Sensor>} */
  #refused = new Set()
  /** Sensors to ask about. @type {Sensor[]} */
  #unread = []
  #later
  /** Whether those are asked about a little later, as nobody waits for it. */
  #isLater = false
  #reads = 0
  #isClosed = false

  /**
   * @param {object} parts
   * @param {SensorReader} parts.reader
   * @param {import('../write/rows.js').Rows} parts.rows
   * @param {number} parts.sensorsMax
   * @param {string} parts.className  Retention class of sensors that register themselves.
   * @param {MemoryShare} parts.share  For what is remembered of sensors.
   * @param {() => number} [parts.now]  A clock that only goes forward, in milliseconds.
   * @param {number} [parts.rewriteWaitS]  How long a rewrite waits until all know of it.
   * @param {() => number} [parts.wallNow]  Milliseconds since the Unix epoch.
   * @param {(call: () => void, ms: number) => unknown} [parts.later]
   */
  constructor(parts) {
    const { reader, rows, sensorsMax, className, share } = parts
    const { now = () => performance.now(), wallNow = Date.now, later = afterAll } = parts
    this.sensorsMax = sensorsMax
    /** Sensors that are registered, as far as we know. */
    this.count = 0
    this.#reader = reader
    this.#rows = rows
    /** Of sensors that register themselves and wish none. */
    this.className = className
    this.#share = share
    this.#now = now
    this.#wallNow = wallNow
    this.#later = later
    this.#settleMs = parts.rewriteWaitS ? parts.rewriteWaitS * 1000 : SETTLE_MS
    this.#cursor = this.#sensors.values()
  }

  /** Counts the sensors there are, so that the limit holds from the start. */
  async start() {
    this.count += await this.#retry(() => this.#reader.countSensors())
  }

  /** Every sensor that was heard of. */
  all() {
    return this.#sensors.values()
  }

  /**
   * The sensor of a name or id. Its state tells whether it can be used yet.
   *
   * @param {string} name
   */
  sensor(name) {
    const id = sensorId(name)
    let sensor = this.#sensors.get(id)
    if (!sensor) {
      sensor = new Sensor(ownText(id), ownText(name), this.#share)
      this.#sensors.set(sensor.id, sensor)
    }
    return sensor
  }

  /** Newest values were deleted. @param {string} id  @param {ReadonlyMap<string, number>} eras */
  knowsEras(id, eras) {
    this.#sensors.get(id)?.knowsEras(eras)
  }

  /** All of series was deleted. @param {string} id  @param {ReadonlyMap<string, number>} eras */
  knowsCoverEras(id, eras) {
    this.#sensors.get(id)?.knowsCoverEras(eras)
  }

  /** @param {string} id  @param {number} deletedMs  What was received until then is gone. */
  wasDeleted(id, deletedMs) {
    this.#sensors.get(id)?.wasDeleted(deletedMs)
  }

  /** One that was counted is gone. @param {string} id */
  discount(id) {
    // One that is remembered is counted until it is forgotten.
    if (!this.#sensors.has(id) && this.count > 0) this.count--
  }

  /**
   * A message is of a sensor, which is remembered until that is settled, and for a while longer.
   *
   * @param {Sensor} sensor
   * @param {Message} message
   */
  use(sensor, message) {
    sensor.usedMs = this.#now()
    if (message.sensor === sensor) return
    message.sensor = sensor
    sensor.users++
  }

  /** A message is settled. @param {Message} message */
  release(message) {
    if (message.sensor) message.sensor.users--
    message.sensor = undefined
  }

  /**
   * Forgets sensors that have been idle for long, and where memory is short all that are idle; to
   * be called now and then. What the database knows of them is asked again when they are back.
   */
  age() {
    const isShort = this.#share.isFull
    const idleMsMin = isShort ? 0 : IDLE_MS_MIN
    const untilMs = this.#now() - idleMsMin
    for (let left = isShort ? SHORT_LOOKS_MAX : LOOKS_MAX; left > 0; left--) {
      const { value: sensor, done } = this.#cursor.next()
      if (done) {
        this.#cursor = this.#sensors.values()
        return
      }
      // How much it sent is remembered where its buckets may become wider again.
      const isWanted = sensor.usedMs > untilMs || (sensor.rate && !isShort)
      if (!isWanted && sensor.isIdle) this.#forget(sensor)
      if (isShort && !this.#share.isFull) return
    }
  }

  /** @param {Sensor} sensor */
  #forget(sensor) {
    // It was counted when it was first heard of, and then nothing of it was stored.
    if (sensor.state === 'ready' && !sensor.isRegistered) this.count--
    this.#refused.delete(sensor)
    this.#sensors.delete(sensor.id)
    sensor.forget()
  }

  /**
   * Asks the database about a sensor unless that is known well enough.
   *
   * @param {Sensor} sensor
   */
  refresh(sensor) {
    const isOld = this.#now() - sensor.readMs > BELIEVED_MS_MAX
    const isKnown = sensor.state === 'ready' || sensor.state === 'refused'
    if (isKnown) {
      if (isOld) this.#askLater(sensor)
      return
    }
    sensor.state = 'reading'
    this.ask(sensor)
  }

  /**
   * Until which event time all layouts would be known if the database were asked now.
   */
  get layoutsUntilMs() {
    return layoutsKnownUntil(this.#wallNow())
  }

  /**
   * Whether rows of a sensor can be placed without asking the database again.
   *
   * @param {Sensor} sensor
   * @param {{ oldestMs: number, newestMs: number }} times  Of their events.
   */
  knowsLayouts(sensor, { oldestMs, newestMs }) {
    if (newestMs >= sensor.layoutsUntilMs) return false
    return !isPlacedTooLate(sensor, oldestMs, this.#wallNow(), this.#settleMs)
  }

  /**
   * Until when rows may become durable that are placed now, in milliseconds since the Unix epoch.
   *
   * @param {Sensor} sensor
   * @param {number} oldestMs  The earliest event time.
   */
  placedUntil(sensor, oldestMs) {
    return placedUntil(sensor, oldestMs, this.#settleMs)
  }

  /** Whether rows that are durable must be placed again. @param {Message} message */
  isPlacedTooLate({ placedUntilMs }) {
    return this.#wallNow() > placedUntilMs
  }

  /**
   * Asks the database about a sensor, whatever is known; those who wait for it hear of the answer.
   *
   * @param {Sensor} sensor
   */
  ask(sensor) {
    this.#note(sensor)
    this.#readMore()
  }

  /** The same, with others. @param {Sensor} sensor */
  #askLater(sensor) {
    this.#note(sensor)
    if (this.#isLater) return
    this.#isLater = true
    this.#later(() => {
      this.#isLater = false
      this.#readMore()
    }, COMPANY_MS)
  }

  /** @param {Sensor} sensor */
  #note(sensor) {
    if (sensor.isAsked) return
    sensor.isAsked = true
    this.#unread.push(sensor)
  }

  /**
   * The rows that register a sensor nobody knew. A message of one whose registration is on its way
   * waits for that.
   *
   * @param {Sensor} sensor
   * @param {Message} message
   * @returns {Row[]}  To be written.
   */
  register(sensor, message) {
    for (const row of sensor.registrationRows) row.holdBack(message)
    const added = []
    if (!sensor.isRegistered) {
      // A row of before the deletion is hidden by it.
      sensor.isRegistered = message.receivedMs > sensor.deletedMs
      added.push(this.#rows.sensor(sensor, message))
    }
    // Of the two rows a crash may have left either.
    if (sensor.layouts.length === 0) {
      const layout = firstLayout(message.retention ?? this.className)
      sensor.layouts = [layout]
      added.push(this.#rows.layout(sensor, layout, message))
    }
    const { className } = sensor.layouts[sensor.layouts.length - 1]
    if (message.retention !== undefined && className !== message.retention) {
      message.keptAs = { sensor: sensor.name, retention: className }
    }
    sensor.registrationRows.push(...added)
    for (const row of added) {
      row.onDone = () => {
        sensor.registrationRows = sensor.registrationRows.filter((other) => other !== row)
      }
    }
    return added
  }

  #readMore() {
    while (this.#reads < READS_MAX && this.#unread.length > 0) {
      const sensors = this.#unread.splice(0, READ_SENSORS_MAX)
      this.#reads++
      void this.#read(sensors).finally(() => {
        this.#reads--
        this.#readMore()
      })
    }
  }

  /**
   * One that cannot be read holds up no other one: those of a request that failed are asked about
   * one by one.
   *
   * @param {Sensor[]} sensors
   */
  async #read(sensors) {
    const ids = sensors.map(({ id }) => id)
    const startMs = this.#wallNow()
    const known = await this.#reader.readSensors(ids).catch(() => undefined)
    if (known) for (const sensor of sensors) this.#heard(sensor, known, startMs)
    else await Promise.all(sensors.map((sensor) => this.#readAlone(sensor)))
  }

  /** @param {Sensor} sensor */
  async #readAlone(sensor) {
    const answer = await this.#retry(async () => {
      const startMs = this.#wallNow()
      return { known: await this.#reader.readSensors([sensor.id]), startMs }
    })
    if (answer) this.#heard(sensor, answer.known, answer.startMs)
  }

  /**
   * @param {Sensor} sensor
   * @param {ReadonlyMap<string, KnownSensor>} known
   * @param {number} startMs  When it began to be read.
   */
  #heard(sensor, known, startMs) {
    sensor.isAsked = false
    this.#learn(sensor, /** @type {KnownSensor} */ (known.get(sensor.id)), startMs)
    const { waiters } = sensor
    sensor.waiters = new Map()
    for (const waiter of waiters.values()) waiter()
  }

  /**
   * @param {Sensor} sensor
   * @param {KnownSensor} known
   * @param {number} startMs  When it began to be read.
   */
  #learn(sensor, known, startMs) {
    const wasReady = sensor.state === 'ready'
    sensor.readMs = this.#now()
    sensor.isHidden = known.isHidden
    // What is on its way was perhaps not there yet when it was read.
    if (known.isRegistered || sensor.registrationRows.length === 0) {
      sensor.isRegistered = known.isRegistered
    }
    sensor.layoutsUntilMs = layoutsKnownUntil(startMs)
    sensor.layoutsReadMs = startMs
    if (known.layouts.length > 0) sensor.layouts = known.layouts
    sensor.knowsUnits(known.units)
    sensor.knowsWords(known.words, known.said)
    if (known.eras) sensor.knowsEras(known.eras)
    if (known.coverEras) sensor.knowsCoverEras(known.coverEras)
    if (wasReady) return
    sensor.knows(known.lastTimes)
    if (known.isRegistered && known.layouts.length > 0) {
      this.#accept(sensor)
    } else if (this.count < this.sensorsMax) {
      this.count++
      this.#accept(sensor)
    } else {
      this.#refuse(sensor)
    }
  }

  /** @param {Sensor} sensor */
  #accept(sensor) {
    sensor.state = 'ready'
    this.#refused.delete(sensor)
  }

  /** @param {Sensor} sensor */
  #refuse(sensor) {
    sensor.state = 'refused'
    this.#refused.add(sensor)
    for (const oldest of this.#refused) {
      if (this.#refused.size <= REFUSED_MAX) return
      if (oldest.isIdle) this.#forget(oldest)
      else this.#refused.delete(oldest)
    }
  }

  /**
   * Asks until there is an answer.
   *
   * @template T
   * @param {() => Promise<T>} ask
   * @returns {Promise<T>}  Never resolves with nothing but when closed.
   */
  async #retry(ask) {
    for (let pauseMs = RETRY_MS_MIN; ; pauseMs = Math.min(2 * pauseMs, RETRY_MS_MAX)) {
      try {
        return await ask()
      } catch {
        if (this.#isClosed) return /** @type {any} */ (undefined)
        await new Promise((resolve) => setTimeout(resolve, pauseMs))
      }
    }
  }

  stop() {
    this.#isClosed = true
  }
}

/** @param {() => void} call  @param {number} ms */
function afterAll(call, ms) {
  setTimeout(call, ms).unref()
}
