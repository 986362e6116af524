/** One series of a request: plans from where it is read, and reads it. */

import { Aggregate, rollupValue } from '@sandglass/common/aggregate'
import { DAY_MS, HOUR_MS, LEVELS, startOf } from '@sandglass/common/rollup'
import { bucketOf } from '@sandglass/common/schema'
import { spans } from '@sandglass/common/spans'
import { joined, occupied } from '../ranges.js'
import { allEnded } from './budget.js'
import { plan } from './plan.js'
import { GRAINS_MS, widen } from './step.js'
import { Stored } from './stored.js'
import { Windows } from './windows.js'

const [, HOURS, DAYS] = LEVELS

/** @typedef {import('@sandglass/common/rollup').Level} Level */
/** @typedef {import('@sandglass/common/spans').Range} Range */
/** @typedef {import('./plan.js').Piece} Piece */

/**
 * @typedef {object} Context  What the series of a request share.
 * @property {import('../store.js').Store} store
 * @property {import('./sensors.js').Ask} ask
 * @property {import('./budget.js').Budget} budget
 * @property {number} nowMs
 * @property {boolean} needsSketch
 */

/** @typedef {{ windows: Windows, levels: ReadonlySet<string> }} Sums */

export class SeriesScan {
  #context
  #sensorId
  #metric
  #layouts
  #extent
  #stored

  /**
   * @param {Context} context
   * @param {{ sensorId: string, metric: string }} series
   * @param {import('./sensors.js').Sensor} sensor
   */
  constructor(context, { sensorId, metric }, { layouts, extents, doneMs, dirtyHours }) {
    this.#context = context
    this.#sensorId = sensorId
    this.#metric = metric
    this.#layouts = layouts
    this.#extent = extents.get(metric)
    const progress = { doneMs, dirtyHours: dirtyHours.get(metric) ?? new Set() }
    this.#stored = new Stored(layouts, progress, context.nowMs)
  }

  /** When its first event is, as far as it is known; milliseconds since the Unix epoch. */
  get firstMs() {
    return this.#extent?.firstMs
  }

