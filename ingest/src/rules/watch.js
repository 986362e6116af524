/**
 * Which values alert rules have to look at. Of each value that is stored it is asked whether it can
 * change the state of a rule; where it can, its message is acknowledged only after a mark is
 * durable that has the series evaluated, from what is stored then (ADR 0075). Nothing is decided
 * here: a mark too many costs a row.
 *
 * Every process hears of rules and states within a second or so. Who evaluates looks at a series
 * again a while after its state has changed, for what another process judged by the state before.
 */

import { effective } from '@sandglass/common/precedence'
import { isRight, isWrong, limitsOf, numberOf } from '@sandglass/common/rules/check'
import { isWatching, watchesMetric, watchesSensor } from '@sandglass/common/rules/rule'
import { RULE_SLOT_MS } from '@sandglass/common/rules/tables'
import { SETTLE_MS } from './evaluation.js'
import { ruleSlotOf } from './store.js'

/** How often it is asked what has changed, in milliseconds. */
export const POLL_MS = 1_000

/** How old what is known may be and be acted on, in milliseconds. */
export const KNOWN_MS_MAX = 3_000

/** How often it is asked what is said of metrics of types, in milliseconds. */
const TYPES_MS = 60_000

/** How long after its slot a mark may become durable, in milliseconds; later it is made again. */
const MARK_LATE_MS_MAX = 5_000

/** @typedef {import('@sandglass/common/rules/rule').Rule} Rule */
/** @typedef {import('@sandglass/common/rules/check').Limits} Limits */
/** @typedef {import('../message/message.js').Message} Message */
/** @typedef {import('../sensors/series.js').Series} Series */
/** @typedef {import('../write/row.js').Row} Row */
/** @typedef {'pending' | 'firing'} Phase */

/**
 * What one rule says of one series.
 *
 * @typedef {object} Check
 * @property {string} ruleId
 * @property {Limits | undefined} limits  None: any value ends a silence.
 * @property {number} lateMs
 * @property {number} perMs  Of a rate; else 0.
 * @property {boolean} isOfSensor  Whether its state is that of the sensor as a whole.
 */

/** @type {readonly Check[]} */
const NONE = Object.freeze([])

/** By rule. @typedef {Map<string, Phase>} Phases */

/**
 * @typedef {Pick<import('./store.js').RuleStore, 'rules' | 'versions' | 'active' | 'typeMetrics'>
 *   } WatchReader
 */

export class RuleWatch {
  counts = { marks: 0, failures: 0 }
  /** All rules, by id; those that were deleted, too. @type {Map<string, Rule>} */
  rules = new Map()
  /** Resolves once rules are known: nothing is stored before. */
  ready = Promise.resolve()
  #rows
  #clock
  #isShared
  #now
  #begin = () => {}
  /** Whether a rule watches anything. */
  #isWatching = false
  /** Counts how often rules have changed. */
  #version = 0
  /** States that are not ok: by sensor, by metric, by rule. */
  #active = /** @type {Map<string, Map<string, Phases>>} */ (new Map())
  /** Which of them are of which part. @type {Map<number, Set<string>>} */
  #sensorsOf = new Map()
  /** @type {Map<number, number>} */
  #versions = new Map()
  /** By type, by metric. @type {Map<string, Map<string, any>>} */
  #types = new Map()
  #typesMs = Number.NEGATIVE_INFINITY
  #knownMs = Number.NEGATIVE_INFINITY
  /** Checks that are alike are one object. @type {Map<string, Check>} */
  #checks = new Map()
  /** So are lists of them. @type {Map<string, readonly Check[]>} */
  #lists = new Map()
  #isOld = false
  /** @type {NodeJS.Timeout | undefined} */
  #oldTimer

  /**
   * @param {object} parts
   * @param {import('../write/rows.js').Rows} parts.rows
   * @param {import('../rollup/slot-clock.js').SlotClock} parts.clock
   * @param {boolean} [parts.isShared]  Whether other processes store values of the same series.
   * @param {() => number} [parts.now]  A clock that only goes forward, in milliseconds.
   */
  constructor({ rows, clock, isShared = false, now = () => performance.now() }) {
    this.#rows = rows
    this.#clock = clock
    this.#isShared = isShared
    this.#now = now
  }

  /** Lets those wait who want to store, until rules are known. */
  prepare() {
    this.ready = new Promise((resolve) => {
      this.#begin = () => resolve(undefined)
    })
  }

