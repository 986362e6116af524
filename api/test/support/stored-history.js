/**
 * A database in which rows expire, and what ingest promises to write into it: raw rows, dirty
 * hours, and rollups that are computed whole, slot by slot. Its clock is the test's. Besides it
 * keeps what every hour and day holds by right, so that each answer can be judged.
 */

import { Aggregate } from '@sandglass/common/aggregate'
import { EVENT_AHEAD_MS_MAX } from '@sandglass/common/measurement'
import {
  DAY_MS,
  HOUR_MS,
  LEVELS,
  MARK_TTL_S,
  SLOT_GRACE_MS,
  SLOT_MS,
  slotFor,
  startOf,
} from '@sandglass/common/rollup'
import { bucketOf, layoutAt, retentionClass } from '@sandglass/common/schema'
import { sensorId } from '@sandglass/common/sensor'
import { createFakeStore } from './fake-store.js'

export const ID = sensorId('s')
export const METRIC = 'm'
const MINUTE_MS = 60_000

/** How long before rows may have expired ingest leaves a rollup as it is, in milliseconds. */
const FROZEN_MARGIN_MS = 60_000

/** @typedef {import('@sandglass/common/schema').Layout} Layout */
/**
 * @typedef {{ t: number, seq: number, value: number, receivedMs: number,
 *   expiresMs: number }} Raw
 * @typedef {{ aggregate: Aggregate, oldestMs: number | undefined, writtenMs: number,
 *   expiresMs: number }} Rollup
 */

/** What an hour holds by right: what its rollup counts, and what came later. */
/** @typedef {{ counted: Raw[], later: Raw[] }} Hour */

export class StoredHistory {
  /** @type {Raw[]} */
  raw = []
  /** @type {Map<string, Map<number, Rollup>>} */
  rollups = new Map(LEVELS.map(({ name }) => [name, new Map()]))
  /** Hours by slot. @type {Map<number, Set<number>>} */
  dirty = new Map()
  /** Days by slot. @type {Map<number, Set<number>>} */
  dueDays = new Map()
  /** @type {Map<number, Hour>} */
  hours = new Map()
  /** What rollups of days count. @type {Map<number, Raw[]>} */
  days = new Map()

  /**
   * @param {number} nowMs
   * @param {Layout[]} layouts
   * @param {boolean} [isDated]  Whether each hour says when its first row was received. In an
   *   earlier version only those did of which rows might have expired.
   */
  constructor(nowMs, layouts, isDated = true) {
    this.nowMs = nowMs
    this.isDated = isDated
    /** Whether the last request asked for marks; not where they are too many, or may be gone. */
    this.areMarksKnown = false
    this.layouts = layouts
    this.doneMs = startOf(nowMs, SLOT_MS)
    this.firstMs = Number.POSITIVE_INFINITY
    this.lastMs = Number.NEGATIVE_INFINITY
  }

  /**
   * @param {{ t: number, value: number }} row
   * @param {number} waitedMs  How long it was in the spool.
   */
  insert({ t, value }, waitedMs) {
    const { ttlS } = retentionClass(layoutAt(this.layouts, t).className)
    const receivedMs = this.nowMs - waitedMs
    const keptS = waitedMs > 60_000 ? Math.floor(waitedMs / 1000) : 0
    const expiresMs = ttlS === 0 ? Infinity : this.nowMs + Math.max(1, ttlS - keptS) * 1000
    const row = { t, seq: this.raw.length, value, receivedMs, expiresMs }
    this.raw.push(row)
    const hourMs = startOf(t, HOUR_MS)
    this.hourOf(hourMs).later.push(row)
    const slotMs = slotFor(hourMs + HOUR_MS, this.nowMs)
    this.dirty.set(slotMs, (this.dirty.get(slotMs) ?? new Set()).add(hourMs))
    this.firstMs = Math.min(this.firstMs, t)
    this.lastMs = Math.max(this.lastMs, t)
  }

  /** @param {number} hourMs */
  hourOf(hourMs) {
    const hour = this.hours.get(hourMs) ?? { counted: [], later: [] }
    this.hours.set(hourMs, hour)
    return hour
  }

