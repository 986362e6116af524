/** How long a sensor's measurements are kept, in words. */

import { printMoment } from './format.js'

/**
 * @typedef {{ state: string, retention: string | null, until: number | null,
 *   rows: number }} Rewrite
 */

/** @param {string} retention */
function lasting(retention) {
  return retention === 'keep' ? 'for ever' : `for ${Number.parseInt(retention, 10)} days`
}

/**
 * @param {object} sensor
 * @param {string} sensor.retention
 * @param {{ from: number, retention: string }[]} sensor.layouts
 * @param {Rewrite | null} sensor.rewrite
 * @param {number} nowMs
 */
export function printKept({ retention, layouts, rewrite }, nowMs) {
  const next = layouts.find((layout) => layout.from > nowMs && layout.retention !== retention)
  const since = retention === 'keep' ? '' : ' after they are stored'
  const said = [`Measurements are kept ${lasting(retention)}${since}.`]
  if (next) said.push(`From ${printMoment(next.from)} on: ${lasting(next.retention)}.`)
  if (rewrite && isUnderWay(rewrite)) said.push(printRewrite(rewrite))
  return said.join(' ')
}

/** Whether more is to come of it. @param {Rewrite | null} rewrite */
export function isUnderWay(rewrite) {
  return rewrite !== null && rewrite.state !== 'done' && rewrite.state !== 'cancelled'
}

/** @param {Rewrite} rewrite */
function printRewrite({ state, retention, until, rows }) {
  if (retention === null) return 'A rewrite of what is stored is being called off.'
  const whole = `What is stored is being rewritten, to be kept ${lasting(retention)}`
  const far = until === null ? '' : `: ${rows} rows, up to ${printMoment(until)}`
  return state === 'waiting' ? `${whole}${far}; the newest follow.` : `${whole}${far} (${state}).`
}
