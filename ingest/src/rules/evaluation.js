/**
 * Evaluates the rules of one series from what is stored, and writes what has changed: the state,
 * the alert and what receivers are to be told, all of it or nothing. Values that change a state
 * very often are written in parts, each with the state that goes on from there.
 */

import { shardOf } from '@sandglass/common/rollup'
import { alertId, notificationId } from '@sandglass/common/rules/alert'
import { limitsOf } from '@sandglass/common/rules/check'
import { AT_FIRST, abandon, foldInParts, wait } from '@sandglass/common/rules/machine'
import { isWatching, watchesMetric, watchesSensor } from '@sandglass/common/rules/rule'
import { firedText, notificationBody, resolvedText } from '@sandglass/common/rules/text'
import { inOrderOfReceipt } from './arrivals.js'
import { SilenceJudge } from './silence-judge.js'

/**
 * How long after a state has changed a series is looked at again, in milliseconds: by then every
 * process judges values by the new state.
 */
export const SETTLE_MS = 5_000

/** How long after that a series is looked at again of which not all is known, in milliseconds. */
const BEHIND_MS = 3_000

/** How long a value may be on its way to the database, in milliseconds. */
const ON_THE_WAY_MS = 1_000

/**
 * Changes of one rule that are written together. With as many receivers as a rule may have they
 * are some 600 statements, and with the longest names far less than the database takes at once.
 */
const CHANGES_AT_ONCE = 32

/** Statements that are written together, unless one outcome alone has more. */
const STATEMENTS_AT_ONCE = 600

/** Parts of one rule before other series have their turn. */
const PARTS_MAX = 64

/** Values that may be read again each time: after more of them it is stored that all is well. */
const READ_AGAIN_MAX = 1_000

/** @typedef {import('@sandglass/common/rules/rule').Rule} Rule */
/** @typedef {import('@sandglass/common/rules/machine').State} State */
/** @typedef {import('@sandglass/common/rules/machine').Change} Change */
/** @typedef {import('@sandglass/common/rules/machine').Sample} Sample */
/** @typedef {import('@sandglass/common/rules/check').Limits} Limits */
/** @typedef {import('./absence.js').Absence} Absence */
/** @typedef {import('./store.js').RuleStore} RuleStore */
/** @typedef {import('./store.js').KnownSensor} KnownSensor */
/** @typedef {import('./store.js').Statement} Statement */
/** @typedef {import('./store.js').Subject} Subject */

/** When to look at a series again, and from which event time on. */
/** @typedef {{ dueMs: number, fromMs: number }} Again */

/**
 * @typedef {object} Evaluated
 * @property {Again | undefined} again
 * @property {boolean} isMore  It is not finished: evaluate it once more from the same time on.
 */

/**
 * @typedef {object} Outcome  Of one rule for one series.
 * @property {Rule} rule
 * @property {Subject} subject
 * @property {State} before
 * @property {State} state
 * @property {Change[]} changes
 * @property {Limits | undefined} limits
 * @property {string} [symbol]  Of the unit of the series.
 * @property {string | null} why  An alert ends: null if by its values.
 * @property {boolean} [wasChanged]  Changes of it are written already.
 * @property {boolean} [isSilent]  Whether the sensor is, by what `latest` says.
 * @property {boolean} [isDear]  Much was read: its state is stored whatever it is.
 */

/** @typedef {{ terms: import('@sandglass/common/rules/machine').Terms, outcome: Outcome,
 *   parts: number, again?: Again }} Judged  One rule, and how many parts of it are written. */

export class Evaluation {
  #store
  #rules
  #now
  #hearing
  #silence
  #counts

  /**
   * @param {object} parts
   * @param {RuleStore} parts.store
   * @param {() => ReadonlyMap<string, Rule>} parts.rules
   * @param {() => number} parts.now  Milliseconds since the Unix epoch.
   * @param {Pick<import('./hearing.js').Hearing, 'storedMs' | 'heardMs'>} parts.hearing
   * @param {{ evaluations: number, fired: number, resolved: number }} parts.counts
   */
  constructor({ store, rules, now, hearing, counts }) {
    this.#store = store
    this.#rules = rules
    this.#now = now
    this.#hearing = hearing
    this.#silence = new SilenceJudge({ store, now, hearing })
    this.#counts = counts
  }

