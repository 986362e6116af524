/**
 * A page of a sensor's measurements: what is asked, where the last page ended, what to read, and
 * where the next page begins.
 */

import { invalid, Problem } from '@sandglass/common/problem'
import { Semaphore } from '@sandglass/common/semaphore'
import { spans } from '@sandglass/common/spans'
import { broken, decodeCursor, encodeCursor, fieldOf, foreign } from './cursor.js'
import { mergePage, rowBytes } from './merge.js'
import { occupied } from './ranges.js'
import * as schemas from './schemas.js'
import { SeriesReader } from './series-reader.js'
import { parseTime, TIME_MS_MAX } from './time.js'
import { checkOf } from './validator.js'

/** @typedef {import('./merge.js').Row} Row */
/** @typedef {import('@sandglass/common/spans').Order} Order */
/** @typedef {import('./store.js').Store} Store */

/**
 * What is asked of a sensor's measurements.
 *
 * @typedef {object} Question
 * @property {string} sensorId
 * @property {string[] | undefined} metrics  In order, each once; undefined for all there are.
 * @property {number | undefined} fromMs  First millisecond.
 * @property {number | undefined} toMs  First millisecond after.
 * @property {Order} order
 */

/**
 * Where a page ended: after a row, or, with neither metric nor seq, after a whole millisecond.
 *
 * @typedef {{ t: number, metric?: string, seq?: number }} Position
 */

/** Query parameters as they come. */
/**
 * @typedef {object} Parameters
 * @property {string[]} [metric]
 * @property {string} [from]
 * @property {string} [to]
 * @property {Order} [order]
 * @property {string} [cursor]
 */

const KIND = 'measurements'

/** What a cursor may ask for: what could be asked without one. */
const areMetrics = /** @type {import('ajv').ValidateFunction<string[]>} */ (
  checkOf({ ...schemas.metrics, uniqueItems: true })
)
const isTime = /** @type {import('ajv').ValidateFunction<number>} */ (checkOf(schemas.timeMs))
const isOrder = /** @type {import('ajv').ValidateFunction<Order>} */ (
  checkOf({ type: 'string', enum: ['asc', 'desc'] })
)

/** Most partitions that one page looks at before it is cut short; the cursor goes on from there. */
export const SPANS_MAX = 4_096

/** About how much one page holds in memory, in bytes: it ends early where texts are long. */
export const PAGE_BYTES_MAX = 4 * 2 ** 20

/** Rows of one answer once more has been read for a page than it holds. */
const ROWS_WHEN_LARGE = 2

/** How long one page is read before it is cut short, in milliseconds: half of the deadline. */
export const READ_MS_MAX = 900

/** Most queries that one page has in flight. */
const QUERIES_AT_ONCE_MAX = 16

/** Rows read at first of each of several series, besides its fair share of the page. */
const ROWS_SPARE = 8

/**
 * Understands the query parameters. A cursor alone repeats the question it came from; what is given
 * besides must agree with it.
 *
 * @param {string} sensorId
 * @param {Parameters} parameters
 * @returns {{ question: Question, after: Position | undefined }}
 * @throws {Problem}  Names the parameter.
 */
export function parseQuestion(sensorId, { metric, from, to, order, cursor }) {
  const asked = {
    metrics: metric && [...new Set(metric)].sort(),
    ...parseRange({ from, to }),
  }
  if (cursor === undefined) {
    return { question: { sensorId, ...asked, order: order ?? 'desc' }, after: undefined }
  }
  const decoded = decodeCursor(KIND, cursor)
  const [id, metrics, fromMs, toMs, itsOrder] = decoded.question
  if (id !== sensorId) throw foreign('another sensor')
  const question = {
    sensorId,
    metrics: metrics === null ? undefined : fieldOf(metrics, areMetrics).sort(),
    fromMs: timeIn(fromMs),
    toMs: timeIn(toMs),
    order: orderIn(itsOrder),
  }
  const same =
    (asked.metrics === undefined || JSON.stringify(asked.metrics) === metrics) &&
    (asked.fromMs === undefined || asked.fromMs === question.fromMs) &&
    (asked.toMs === undefined || asked.toMs === question.toMs) &&
    (order === undefined || order === itsOrder)
  if (!same) throw foreign('another metric, from, to or order')
  return { question, after: positionIn(decoded.position) }
}

/** @typedef {import('./cursor.js').Fields} Fields */

/** @param {Fields} position  @returns {Position}  @throws {Problem} */
function positionIn([t, metric, seq]) {
  if (!Number.isSafeInteger(t)) throw broken()
  // After a whole millisecond.
  if (metric === null && seq === null) return { t: Number(t), metric: undefined, seq: undefined }
  if (typeof metric !== 'string' || !Number.isSafeInteger(seq)) throw broken()
  return { t: Number(t), metric, seq: Number(seq) }
}

/** @param {Fields[number]} field  @throws {Problem} */
function timeIn(field) {
  if (field === null) return undefined
  if (!isTime(field)) throw broken()
  return field
}

/** @param {Fields[number]} field  @throws {Problem} */
function orderIn(field) {
  if (!isOrder(field)) throw broken()
  return field
}

/**
 * Understands the times of a request.
 *
 * @param {{ from?: string | number, to?: string | number }} parameters
 * @throws {Problem}  Names the parameter.
 */
export function parseRange({ from, to }) {
  const fromMs = from === undefined ? undefined : parseTime('from', from)
  const toMs = to === undefined ? undefined : parseTime('to', to)
  if (fromMs !== undefined && toMs !== undefined && fromMs >= toMs) {
    throw invalid('from', 'must be before `to`')
  }
  return { fromMs, toMs }
}

/**
 * @param {Question} question
 * @param {Position} position
 */
