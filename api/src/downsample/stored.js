/**
 * What is known to be stored of one series.
 *
 * A time to live counts from the write, and an event may be written at any age. By the age of an
 * event alone it is therefore certain only that rows are still there, never that they are gone.
 * Beyond that the rollups of an hour tell: when its first raw row was received, and when it was
 * written.
 */

import { EVENT_AHEAD_MS_MAX } from '@sandglass/common/measurement'
import { believed, DAY_MS, HOUR_MS, LEVELS, startOf } from '@sandglass/common/rollup'
import { retentionClass } from '@sandglass/common/schema'

/**
 * How long before they can expire rows count as gone, in milliseconds. Reading them takes a part of
 * it, and clocks differ. Ingest stops computing an hour again twice as long before.
 */
const EXPIRY_MARGIN_MS = 30_000

const [MINUTES, HOURS] = LEVELS

/** @typedef {import('@sandglass/common/rollup').Level} Level */
/** @typedef {import('@sandglass/common/schema').Layout} Layout */
/** @typedef {import('@sandglass/common/spans').Range} Range */
/** @typedef {import('./store.js').HourRow} HourRow */

/**
 * Until when slots are worked off, and which hours have changed in later ones: dirty hours.
 *
 * @typedef {object} Progress
 * @property {number} doneMs  Negative infinity where it is not known which hours are dirty.
 * @property {ReadonlySet<number>} dirtyHours
 */

/**
 * Rollups of a day.
 *
 * @typedef {object} Day
 * @property {ReadonlyMap<number, HourRow>} hours  By their start.
 * @property {boolean} isPartial  Whether rollups of hours have expired that the day still counts.
 */

/**
 * Where raw rows lie between two event times.
 *
 * @typedef {object} Place
 * @property {number} fromMs
 * @property {number} toMs
 * @property {number} goneMs  Rows that were received until then may be gone.
 * @property {number} certainFromMs  The first hour from which on none is: none was received longer
 *   before its time than clocks may be ahead.
 */

export class Stored {
  /** Days whose rollups were read, by their start. @type {Map<number, Day>} */
  #days = new Map()
  #places
  #nowMs
  #progress

  /**
   * @param {readonly Layout[]} layouts  Of the sensor, at least one.
   * @param {Progress} progress
   * @param {number} nowMs
   */
  constructor(layouts, progress, nowMs) {
    this.#places = layouts.map((layout, at) => placeOf(layout, at, layouts, nowMs))
    this.#nowMs = nowMs
    this.#progress = progress
  }

  /** Whole windows of clean hours in a range. @param {Level} level  @param {Range} range */
  clean(level, range) {
    return believed(level, range, this.#progress.doneMs, this.#progress.dirtyHours)
  }

  /** @param {number} hourMs */
  isClean(hourMs) {
    const { doneMs, dirtyHours } = this.#progress
    return hourMs + HOUR_MS <= doneMs && !dirtyHours.has(hourMs)
  }

  /**
   * The first hour, or of hours the first day, from which on all rollups of a level are there: none
   * is written before its hour is over.
   *
   * @param {Level} level
   */
  certainFromMs({ ttlS, windowMs }) {
    if (ttlS === 0) return Number.NEGATIVE_INFINITY
    const unitMs = windowMs < HOUR_MS ? HOUR_MS : DAY_MS
    return startOf(this.#nowMs - HOUR_MS - ttlS * 1000 + EXPIRY_MARGIN_MS, unitMs) + unitMs
  }

  /** Whether no raw row of a range can have expired, by its time. @param {Range} range */
  isRawCertain({ fromMs, toMs }) {
    const hourMs = startOf(fromMs, HOUR_MS)
    return this.#places.every(
      (place) => place.toMs <= fromMs || place.fromMs >= toMs || hourMs >= place.certainFromMs,
    )
  }

  /**
   * Parts of a range by where their raw rows lie.
   *
   * @param {Range} range
   * @returns {Place[]}
   */
  byPlace({ fromMs, toMs }) {
    return this.#places
      .filter((place) => place.fromMs < toMs && place.toMs > fromMs)
      .map((place) => ({
        ...place,
        fromMs: Math.max(place.fromMs, fromMs),
        toMs: Math.min(place.toMs, toMs),
      }))
  }

  /** What was read of a day; undefined where nothing was yet. @param {number} dayMs */
  day(dayMs) {
    return this.#days.get(dayMs)
  }

  /** Whether rollups of hours of a day can have expired. @param {number} dayMs */
  needsDayRow(dayMs) {
    return dayMs < this.certainFromMs(HOURS)
  }

  /**
   * @param {Range} range  Whole days.
   * @param {readonly HourRow[]} hours
   * @param {ReadonlyMap<number, number>} counts  Of the rows of days, by their start.
   */
  addDays({ fromMs, toMs }, hours, counts) {
    /** @type {Map<number, Map<number, HourRow>>} */
    const byDay = new Map()
    for (const row of hours) {
      const dayMs = startOf(row.startMs, DAY_MS)
      const rows = byDay.get(dayMs) ?? new Map()
      byDay.set(dayMs, rows.set(row.startMs, row))
    }
    for (let dayMs = fromMs; dayMs < toMs; dayMs += DAY_MS) {
      const rows = byDay.get(dayMs) ?? NO_HOURS
      const count = [...rows.values()].reduce((sum, { aggregate }) => sum + aggregate.n, 0)
      this.#days.set(dayMs, { hours: rows, isPartial: count < (counts.get(dayMs) ?? 0) })
    }
  }

  /**
   * Whether the minutes of an hour are all there: they were written when the hour was.
   *
   * @param {HourRow} hour
   */
  hasMinutes({ leftMs }) {
    return leftMs - (HOURS.ttlS - MINUTES.ttlS) * 1000 > EXPIRY_MARGIN_MS
  }

  /**
   * Whether the raw rows that an hour counts are all there.
   *
   * @param {HourRow} hour
   */
  hasRaw({ startMs, oldestMs = startMs - EVENT_AHEAD_MS_MAX }) {
    const places = this.byPlace({ fromMs: startMs, toMs: startMs + HOUR_MS })
    return places.every(({ goneMs }) => oldestMs > goneMs)
  }
}

/** @type {ReadonlyMap<number, HourRow>} */
const NO_HOURS = new Map()

/**
 * @param {Layout} layout
 * @param {number} at  Which one it is.
 * @param {readonly Layout[]} layouts
 * @param {number} nowMs
 * @returns {Place}
 */
function placeOf({ className, fromMs, lostMs = Number.NEGATIVE_INFINITY }, at, layouts, nowMs) {
  const { ttlS } = retentionClass(className)
  const expiredMs = ttlS === 0 ? Number.NEGATIVE_INFINITY : nowMs - ttlS * 1000 + EXPIRY_MARGIN_MS
  const goneMs = Math.max(lostMs, expiredMs)
  return {
    fromMs: at === 0 ? Number.NEGATIVE_INFINITY : fromMs,
    toMs: layouts[at + 1]?.fromMs ?? Number.POSITIVE_INFINITY,
    goneMs,
    certainFromMs: startOf(goneMs + EVENT_AHEAD_MS_MAX, HOUR_MS) + HOUR_MS,
  }
}
