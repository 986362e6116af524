/**
 * What ingest remembers of a sensor and its series while it runs. Plain state: `registry.js`,
 * `recent.js`, `latest.js` and `coverage.js` decide by it.
 */

import { ownText } from '@sandglass/common/text'

/** @typedef {import('../write/row.js').Row} Row */
/** @typedef {import('../write/seen-times.js').SeenTimes} SeenTimes */
/** @typedef {import('@sandglass/common/schema').Layout} Layout */
/** @typedef {import('@sandglass/common/measurement').Value} Value */

/** @typedef {{ hourMs: number, untilMs: number }} Mark  Both milliseconds since the Unix epoch. */

/** @typedef {{ type: string | undefined, unit: string | undefined, tags: Record<string, string> }
 *   } Words  That a person says of a sensor. */
/** By metric. */
/** @typedef {ReadonlyMap<string, import('@sandglass/common/metadata').Metadata>} Said */

/** What `latest` holds, or will, of a series. */
export class Newest {
  /**
   * @param {number} timeMs  Of the event, milliseconds since the Unix epoch.
   * @param {number} receivedMs
   * @param {number} kind
   * @param {Value} value
   * @param {number} timestampUs  By which the database tells which one is newer.
   */
  constructor(timeMs, receivedMs, kind, value, timestampUs) {
    this.timeMs = timeMs
    this.receivedMs = receivedMs
    this.kind = kind
    /** Undefined once it is written: a text may be long. @type {Value | undefined} */
    this.value = value
    this.timestampUs = timestampUs
  }
}

/** Of nearly all series. @type {readonly never[]} */
const NO_CHECKS = Object.freeze([])

/** One metric of one sensor. */
export class Series {
  /** @param {Sensor} sensor  @param {string} metric */
  constructor(sensor, metric) {
    this.sensor = sensor
    this.metric = metric
    /** @type {Newest | undefined} */
    this.newest = undefined
    /** Counts how often what `latest` held was deleted: later rows are above its tombstones. */
    this.era = sensor.eras.get(metric) ?? 0
    /** The same, of its first and last time: how often all of it was deleted. */
    this.coverEra = sensor.coverEras.get(metric) ?? 0
    /** When `newest` was last given to the database, by the clock that only goes forward. */
    this.latestWrittenMs = Number.NEGATIVE_INFINITY
    /** Whether `newest` still has to be written. */
    this.isLatestDue = false
    /** Event times that `series.first_ts` and `last_ts` cover, in milliseconds. */
    this.coveredFromMs = Number.POSITIVE_INFINITY
    this.coveredToMs = Number.NEGATIVE_INFINITY
    /** The unit that is on its way, with its row. */
    /** @type {{ unit: string, row: Row } | undefined} */
    this.unitRow = undefined
    /** The rows that extend the cover, while they are on their way. @type {Row[]} */
    this.coverRows = []
    /** The hours that were marked last, and until when that will do. @type {Mark | undefined} */
    this.mark = undefined
    /** @type {Mark | undefined} */
    this.markBefore = undefined
    /** Their rows, while they are on their way. @type {Row[]} */
    this.markRows = []
    /** What alert rules say of it, and of which version of all rules that is. */
    /** @type {readonly import('../rules/watch.js').Check[]} */
    this.checks = NO_CHECKS
    this.checksVersion = -1
    /** The value before, where a rule is about its rate: its time and number. */
    this.rateMs = Number.NEGATIVE_INFINITY
    this.rateValue = Number.NaN
    /** Event times of the rows on their way, those first that were sent first. @type {number[]} */
    this.onTheWay = []
    /** Recent values. @type {SeenTimes | undefined} */
    this.recent = undefined
    /** The same, of the generation before. @type {SeenTimes | undefined} */
    this.recentBefore = undefined
    /**
     * The latest event time at which there may be values that are not remembered, in milliseconds:
     * at first that of the newest row in the database, as soon as that is known.
     */
    this.horizonMs = sensor.lastTimes.has(metric)
      ? Number.POSITIVE_INFINITY
      : Number.NEGATIVE_INFINITY
    /** Whether `horizonMs` is still to be asked of the database. */
    this.isUnread = sensor.lastTimes.has(metric)
  }

  /** Whether nothing of it is on its way. */
  get isIdle() {
    if (this.isLatestDue || this.onTheWay.length > 0 || this.unitRow) return false
    return this.coverRows.length === 0 && this.markRows.length === 0
  }

