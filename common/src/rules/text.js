/** An alert in words, and as receivers get it. Pure. */

/** @typedef {import('./rule.js').Rule} Rule */

/**
 * Shown in a sentence: six digits, and three decimals in any case.
 *
 * @param {number} value
 */
function shown(value) {
  return String(Number(Math.abs(value) < 1_000 ? value.toPrecision(6) : value.toFixed(3)))
}

/** Seconds as people say them. @param {number} s */
export function spanText(s) {
  for (const [unit, unitS] of /** @type {const} */ ([
    ['day', 86_400],
    ['hour', 3_600],
    ['minute', 60],
  ])) {
    if (s >= unitS && s % unitS === 0) return `${s / unitS} ${unit}${s === unitS ? '' : 's'}`
  }
  return `${s} second${s === 1 ? '' : 's'}`
}

/**
 * What a rule found, in a sentence.
 *
 * @param {Rule} rule
 * @param {object} series
 * @param {string} series.sensor  Its name.
 * @param {string} series.metric
 * @param {string} [series.symbol]  Of the unit.
 * @param {number} value  NaN of silence.
 * @param {import('./check.js').Limits | undefined} limits
 */
export function firedText(rule, { sensor, metric, symbol }, value, limits) {
  const { kind, for_s: forS = 0, per_s: perS = 0 } = rule
  if (kind === 'silence') {
    const what = metric === '' ? sensor : `${metric} of ${sensor}`
    return `${what} has been silent for ${spanText(forS)}`
  }
  const { lower = 0, upper = 0 } = limits ?? {}
  const isAbove = value > upper
  const print = (/** @type {number} */ one) => shown(one) + (symbol ? ` ${symbol}` : '')
  const limit = `${isAbove ? 'above' : 'below'} ${print(isAbove ? upper : lower)}`
  const lasting = forS > 0 ? `, for ${spanText(forS)}` : ''
  if (kind === 'rate') {
    const speed = `${print(value)} per ${spanText(perS).replace(/^1 /, '')}`
    return `${metric} of ${sensor} changes by ${speed}, ${limit}${lasting}`
  }
  const outside = kind === 'range' ? `, outside the expected range: ${limit}` : `, ${limit}`
  return `${metric} of ${sensor} is ${print(value)}${outside}${lasting}`
}

/** @param {Pick<Rule, 'kind'>} rule  @param {string} sensor  @param {string} metric */
export function resolvedText({ kind }, sensor, metric) {
  const what = metric === '' ? sensor : `${metric} of ${sensor}`
  return kind === 'silence' ? `${what} is heard again` : `${what} is back to normal`
}

/**
 * What receivers get, whichever way.
 *
 * @param {object} what
 * @param {'fired' | 'resolved' | 'test'} what.change
 * @param {number} what.timeMs
 * @param {string} what.alertId
 * @param {number} what.firedMs
 * @param {Pick<Rule, 'id' | 'name' | 'kind' | 'severity'>} what.rule
 * @param {{ id: string, name: string }} what.sensor
 * @param {string} what.metric
 * @param {number | null} what.value
 * @param {string} what.text
 * @param {string | null} [what.why]  It ended by itself, or because nobody watches any more.
 */
export function notificationBody(what) {
  const { change, timeMs, alertId, firedMs, rule, sensor, metric, value, text, why = null } = what
  return {
    type: `alert.${change}`,
    timestamp: new Date(timeMs).toISOString(),
    data: {
      alert: alertId,
      fired: firedMs,
      resolved: change === 'resolved' ? timeMs : null,
      why,
      text,
      rule: { id: rule.id, name: rule.name, kind: rule.kind, severity: rule.severity },
      sensor,
      metric: metric === '' ? null : metric,
      value,
    },
  }
}
