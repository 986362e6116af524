/**
 * Judges rules of silence for one sensor: by `latest`, and where that says that it is silent, by
 * what is stored.
 */

import { listen } from '@sandglass/common/rules/machine'
import { awayFor } from './absence.js'

/** For so long what is stored may be newer than `latest`, in milliseconds. */
const LATEST_BEHIND_MS = 5_000

/** @typedef {import('@sandglass/common/rules/rule').Rule} Rule */
/** @typedef {import('@sandglass/common/rules/machine').State} State */
/** @typedef {import('./evaluation.js').Outcome} Outcome */
/** @typedef {import('./store.js').KnownSensor} KnownSensor */
/** @typedef {{ sensorId: string, known: KnownSensor,
 *   absences: readonly import('./absence.js').Absence[] }} Listened */

export class SilenceJudge {
  #store
  #now
  #hearing

  /**
   * @param {object} parts
   * @param {import('./store.js').RuleStore} parts.store
   * @param {() => number} parts.now  Milliseconds since the Unix epoch.
   * @param {Pick<import('./hearing.js').Hearing, 'heardMs'>} parts.hearing
   */
  constructor({ store, now, hearing }) {
    this.#store = store
    this.#now = now
    this.#hearing = hearing
  }

  /**
   * @param {Rule[]} rules
   * @param {Listened} sensor
   * @param {(ruleId: string, metric: string) => State} stateOf
   * @returns {Promise<Outcome[]>}
   */
  async judge(rules, sensor, stateOf) {
    const { sensorId, known, absences } = sensor
    const nowMs = Math.min(this.#now(), this.#hearing.heardMs)
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
      const awayMs = () => awayFor(absences, lastMs ?? 0, nowMs)
      const listened = () => listen(before, { lastMs: lastMs ?? 0, forMs, nowMs, awayMs: awayMs() })
      let { state, changes } = listened()
      if (state.phase === 'firing') {
        // `latest` may be behind: what is stored tells.
        lastMs = Math.max(lastMs, await this.#newestReceived(sensorId, metric, known, received))
        ;({ state, changes } = listened())
      }
      if (state.phase === 'firing' && before.phase !== 'firing') {
        // What was received last may be deleted.
        lastMs = Math.max(lastMs, await this.#store.deletedMs(sensorId, metric, received))
        ;({ state, changes } = listened())
      }
      const isSilent = lastMs + forMs + awayMs() <= nowMs
      const subject = { ruleId: rule.id, sensorId, metric }
      state.ruleMs = rule.changedMs
      const limits = undefined
      outcomes.push({ rule, subject, before, state, changes, limits, why: null, isSilent })
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
      const fromMs = received.get(one)?.timeMs ?? this.#now() - LATEST_BEHIND_MS
      const receivedMs = await this.#store.values.newestReceivedMs(sensorId, one, known, fromMs)
      newestMs = Math.max(newestMs, receivedMs)
    }
    return newestMs
  }
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
