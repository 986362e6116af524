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
 * The range that a view opens with: the one of the address, or the last hour; or, where nothing
 * came in that, the hour that ends with the newest value.
 *
 * @param {URLSearchParams} query
 * @param {number} nowMs
 * @param {number | undefined} newestMs  When the newest value was measured.
 * @returns {Range}
 */
export function openingRange(query, nowMs, newestMs) {
  const range = readRange(query, nowMs)
  if (isChosen(query) || newestMs === undefined) return range
  if (newestMs >= range.fromMs && newestMs <= range.toMs + HOUR_MS) return range
  return between(newestMs - 0.45 * HOUR_MS, HOUR_MS)
}

/** Whether an address says a range. @param {URLSearchParams} query */
export function isChosen(query) {
  return query.has('range') || query.has('from')
}

/**
 * The range once two fingers moved on it: what was below each of them is still there.
 *
 * @param {Range} range
 * @param {readonly [number, number]} before  Where the fingers were, as shares of the width.
 * @param {readonly [number, number]} after  Where they are.
 * @returns {Range}
 */
export function pinchRange({ fromMs, toMs }, before, after) {
  const spanMs = toMs - fromMs
  const isApart = Math.abs(after[1] - after[0]) > 0.01 && before[1] !== before[0]
  const factor = isApart ? Math.abs((before[1] - before[0]) / (after[1] - after[0])) : 1
  const middleMs = fromMs + ((before[0] + before[1]) / 2) * spanMs
  const newSpanMs = Math.min(SPAN_MS_MAX, Math.max(SPAN_MS_MIN, spanMs * factor))
  return between(middleMs + (0.5 - (after[0] + after[1]) / 2) * newSpanMs, newSpanMs)
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

/** Steps between the marks of a time axis, in milliseconds. */
const TICKS_MS = [
  ...[1, 5, 15, 30].map((second) => second * 1_000),
  ...[1, 5, 15, 30].map((minute) => minute * 60_000),
  ...[1, 3, 6, 12].map((hour) => hour * HOUR_MS),
  ...[1, 2, 7, 30, 91, 365].map((day) => day * DAY_MS),
]

/**
 * Marks of a time axis, at whole steps of the reader's own time.
 *
 * @param {number} fromMs
 * @param {number} toMs
 * @param {number} countMax
 */
export function timeTicks(fromMs, toMs, countMax) {
  const spanMs = toMs - fromMs
  const stepMs = TICKS_MS.find((ms) => spanMs / ms <= countMax) ?? spanMs
  const offsetMs = new Date(fromMs).getTimezoneOffset() * 60_000
  const times = []
  const firstMs = Math.ceil((fromMs - offsetMs) / stepMs) * stepMs + offsetMs
  for (let t = firstMs; t <= toMs; t += stepMs) times.push(t)
  return { stepMs, times }
}
