/** The time that a chart shows: the last hour or so, up to now, or from one moment to another. */

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/** What can be chosen, by its name in the address. */
export const SPANS = new Map([
  ['5m', { ms: HOUR_MS / 12, text: '5 min' }],
  ['1h', { ms: HOUR_MS, text: 'Hour' }],
  ['1d', { ms: DAY_MS, text: 'Day' }],
  ['1w', { ms: 7 * DAY_MS, text: 'Week' }],
  ['30d', { ms: 30 * DAY_MS, text: 'Month' }],
  ['1y', { ms: 365 * DAY_MS, text: 'Year' }],
])

const SPAN_DEFAULT = '1h'

/** Shortest time that can be zoomed into, and the longest, in milliseconds. */
const SPAN_MS_MIN = 1_000
const SPAN_MS_MAX = 20 * 365 * DAY_MS

/**
 * @typedef {object} Range
 * @property {string | undefined} span  Its name if it ends now.
 * @property {number} fromMs
 * @property {number} toMs
 */

/**
 * @param {URLSearchParams} query  `from` and `to` in milliseconds since 1970, or `range`.
 * @param {number} nowMs
 * @returns {Range}
 */
export function readRange(query, nowMs) {
  const fromMs = Number(query.get('from') || Number.NaN)
  const toMs = Number(query.get('to') || Number.NaN)
  if (Number.isSafeInteger(fromMs) && Number.isSafeInteger(toMs) && fromMs < toMs) {
    return { span: undefined, fromMs, toMs }
  }
  const asked = query.get('range') ?? SPAN_DEFAULT
  const span = SPANS.has(asked) ? asked : SPAN_DEFAULT
  const ms = SPANS.get(span)?.ms ?? HOUR_MS
  return { span, fromMs: nowMs - ms, toMs: nowMs }
}

/**
 * The range once it is moved and stretched.
 *
 * @param {Range} range
 * @param {{ by?: number, factor?: number }} change  `by` is a share of its length, later if
 *   positive; it becomes `factor` times as long, its middle staying where it is.
 * @returns {Range}
 */
export function moveRange({ fromMs, toMs }, { by = 0, factor = 1 }) {
  const spanMs = toMs - fromMs
  const middleMs = fromMs + spanMs / 2 + by * spanMs
  return between(middleMs, Math.min(SPAN_MS_MAX, Math.max(SPAN_MS_MIN, spanMs * factor)))
}

/** @param {number} middleMs  @param {number} spanMs  @returns {Range} */
function between(middleMs, spanMs) {
  const fromMs = Math.round(middleMs - spanMs / 2)
  return { span: undefined, fromMs, toMs: fromMs + Math.round(spanMs) }
}

/**
 * The part of an address that says a range.
 *
 * @param {Range} range
 * @returns {Record<string, string>}
 */
export function rangeQuery({ span, fromMs, toMs }) {
  return span ? { range: span } : { from: `${fromMs}`, to: `${toMs}` }
}

/**
 * How often what is shown of a range that ends now is asked for again, in milliseconds.
 *
 * @param {Range} range
 */
export function refreshMs({ fromMs, toMs }) {
  return Math.min(60_000, Math.max(2_000, (toMs - fromMs) / 400))
}

/** A time as a field of type `datetime-local` has it: the reader's own. @param {number} timeMs */
export function localField(timeMs) {
  const local = new Date(timeMs - new Date(timeMs).getTimezoneOffset() * 60_000)
  return local.toISOString().slice(0, 19)
}

/**
 * Columns of a chart, a null where values stopped coming for a while: a line is not drawn there,
 * for nobody knows what was.
 *
 * @param {{ t: number, avg: number, min: number, max: number }[]} items
 * @param {number} stepMs
 * @returns {[number[], ...(number | null)[][]]}  Seconds, avg, min and max.
 */
export function chartColumns(items, stepMs) {
  const gapMs = Math.max(2.5 * stepMs, 5 * medianInterval(items))
  /** @type {[number[], (number | null)[], (number | null)[], (number | null)[]]} */
  const columns = [[], [], [], []]
  const [times, averages, lowest, highest] = columns
  /** @typedef {number | null} Cell */
  /** @param {number} t  @param {{ avg: Cell, min: Cell, max: Cell }} of */
  const add = (t, { avg, min, max }) => {
    times.push(t / 1_000)
    averages.push(avg)
    lowest.push(min)
    highest.push(max)
  }
  for (const [index, item] of items.entries()) {
    const before = items[index - 1]
    if (before && item.t - before.t > gapMs) {
      add((before.t + item.t) / 2, { avg: null, min: null, max: null })
    }
    add(item.t, item)
  }
  return columns
}

/** @param {{ t: number }[]} items */
function medianInterval(items) {
  const intervals = items.slice(1).map(({ t }, index) => t - items[index].t)
  intervals.sort((a, b) => a - b)
  return intervals[intervals.length >> 1] ?? 0
}
