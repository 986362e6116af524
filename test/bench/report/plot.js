// Curves over time as an SVG: one panel below the other, each with a scale of its own from 0.
import { written } from './figure.js'

/**
 * @typedef {object} Curve
 * @property {string} name
 * @property {[number, number][]} points  Seconds, and the value then.
 *
 * @typedef {object} Panel
 * @property {string} title
 * @property {Curve[]} curves
 */

const WIDTH = 760
const LEFT = 60
const RIGHT = 120
const TOP = 28
const PANEL_HEIGHT = 110
/** Between the foot of a panel and the title of the next one. */
const GAP = 30
/** Lines across a panel above its foot. */
const LINES = 2
/** Colours that can be told apart by everybody (Okabe and Ito). */
const COLOURS = ['#0072b2', '#d55e00', '#009e73', '#cc79a7']

/**
 * The panels of a table whose columns are `seconds` and `PANEL: CURVE`.
 *
 * @param {Record<string, string>[]} rows
 * @returns {Panel[]}
 */
export function panelsOf(rows) {
  /** @type {Map<string, Curve[]>} */
  const panels = new Map()
  for (const column of Object.keys(rows[0]).filter((name) => name !== 'seconds')) {
    const [title, name] = column.split(': ')
    const points = rows.map((row) => /** @type {[number, number]} */ ([+row.seconds, +row[column]]))
    panels.set(title, [...(panels.get(title) ?? []), { name, points }])
  }
  return [...panels].map(([title, curves]) => ({ title, curves }))
}

/** @param {Panel[]} panels */
export function svgOf(panels) {
  const height = panels.length * (TOP + PANEL_HEIGHT + GAP)
  const parts = panels.map((panel, index) => drawn(panel, index * (TOP + PANEL_HEIGHT + GAP) + TOP))
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" \
font-family="sans-serif" font-size="12">
<title>${escaped(panels.map(({ title }) => title).join('; '))}</title>
<rect width="${WIDTH}" height="${height}" fill="#fff"/>
${parts.join('\n')}
</svg>
`
}

/**
 * @param {Panel} panel
 * @param {number} top  Of the area of its curves.
 */
function drawn({ title, curves }, top) {
  const all = curves.flatMap(({ points }) => points)
  const yMax = roundedUp(Math.max(...all.map(([, y]) => y)))
  const xMax = Math.max(...all.map(([x]) => x))
  const bottom = top + PANEL_HEIGHT
  const right = WIDTH - RIGHT
  const x = (/** @type {number} */ value) => LEFT + (value / xMax) * (right - LEFT)
  const y = (/** @type {number} */ value) => bottom - (value / yMax) * PANEL_HEIGHT
  const grid = Array.from({ length: LINES + 1 }, (_, line) => {
    const value = (yMax * line) / LINES
    return `<path d="M${LEFT} ${place(y(value))}H${right}" stroke="#ddd"/>
${text(LEFT - 6, y(value) + 4, written(value), 'end')}`
  })
  const lines = curves.map(({ name, points }, index) => {
    const colour = COLOURS[index % COLOURS.length]
    const corners = points.map((point) => `${place(x(point[0]))},${place(y(point[1]))}`).join(' ')
    return `<polyline points="${corners}" fill="none" stroke="${colour}" stroke-width="1.5"/>
${text(right + 8, top + 12 + index * 16, name, 'start', colour)}`
  })
  return [
    text(LEFT, top - 10, title, 'start'),
    ...grid,
    text(LEFT, bottom + 14, '0', 'middle'),
    text(right, bottom + 14, duration(xMax), 'middle'),
    ...lines,
  ].join('\n')
}

/**
 * @param {number} x
 * @param {number} y
 * @param {string} words
 * @param {'start' | 'middle' | 'end'} anchor
 * @param {string} [colour]
 */
function text(x, y, words, anchor, colour = '#333') {
  const begin = `<text x="${place(x)}" y="${place(y)}" text-anchor="${anchor}" fill="${colour}">`
  return `${begin}${escaped(words)}</text>`
}

/** @param {string} words */
function escaped(words) {
  return words.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
}

/** A coordinate: a tenth of a unit is finer than anybody sees. @param {number} value */
function place(value) {
  return String(Math.round(value * 10) / 10)
}

/** The next of 1, 2, 5, 10, 20, … @param {number} value */
function roundedUp(value) {
  if (value <= 0) return 1
  const power = 10 ** Math.floor(Math.log10(value))
  const factor = [1, 2, 5, 10].find((one) => one * power >= value) ?? 10
  return factor * power
}

/** @param {number} seconds */
function duration(seconds) {
  return seconds < 120 ? `${Math.round(seconds)} s` : `${Math.round(seconds / 60)} min`
}