  /**
   * @param {string} sensorId
   * @param {string} metric  Empty: of the sensor as a whole.
   * @param {number} fromMs
   * @param {readonly Absence[]} absences  When nothing could be received.
   * @returns {Promise<Evaluated>}
   */
  async evaluate(sensorId, metric, fromMs, absences) {
    this.#counts.evaluations++
    const [known, states] = await Promise.all([
      this.#store.sensor(sensorId),
      this.#store.states(sensorId),
    ])
    /** @param {string} ruleId  @param {string} of */
    const stateOf = (ruleId, of) =>
      states.find((one) => one.ruleId === ruleId && one.metric === of)?.state ?? AT_FIRST
    const outcomes = this.#abandoned(sensorId, states, known)
    const rules = known && !known.isHidden ? this.#watching(sensorId, known) : []
    /** @type {Evaluated} */
    const cut = { again: undefined, isMore: false }
    if (known) {
      const values = rules.filter((rule) => rule.kind !== 'silence' && watchesMetric(rule, metric))
      if (metric !== '' && values.length > 0) {
        const found = this.#byValues(values, sensorId, metric, known, fromMs, stateOf, cut)
        outcomes.push(...(await found))
      }
      const silences = rules.filter((rule) => rule.kind === 'silence')
      if (silences.length > 0) {
        const sensor = { sensorId, known, absences }
        outcomes.push(...(await this.#silence.judge(silences, sensor, stateOf)))
      }
    }
    const again = await this.#save(outcomes, known?.name ?? sensorId)
    return { again: sooner(cut.again, again), isMore: cut.isMore }
  }

  /** @param {string} sensorId  @param {KnownSensor} known */
  #watching(sensorId, { words }) {
    return [...this.#rules().values()].filter(
      (rule) => isWatching(rule) && watchesSensor(rule, sensorId, words),
    )
  }

  /**
   * Alerts whose rule does not watch their series any more.
   *
   * @param {string} sensorId
   * @param {import('./store.js').StoredState[]} states
   * @param {KnownSensor | undefined} known
   * @returns {Outcome[]}
   */
  #abandoned(sensorId, states, known) {
    const outcomes = []
    for (const { ruleId, metric, state: before } of states) {
      if (before.phase === 'ok') continue
      const rule = this.#rules().get(ruleId)
      const why = whyAbandoned(rule, sensorId, metric, known)
      if (why === undefined) continue
      const subject = { ruleId, sensorId, metric }
      const missing = /** @type {Rule} */ ({ id: ruleId, name: '', kind: 'threshold' })
      const { state, changes } = abandon(before, this.#now())
      outcomes.push({
        rule: rule ?? missing,
        subject,
        before,
        state,
        changes,
        limits: undefined,
        why,
      })
    }
    return outcomes
  }

  /**
   * @param {Rule[]} rules
   * @param {string} sensorId
   * @param {string} metric
   * @param {KnownSensor} known
   * @param {number} fromMs
   * @param {(ruleId: string, metric: string) => State} stateOf
   * @param {Evaluated} cut  Is told if a rule is not finished.
   * @returns {Promise<Outcome[]>}
   */
  async #byValues(rules, sensorId, metric, known, fromMs, stateOf, cut) {
    const judged = rules.flatMap((rule) => {
      const limits = limitsOf(rule, known.expected(metric))
      return limits ? [startOf(rule, limits, stateOf(rule.id, metric))] : []
    })
    if (judged.length === 0) return []
    const symbol = known.symbol(metric)
    // What is before all that counted cannot count, however late it is marked.
    const sinceMs = Math.max(fromMs, Math.min(...judged.map(({ start }) => start.atMs)))
    const earlier = await this.#store.values.before(sensorId, metric, known, sinceMs)
    /** @type {Judged[]} */
    let open = judged.map(({ rule, limits, before, start }) => {
      const subject = { ruleId: rule.id, sensorId, metric }
      const terms = termsOf(rule, limits, start, earlier)
      /** @type {Outcome} */
      const outcome = {
        rule,
        subject,
        before,
        state: start,
        changes: [],
        limits,
        symbol,
        why: null,
      }
      return { terms, outcome, parts: 0 }
    })
    let readCount = 0
    const read = this.#store.values.since(sensorId, metric, known, sinceMs)
    for await (const { samples, isLast } of inOrderOfReceipt(read)) {
      readCount += samples.length
      for (const one of open) {
        await this.#foldOn(one, samples, isLast, known.name)
        if (one.parts < PARTS_MAX) continue
        cut.again = sooner(cut.again, one.again)
        cut.isMore = true
      }
      open = open.filter(({ parts }) => parts < PARTS_MAX)
      if (open.length === 0) break
    }
    // A value that is on its way, or in the spool, may end what has been wrong until now.
    const untilMs = Math.min(this.#now() - ON_THE_WAY_MS, this.#hearing.storedMs)
    return open.map(({ outcome, terms }) => {
      const { state, changes } = wait(outcome.state, terms.forMs, untilMs)
      const isDear = readCount > READ_AGAIN_MAX
      return { ...outcome, state, changes: [...outcome.changes, ...changes], isDear }
    })
  }

  /**
   * Counts values, and writes what changes by them; what the last part changes is left in the
   * outcome.
   *
   * @param {Judged} judged
   * @param {readonly Sample[]} samples
   * @param {boolean} isLast  Whether no more come.
   * @param {string} sensor  Its name.
   */
  async #foldOn(judged, samples, isLast, sensor) {
    const { outcome, terms } = judged
    for (const part of foldInParts(outcome.state, terms, samples, CHANGES_AT_ONCE)) {
      outcome.state = part.state
      outcome.changes = part.changes
      if (isLast && !part.isMore) return
      if (part.changes.length === 0) continue
      judged.again = await this.#save([outcome], sensor)
      outcome.before = { ...part.state }
      outcome.changes = []
      outcome.wasChanged = true
      if (++judged.parts === PARTS_MAX) return
    }
  }

