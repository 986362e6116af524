/** States over a range of time, drawn: each a bar in its colour, with its name where it fits. */

import { svg } from './dom.js'
import { lineColor, printTick } from './plot.js'
import { timeTicks } from './range.js'
import { barsOf, COLORED_MAX, totalsOf } from './states.js'

/** Room that a letter within a bar takes, in pixels. */
const LETTER_PX = 8

/** Between two marks of the time axis, and what half of one takes, in pixels. */
const TICK_SPACE_PX = 90
const TICK_HALF_PX = 30

/**
 * The colour of each state of the runs.
 *
 * @param {readonly import('./states.js').Run[]} runs
 * @returns {(state: string) => string}
 */
export function stateColors(runs) {
  const names = totalsOf(runs).map(({ state }) => state)
  return (state) => {
    const index = names.indexOf(state)
    return index < COLORED_MAX ? `var(${lineColor(index)})` : 'var(--soft)'
  }
}

/**
 * @param {readonly import('./states.js').Run[]} runs
 * @param {{ fromMs: number, toMs: number }} range
 * @param {{ width: number, y: number, height: number }} place  In pixels.
 */
export function stateBars(runs, range, { width: whole, y, height }) {
  const colorOf = stateColors(runs)
  return barsOf(runs, range, whole).map(({ state, x, width }) => {
    const rect = svg('rect', { x, y, width: Math.max(1, width), height })
    rect.style.fill = state === undefined ? 'var(--line)' : colorOf(state)
    if (state === undefined || width < state.length * LETTER_PX + 8) return rect
    const at = { x: x + width / 2, y: y + height / 2 + 4, 'text-anchor': 'middle' }
    return svg('g', {}, rect, svg('text', { ...at, class: 'state' }, state))
  })
}

/**
 * The time axis below the bars.
 *
 * @param {{ fromMs: number, toMs: number }} range
 * @param {{ width: number, y: number }} place  In pixels; `y` is where the letters stand.
 */
export function timeLabels({ fromMs, toMs }, { width, y }) {
  const { stepMs, times } = timeTicks(fromMs, toMs, width / TICK_SPACE_PX)
  return times.map((t) => {
    const x = ((t - fromMs) / (toMs - fromMs)) * width
    // One at the edge would be cut.
    const anchor = x < TICK_HALF_PX ? 'start' : x > width - TICK_HALF_PX ? 'end' : 'middle'
    const at = { x, y, 'text-anchor': anchor, class: 'tick' }
    return svg('text', at, printTick(t / 1_000, stepMs / 1_000))
  })
}
