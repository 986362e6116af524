/** Sums a series up in windows, from rollups and raw rows, within a budget of rows and time. */

import { Aggregate, rollupValue } from '@sandglass/common/aggregate'
import { Problem } from '@sandglass/common/problem'
import { bucketOf, layoutAt, retentionClass } from '@sandglass/common/schema'
import { Semaphore } from '@sandglass/common/semaphore'
import { spans } from '@sandglass/common/spans'
import { unknownSensor } from '../measurements.js'
import { CLOCK_AHEAD_MS, joined, occupied } from '../ranges.js'
import { plan } from './plan.js'
import { finestMs, stepFor, widen, windowCount } from './step.js'
import { Windows } from './windows.js'

/** Most rows that one request reads. */
const ROWS_MAX = 200_000

/** Most windows of one series in an answer. */
const WINDOWS_MAX = 10_000

/** Windows of an answer where nobody says how many. */
export const POINTS_DEFAULT = 800

/** Most queries that one request has in flight. */
const QUERIES_AT_ONCE_MAX = 16

/** Steps to which a request that may choose falls back when there are too many rows, in ms. */
const FALLBACKS_MS = [60_000, 3_600_000, 86_400_000]

/** @typedef {import('@sandglass/common/spans').Range} Range */
/** @typedef {import('../store.js').Store} Store */
/** @typedef {{ sensorId: string, metric: string }} Series */

/**
 * @typedef {object} Question
 * @property {number | undefined} fromMs  First millisecond; undefined for all there is.
 * @property {number | undefined} toMs  First millisecond after.
 * @property {number | undefined} stepMs  Where the client chose it, else
 * @property {number} points  most windows.
 * @property {boolean} needsSketch
 */

/**
 * @typedef {object} Answer
 * @property {Range} range  What was read: moved outwards where finer rows are gone.
 * @property {number} stepMs
 * @property {Map<Series, Windows>} windows
 * @property {string} resolution  The coarsest that was read: `raw`, `1m`, `1h` or `1d`.
 */

/** How long one answer is read, in milliseconds. */
const READ_MS_MAX = 5_000

class TooManyRows extends Error {}

export class SeriesDownsampler {
  #store
  #gate
  #now

  /**
   * @param {object} parts
   * @param {Store} parts.store
   * @param {Semaphore} parts.gate  For the queries of all requests together.
   * @param {() => number} [parts.now]  Milliseconds since the Unix epoch.
   */
  constructor({ store, gate, now = Date.now }) {
    this.#store = store
    this.#gate = gate
    this.#now = now
  }