  /**
   * From where the windows of a range are read.
   *
   * @param {Range} range
   * @param {number} stepMs
   * @returns {Promise<Piece[] | undefined>}  Undefined if something as fine is not stored any more.
   */
  async plan(range, stepMs) {
    if (this.#layouts.length === 0) return []
    const { needsSketch, nowMs } = this.#context
    // A window of a rollup may begin before the first row that it sums up.
    const within = occupied(this.#extent, range, nowMs).map((one) => widen(one, stepMs))
    /** @type {Piece[]} */
    const pieces = []
    for (const { fromMs, toMs } of joined(within)) {
      const part = { fromMs: Math.max(fromMs, range.fromMs), toMs: Math.min(toMs, range.toMs) }
      const planned = await this.#settled(part, stepMs, needsSketch)
      if (!planned) return undefined
      pieces.push(...planned)
    }
    return pieces
  }

  /**
   * How coarse what is stored at an end of a range is: the end is moved to a whole window of that.
   *
   * @param {Range} range
   * @param {number} edgeMs  One of its ends.
   * @returns {Promise<number>}  One of {@link GRAINS_MS}.
   */
  async grainAt(range, edgeMs) {
    const hourMs = startOf(edgeMs === range.fromMs ? edgeMs : edgeMs - 1, HOUR_MS)
    const dayMs = startOf(hourMs, DAY_MS)
    const day = { fromMs: dayMs, toMs: dayMs + DAY_MS }
    const { needsSketch, nowMs } = this.#context
    const fit = GRAINS_MS.findLastIndex((ms) => edgeMs % ms === 0)
    const isEmpty = this.#layouts.length === 0 || occupied(this.#extent, day, nowMs).length === 0
    if (isEmpty || edgeMs % DAY_MS === 0) return GRAINS_MS[fit]
    const part = {
      fromMs: Math.max(range.fromMs, day.fromMs),
      toMs: Math.min(range.toMs, day.toMs),
    }
    if (this.#stored.needsDayRow(dayMs) && !this.#stored.isRawCertain(part)) {
      if (!this.#stored.day(dayMs)) await this.#readDays(new Set([dayMs]))
      if (this.#stored.day(dayMs)?.isPartial) return DAY_MS
    }
    const hour = { fromMs: hourMs, toMs: hourMs + HOUR_MS }
    for (const ms of GRAINS_MS.slice(fit, -1)) {
      if (await this.#settled(hour, ms, needsSketch)) return ms
    }
    return DAY_MS
  }

  /**
   * @param {readonly Piece[]} pieces  As planned.
   * @param {number} stepMs
   * @returns {Promise<Sums>}
   * @throws {import('./budget.js').OverBudget}
   */
  async read(pieces, stepMs) {
    const windows = new Windows(stepMs, this.#context.needsSketch)
    const levels = new Set(pieces.map(({ level }) => level?.name ?? 'raw'))
    /** Rows come newest first, and those of one millisecond by one read. */
    let order = 0
    /** @param {import('./store.js').NumberRow} row */
    const add = (row) => {
      const value = rollupValue(row)
      if (value === undefined) return
      const timeMs = row.ts.getTime()
      windows.at(timeMs).add(timeMs, --order, value)
    }
    await allEnded(
      pieces.map(({ level, ...range }) =>
        level ? this.#readRollups(level, range, windows) : this.#readRaw(range, add),
      ),
    )
    return { windows, levels }
  }

  /**
   * Plans, and reads what the plan has to know, until it is made.
   *
   * @param {Range} range
   * @param {number} stepMs
   * @param {boolean} needsSketch
   */
  async #settled(range, stepMs, needsSketch) {
    for (;;) {
      this.#context.budget.spend(0)
      const made = plan(range, stepMs, this.#stored, needsSketch)
      if (made.unread.size > 0) await this.#readDays(made.unread)
      else return made.isComplete ? made.pieces : undefined
    }
  }

  /** @param {ReadonlySet<number>} starts */
  async #readDays(starts) {
    // One without rows costs something, too.
    this.#context.budget.spend(starts.size)
    const days = joined([...starts].map((fromMs) => ({ fromMs, toMs: fromMs + DAY_MS })))
    await allEnded(
      days.map(async (range) => {
        /** @type {import('./store.js').HourRow[]} */
        const hours = []
        /** @type {Map<number, number>} */
        const counts = new Map()
        const { store } = this.#context
        const one = /** @type {const} */ ([this.#sensorId, this.#metric])
        await this.#eachBucket(HOURS, range, async (part) => {
          hours.push(...this.#spent(await store.hours(...one, part)))
        })
        const untilMs = Math.min(range.toMs, this.#stored.certainFromMs(HOURS))
        await this.#eachBucket(DAYS, { ...range, toMs: untilMs }, async (part) => {
          for (const [startMs, n] of this.#spent([...(await store.dayCounts(...one, part))])) {
            counts.set(startMs, n)
          }
        })
        this.#stored.addDays(range, hours, counts)
      }),
    )
  }

  /** @param {Level} level  @param {Range} range  @param {Windows} windows */
  async #readRollups(level, range, windows) {
    const { store } = this.#context
    await this.#eachBucket(level, range, async (part) => {
      const rows = await store.rollups(this.#sensorId, this.#metric, { level: level.name, ...part })
      for (const row of this.#spent(rows)) {
        const aggregate = Aggregate.ofRow(/** @type {any} */ (row))
        windows.at(aggregate.firstMs).merge(aggregate)
      }
    })
  }

  /** @param {Range} range  @param {(row: import('./store.js').NumberRow) => void} add */
  async #readRaw(range, add) {
    await this.#eachPage(range, this.#context.store.numbers, add)
  }

  /**
   * @template {import('./store.js').NumberRow} T
   * @param {Range} range
   * @param {(sensorId: string, metric: string, span: import('@sandglass/common/spans').Span,
   *   pageState?: string) => Promise<{ rows: T[], pageState: string | undefined }>} read
   * @param {(row: T) => void} add
   */
  async #eachPage(range, read, add) {
    for (const span of spans(this.#layouts, [range], 'asc')) {
      /** @type {string | undefined} */
      let pageState
      do {
        const state = pageState
        const page = await this.#context.ask(() => read(this.#sensorId, this.#metric, span, state))
        for (const row of this.#spent(page.rows)) add(row)
        pageState = page.pageState
      } while (pageState)
    }
  }

  /**
   * @param {Level} level
   * @param {Range} range
   * @param {(part: Range & { bucket: number }) => Promise<void>} read
   */
  async #eachBucket(level, { fromMs, toMs }, read) {
    const bucketMs = level.bucketS * 1000
    for (let startMs = fromMs; startMs < toMs; ) {
      const bucket = bucketOf(level.bucketS, startMs)
      const endMs = Math.min(bucket * 1000 + bucketMs, toMs)
      const part = { bucket, fromMs: startMs, toMs: endMs }
      await this.#context.ask(() => read(part))
      startMs = endMs
    }
  }

  /** @template T  @param {T[]} rows  That were read. */
  #spent(rows) {
    this.#context.budget.spend(rows.length)
    return rows
  }
}
