/**
 * An alert rule: which sensors it watches, and what is wrong with their values. Pure: validation,
 * and which sensors and metrics a rule is about. `docs/guide/alerts.md` explains it to users.
 */

import { invalid } from '../problem.js'
import {
  isMetricName,
  isSensorName,
  METRIC_NAME_RULE,
  SENSOR_NAME_RULE,
  sensorId,
} from '../sensor.js'

/** What rules can look at. */
export const RULE_KINDS = Object.freeze(
  /** @type {const} */ (['threshold', 'rate', 'range', 'silence']),
)
export const SEVERITIES = Object.freeze(/** @type {const} */ (['info', 'warning', 'critical']))

/** Most rules: every process keeps all of them in memory. */
export const RULES_MAX = 1_000

/** Most sensors and receivers that a rule names. */
export const RULE_SENSORS_MAX = 1_000
export const RULE_RECEIVERS_MAX = 16

/** Longest name, in characters. */
const NAME_LENGTH_MAX = 128

/** Longest `for_s`: thirty days, in seconds. */
export const FOR_S_MAX = 30 * 86_400

/** Shortest silence, in seconds: `latest`, which it is read from, may be seconds behind. */
export const SILENCE_S_MIN = 10

/** How late a value may arrive and still start an alert, in seconds. */
export const LATE_S_DEFAULT = 600
const LATE_S_MAX = 86_400

/** The time that a rate is told for, in seconds. */
const PER_S_DEFAULT = 60

/**
 * @typedef {object} RuleBody  As a client writes it.
 * @property {string} name
 * @property {'threshold' | 'rate' | 'range' | 'silence'} kind
 * @property {string} [metric]
 * @property {string[]} [sensors]  Names or ids.
 * @property {string} [type]
 * @property {Record<string, string>} [tags]
 * @property {number} [above]
 * @property {number} [below]
 * @property {number} [clear]
 * @property {number} [per_s]
 * @property {number} [for_s]
 * @property {number} [late_s]
 * @property {'info' | 'warning' | 'critical'} [severity]
 * @property {string[]} [receivers]
 * @property {boolean} [enabled]
 */

/**
 * @typedef {RuleBody & {
 *   id: string, changedMs: number, silencedMs: number, isDeleted: boolean,
 *   ids: ReadonlySet<string> | undefined }} Rule  As it is stored. `changedMs` is when it became
 *   what it is, `silencedMs` until when it tells nobody, `ids` the sensors that it names.
 */

/** @typedef {{ type: string | undefined, tags: Record<string, string> }} SensorWords */

/** What belongs to which kind, besides what all have. */
const FIELDS_OF = Object.freeze({
  threshold: ['above', 'below', 'clear'],
  rate: ['above', 'below', 'clear', 'per_s'],
  range: /** @type {string[]} */ ([]),
  silence: /** @type {string[]} */ ([]),
})

const KIND_FIELDS = Object.freeze(['above', 'below', 'clear', 'per_s'])

/**
 * Checks a rule, and fills in what it leaves out.
 *
 * @param {RuleBody} body  Its types are right.
 * @returns {RuleBody}
 * @throws {import('../problem.js').Problem}  Names the field and what it should be.
 */
export function checkRule(body) {
  if (!RULE_KINDS.includes(body.kind))
    throw invalid('kind', `must be one of ${RULE_KINDS.join(', ')}`)
  if (!isMetricName(body.name) || body.name.length > NAME_LENGTH_MAX) {
    throw invalid('name', METRIC_NAME_RULE)
  }
  for (const field of KIND_FIELDS) {
    if (/** @type {any} */ (body)[field] === undefined || FIELDS_OF[body.kind].includes(field))
      continue
    throw invalid(field, `does not belong to a rule of the kind ${body.kind}: leave it out`)
  }
  checkSelection(body)
  checkLimits(body)
  checkTimes(body)
  const { receivers = [] } = body
  if (receivers.length > RULE_RECEIVERS_MAX) {
    throw invalid('receivers', `may name ${RULE_RECEIVERS_MAX} receivers at most`)
  }
  return {
    ...body,
    ...(body.kind === 'rate' && { per_s: body.per_s ?? PER_S_DEFAULT }),
    ...(body.kind !== 'silence' && { late_s: body.late_s ?? LATE_S_DEFAULT }),
    for_s: body.for_s ?? 0,
    severity: body.severity ?? 'warning',
    receivers: [...new Set(receivers)],
    enabled: body.enabled ?? true,
  }
}

