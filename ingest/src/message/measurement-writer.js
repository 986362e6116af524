/**
 * Makes the rows of a message's measurements: the measurements themselves, what tells readers where
 * to look for them, the hours to be summed up again, and the newest values.
 */

import { layoutAt } from '@sandglass/common/schema'
import { cover } from '../sensors/coverage.js'
import { noteUnit } from '../sensors/units.js'
import { PORTION } from './portions.js'

/** How often it is looked whether rows are written, in milliseconds. */
const IDLE_MS = 20

/** @typedef {import('./message.js').Message} Message */
/** @typedef {import('../write/row.js').Row} Row */
/** @typedef {import('../sensors/series.js').Sensor} Sensor */
/** @typedef {import('../sensors/series.js').Series} Series */
/** @typedef {import('@sandglass/common/measurement').Measurement} Measurement */

/** A time of which it is not known what the database has there. */
/** @typedef {{ series: Series, timeMs: number }} UnknownTime */

/** @type {readonly UnknownTime[]} */
const NONE = []

export class MeasurementWriter {
  #registry
  #rows
  #places
  #latest
  #dirtyHours
  #write
  #isWritten
  #counts
  #rules

  /**
   * @param {object} parts
   * @param {import('../sensors/registry.js').Registry} parts.registry
   * @param {import('../write/rows.js').Rows} parts.rows
   * @param {import('../write/hashed.js').Places} parts.places  Of values within their millisecond.
   * @param {import('../sensors/latest.js').Latest} parts.latest
   * @param {import('../rollup/dirty-hours.js').DirtyHours} parts.dirtyHours
   * @param {(row: Row) => void} parts.write
   * @param {() => boolean} parts.isWritten  Whether no row waits or is on its way.
   * @param {import('../counts.js').Counts} parts.counts
   * @param {import('../rules/watch.js').RuleWatch} parts.rules
   */
  constructor({ registry, rows, places, latest, dirtyHours, write, isWritten, counts, rules }) {
    this.#registry = registry
    this.#rows = rows
    this.#places = places
    this.#latest = latest
    this.#dirtyHours = dirtyHours
    this.#write = write
    this.#isWritten = isWritten
    this.#counts = counts
    this.#rules = rules
  }

  /**
   * Decides under which `seq` each measurement is stored. To ask again changes nothing.
   *
   * @param {Message} message
   * @param {Sensor} sensor
   * @param {Measurement[]} measurements
   * @returns {{ seqs: number[], unknown: readonly UnknownTime[] }}  What the database must be asked
   *   first; `seqs` is complete if that is nothing.
   */
  place({ firstReceivedMs }, sensor, measurements) {
    /** @type {number[]} */
    const seqs = []
    /** @type {UnknownTime[] | undefined} */
    let unknown
    for (const { metric, kind, value, timeMs = firstReceivedMs } of measurements) {
      const series = sensor.seriesOf(metric)
      if (!this.#places.knows(series, timeMs)) {
        unknown ??= []
        unknown.push({ series, timeMs })
      } else if (!unknown) {
        seqs.push(this.#places.place(series, timeMs, kind, value))
      }
    }
    return { seqs, unknown: unknown ?? NONE }
  }

  /**
   * Gives the rows of a message to be written, a portion at a time: `message.writeMore` gives the
   * next one, where there is one.
   *
   * @param {Message} message  `pending` counts its rows.
   * @param {Sensor} sensor
   * @param {Measurement[]} measurements
   * @param {number[]} seqs
   */
  store(message, sensor, measurements, seqs) {
    for (const row of this.#registry.register(sensor, message)) this.#write(row)
    this.#storeFrom(0, message, sensor, measurements, seqs)
  }

  /**
   * @param {number} from  The first measurement of the portion.
   * @param {Message} message
   * @param {Sensor} sensor
   * @param {Measurement[]} measurements
   * @param {number[]} seqs
   */
  #storeFrom(from, message, sensor, measurements, seqs) {
    const end = Math.min(from + PORTION, measurements.length)
    message.writeMore =
      end < measurements.length
        ? () => this.#storeFrom(end, message, sensor, measurements, seqs)
        : undefined
    for (let at = from; at < end; at++) {
      this.#storeOne(message, sensor, measurements[at], seqs[at])
    }
  }

  /**
   * @param {Message} message
   * @param {Sensor} sensor
   * @param {Measurement} measurement
   * @param {number} seq
   */
  #storeOne(message, sensor, { metric, kind, value, timeMs: ownMs }, seq) {
    const receivedMs = message.firstReceivedMs
    const timeMs = ownMs ?? receivedMs
    if (ownMs !== undefined) this.#counts.event(message.receivedMs - ownMs)
    const series = sensor.seriesOf(metric)
    if (message.arrival !== 'spool') sensor.count(receivedMs - timeMs, value)
    const layout = layoutAt(sensor.layouts, timeMs)
    const what = { timeMs, seq, kind, value }
    series.sent(timeMs)
    this.#write(this.#rows.measurement(message, series, layout, what))
    if (layout.next) this.#write(this.#rows.copy(message, series, layout.next, what))
    for (const row of cover(this.#rows, series, timeMs, message)) this.#write(row)
    for (const row of this.#dirtyHours.note(series, kind, timeMs, message)) this.#write(row)
    this.#rules.note(series, value, timeMs, message)
    const unit = message.units?.get(metric)
    if (unit !== undefined) {
      const row = noteUnit(this.#rows, series, unit, message)
      if (row) this.#write(row)
    }
    if (this.#latest.note(series, { timeMs, seq, receivedMs, kind, value })) {
      this.#writeNewest(series)
    }
  }

  /**
   * The rows are durable, but a rollup worker may have read the hour before they were: marks its
   * hours dirty again.
   *
   * @param {Message} message
   * @param {Sensor} sensor
   * @param {Measurement[]} measurements
   */
  markAgain(message, sensor, measurements) {
    for (const { metric, kind, timeMs = message.firstReceivedMs } of measurements) {
      const series = sensor.seriesOf(metric)
      for (const row of this.#dirtyHours.note(series, kind, timeMs, message)) this.#write(row)
    }
  }

  /** @param {Series} series */
  #writeNewest(series) {
    const { newest } = series
    if (newest?.value === undefined) return
    this.#write(this.#rows.latest(series, newest, newest.value))
    newest.value = undefined
  }

  /** Writes those newest values whose time has come. */
  writeLatest() {
    for (const series of this.#latest.takeDue()) this.#writeNewest(series)
  }

  /**
   * Writes all newest values, as the service stops.
   *
   * @param {number} msMax  Longest wait, in milliseconds.
   */
  async finishLatest(msMax) {
    const untilMs = performance.now() + msMax
    for (const series of this.#latest.takeAll()) this.#writeNewest(series)
    while (!this.#isWritten() && performance.now() < untilMs) {
      await new Promise((resolve) => setTimeout(resolve, IDLE_MS))
    }
  }
}