  /**
   * @param {Outcome[]} outcomes
   * @param {string} sensor  Its name.
   * @returns {Promise<Again | undefined>}
   */
  async #save(outcomes, sensor) {
    const nowMs = this.#now()
    /** @type {Statement[]} */
    let together = []
    /** @type {Again | undefined} */
    let again
    for (const outcome of outcomes) {
      const { rule, subject, before, state, changes } = outcome
      const wasChanged =
        changes.length > 0 || before.phase !== state.phase || outcome.wasChanged === true
      const silencedMs =
        changes.length > 0 || (state.phase === 'firing' && !state.isTold)
          ? Math.max(rule.silencedMs ?? 0, await this.#store.silencedMs(subject))
          : 0
      /** @type {Statement[]} */
      const statements = []
      const told = this.#tell(outcome, sensor, silencedMs > nowMs, statements)
      const isToldNow = told !== before.isTold && state.phase === 'firing'
      state.isTold = state.phase === 'firing' && told
      const isNewer = state.phase !== 'ok' && state.atMs > before.atMs
      if (
        wasChanged ||
        isToldNow ||
        isNewer ||
        outcome.isDear ||
        (state.phase !== 'ok' && before.ruleMs !== state.ruleMs)
      ) {
        statements.push(...this.#store.stateRows(subject, state))
      }
      // What is of one outcome is never cut.
      if (together.length + statements.length > STATEMENTS_AT_ONCE) {
        await this.#write(together)
        together = []
      }
      together.push(...statements)
      again = sooner(again, nextLook(outcome, nowMs, wasChanged, silencedMs))
    }
    await this.#write(together)
    for (const { changes } of outcomes) {
      for (const { change } of changes) this.#counts[change]++
    }
    return again
  }

  /** @param {Statement[]} statements */
  async #write(statements) {
    if (statements.length > 0) await this.#store.together(statements)
  }

  /**
   * @param {Outcome} outcome
   * @param {string} sensor
   * @param {boolean} isSilenced
   * @param {Statement[]} statements
   * @returns {boolean}  Whether receivers know, or will, that it fires.
   */
  #tell(outcome, sensor, isSilenced, statements) {
    const { rule, subject, before, state, changes, limits, symbol, why } = outcome
    const { metric } = subject
    let isTold = before.isTold
    const all = [...changes]
    // It was silenced when it began to fire, and still fires.
    if (changes.length === 0 && state.phase === 'firing' && !isTold && !isSilenced) {
      const { firedMs, shown: value } = state
      all.push({ change: 'fired', timeMs: firedMs, value, firedMs })
    }
    for (const { change, timeMs, value: found, firedMs } of all) {
      const id = alertId(subject, firedMs)
      const value = Number.isNaN(found) ? null : found
      const fired = firedText(rule, { sensor, metric, symbol }, found, limits)
      const text = change === 'fired' ? fired : resolvedText(rule, sensor, metric)
      if (change === 'fired') {
        const { name, kind, severity = 'warning' } = rule
        const about = { rule: name, kind, severity, sensor, value, text }
        statements.push(this.#store.alertRow(id, subject, firedMs, about))
      } else {
        statements.push(
          this.#store.resolvedRow(id, firedMs, { timeMs, value, why: why ?? 'values' }),
        )
      }
      // Who heard that it fires hears that it ended.
      const isWanted = change === 'fired' ? !isSilenced : isTold
      if (change === 'fired') isTold = !isSilenced
      if (!isWanted) continue
      const body = notificationBody({
        change,
        timeMs,
        alertId: id,
        firedMs,
        rule,
        sensor: { id: subject.sensorId, name: sensor },
        metric: subject.metric,
        value,
        text,
        why: change === 'resolved' ? (why ?? 'values') : null,
      })
      statements.push(...this.#notifications(rule, subject, id, change, timeMs, body))
    }
    return isTold
  }

  /**
   * @param {Rule} rule
   * @param {Subject} subject
   * @param {string} alert
   * @param {string} change
   * @param {number} timeMs
   * @param {object} body
   */
  #notifications({ receivers = [] }, { sensorId }, alert, change, timeMs, body) {
    return receivers.map((receiverId) => {
      const id = notificationId(alert, change, receiverId)
      const what = {
        id,
        createdMs: this.#now(),
        receiverId,
        alertId: alert,
        change,
        body: JSON.stringify(body),
      }
      return this.#store.notificationRow(shardOf(sensorId), what, timeMs)
    })
  }
}