  /** What was the newest value is deleted. @param {number} era */
  begin(era) {
    this.era = era
    this.newest = undefined
  }

  /** All of it was deleted: what comes is the first again. @param {number} coverEra */
  beginCover(coverEra) {
    this.coverEra = coverEra
    this.coveredFromMs = Number.POSITIVE_INFINITY
    this.coveredToMs = Number.NEGATIVE_INFINITY
  }

  /** A row of a time is given to be written. @param {number} timeMs */
  sent(timeMs) {
    this.onTheWay.push(timeMs)
  }

  /** It is durable, or will never be. @param {number} timeMs */
  landed(timeMs) {
    const index = this.onTheWay.indexOf(timeMs)
    if (index === 0) this.onTheWay.shift()
    else if (index > 0) this.onTheWay.splice(index, 1)
  }
}

/**
 * `forgotten`: another object stands for the sensor, or will.
 *
 * @typedef {'unread' | 'reading' | 'ready' | 'refused' | 'forgotten'} SensorState
 */

/** What a sensor and a series cost besides their names, in bytes. */
const SENSOR_BYTES = 1_300
const SERIES_BYTES = 1_300

/** What is known of a series that is not used, in bytes. */
const EXTENT_BYTES = 100

/** What is known of a unit, at most, in bytes. */
const UNIT_BYTES = 300

/** Of sensors of which nothing is said. @type {Words} */
const NO_WORDS = Object.freeze({ type: undefined, unit: undefined, tags: {} })

/** @type {Said} */
const NONE_SAID = new Map()

/** What a person says of a sensor or a metric, about, in bytes. */
const WORDS_BYTES = 400

/** Of nearly all sensors; nothing is added to it. */
/** @type {Map<string, import('./units.js').ToldUnit>} */
const NO_UNITS = new Map()

/** Of nearly all sensors. @type {ReadonlyMap<string, number>} */
const NO_ERAS = new Map()

/** How old an event may be and still say how much its sensor sends now, in milliseconds. */
const LIVE_MS_MAX = 600_000

export class Sensor {
  #share
  #bytes = 0

  /**
   * @param {string} id  UUID in lower case.
   * @param {string} name  As in the topic: a name, or the id.
   * @param {import('@sandglass/common/memory-share').MemoryShare} [share]  In which it is counted.
   */
  constructor(id, name, share) {
    this.#share = share
    this.#grow(SENSOR_BYTES + 2 * name.length)
    this.id = id
    this.name = name
    /** @type {SensorState} */
    this.state = 'unread'
    this.isHidden = false
    /** Whether it has a row of its own, or one is on its way. */
    this.isRegistered = false
    /** Ordered by event time, the first from 0. @type {Layout[]} */
    this.layouts = []
    /** Until which event time these are all there are, in milliseconds. */
    this.layoutsUntilMs = Number.NEGATIVE_INFINITY
    /** When they were read, in milliseconds since the Unix epoch. */
    this.layoutsReadMs = Number.NEGATIVE_INFINITY
    /** Rows of about now, and the bytes of their texts, since that was last looked at. */
    this.liveRows = 0
    this.liveTextBytes = 0
    /** What it sends, while that is much. @type {import('./rate.js').Rate | undefined} */
    this.rate = undefined
    /**
     * `last_ts` of the series it had when it was first heard of, in milliseconds, by metric.
     *
     * @type {ReadonlyMap<string, number>}
     */
    this.lastTimes = new Map()
    /** Messages of it that are not settled. */
    this.users = 0
    /** When one came last, by the clock that only goes forward. */
    this.usedMs = 0
    /** When the database was last asked about it, by the clock that only goes forward. */
    this.readMs = 0
    /** Whether it is being asked. */
    this.isAsked = false
    /** The rows that register it, while they are on their way. @type {Row[]} */
    this.registrationRows = []
    /**
     * What waits for `state` to be `ready` or `refused`.
     *
     * @type {Map<import('../message/message.js').Message, () => void>}
     */
    this.waiters = new Map()
    /** @type {Map<string, Series>} */
    this.series = new Map()
    /** Units that it told and that are stored, by metric. */
    /** @type {Map<string, import('./units.js').ToldUnit>} */
    this.units = NO_UNITS
    /** What a person says of it and of its metrics, for alert rules. */
    this.words = NO_WORDS
    this.said = NONE_SAID
    /** Of series whose newest value was deleted, by metric. @type {ReadonlyMap<string, number>} */
    this.eras = NO_ERAS
    /** Of series of which all was deleted, by metric. @type {ReadonlyMap<string, number>} */
    this.coverEras = NO_ERAS
    /** What was received until then is of a sensor that was deleted, in ms since the Unix epoch. */
    this.deletedMs = Number.NEGATIVE_INFINITY
  }