  /** @param {number} ms  @param {boolean} isIngestThere  Whether it works slots off. */
  advance(ms, isIngestThere) {
    const untilMs = this.nowMs + ms
    if (isIngestThere) {
      for (;;) {
        const slotMs = Math.min(...this.dirty.keys(), ...this.dueDays.keys())
        const dueMs = slotMs + SLOT_MS + SLOT_GRACE_MS
        if (dueMs > untilMs) break
        this.nowMs = Math.max(this.nowMs, dueMs)
        this.#workOff(slotMs)
      }
      this.doneMs = Math.max(this.doneMs, startOf(untilMs - SLOT_GRACE_MS, SLOT_MS))
    }
    this.nowMs = untilMs
    this.raw = this.raw.filter(({ expiresMs }) => expiresMs > untilMs)
  }

  /** Every row goes to another class, as far as it is there. @param {string} className */
  rewrite(className) {
    const { ttlS } = retentionClass(className)
    for (const row of this.raw) {
      if (row.expiresMs <= this.nowMs) continue
      row.expiresMs = ttlS === 0 ? Infinity : row.receivedMs + ttlS * 1000
    }
    this.layouts = this.layouts.map((layout) => {
      const before = retentionClass(layout.className).ttlS
      const goneMs = before === 0 ? -Infinity : this.nowMs - before * 1000 + FROZEN_MARGIN_MS
      const lostMs = Math.max(goneMs, layout.lostMs ?? -Infinity)
      const { bucketS } = retentionClass(className)
      return { ...layout, className, bucketS, ...(lostMs > -Infinity ? { lostMs } : {}) }
    })
  }

  /** @param {number} timeMs */
  classAt(timeMs) {
    const { className, lostMs = -Infinity } = /** @type {Layout} */ (layoutAt(this.layouts, timeMs))
    return { ttlMs: (retentionClass(className).ttlS || Infinity) * 1000, lostMs }
  }

  /** Raw rows that will be there for a while. @param {number} hourMs  @param {number} ms */
  rawOf(hourMs, ms = 0) {
    return this.raw.filter(
      ({ t, expiresMs }) => startOf(t, HOUR_MS) === hourMs && expiresMs > this.nowMs + ms,
    )
  }

  /** @param {string} level  @param {number} startMs  @param {number} [ms]  For so long. */
  rollup(level, startMs, ms = 0) {
    const row = this.rollups.get(level)?.get(startMs)
    return row && row.expiresMs > this.nowMs + ms ? row : undefined
  }

  /**
   * Whether raw rows of an hour may have expired that its rollup counts: then it stays as it is.
   *
   * @param {number} hourMs
   * @param {number} marginMs
   */
  isFrozen(hourMs, marginMs = 30_000) {
    const row = this.rollup('1h', hourMs)
    const { ttlMs, lostMs } = this.classAt(hourMs)
    const receivedMs = row?.oldestMs ?? hourMs - EVENT_AHEAD_MS_MAX
    return row !== undefined && (this.nowMs >= receivedMs + ttlMs - marginMs || receivedMs < lostMs)
  }

  /** @param {number} slotMs */
  #workOff(slotMs) {
    const days = this.dueDays.get(slotMs) ?? new Set()
    for (const hourMs of this.dirty.get(slotMs) ?? []) {
      if (!this.#rollHour(hourMs)) continue
      const dayMs = startOf(hourMs, DAY_MS)
      const dueMs = slotFor(dayMs + DAY_MS, slotMs)
      if (dueMs > slotMs) this.dueDays.set(dueMs, (this.dueDays.get(dueMs) ?? new Set()).add(dayMs))
      else days.add(dayMs)
    }
    for (const dayMs of days) this.#rollDay(dayMs)
    this.dirty.delete(slotMs)
    this.dueDays.delete(slotMs)
  }