  /**
   * @param {readonly Series[]} series
   * @param {Question} question
   * @param {AbortSignal} signal  Aborted when nobody waits for the answer any more.
   * @returns {Promise<Answer>}
   * @throws {Problem}  If a sensor is not there, or the answer would be too large.
   */
  async read(series, question, signal) {
    const ask = this.#asker(signal)
    const sensors = new Map(
      await Promise.all(
        [...new Set(series.map(({ sensorId }) => sensorId))].map(
          async (id) => /** @type {const} */ ([id, await this.#about(ask, id)]),
        ),
      ),
    )
    const asked = this.#range(question, series, sensors)
    const finestAt = this.#finest([...sensors.values()])
    const finest = finestIn(asked, sensors.values(), finestAt)
    const untilMs = performance.now() + READ_MS_MAX
    for (const stepMs of this.#steps(asked, question, finest)) {
      const range = widen(asked, finestAt)
      try {
        const budget = { rows: ROWS_MAX, untilMs }
        const parts = await Promise.all(
          series.map(async (one) => {
            const about = /** @type {About} */ (sensors.get(one.sensorId))
            const what = { ...one, ...about, range, stepMs, needsSketch: question.needsSketch }
            return this.#sum(ask, what, budget)
          }),
        )
        const windows = new Map(parts.map((part, at) => [series[at], part.windows]))
        return { range, stepMs, windows, resolution: coarsest(parts) }
      } catch (error) {
        if (!(error instanceof TooManyRows)) throw error
      }
    }
    throw tooMuch(question)
  }

  /**
   * The finest windows of which something is kept from a time on, in milliseconds.
   *
   * @param {readonly About[]} sensors
   */
  #finest(sensors) {
    const nowMs = this.#now()
    return (/** @type {number} */ timeMs) =>
      finestMs(timeMs, nowMs, shortest(sensors.map((one) => one.rawTtlS(timeMs))))
  }

  /** @param {AbortSignal} signal */
  #asker(signal) {
    const requestGate = new Semaphore(QUERIES_AT_ONCE_MAX)
    /** @template T  @param {() => Promise<T>} query */
    return (query) => requestGate.run(() => this.#gate.run(query, signal), signal)
  }

  /** @param {Ask} ask  @param {string} sensorId */
  async #about(ask, sensorId) {
    const [isKnown, layouts, series, progress] = await Promise.all([
      ask(() => this.#store.isKnown(sensorId)),
      ask(() => this.#store.layouts(sensorId)),
      ask(() => this.#store.series(sensorId)),
      this.#progress(ask, sensorId),
    ])
    if (!isKnown) throw unknownSensor()
    /** @param {number} timeMs */
    const rawTtlS = (timeMs) =>
      layouts.length > 0 ? retentionClass(layoutAt(layouts, timeMs).className).ttlS : 0
    return { layouts, rawTtlS, progress, extents: new Map(series.map((one) => [one.metric, one])) }
  }

  /** How far the rollups of a sensor have come, and which hours have changed since. */
  /** @param {Ask} ask  @param {string} sensorId */
  async #progress(ask, sensorId) {
    const doneMs = await ask(() => this.#store.rollupProgress(sensorId))
    if (doneMs === undefined) return { doneMs: Number.NEGATIVE_INFINITY, marks: NO_MARKS }
    const untilMs = this.#now() + CLOCK_AHEAD_MS
    const slots = { fromMs: doneMs, toMs: untilMs }
    return { doneMs, marks: await ask(() => this.#store.markedHours(sensorId, slots)) }
  }

  /**
   * @param {Question} question
   * @param {readonly Series[]} series
   * @param {ReadonlyMap<string, About>} sensors
   * @returns {Range}
   */
  #range({ fromMs, toMs }, series, sensors) {
    const until = toMs ?? this.#now() + 1
    if (fromMs !== undefined) return { fromMs, toMs: Math.max(until, fromMs) }
    const firsts = series.map(
      ({ sensorId, metric }) => sensors.get(sensorId)?.extents.get(metric)?.firstMs ?? until,
    )
    return { fromMs: Math.min(until, ...firsts), toMs: until }
  }

  /**
   * The steps to try, one after the other.
   *
   * @param {Range} range
   * @param {Question} question
   * @param {number} finest  The finest windows that are kept of all of the range, in milliseconds.
   */
  #steps(range, { stepMs, points }, finest) {
    if (stepMs === undefined) {
      const first = stepFor(range, points, finest)
      return [first, ...FALLBACKS_MS.filter((ms) => ms > first)]
    }
    if (windowCount(range, stepMs) > WINDOWS_MAX) {
      const least = stepFor(range, WINDOWS_MAX, 1)
      throw new Problem(
        'invalid-parameter',
        `step makes more than ${WINDOWS_MAX} windows: ${least}ms is the least for this range`,
        { parameter: 'step' },
      )
    }
    if (stepMs % finest !== 0) {
      throw new Problem(
        'invalid-parameter',
        `step must be a multiple of ${finest}ms: nothing finer is kept from as long ago as from`,
        { parameter: 'step' },
      )
    }
    return [stepMs]
  }

  /**
   * @param {Ask} ask
   * @param {Series & About & { range: Range, stepMs: number, needsSketch: boolean }} what
   * @param {{ rows: number, untilMs: number }} budget
   */
  async #sum(ask, what, budget) {
    const { sensorId, metric, layouts, progress, range, stepMs, needsSketch } = what
    const windows = new Windows(stepMs, needsSketch)
    /** @type {Set<string>} */
    const levels = new Set()
    if (layouts.length === 0) return { windows, levels }
    const markedHours = progress.marks.get(metric) ?? NO_HOURS
    const known = { doneMs: progress.doneMs, markedHours }
    /** @param {number} rows */
    const spend = (rows) => {
      budget.rows -= rows
      if (budget.rows < 0 || performance.now() > budget.untilMs) throw new TooManyRows()
    }
    /** Rows come newest first, and those of one millisecond by one read. */
    let order = 0
    /** @type {Promise<void>[]} */
    const reads = []
    const within = occupied(what.extents.get(metric), range, this.#now())
    // A window of a rollup may begin before the first row that it sums up.
    for (const whole of joined(within.map((one) => widen(one, () => stepMs)))) {
      const clipped = {
        fromMs: Math.max(whole.fromMs, range.fromMs),
        toMs: Math.min(whole.toMs, range.toMs),
      }
      for (const piece of plan(clipped, stepMs, known, needsSketch)) {
        levels.add(piece.level?.name ?? 'raw')
        reads.push(
          piece.level
            ? this.#addRollups(ask, { sensorId, metric }, { ...piece, level: piece.level }, add)
            : this.#addRaw(ask, { sensorId, metric }, layouts, piece, addRaw),
        )
      }
    }
    /** @param {Aggregate} aggregate */
    function add(aggregate) {
      spend(1)
      windows.at(aggregate.firstMs).merge(aggregate)
    }
    /** @param {readonly import('../store.js').NumberRow[]} rows */
    function addRaw(rows) {
      spend(rows.length)
      for (const row of rows) {
        const value = rollupValue(row)
        if (value === undefined) continue
        const timeMs = row.ts.getTime()
        windows.at(timeMs).add(timeMs, --order, value)
      }
    }
    await Promise.all(reads)
    return { windows, levels }
  }

  /**
   * @param {Ask} ask
   * @param {Series} series
   * @param {Range & { level: import('@sandglass/common/rollup').Level }} piece
   * @param {(aggregate: Aggregate) => void} add
   */
  async #addRollups(ask, { sensorId, metric }, { level, fromMs, toMs }, add) {
    const bucketMs = level.bucketS * 1000
    for (let startMs = fromMs; startMs < toMs; ) {
      const bucket = bucketOf(level.bucketS, startMs)
      const endMs = Math.min(bucket * 1000 + bucketMs, toMs)
      const part = { level: level.name, bucket, fromMs: startMs, toMs: endMs }
      for (const row of await ask(() => this.#store.rollups(sensorId, metric, part))) {
        add(Aggregate.ofRow(/** @type {any} */ (row)))
      }
      startMs = endMs
    }
  }

  /**
   * @param {Ask} ask
   * @param {Series} series
   * @param {readonly import('@sandglass/common/schema').Layout[]} layouts
   * @param {Range} piece
   * @param {(rows: import('../store.js').NumberRow[]) => void} add
   */
  async #addRaw(ask, { sensorId, metric }, layouts, piece, add) {
    for (const span of spans(layouts, [piece], 'asc')) {
      /** @type {string | undefined} */
      let pageState
      do {
        const state = pageState
        const page = await ask(() => this.#store.numbers(sensorId, metric, span, state))
        add(page.rows)
        pageState = page.pageState
      } while (pageState)
    }
  }
}

/** @typedef {<T>(query: () => Promise<T>) => Promise<T>} Ask */
/** @typedef {Awaited<ReturnType<Store['layouts']>>} Layouts */

/**
 * @typedef {object} About  What is known of a sensor.
 * @property {Layouts} layouts
 * @property {(timeMs: number) => number} rawTtlS
 * @property {{ doneMs: number, marks: ReadonlyMap<string, ReadonlySet<number>> }} progress  Marked
 *   hours by metric.
 * @property {ReadonlyMap<string, import('../store.js').Series>} extents
 */

/** @type {ReadonlyMap<string, ReadonlySet<number>>} */
const NO_MARKS = new Map()
/** @type {ReadonlySet<number>} */
const NO_HOURS = new Set()

/**
 * The finest windows that are kept of a whole range: where measurements go to another class, rows
 * may be gone that are younger than others.
 *
 * @param {Range} range
 * @param {Iterable<About>} sensors
 * @param {(timeMs: number) => number} finestAt
 */
function finestIn(range, sensors, finestAt) {
  const changes = [...sensors].flatMap(({ layouts }) => layouts.map(({ fromMs }) => fromMs))
  const within = changes.filter((fromMs) => fromMs > range.fromMs && fromMs < range.toMs)
  return Math.max(...[range.fromMs, ...within].map(finestAt))
}

/** The shortest of some times to live, of which 0 is for ever. @param {readonly number[]} ttlsS */
function shortest(ttlsS) {
  const finite = ttlsS.filter((ttlS) => ttlS > 0)
  return finite.length > 0 ? Math.min(...finite) : 0
}

/** @param {readonly { levels: ReadonlySet<string> }[]} parts */
function coarsest(parts) {
  const order = ['1d', '1h', '1m', 'raw']
  return order.find((name) => parts.some(({ levels }) => levels.has(name))) ?? 'raw'
}

/** @param {Question} question */
function tooMuch({ stepMs, needsSketch }) {
  const least = needsSketch ? 'step=1h, from which on percentiles are kept' : 'step=1m'
  return new Problem(
    'too-many-rows',
    `this needs more than ${ROWS_MAX} rows or ${READ_MS_MAX / 1000} s: ask for a shorter range, fewer series, or ${
      stepMs === undefined ? 'fewer points' : `${least} or a multiple of it`
    }`,
  )
}