  /**
   * Counts a measurement, if it is of about now.
   *
   * @param {number} lateMs  From its time to its receipt.
   * @param {Value} value
   */
  count(lateMs, value) {
    if (lateMs > LIVE_MS_MAX) return
    this.liveRows++
    if (typeof value === 'string') this.liveTextBytes += value.length
  }

  /** @param {string} metric */
  seriesOf(metric) {
    let series = this.series.get(metric)
    if (!series) {
      series = new Series(this, ownText(metric))
      this.series.set(series.metric, series)
      this.#grow(SERIES_BYTES + 2 * metric.length)
    }
    return series
  }

  /** @param {ReadonlyMap<string, number>} lastTimes  As in the database. */
  knows(lastTimes) {
    this.lastTimes = lastTimes
    this.#grow(EXTENT_BYTES * lastTimes.size)
  }

  /** @param {Map<string, import('./units.js').ToldUnit>} units  As in the database. */
  knowsUnits(units) {
    this.#grow(UNIT_BYTES * (units.size - this.units.size))
    this.units = units.size > 0 ? units : NO_UNITS
  }

  /** @param {Words} [words]  @param {Said} [said]  As in the database. */
  knowsWords(words = NO_WORDS, said = NONE_SAID) {
    if (words === this.words && said === this.said) return
    const count = (/** @type {Words} */ one, /** @type {Said} */ all) =>
      all.size + (one === NO_WORDS ? 0 : 1)
    this.#grow(WORDS_BYTES * (count(words, said) - count(this.words, this.said)))
    this.words = words
    this.said = said
    for (const series of this.series.values()) series.checksVersion = -1
  }

  /** @param {ReadonlyMap<string, number>} eras  As in the database, or a part of these. */
  knowsEras(eras) {
    const raised = [...eras].filter(([metric, era]) => era > (this.eras.get(metric) ?? 0))
    if (raised.length === 0) return
    this.eras = new Map([...this.eras, ...raised])
    for (const [metric, era] of raised) this.series.get(metric)?.begin(era)
  }

  /** The same, of covers. @param {ReadonlyMap<string, number>} eras */
  knowsCoverEras(eras) {
    const raised = [...eras].filter(([metric, era]) => era > (this.coverEras.get(metric) ?? 0))
    if (raised.length === 0) return
    this.coverEras = new Map([...this.coverEras, ...raised])
    for (const [metric, era] of raised) {
      this.series.get(metric)?.beginCover(era)
      // The unit that was told went with it.
      if (this.units.delete(metric)) this.#grow(-UNIT_BYTES)
    }
  }

  /**
   * It was deleted: whoever sends next registers it anew.
   *
   * @param {number} deletedMs  What was received until then is gone.
   */
  wasDeleted(deletedMs) {
    if (deletedMs <= this.deletedMs) return
    this.deletedMs = deletedMs
    this.isRegistered = false
    this.isHidden = false
    this.knowsUnits(new Map())
  }

  /** That is durable now. @param {string} metric  @param {import('./units.js').ToldUnit} told */
  storedUnit(metric, told) {
    const before = this.units.get(metric)
    if (before && before.toldMs > told.toldMs) return
    if (this.units === NO_UNITS) this.units = new Map()
    if (!before) this.#grow(UNIT_BYTES)
    this.units.set(metric, told)
  }

  /** Whether nothing of it is on its way, so that it may be forgotten. */
  get isIdle() {
    if (this.users > 0 || this.isAsked) return false
    if (this.waiters.size > 0 || this.registrationRows.length > 0) return false
    for (const series of this.series.values()) if (!series.isIdle) return false
    return true
  }

  /** Another object will stand for the sensor. */
  forget() {
    this.state = 'forgotten'
    this.#grow(-this.#bytes)
  }

  /** @param {number} bytes */
  #grow(bytes) {
    this.#bytes += bytes
    this.#share?.add(bytes)
  }
}