export function cursorOf({ sensorId, metrics, fromMs, toMs, order }, { t, metric, seq }) {
  return encodeCursor(
    KIND,
    [sensorId, metrics ? JSON.stringify(metrics) : null, fromMs ?? null, toMs ?? null, order],
    [t, metric ?? null, seq ?? null],
  )
}

/** Reads pages; shared by all requests, so that together they stay within the database's limits. */
export class MeasurementReader {
  #store
  #gate
  #now

  /**
   * @param {object} parts
   * @param {Store} parts.store
   * @param {Semaphore} parts.gate  For the queries of all pages together.
   * @param {() => number} [parts.now]  Milliseconds since the Unix epoch.
   */
  constructor({ store, gate, now = Date.now }) {
    this.#store = store
    this.#gate = gate
    this.#now = now
  }

  /**
   * @param {Question} question
   * @param {object} page
   * @param {Position} [page.after]
   * @param {number} page.limit
   * @param {AbortSignal} page.signal  Aborted when nobody waits for the answer any more.
   * @param {{ spansMax?: number, readMsMax?: number, bytesMax?: number }} [budget]
   * @returns {Promise<{ rows: Row[], next: Position | undefined }>}
   * @throws {Problem}  If there is no such sensor.
   */
  async read(question, { after, limit, signal }, budget = {}) {
    const { sensorId, order } = question
    const { spansMax = SPANS_MAX, readMsMax = READ_MS_MAX, bytesMax = PAGE_BYTES_MAX } = budget
    const [isKnown, layouts, series] = await Promise.all([
      this.#store.isKnown(sensorId),
      this.#store.layouts(sensorId),
      this.#store.series(sensorId),
    ])
    if (!isKnown) throw unknownSensor()
    if (layouts.length === 0) return { rows: [], next: undefined }

    const startMs = performance.now()
    let spansRead = 0
    let bytesRead = 0
    const requestGate = new Semaphore(QUERIES_AT_ONCE_MAX)
    /** @type {import('./series-reader.js').ReadSpan} */
    const read = (metric, part, _order, rowsMax) => {
      spansRead += 1
      const query = async () => {
        const count = bytesRead > bytesMax ? Math.min(rowsMax, ROWS_WHEN_LARGE) : rowsMax
        const answer = await this.#store.rows(sensorId, metric, part, order, count)
        bytesRead += answer.rows.reduce((sum, row) => sum + rowBytes(row), 0)
        return answer
      }
      return requestGate.run(() => this.#gate.run(query, signal), signal)
    }
    const sources = this.#sources(question, { layouts, series, after, limit, read })
    const startPlace = after ? place(order, after.t) : -Infinity
    const page = await mergePage(sources, { rowsMax: limit, bytesMax }, (rowCount, examined) => {
      signal.throwIfAborted()
      // Without any progress the next page would begin where this one did.
      if (rowCount === 0 && examined <= startPlace) return true
      return spansRead < spansMax && performance.now() - startMs < readMsMax
    })
    return { rows: page.rows, next: nextPosition(order, page) }
  }

  /**
   * @param {Question} question
   * @param {object} page
   * @param {import('@sandglass/common/schema').Layout[]} page.layouts
   * @param {import('./store.js').Series[]} page.series
   * @param {Position} [page.after]
   * @param {number} page.limit
   * @param {import('./series-reader.js').ReadSpan} page.read
   */
  #sources({ metrics, fromMs, toMs, order }, { layouts, series, after, limit, read }) {
    const asked = { fromMs: fromMs ?? -TIME_MS_MAX, toMs: toMs ?? TIME_MS_MAX }
    const extents = new Map(series.map((one) => [one.metric, one]))
    const names = metrics ?? [...extents.keys()].sort()
    const share = names.length === 1 ? limit + 1 : Math.ceil(limit / names.length) + ROWS_SPARE
    return names.map((metric) => {
      const range = after ? beyond(asked, order, after, metric) : asked
      const ranges = occupied(extents.get(metric), range, this.#now())
      return new SeriesReader({
        metric,
        spans: spans(layouts, ranges, order),
        order,
        read,
        rowsAtOnce: share,
        rowsAtOnceMax: limit + 1,
        after: after?.metric === metric ? { t: after.t, seq: after.seq ?? 0 } : undefined,
      })
    })
  }
}

/** The refusal of a sensor that is not there, or was deleted. */
export function unknownSensor() {
  return new Problem('unknown-sensor', 'no sensor has this name or id', { parameter: 'sensor' })
}

/** @param {Order} order  @param {number} t */
function place(order, t) {
  return order === 'desc' ? -t : t
}

/**
 * What of a range is left of one series after a position.
 *
 * @param {import('@sandglass/common/spans').Range} range
 * @param {Order} order
 * @param {Position} after
 * @param {string} metric
 */
function beyond({ fromMs, toMs }, order, after, metric) {
  // Rows of one millisecond follow each other by metric, so this one's may be still to come.
  const maybeMore = after.metric !== undefined && metric >= after.metric
  if (order === 'desc') return { fromMs, toMs: Math.min(toMs, maybeMore ? after.t + 1 : after.t) }
  return { fromMs: Math.max(fromMs, maybeMore ? after.t : after.t + 1), toMs }
}

/**
 * @param {Order} order
 * @param {import('./merge.js').MergedPage} page
 * @returns {Position | undefined}
 */
function nextPosition(order, { rows, state, examined }) {
  if (state === 'ended') return undefined
  const last = rows.at(-1)
  if (last && (state === 'full' || place(order, last.t) > examined)) {
    return { t: last.t, metric: last.metric, seq: last.seq }
  }
  return { t: place(order, examined) }
}
