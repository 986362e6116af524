/** Sums series up in windows, from rollups and raw rows, within a budget of rows and time. */

import { Problem } from '@sandglass/common/problem'
import { Semaphore } from '@sandglass/common/semaphore'
import { allEnded, Budget, OverBudget } from './budget.js'
import { readSensors } from './sensors.js'
import { SeriesScan } from './series.js'
import { GRAINS_MS, stepFor, widen, windowCount } from './step.js'

/** Most rows that one request reads for one answer. */
export const ROWS_MAX = 200_000

/** How long one request reads, in milliseconds. */
export const READ_MS_MAX = 5_000

/** Most windows of one series in an answer. */
const WINDOWS_MAX = 10_000

/**
 * Most numbers of an answer, in all windows of all groups: 200 series with the default windows and
 * five aggregates. That is some 25 MB of JSON.
 */
export const VALUES_MAX = 800_000

/** Windows of an answer where nobody says how many. */
export const POINTS_DEFAULT = 800

/** Most queries that one request has in flight. */
const QUERIES_AT_ONCE_MAX = 16

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
 * @property {number} [valuesAWindow]  How many numbers the answer has of each window, where also
 *   windows are filled in which nothing is.
 */

/**
 * @typedef {object} Answer
 * @property {Range} range  What was read: moved outwards where finer rows are gone.
 * @property {number} stepMs
 * @property {Map<Series, import('./windows.js').Windows>} windows
 * @property {string} resolution  The coarsest that was read: `raw`, `1m`, `1h` or `1d`.
 */

export class SeriesDownsampler {
  #store
  #gate
  #now
  #clock

  /**
   * @param {object} parts
   * @param {Store} parts.store
   * @param {Semaphore} parts.gate  For the queries of all requests together.
   * @param {() => number} [parts.now]  Milliseconds since the Unix epoch.
   * @param {() => number} [parts.clock]  Milliseconds, by a clock that only goes forward.
   */
  constructor({ store, gate, now = Date.now, clock = performance.now.bind(performance) }) {
    this.#store = store
    this.#gate = gate
    this.#now = now
    this.#clock = clock
  }