  /** @param {number} hourMs */
  #rollHour(hourMs) {
    const hour = this.hourOf(hourMs)
    if (this.isFrozen(hourMs, FROZEN_MARGIN_MS)) {
      hour.later = []
      return false
    }
    const rows = this.rawOf(hourMs)
    hour.counted = rows
    hour.later = []
    if (rows.length === 0) return false
    const isOld =
      this.isDated ||
      this.nowMs >= hourMs - EVENT_AHEAD_MS_MAX + this.classAt(hourMs).ttlMs - FROZEN_MARGIN_MS
    const oldestMs = isOld ? Math.min(...rows.map(({ receivedMs }) => receivedMs)) : undefined
    for (const minuteMs of new Set(rows.map(({ t }) => startOf(t, MINUTE_MS)))) {
      const its = rows.filter(({ t }) => startOf(t, MINUTE_MS) === minuteMs)
      this.#put('1m', minuteMs, sumOf(its), undefined)
    }
    this.#put('1h', hourMs, sumOf(rows), oldestMs)
    return true
  }

  /** @param {number} dayMs */
  #rollDay(dayMs) {
    const hours = this.hoursOf(dayMs).filter((hourMs) => this.rollup('1h', hourMs))
    const day = Aggregate.withSketch()
    for (const hourMs of hours) {
      day.merge(/** @type {Rollup} */ (this.rollup('1h', hourMs)).aggregate)
    }
    const existing = this.rollup('1d', dayMs)
    if (day.n === 0 || (existing && existing.aggregate.n > day.n)) return
    this.#put('1d', dayMs, day, undefined)
    this.days.set(
      dayMs,
      hours.flatMap((hourMs) => this.hourOf(hourMs).counted),
    )
  }

  /** @param {number} dayMs */
  hoursOf(dayMs) {
    return Array.from({ length: 24 }, (_, at) => dayMs + at * HOUR_MS)
  }

  /**
   * @param {string} level
   * @param {number} startMs
   * @param {Aggregate} aggregate
   * @param {number | undefined} oldestMs
   */
  #put(level, startMs, aggregate, oldestMs) {
    const ttlS = LEVELS.find(({ name }) => name === level)?.ttlS || Infinity
    const row = { aggregate, oldestMs, writtenMs: this.nowMs, expiresMs: this.nowMs + ttlS * 1000 }
    this.rollups.get(level)?.set(startMs, row)
  }

  /** Whether a day counts hours that have expired. @param {number} dayMs */
  isPartial(dayMs) {
    const hours = this.hoursOf(dayMs).map((hourMs) => this.rollup('1h', hourMs)?.aggregate.n ?? 0)
    const n = hours.reduce((sum, count) => sum + count, 0)
    return n < (this.rollup('1d', dayMs)?.aggregate.n ?? 0)
  }

  /** Whether the raw rows of an hour never expire, and none has. @param {number} hourMs */
  isKept(hourMs) {
    const { ttlMs, lostMs } = this.classAt(hourMs)
    return ttlMs === Infinity && hourMs - EVENT_AHEAD_MS_MAX >= lostMs
  }

  /** Whether only the rollup of a day tells all of it. @param {number} dayMs */
  isDayAlone(dayMs) {
    return this.isPartial(dayMs) && !this.hoursOf(dayMs).every((hourMs) => this.isKept(hourMs))
  }

  /** @param {number} hourMs */
  isDirty(hourMs) {
    const isMarked = [...this.dirty.values()].some((hours) => hours.has(hourMs))
    return isMarked || hourMs + HOUR_MS > this.doneMs || !this.areMarksKnown
  }

  /** What an hour holds by right. @param {number} hourMs  @returns {Raw[]} */
  right(hourMs) {
    const hour = this.hours.get(hourMs)
    if (!hour) return []
    if (hour.later.length === 0) return hour.counted
    if (this.isFrozen(hourMs)) return hour.counted
    if (!this.rollups.get('1h')?.has(hourMs)) return this.rawOf(hourMs)
    // What expired before it was summed up is told nowhere.
    return [...hour.counted, ...hour.later.filter(({ expiresMs }) => expiresMs > this.nowMs)]
  }

  /**
   * What the windows of a range hold by right.
   *
   * @param {import('@sandglass/common/spans').Range} range
   * @param {number} stepMs
   * @returns {Map<number, Raw[]>}  By their start.
   */
  rightWindows({ fromMs, toMs }, stepMs) {
    /** @type {Map<number, Raw[]>} */
    const windows = new Map()
    /** @param {number} t  @param {Raw[]} rows */
    const add = (t, ...rows) => {
      const startMs = startOf(t, stepMs)
      windows.set(startMs, [...(windows.get(startMs) ?? []), ...rows])
    }
    /** Days of which only the rollup tells, as far as one window has all of them. */
    const alone = [...this.days.keys()].filter((dayMs) => {
      const lastMs = dayMs + DAY_MS - 1
      const isWhole = startOf(dayMs, stepMs) === startOf(lastMs, stepMs)
      return isWhole && dayMs >= fromMs && lastMs < toMs && this.isDayAlone(dayMs)
    })
    for (const dayMs of alone) add(dayMs, ...(this.days.get(dayMs) ?? []))
    const isAlone = new Set(alone)
    for (const hourMs of this.hours.keys()) {
      if (hourMs >= toMs || hourMs + HOUR_MS <= fromMs) continue
      if (isAlone.has(startOf(hourMs, DAY_MS))) continue
      for (const row of this.right(hourMs)) if (row.t >= fromMs && row.t < toMs) add(row.t, row)
    }
    return windows
  }

  /** @returns {import('../../src/store.js').Store} */
  store() {
    const base = createFakeStore({ name: 's' })
    /** @param {import('@sandglass/common/spans').Span} span */
    const rowsOf = ({ className, bucket, fromMs, toMs }) =>
      this.raw
        .filter(({ t, expiresMs }) => t >= fromMs && t < toMs && expiresMs > this.nowMs)
        .filter(({ t }) => {
          const layout = layoutAt(this.layouts, t)
          return layout.className === className && bucketOf(layout.bucketS, t) === bucket
        })
        .sort((a, b) => b.t - a.t || b.seq - a.seq)
        .map(({ t, value, receivedMs }) => ({
          ts: new Date(t),
          v: value,
          i: null,
          b: null,
          receivedMs,
        }))
    /** @param {string} level  @param {import('@sandglass/common/spans').Range} range */
    const rollupsOf = (level, { fromMs, toMs }) =>
      [...(this.rollups.get(level) ?? [])]
        .filter(([startMs]) => startMs >= fromMs && startMs < toMs)
        .filter(([, { expiresMs }]) => expiresMs > this.nowMs)
        .map(([startMs, row]) => ({ startMs, ...row }))
    return {
      ...base,
      layouts: async () => this.layouts,
      series: async () => [{ metric: METRIC, firstMs: this.firstMs, lastMs: this.lastMs }],
      numbers: async (_id, _metric, span) => ({ rows: rowsOf(span), pageState: undefined }),
      rollups: async (_id, _metric, { level, ...range }) =>
        rollupsOf(level, range).map(({ startMs, aggregate }) => {
          const sketch = level === '1m' ? null : aggregate.sketch?.encode()
          return /** @type {any} */ ({ ...aggregate, ts: new Date(startMs), sketch })
        }),
      hours: async (_id, _metric, range) =>
        rollupsOf('1h', range).map(({ startMs, aggregate, oldestMs, expiresMs }) => {
          return { startMs, aggregate, oldestMs, leftMs: expiresMs - this.nowMs }
        }),
      dayCounts: async (_id, _metric, range) =>
        new Map(rollupsOf('1d', range).map(({ startMs, aggregate }) => [startMs, aggregate.n])),
      rollupProgress: async () => {
        this.areMarksKnown = false
        return this.doneMs
      },
      markedHours: async (_id, { fromMs, toMs }) => {
        this.areMarksKnown = true
        const isThere = (/** @type {number} */ slotMs) =>
          slotMs >= fromMs && slotMs < toMs && slotMs > this.nowMs - MARK_TTL_S * 1000
        const slots = [...this.dirty].filter(([slotMs]) => isThere(slotMs))
        return new Map([[METRIC, new Set(slots.flatMap(([, hours]) => [...hours]))]])
      },
    }
  }
}

/** @param {readonly Raw[]} rows */
export function sumOf(rows) {
  const aggregate = Aggregate.withSketch()
  const newestFirst = [...rows].sort((a, b) => b.t - a.t || b.seq - a.seq)
  newestFirst.forEach(({ t, value }, at) => {
    aggregate.add(t, -at, value)
  })
  return aggregate
}