/** @param {RuleBody} body */
function checkSelection({ kind, metric, sensors }) {
  if (metric !== undefined && !isMetricName(metric)) throw invalid('metric', METRIC_NAME_RULE)
  if (metric === undefined && (kind === 'threshold' || kind === 'rate')) {
    throw invalid('metric', `is missing: a rule of the kind ${kind} is about one metric`)
  }
  if (sensors === undefined) return
  if (sensors.length === 0) {
    throw invalid('sensors', 'must name a sensor: leave it out to watch all sensors')
  }
  if (sensors.length > RULE_SENSORS_MAX) {
    throw invalid('sensors', `may name ${RULE_SENSORS_MAX} sensors at most: use type or tags`)
  }
  if (!sensors.every(isSensorName))
    throw invalid('sensors', `has a name that is none: it ${SENSOR_NAME_RULE}`)
}

/** @param {RuleBody} body */
function checkLimits({ kind, above, below, clear }) {
  if (kind !== 'threshold' && kind !== 'rate') return
  const limits = { above, below, clear }
  for (const [field, value] of Object.entries(limits)) {
    if (value !== undefined && !Number.isFinite(value)) throw invalid(field, 'must be a number')
  }
  if ((above === undefined) === (below === undefined)) {
    throw invalid('above', 'or below must be given, and not both: make two rules for both ends')
  }
  if (clear === undefined) return
  if (above !== undefined && clear > above) {
    throw invalid('clear', `must not be higher than above, ${above}`)
  }
  if (below !== undefined && clear < below) {
    throw invalid('clear', `must not be lower than below, ${below}`)
  }
}

/** @param {RuleBody} body */
function checkTimes({ kind, for_s: forS = 0, per_s: perS = PER_S_DEFAULT, late_s: lateS }) {
  const isTime = (
    /** @type {number} */ value,
    /** @type {number} */ min,
    /** @type {number} */ max,
  ) => Number.isFinite(value) && value >= min && value <= max
  const forMin = kind === 'silence' ? SILENCE_S_MIN : 0
  if (!isTime(forS, forMin, FOR_S_MAX)) {
    throw invalid('for_s', `must be from ${forMin} to ${FOR_S_MAX} seconds`)
  }
  if (!isTime(perS, 0.001, 86_400)) throw invalid('per_s', 'must be from 0.001 to 86400 seconds')
  if (lateS === undefined) return
  if (kind === 'silence') throw invalid('late_s', 'does not belong to a rule of the kind silence')
  if (!isTime(lateS, 0, LATE_S_MAX))
    throw invalid('late_s', `must be from 0 to ${LATE_S_MAX} seconds`)
}

/** The columns of `rule` from which {@link ruleOfRow} makes one. */
export const RULE_COLUMNS = 'rule_id, body, changed, silenced, deleted'

/** How long a deleted rule is kept, so that its alerts can end, in seconds. */
export const DELETED_RULE_TTL_S = 7 * 86_400

/** @param {any} row  With {@link RULE_COLUMNS}.  @returns {Rule} */
export function ruleOfRow(row) {
  const body = /** @type {RuleBody} */ (JSON.parse(row.body))
  return {
    ...body,
    id: row.rule_id.toString(),
    changedMs: row.changed.getTime(),
    silencedMs: row.silenced?.getTime() ?? 0,
    isDeleted: row.deleted === true,
    ids: body.sensors && new Set(body.sensors.map(sensorId)),
  }
}

/** Whether a rule watches anything now. @param {Rule} rule */
export const isWatching = ({ isDeleted, enabled }) => !isDeleted && enabled !== false

/**
 * Whether a rule is about a sensor.
 *
 * @param {Rule} rule
 * @param {string} id
 * @param {SensorWords} words
 */
export function watchesSensor(rule, id, { type, tags }) {
  if (rule.ids && !rule.ids.has(id)) return false
  if (rule.type !== undefined && rule.type !== type) return false
  const wanted = Object.entries(rule.tags ?? {})
  return wanted.every(([key, value]) => tags[key] === value)
}

/** Whether a rule is about a metric of the sensors that it watches. */
/** @param {Rule} rule  @param {string} metric */
export function watchesMetric(rule, metric) {
  return rule.metric === undefined || rule.metric === metric
}