  /**
   * @param {readonly Series[]} series
   * @param {Question} question
   * @param {AbortSignal} signal  Aborted when nobody waits for the answer any more.
   * @returns {Promise<Answer>}
   * @throws {Problem}  If a sensor is not there, the answer would be too large, or nothing as fine
   *   as the step is stored.
   */
  async read(series, question, signal) {
    const budget = new Budget({ rows: ROWS_MAX, ms: READ_MS_MAX }, this.#clock)
    const ask = this.#asker(budget, signal)
    const nowMs = this.#now()
    const ids = new Set(series.map(({ sensorId }) => sensorId))
    let unrolled = 0
    try {
      const sensors = await readSensors(this.#store, ask, budget, ids, nowMs)
      unrolled = [...sensors.values()].filter(({ doneMs }) => doneMs === -Infinity).length
      const { needsSketch } = question
      const context = { store: this.#store, ask, budget, nowMs, needsSketch }
      const scans = series.map((one) => {
        const sensor = /** @type {import('./sensors.js').Sensor} */ (sensors.get(one.sensorId))
        return new SeriesScan(context, one, sensor)
      })
      return await answered(series, scans, question, context)
    } catch (error) {
      if (error instanceof OverBudget) throw tooMuch(question, unrolled)
      throw error
    }
  }

  /** @param {Budget} budget  @param {AbortSignal} signal  @returns {import('./sensors.js').Ask} */
  #asker(budget, signal) {
    const requestGate = new Semaphore(QUERIES_AT_ONCE_MAX)
    return (query) => {
      const inTime = () => {
        budget.spend(0)
        return query()
      }
      return requestGate.run(() => this.#gate.run(inTime, signal), signal)
    }
  }
}

/**
 * @param {readonly Series[]} series
 * @param {readonly SeriesScan[]} scans  Of them.
 * @param {Question} question
 * @param {import('./series.js').Context} context
 * @returns {Promise<Answer>}
 * @throws {OverBudget}
 */
async function answered(series, scans, question, { budget, nowMs }) {
  const asked = rangeOf(question, scans, nowMs)
  checkWindows(asked, question)
  checkFilled(asked, question)
  const range = await widened(asked, scans)
  checkFilled(range, question)
  const { rows } = budget
  /** @type {unknown} */
  let failure
  for (const stepMs of stepsOf(range, question)) {
    try {
      const parts = await summedUp(scans, range, stepMs)
      if (parts) return answerOf(series, parts, range, stepMs)
    } catch (error) {
      if (!(error instanceof OverBudget)) throw error
      failure = error
    }
    budget.restore(rows)
  }
  throw failure ?? tooFine(await finest(scans, range), question)
}

/**
 * @param {Question} question
 * @param {readonly SeriesScan[]} scans
 * @param {number} nowMs
 * @returns {Range}
 */
function rangeOf({ fromMs, toMs }, scans, nowMs) {
  const until = toMs ?? nowMs + 1
  if (fromMs !== undefined) return { fromMs, toMs: Math.max(until, fromMs) }
  return { fromMs: Math.min(until, ...scans.map(({ firstMs }) => firstMs ?? until)), toMs: until }
}

/** @param {Range} range  @param {Question} question */
function checkWindows(range, { stepMs }) {
  if (stepMs === undefined || windowCount(range, stepMs) <= WINDOWS_MAX) return
  const least = stepFor(range, WINDOWS_MAX, 1)
  throw new Problem(
    'invalid-parameter',
    `step makes more than ${WINDOWS_MAX} windows: ${least}ms is the least for this range`,
    { parameter: 'step' },
  )
}

/**
 * Windows that are filled cost no row: they are counted before anything is read.
 *
 * @param {Range} range
 * @param {Question} question
 */
function checkFilled(range, { stepMs, points, valuesAWindow = 0 }) {
  checkValues(valuesAWindow * windowCount(range, stepMs ?? stepFor(range, points, 1)))
}

/** @param {number} count  Of the numbers of an answer.  @throws {Problem} */
export function checkValues(count) {
  if (count <= VALUES_MAX) return
  throw new Problem(
    'too-many-rows',
    `${count} numbers are too many for one answer, which has at most ${VALUES_MAX} in all ` +
      'windows of all series: ask for a shorter range, longer windows, or fewer series or ' +
      'aggregates',
  )
}

/**
 * A range whose ends are moved outwards, where nothing is stored that would tell what lies within.
 *
 * @param {Range} range
 * @param {readonly SeriesScan[]} scans
 * @returns {Promise<Range>}
 */
async function widened(range, scans) {
  const { fromMs, toMs } = range
  if (fromMs >= toMs) return range
  const [first, last] = await Promise.all([
    Promise.all(scans.map((scan) => scan.grainAt(range, fromMs))),
    Promise.all(scans.map((scan) => scan.grainAt(range, toMs))),
  ])
  return {
    fromMs: widen(range, Math.max(1, ...first)).fromMs,
    toMs: widen(range, Math.max(1, ...last)).toMs,
  }
}

/**
 * The steps to try, one after the other: where the client leaves it to us, the least that makes so
 * few windows, of raw rows or of each level.
 *
 * @param {Range} range
 * @param {Question} question
 */
function stepsOf(range, { stepMs, points }) {
  if (stepMs !== undefined) return [stepMs]
  return [...new Set(GRAINS_MS.map((grainMs) => stepFor(range, points, grainMs)))]
}

/**
 * @param {readonly SeriesScan[]} scans
 * @param {Range} range
 * @param {number} stepMs
 * @returns {Promise<import('./series.js').Sums[] | undefined>}  Undefined if something as fine is
 *   not stored of all of them.
 */
async function summedUp(scans, range, stepMs) {
  const plans = await allEnded(scans.map((scan) => scan.plan(range, stepMs)))
  if (plans.includes(undefined)) return undefined
  return allEnded(scans.map((scan, at) => scan.read(plans[at] ?? [], stepMs)))
}

/**
 * @param {readonly Series[]} series
 * @param {readonly import('./series.js').Sums[]} parts
 * @param {Range} range
 * @param {number} stepMs
 * @returns {Answer}
 */
function answerOf(series, parts, range, stepMs) {
  const windows = new Map(parts.map((part, at) => [series[at], part.windows]))
  const order = ['1d', '1h', '1m', 'raw']
  const coarsest = order.find((name) => parts.some(({ levels }) => levels.has(name)))
  return { range, stepMs, windows, resolution: coarsest ?? 'raw' }
}

/**
 * The finest that is stored of all of a range, of each series.
 *
 * @param {readonly SeriesScan[]} scans
 * @param {Range} range
 */
async function finest(scans, range) {
  for (const grainMs of GRAINS_MS) {
    const plans = await Promise.all(scans.map((scan) => scan.plan(range, grainMs)))
    if (!plans.includes(undefined)) return grainMs
  }
  throw new Error('a day is always stored')
}

/** @param {number} finestMs  @param {Question} question */
function tooFine(finestMs, { needsSketch }) {
  return new Problem(
    'invalid-parameter',
    `step must be a multiple of ${finestMs}ms: nothing finer is stored of all of this range${
      needsSketch ? ' that percentiles can be had from' : ''
    }`,
    { parameter: 'step' },
  )
}

/** @param {Question} question  @param {number} unrolled  Sensors of which no rollup is believed. */
function tooMuch({ stepMs, needsSketch }, unrolled) {
  const least = needsSketch ? 'step=1h, from which on percentiles are kept' : 'step=1m'
  const coarser = stepMs === undefined ? 'fewer points' : `${least} or a multiple of it`
  const why =
    unrolled > 0
      ? `; rollups of ${unrolled} sensors are missing or behind, so raw rows are read`
      : ''
  return new Problem(
    'too-many-rows',
    `this needs more than ${ROWS_MAX} rows or ${READ_MS_MAX / 1000} s${why}: ask for a shorter ` +
      `range, fewer series, or ${coarser}`,
  )
}