/**
 * From where a rule goes on.
 *
 * @param {Rule} rule
 * @param {Limits} limits
 * @param {State} before
 */
function startOf(rule, limits, before) {
  const start = { ...before, ruleMs: rule.changedMs }
  // A rule that has changed judges the newest value once more.
  if (before.ruleMs !== rule.changedMs) start.atMs = Number.NEGATIVE_INFINITY
  return { rule, limits, before, start }
}

/**
 * @param {Rule} rule
 * @param {Limits} limits
 * @param {State} start  Told what it goes on from, if that is a rate.
 * @param {Sample | undefined} earlier  The last value before all that are read.
 */
function termsOf(rule, limits, start, earlier) {
  const perMs = rule.kind === 'rate' ? (rule.per_s ?? 0) * 1000 : undefined
  if (perMs !== undefined && earlier && earlier.timeMs > start.atMs) {
    start.atMs = earlier.timeMs
    start.value = earlier.value
  }
  const forMs = (rule.for_s ?? 0) * 1000
  const lateMs = (rule.late_s ?? 0) * 1000
  return { limits, forMs, lateMs, perMs, fromMs: rule.changedMs }
}

/**
 * Why an alert ends although no value says so; undefined if it does not.
 *
 * @param {Rule | undefined} rule
 * @param {string} sensorId
 * @param {string} metric
 * @param {KnownSensor | undefined} known
 */
function whyAbandoned(rule, sensorId, metric, known) {
  if (!rule || rule.isDeleted) return 'the rule was deleted'
  if (!isWatching(rule)) return 'the rule was switched off'
  if (!known || known.isHidden) return 'the sensor was deleted'
  const isOfSilence = rule.kind === 'silence'
  const isSame = isOfSilence
    ? (rule.metric ?? '') === metric
    : metric !== '' && watchesMetric(rule, metric)
  const isWatched = isSame && watchesSensor(rule, sensorId, known.words)
  if (isWatched && (isOfSilence || limitsOf(rule, known.expected(metric)))) return undefined
  return 'the rule watches it no more'
}

/**
 * @param {Outcome} outcome
 * @param {number} nowMs
 * @param {boolean} wasChanged
 * @param {number} silencedMs
 * @returns {Again | undefined}
 */
function nextLook({ rule, state, isSilent }, nowMs, wasChanged, silencedMs) {
  const fromMs = Math.max(state.atMs, 0)
  /** @type {Again | undefined} */
  let again = wasChanged ? { dueMs: nowMs + SETTLE_MS, fromMs } : undefined
  if (state.phase === 'pending') {
    const dueMs = state.sinceMs + (rule.for_s ?? 0) * 1000 + ON_THE_WAY_MS
    // What is received is not stored yet.
    again = sooner(again, { dueMs: dueMs > nowMs ? dueMs : nowMs + BEHIND_MS, fromMs })
  }
  if (state.phase === 'ok' && isSilent) {
    again = sooner(again, { dueMs: nowMs + BEHIND_MS, fromMs })
  }
  if (state.phase === 'firing' && !state.isTold && silencedMs > nowMs) {
    again = sooner(again, { dueMs: silencedMs, fromMs })
  }
  return again
}

/** @param {Again | undefined} one  @param {Again | undefined} other */
export function sooner(one, other) {
  if (!one || !other) return one ?? other
  return {
    dueMs: Math.min(one.dueMs, other.dueMs),
    fromMs: Math.min(one.fromMs, other.fromMs),
  }
}
