/** An alert rule in words, and as a form says it. Pure. */

import { printDuration } from './format.js'
import { parseTags, printTags } from './tags.js'

/** Sensors that are named in words; of more it is said how many. */
const SENSORS_SHOWN_MAX = 3

/**
 * @typedef {object} Rule  As the REST interface has it.
 * @property {string} [id]
 * @property {string} name
 * @property {'threshold' | 'rate' | 'range' | 'silence'} kind
 * @property {string} [metric]
 * @property {string[]} [sensors]
 * @property {string} [type]
 * @property {Record<string, string>} [tags]
 * @property {number} [above]
 * @property {number} [below]
 * @property {number} [clear]
 * @property {number} [per_s]
 * @property {number} [for_s]
 * @property {number} [late_s]
 * @property {string} [severity]
 * @property {string[]} [receivers]
 * @property {boolean} [enabled]
 */

/** What the form offers, and the kind of rule that it is. */
export const WRONGS = /** @type {const} */ ({
  above: 'threshold',
  below: 'threshold',
  rise: 'rate',
  fall: 'rate',
  range: 'range',
  silence: 'silence',
})

/** @typedef {keyof typeof WRONGS} Wrong */

/**
 * @typedef {object} Form  What is typed; empty where nothing is.
 * @property {string} name
 * @property {Wrong} wrong
 * @property {string} metric
 * @property {string} sensors  With commas between.
 * @property {string} type
 * @property {string} tags  `key:value`, one a line.
 * @property {string} limit
 * @property {string} clear
 * @property {string} minutes
 * @property {string} severity
 * @property {string[]} receivers  Ids.
 */

/** What a rate is told for, unless a rule says otherwise, in seconds. */
export const PER_S_DEFAULT = 60

/** What a rule finds wrong, in a sentence. @param {Rule} rule */
export function printRule(rule) {
  const { kind, for_s: forS = 0, clear } = rule
  const lasts = kind === 'silence' || forS === 0 ? '' : ` for ${printDuration(forS * 1_000)}`
  const normal = asFall(wrongOf(rule), clear)
  const ends = normal === undefined ? '' : `, back to normal at ${normal}`
  return `${printWrong(rule)}${lasts}${ends}, ${printSensors(rule)}`
}

/** @param {Rule} rule */
function printWrong({ kind, metric, above, below, per_s: perS = PER_S_DEFAULT, for_s: forS = 0 }) {
  const limit = above ?? below ?? 0
  if (kind === 'threshold') return `${metric} ${above === undefined ? 'below' : 'above'} ${limit}`
  if (kind === 'range') return `${metric ?? 'any metric'} out of its expected range`
  if (kind === 'rate') {
    const moves = above === undefined ? 'falls' : 'rises'
    return `${metric} ${moves} by more than ${Math.abs(limit)} in ${printDuration(perS * 1_000)}`
  }
  return `nothing${metric === undefined ? '' : ` of ${metric}`} for ${printDuration(forS * 1_000)}`
}

/** @param {Rule} rule */
function printSensors({ sensors, type, tags = {} }) {
  const words = [
    ...(type === undefined ? [] : [`type ${type}`]),
    ...Object.entries(tags).map(([key, value]) => `tag ${key}:${value}`),
  ]
  const such = words.length > 0 ? ` (${words.join(', ')})` : ''
  if (sensors === undefined) return `any sensor${such}`
  const more = sensors.length - SENSORS_SHOWN_MAX
  const names = sensors.slice(0, SENSORS_SHOWN_MAX).join(', ')
  return `${names}${more > 0 ? ` and ${more} more` : ''}${such}`
}

/** What the form shows of a rule. @param {Rule} rule  @returns {Form} */
export function formOf(rule) {
  const { name, metric = '', sensors = [], type = '', tags = {}, for_s: forS = 0 } = rule
  const { above, below, clear } = rule
  const wrong = wrongOf(rule)
  return {
    name,
    wrong,
    metric,
    sensors: sensors.join(', '),
    type,
    tags: printTags(tags),
    limit: String(asFall(wrong, above ?? below) ?? ''),
    clear: String(asFall(wrong, clear) ?? ''),
    minutes: forS === 0 ? '' : String(forS / 60),
    severity: rule.severity ?? 'warning',
    receivers: rule.receivers ?? [],
  }
}

/**
 * A fall is told as a positive number, and is a rate below 0; and the other way round.
 *
 * @param {Wrong} wrong
 * @param {number | undefined} limit
 */
function asFall(wrong, limit) {
  return wrong === 'fall' && limit ? -limit : limit
}

/** @param {Rule} rule  @returns {Wrong} */
function wrongOf({ kind, above }) {
  if (kind === 'threshold') return above === undefined ? 'below' : 'above'
  if (kind === 'rate') return above === undefined ? 'fall' : 'rise'
  return kind
}

/**
 * The rule that a form says. What the form does not show stays as it was.
 *
 * @param {Form} form
 * @param {Partial<Rule>} [before]
 * @returns {Rule}
 * @throws {import('./tags.js').TagError}  A line of the tags is none.
 */
export function ruleOf(form, before = {}) {
  const { late_s: lateS, per_s: perS, enabled } = before
  const kind = WRONGS[form.wrong]
  const limit = asFall(form.wrong, numberOf(form.limit))
  const isUpper = form.wrong === 'above' || form.wrong === 'rise'
  const tags = parseTags(form.tags)
  const sensors = form.sensors.split(',').map((name) => name.trim())
  const named = sensors.filter((name) => name !== '')
  const hasLimit = kind === 'threshold' || kind === 'rate'
  const all = {
    name: form.name,
    kind,
    metric: form.metric || undefined,
    sensors: named.length > 0 ? named : undefined,
    type: form.type || undefined,
    tags: Object.keys(tags).length > 0 ? tags : undefined,
    above: hasLimit && isUpper ? limit : undefined,
    below: hasLimit && !isUpper ? limit : undefined,
    clear: hasLimit ? asFall(form.wrong, numberOf(form.clear)) : undefined,
    per_s: kind === 'rate' ? perS : undefined,
    for_s: Math.round((numberOf(form.minutes) ?? 0) * 60),
    late_s: kind === 'silence' ? undefined : lateS,
    severity: form.severity,
    receivers: form.receivers,
    enabled,
  }
  const said = Object.entries(all).filter(([, value]) => value !== undefined)
  return /** @type {Rule} */ (Object.fromEntries(said))
}

/** @param {string} text */
function numberOf(text) {
  return text.trim() === '' ? undefined : Number(text)
}
