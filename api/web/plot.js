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

/** @param {string} name  A custom property of the style sheet. */
export function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim()
}

/**
 * @param {Record<string, unknown>} options
 * @param {readonly (readonly (number | null)[])[]} data
 * @param {HTMLElement} box
 * @param {string} [symbol]  Of the unit, beside the axis.
 * @returns {any}
 */
export function createPlot(options, data, box, symbol) {
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
        { ...axis, space: 28, size: 56, ...(symbol && unitLabel(symbol)) },
      ],
      ...options,
    },
    data,
    box,
  )
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
  return seconds.map((second) => {
    if (stepS >= 28 * DAY_S) return MONTH.format(second * 1_000)
    const date = new Date(second * 1_000)
    const isMidnight = date.getHours() === 0 && date.getMinutes() === 0 && date.getSeconds() === 0
    if (isMidnight || stepS >= DAY_S) return DAY.format(date)
    return (stepS < 60 ? EXACT : CLOCK).format(date)
  })
}
