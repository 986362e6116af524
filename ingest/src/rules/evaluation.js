/**
 * Evaluates the rules of one series from what is stored, and writes what has changed: the state,
 * the alert and what receivers are to be told, all of it or nothing.
 */

import { shardOf } from '@sandglass/common/rollup'
import { alertId, notificationId } from '@sandglass/common/rules/alert'
import { limitsOf } from '@sandglass/common/rules/check'
import { AT_FIRST, abandon, fold, listen, wait } from '@sandglass/common/rules/machine'
import { isWatching, watchesMetric, watchesSensor } from '@sandglass/common/rules/rule'
import { firedText, notificationBody, resolvedText } from '@sandglass/common/rules/text'

/**
 * How long after a state has changed a series is looked at again, in milliseconds: by then every
 * process judges values by the new state.
 */
export const SETTLE_MS = 5_000

/** How long after that a sensor is looked at again that `latest` took for silent, in ms. */
const BEHIND_MS = 3_000

/** How long a value may be on its way to the database, in milliseconds. */
const ON_THE_WAY_MS = 1_000

/** @typedef {import('@sandglass/common/rules/rule').Rule} Rule */
/** @typedef {import('@sandglass/common/rules/machine').State} State */
/** @typedef {import('@sandglass/common/rules/machine').Change} Change */
/** @typedef {import('@sandglass/common/rules/check').Limits} Limits */
/** @typedef {import('./store.js').RuleStore} RuleStore */
/** @typedef {import('./store.js').KnownSensor} KnownSensor */
/** @typedef {import('./store.js').Statement} Statement */
/** @typedef {import('./store.js').Subject} Subject */

/** When to look at a series again, and from which event time on. */
/** @typedef {{ dueMs: number, fromMs: number }} Again */

/**
 * @typedef {object} Outcome  Of one rule for one series.
 * @property {Rule} rule
 * @property {Subject} subject
 * @property {State} before
 * @property {State} state
 * @property {Change[]} changes
 * @property {Limits | undefined} limits
 * @property {string | null} why  An alert ends: null if by its values.
 * @property {number} [silentMs]  When the sensor would be silent.
 */

export class Evaluation {
  #store
  #rules
  #now
  #counts

  /**
   * @param {object} parts
   * @param {RuleStore} parts.store
   * @param {() => ReadonlyMap<string, Rule>} parts.rules
   * @param {() => number} parts.now  Milliseconds since the Unix epoch.
   * @param {{ evaluations: number, fired: number, resolved: number }} parts.counts
   */
  constructor({ store, rules, now, counts }) {
    this.#store = store
    this.#rules = rules
    this.#now = now
    this.#counts = counts
  }

