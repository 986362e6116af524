/** uPlot in the page's colours: what every chart of it has in common. */

const CLOCK = new Intl.DateTimeFormat(undefined, {
  hour: '2-digit',
  minute: '2-digit',
  hourCycle: 'h23',
})
const EXACT = new Intl.DateTimeFormat(undefined, {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  hourCycle: 'h23',
})
const DAY = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' })
const MONTH = new Intl.DateTimeFormat(undefined, { month: 'short', year: 'numeric' })

const DAY_S = 86_400

/** What the scales of the axes are called, left and right, and where uPlot has these. */
export const SCALES = ['y', 'right']
const LEFT = 3
const RIGHT = 1

/** Least room for the numbers of an axis, what lies around them, and each letter, in pixels. */
const NUMBERS_PX_MIN = 56
const NUMBERS_AROUND_PX = 14
const DIGIT_PX = 7.5

/** How many colours lines have, before they begin again. */
const COLORS = 8

/** @param {string} name  A custom property of the style sheet. */
export function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim()
}

/** The property of the style sheet with the colour of a line. @param {number} index */
export function lineColor(index) {
  return `--line-${(index % COLORS) + 1}`
}

/**
 * @param {Record<string, unknown>} options
 * @param {readonly (readonly (number | null)[])[]} data
 * @param {HTMLElement} box
 * @param {readonly string[]} [symbols]  Of the units, one an axis: left, and right.
 * @returns {any}
 */
export function createPlot(options, data, box, symbols = ['']) {
  const axis = {
    stroke: color('--soft'),
    grid: { stroke: color('--grid'), width: 1 },
    ticks: { show: false },
    font: '12px system-ui, sans-serif',
  }
  const { uPlot } = /** @type {any} */ (window)
  return new uPlot(
    {
      width: plotWidth(box),
      legend: { show: false },
      axes: [
        { ...axis, space: 70, size: 28, values: printTimes },
        ...symbols.map((symbol, index) => ({
          ...axis,
          scale: SCALES[index],
          side: index === 0 ? LEFT : RIGHT,
          grid: index === 0 ? axis.grid : { show: false },
          space: 28,
          size: numbersWidth,
          ...(symbol && unitLabel(symbol)),
        })),
      ],
      ...options,
    },
    data,
    box,
  )
}

/**
 * What the longest number of an axis takes: one that is cut is another number.
 *
 * @param {any} _plot
 * @param {string[] | null} texts  As they are shown.
 */
function numbersWidth(_plot, texts) {
  const longest = Math.max(0, ...(texts ?? []).map((text) => text.length))
  return Math.max(NUMBERS_PX_MIN, Math.ceil(NUMBERS_AROUND_PX + longest * DIGIT_PX))
}

/** @param {string} symbol */
const unitLabel = (symbol) => ({ label: symbol, labelSize: 20, labelFont: '12px system-ui' })

/** @param {HTMLElement} box */
export function plotWidth(box) {
  return Math.max(200, box.clientWidth)
}

/** @param {any} _plot  @param {number | null} min  @param {number | null} max */
export function around(_plot, min, max) {
  if (min == null || max == null) return [0, 1]
  const margin = max > min ? (max - min) * 0.12 : Math.max(Math.abs(max) * 0.02, 0.5)
  return [min - margin, max + margin]
}

/**
 * @param {any} _plot
 * @param {number[]} seconds
 * @param {number} _axis
 * @param {number} _space
 * @param {number} stepS
 */
function printTimes(_plot, seconds, _axis, _space, stepS) {
  return seconds.map((second) => printTick(second, stepS))
}

/** A time beside an axis. @param {number} second  @param {number} stepS  Between two of them. */
export function printTick(second, stepS) {
  if (stepS >= 28 * DAY_S) return MONTH.format(second * 1_000)
  const date = new Date(second * 1_000)
  const isMidnight = date.getHours() === 0 && date.getMinutes() === 0 && date.getSeconds() === 0
  if (isMidnight || stepS >= DAY_S) return DAY.format(date)
  return (stepS < 60 ? EXACT : CLOCK).format(date)
}
