/** Several series in one chart: which have an axis, how they are called, what each was when. */

import { printMetric, printMoment, printValue } from './format.js'
import { chartColumns } from './range.js'

/** Most series of one chart: more cannot be told apart. */
export const LINES_MAX = 8

/** Most units of one chart: an axis on the left, and one on the right. */
export const AXES_MAX = 2

/** @typedef {{ t: number, avg: number, min: number, max: number }} Item */

/**
 * @typedef {object} Line
 * @property {string} sensor
 * @property {string} metric
 * @property {import('./format.js').Known} known  Of the metric.
 * @property {number} stepMs
 * @property {string} resolution  What was read: `raw`, or rollups of `1m`, `1h` or `1d`.
 * @property {Item[]} items
 * @property {number} index  Of its colour.
 */

/**
 * Which lines are drawn on which axis. A third unit has no axis, and its lines are not drawn.
 *
 * @template {{ known: import('./format.js').Known }} L
 * @param {readonly L[]} lines
 */
export function axesOf(lines) {
  /** @type {string[]} */
  const units = []
  for (const { known } of lines) {
    const unit = known.symbol ?? ''
    if (!units.includes(unit) && units.length < AXES_MAX) units.push(unit)
  }
  const axisOf = (/** @type {L} */ { known }) => units.indexOf(known.symbol ?? '')
  return {
    units,
    drawn: lines.filter((line) => axisOf(line) >= 0),
    refused: lines.filter((line) => axisOf(line) < 0),
    axisOf,
  }
}

/** Why lines are not drawn. @param {readonly string[]} units  @param {readonly Line[]} refused */
export function printRefusal(units, refused) {
  if (refused.length === 0) return ''
  const shown = units.map((unit) => unit || 'no unit').join(' and ')
  const names = refused.map((line) => `${printLine(line)} (${line.known.symbol || 'no unit'})`)
  return (
    `Not drawn: ${names.join(', ')}. A chart has at most two units, and this one has ${shown} ` +
    'already: remove one of these, or make another chart.'
  )
}

/** @param {Line} line */
export function printLine({ sensor, metric, known }) {
  return `${sensor}, ${printMetric(metric, known)}`
}

/**
 * Each line as the columns of a chart: seconds, averages, lowest and highest.
 *
 * @param {readonly Line[]} lines
 */
export function columnsOf(lines) {
  return lines.map(({ items, stepMs }) => chartColumns(items, stepMs))
}

/**
 * The window of a line that is nearest to a time, if one is near.
 *
 * @param {Line} line
 * @param {number} timeMs
 * @param {number} distanceMsMax
 */
export function nearest({ items }, timeMs, distanceMsMax) {
  let low = 0
  let high = items.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (items[middle].t < timeMs) low = middle + 1
    else high = middle
  }
  const distance = (/** @type {Item | undefined} */ item) =>
    item ? Math.abs(item.t - timeMs) : Number.POSITIVE_INFINITY
  const [before, after] = [items[low - 1], items[low]]
  const best = distance(before) < distance(after) ? before : after
  return distance(best) <= distanceMsMax ? best : undefined
}

/**
 * What the lines were at a time; empty if none was anything.
 *
 * @param {readonly Line[]} lines
 * @param {number} timeMs
 * @param {number} spanMs  Of the chart: what is within a hundredth of it is near.
 */
export function tellLines(lines, timeMs, spanMs) {
  const texts = lines.flatMap((line) => {
    const item = nearest(line, timeMs, Math.max(line.stepMs, spanMs / 100))
    if (!item) return []
    return [
      lines.length > 1 ? `${printLine(line)} ${printItem(item, line)}` : printItem(item, line),
    ]
  })
  return texts.length === 0 ? '' : `${printMoment(timeMs)}: ${texts.join('; ')}`
}

/** @param {Item} item  @param {Line} line */
function printItem({ avg, min, max }, { known }) {
  const bare = { decimals: known.decimals }
  const band = min === max ? '' : ` (${printValue(min, bare)} to ${printValue(max, known)})`
  return `${printValue(avg, known)}${band}`
}

/** How far the line goes, in words. @param {Line} line */
export function summary({ items, known }) {
  if (items.length === 0) return 'It is empty.'
  let lowest = Number.POSITIVE_INFINITY
  let highest = Number.NEGATIVE_INFINITY
  for (const { min, max } of items) {
    lowest = Math.min(lowest, min)
    highest = Math.max(highest, max)
  }
  return `From ${printValue(lowest, known)} to ${printValue(highest, known)}.`
}