  /**
   * @param {string} sensorId
   * @param {string} metric  Empty: of the sensor as a whole.
   * @param {number} fromMs
   * @param {{ fromMs: number, toMs: number } | undefined} away  When nothing could be received.
   * @returns {Promise<Again | undefined>}
   */
  async evaluate(sensorId, metric, fromMs, away) {
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
    if (known) {
      const values = rules.filter((rule) => rule.kind !== 'silence' && watchesMetric(rule, metric))
      if (metric !== '' && values.length > 0) {
        outcomes.push(...(await this.#byValues(values, sensorId, metric, known, fromMs, stateOf)))
      }
      const silences = rules.filter((rule) => rule.kind === 'silence')
      if (silences.length > 0) {
        outcomes.push(...(await this.#bySilence(silences, sensorId, known, away, stateOf)))
      }
    }
    return this.#save(outcomes, known?.name ?? sensorId)
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
   * @returns {Promise<Outcome[]>}
   */
  async #byValues(rules, sensorId, metric, known, fromMs, stateOf) {
    const { samples, before: earlier } = await this.#store.samples(sensorId, metric, known, fromMs)
    const nowMs = this.#now()
    return rules.flatMap((rule) => {
      const limits = limitsOf(rule, known.expected(metric))
      if (!limits) return []
      const before = stateOf(rule.id, metric)
      const start = { ...before, ruleMs: rule.changedMs }
      // A rule that has changed judges the newest value once more.
      if (before.ruleMs !== rule.changedMs) start.atMs = Number.NEGATIVE_INFINITY
      const perMs = rule.kind === 'rate' ? (rule.per_s ?? 0) * 1000 : undefined
      if (perMs !== undefined && earlier && earlier.timeMs > start.atMs) {
        start.atMs = earlier.timeMs
        start.value = earlier.value
      }
      const forMs = (rule.for_s ?? 0) * 1000
      const lateMs = (rule.late_s ?? 0) * 1000
      const terms = { limits, forMs, lateMs, perMs, fromMs: rule.changedMs }
      const folded = fold(start, terms, samples)
      const waited = wait(folded.state, forMs, nowMs - ON_THE_WAY_MS)
      const changes = [...folded.changes, ...waited.changes]
      const subject = { ruleId: rule.id, sensorId, metric }
      return [{ rule, subject, before, state: waited.state, changes, limits, why: null }]
    })
  }

  /**
   * @param {Rule[]} rules
   * @param {string} sensorId
   * @param {KnownSensor} known
   * @param {{ fromMs: number, toMs: number } | undefined} away
   * @param {(ruleId: string, metric: string) => State} stateOf
   * @returns {Promise<Outcome[]>}
   */
  async #bySilence(rules, sensorId, known, away, stateOf) {
    const received = await this.#store.received(sensorId)
    /** @type {Outcome[]} */
    const outcomes = []
    for (const rule of rules) {
      const metric = rule.metric ?? ''
      const before = stateOf(rule.id, metric)
      let lastMs = lastReceived(received, metric, known.createdMs)
      // It never sent that metric: nothing went silent.
      if (lastMs === undefined) continue
      const forMs = (rule.for_s ?? 0) * 1000
      const listened = () =>
        listen(before, {
          lastMs: lastMs ?? 0,
          forMs,
          nowMs: this.#now(),
          awayMs: awayFor(away, lastMs),
        })
      let { state, changes } = listened()
      if (state.phase === 'firing') {
        // `latest` may be behind: what is stored tells.
        lastMs = Math.max(lastMs, await this.#newestReceived(sensorId, metric, known, received))
        ;({ state, changes } = listened())
      }
      const subject = { ruleId: rule.id, sensorId, metric }
      state.ruleMs = rule.changedMs
      const silentMs = lastMs + forMs + awayFor(away, lastMs)
      outcomes.push({
        rule,
        subject,
        before,
        state,
        changes,
        limits: undefined,
        why: null,
        silentMs,
      })
    }
    return outcomes
  }

  /**
   * @param {string} sensorId
   * @param {string} metric
   * @param {KnownSensor} known
   * @param {Map<string, { timeMs: number }>} received
   */
  async #newestReceived(sensorId, metric, known, received) {
    let newestMs = Number.NEGATIVE_INFINITY
    for (const one of metric === '' ? known.lastMs.keys() : [metric]) {
      const fromMs = received.get(one)?.timeMs ?? this.#now() - SETTLE_MS
      const { receivedMs } = await this.#store.samples(sensorId, one, known, fromMs)
      newestMs = Math.max(newestMs, receivedMs)
    }
    return newestMs
  }

  /**
   * @param {Outcome[]} outcomes
   * @param {string} sensor  Its name.
   * @returns {Promise<Again | undefined>}
   */
  async #save(outcomes, sensor) {
    const nowMs = this.#now()
    /** @type {Statement[]} */
    const statements = []
    /** @type {Again | undefined} */
    let again
    for (const outcome of outcomes) {
      const { rule, subject, before, state, changes } = outcome
      const wasChanged = changes.length > 0 || before.phase !== state.phase
      const silencedMs =
        changes.length > 0 || (state.phase === 'firing' && !state.isTold)
          ? Math.max(rule.silencedMs ?? 0, await this.#store.silencedMs(subject))
          : 0
      const told = this.#tell(outcome, sensor, silencedMs > nowMs, statements)
      const isToldNow = told !== before.isTold && state.phase === 'firing'
      state.isTold = state.phase === 'firing' && told
      const isNewer = state.phase !== 'ok' && state.atMs > before.atMs
      if (
        wasChanged ||
        isToldNow ||
        isNewer ||
        (state.phase !== 'ok' && before.ruleMs !== state.ruleMs)
      ) {
        statements.push(...this.#store.stateRows(subject, state, nowMs))
      }
      again = sooner(again, nextLook(outcome, nowMs, wasChanged, silencedMs))
    }
    if (statements.length > 0) await this.#store.together(statements)
    for (const { changes } of outcomes) {
      for (const { change } of changes) this.#counts[change]++
    }
    return again
  }

  /**
   * @param {Outcome} outcome
   * @param {string} sensor
   * @param {boolean} isSilenced
   * @param {Statement[]} statements
   * @returns {boolean}  Whether receivers know, or will, that it fires.
   */
  #tell({ rule, subject, before, state, changes, limits, why }, sensor, isSilenced, statements) {
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
      const fired = firedText(rule, sensor, subject.metric, found, limits)
      const text = change === 'fired' ? fired : resolvedText(rule, sensor, subject.metric)
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
 * @param {Map<string, { receivedMs: number }>} received
 * @param {string} metric
 * @param {number} createdMs
 */
function lastReceived(received, metric, createdMs) {
  if (metric !== '') return received.get(metric)?.receivedMs
  return Math.max(createdMs, ...[...received.values()].map(({ receivedMs }) => receivedMs))
}

/** For how long of the time since then nothing could be received, in milliseconds. */
/** @param {{ fromMs: number, toMs: number } | undefined} away  @param {number} [sinceMs] */
export function awayFor(away, sinceMs = 0) {
  return away ? Math.max(0, away.toMs - Math.max(away.fromMs, sinceMs)) : 0
}

/**
 * @param {Outcome} outcome
 * @param {number} nowMs
 * @param {boolean} wasChanged
 * @param {number} silencedMs
 * @returns {Again | undefined}
 */
function nextLook({ rule, state, silentMs = Infinity }, nowMs, wasChanged, silencedMs) {
  const fromMs = Math.max(state.atMs, 0)
  /** @type {Again | undefined} */
  let again = wasChanged ? { dueMs: nowMs + SETTLE_MS, fromMs } : undefined
  if (state.phase === 'pending') {
    const dueMs = state.sinceMs + (rule.for_s ?? 0) * 1000 + ON_THE_WAY_MS
    again = sooner(again, { dueMs, fromMs })
  }
  if (state.phase === 'ok' && silentMs <= nowMs) {
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