  /** Whether there is any rule, also one that was deleted and may have alerts. */
  get hasRules() {
    return this.rules.size > 0
  }

  /** How many watch something. */
  get watching() {
    return [...this.rules.values()].filter(isWatching).length
  }

  /** How old what is known is, in seconds. */
  get ageS() {
    return this.#knownMs === Number.NEGATIVE_INFINITY ? 0 : (this.#now() - this.#knownMs) / 1000
  }

  /** Asks what has changed. @param {WatchReader} reader */
  async poll(reader) {
    const startMs = this.#now()
    try {
      await this.#read(reader, startMs)
      this.#knownMs = startMs
      this.#isOld = false
      this.#ageFrom(startMs)
      this.#begin()
    } catch (error) {
      this.counts.failures++
      throw error
    }
  }

  /** Marks everything when what is known has become too old. @param {number} startMs */
  #ageFrom(startMs) {
    clearTimeout(this.#oldTimer)
    const leftMs = KNOWN_MS_MAX - (this.#now() - startMs)
    this.#oldTimer = setTimeout(
      () => {
        this.#isOld = this.#isWatching
      },
      Math.max(0, leftMs),
    )
    this.#oldTimer.unref()
  }

  /** @param {WatchReader} reader  @param {number} nowMs */
  async #read(reader, nowMs) {
    const rules = await reader.rules((id, changedMs) => {
      const known = this.rules.get(id)
      return known?.changedMs === changedMs ? known : undefined
    })
    const isSame =
      rules.length === this.rules.size &&
      rules.every(({ id, changedMs }) => this.rules.get(id)?.changedMs === changedMs)
    const needsTypes = rules.some((rule) => rule.kind === 'range' && isWatching(rule))
    const areTypesOld = needsTypes && nowMs - this.#typesMs > TYPES_MS
    if (areTypesOld) this.#learnTypes(await reader.typeMetrics(), nowMs)
    this.rules = new Map(rules.map((rule) => [rule.id, rule]))
    if (!isSame || areTypesOld) this.#changed()
    if (rules.length > 0) await this.#readStates(reader)
  }

  #changed() {
    this.#version++
    this.#isWatching = this.watching > 0
    this.#checks.clear()
    this.#lists.clear()
  }

  /** @param {{ type: string, metric: string, said: any }[]} all  @param {number} nowMs */
  #learnTypes(all, nowMs) {
    this.#typesMs = nowMs
    this.#types = new Map()
    for (const { type, metric, said } of all) {
      const metrics = this.#types.get(type) ?? new Map()
      this.#types.set(type, metrics.set(metric, said))
    }
  }

  /** @param {WatchReader} reader */
  async #readStates(reader) {
    for (const [shard, version] of await reader.versions()) {
      if (this.#versions.get(shard) === version) continue
      const states = await reader.active(shard)
      for (const sensorId of this.#sensorsOf.get(shard) ?? []) this.#active.delete(sensorId)
      this.#sensorsOf.set(shard, new Set(states.map(({ sensorId }) => sensorId)))
      for (const { sensorId, metric, ruleId, state } of states) {
        const metrics = this.#active.get(sensorId) ?? new Map()
        this.#active.set(sensorId, metrics)
        const phases = metrics.get(metric) ?? new Map()
        metrics.set(metric, phases.set(ruleId, state.phase))
      }
      this.#versions.set(shard, version)
    }
  }

  /**
   * Looks at a value that is stored. Its message is marked if a rule may have to.
   *
   * @param {Series} series
   * @param {unknown} value
   * @param {number} timeMs  Of the event.
   * @param {Message} message
   */
  note(series, value, timeMs, message) {
    if (!this.#isWatching || message.arrival === 'replay') return
    if (series.checksVersion !== this.#version) this.#resolve(series)
    const { checks } = series
    if (checks.length === 0) return
    const metrics = this.#active.size === 0 ? undefined : this.#active.get(series.sensor.id)
    const number = numberOf(value)
    const lateMs = message.writtenMs - timeMs
    for (let at = 0; at < checks.length; at++) {
      const check = checks[at]
      if (check.limits !== undefined && (number === undefined || lateMs > check.lateMs)) continue
      const of = metrics && (check.isOfSensor ? metrics.get('') : metrics.get(series.metric))
      const phase = of?.get(check.ruleId)
      if (!this.#matters(check, series, number ?? 0, timeMs, phase)) continue
      // Only that something was received ends a silence: nothing is read from long ago for it.
      const isOfSilence = check.limits === undefined
      mark(message, series, isOfSilence ? Math.max(timeMs, message.writtenMs - SETTLE_MS) : timeMs)
      if (!isOfSilence) break
    }
    if (number !== undefined && timeMs > series.rateMs) {
      series.rateMs = timeMs
      series.rateValue = number
    }
  }

  /**
   * @param {Check} check
   * @param {Series} series
   * @param {number} value
   * @param {number} timeMs
   * @param {Phase | undefined} phase
   */
  #matters({ limits, perMs }, { rateMs, rateValue }, value, timeMs, phase) {
    if (this.#isOld) return true
    if (limits === undefined) return phase === 'firing'
    let compared = value
    if (perMs > 0) {
      // Another process, or an earlier run of this one, may have stored the value before.
      if (this.#isShared || rateMs === Number.NEGATIVE_INFINITY || timeMs <= rateMs) return true
      compared = ((value - rateValue) / (timeMs - rateMs)) * perMs
    }
    if (phase === undefined) return isWrong(limits, compared)
    return phase === 'firing' ? isRight(limits, compared) : !isWrong(limits, compared)
  }

  /** Finds the rules of a series. @param {Series} series */
  #resolve(series) {
    const { sensor, metric } = series
    const { words, said, units } = sensor
    /** @type {Check[]} */
    const checks = []
    /** @type {import('@sandglass/common/metadata').Metadata | undefined} */
    let metadata
    for (const rule of this.rules.values()) {
      if (!isWatching(rule) || !watchesMetric(rule, metric)) continue
      if (!watchesSensor(rule, sensor.id, words)) continue
      metadata ??= effective(
        {
          sensor: said.get(metric),
          type: this.#types.get(words.type ?? '')?.get(metric),
          device: units.get(metric)?.unit,
        },
        words.unit,
      )
      const check = this.#checkOf(rule, metadata)
      if (check) checks.push(check)
    }
    const key = checks.map(keyOf).join(' ')
    const list = this.#lists.get(key) ?? Object.freeze(checks)
    if (checks.length > 0) this.#lists.set(key, list)
    series.checks = checks.length > 0 ? list : NONE
    series.checksVersion = this.#version
  }

  /** @param {Rule} rule  @param {import('@sandglass/common/metadata').Metadata} metadata */
  #checkOf(rule, { expected_min: min, expected_max: max }) {
    const limits = limitsOf(rule, { min, max })
    if (rule.kind !== 'silence' && limits === undefined) return undefined
    const check = {
      ruleId: rule.id,
      limits,
      lateMs: (rule.late_s ?? 0) * 1000,
      perMs: rule.kind === 'rate' ? (rule.per_s ?? 0) * 1000 : 0,
      isOfSensor: rule.kind === 'silence' && rule.metric === undefined,
    }
    const key = keyOf(check)
    const known = this.#checks.get(key) ?? check
    this.#checks.set(key, known)
    return known
  }

  /**
   * Whether nothing has to be marked any more for a message all of whose rows are durable.
   *
   * @param {Message} message
   */
  isMarked({ marks, markedRulesUntilMs }) {
    return marks === undefined || this.#clock.now() <= markedRulesUntilMs
  }

  /**
   * The marks of a message; it waits for them.
   *
   * @param {Message} message
   * @returns {Row[]}  To be written.
   */
  markRows(message) {
    const slotMs = ruleSlotOf(this.#clock.now())
    message.markedRulesUntilMs = slotMs + RULE_SLOT_MS + MARK_LATE_MS_MAX
    const marks = [...(message.marks ?? [])]
    this.counts.marks += marks.length
    return marks.map(([series, timeMs]) => this.#rows.ruleMark(series, timeMs, slotMs, message))
  }
}

/** @param {Message} message  @param {Series} series  @param {number} fromMs */
function mark(message, series, fromMs) {
  message.marks ??= new Map()
  message.marks.set(series, Math.min(fromMs, message.marks.get(series) ?? Infinity))
}

/** @param {Check} check */
function keyOf({ ruleId, limits }) {
  const { lower, upper } = limits ?? { lower: 0, upper: 0 }
  return `${ruleId}/${lower}/${upper}`
}
