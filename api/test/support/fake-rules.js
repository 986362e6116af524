/** Alert rules, receivers and alerts in memory, behind the questions that the api asks. */

import { alertDay } from '@sandglass/common/rules/alert'
import { ruleOfRow } from '@sandglass/common/rules/rule'

/** @typedef {import('@sandglass/common/rules/alert').Alert} Alert */
/** @typedef {ReturnType<typeof import('../../src/rules/store.js').ruleQuestions>} RuleQuestions */

export function fakeRules() {
  /** Rows of `rule`. @type {Map<string, any>} */
  const rules = new Map()
  /** @type {Map<string, import('../../src/rules/store.js').KnownReceiver>} */
  const receivers = new Map()
  /** @type {Alert[]} */
  const alertRows = []
  /** Days whose alerts were read. @type {number[]} */
  const alertDays = []
  /** @type {any[]} */
  const tests = []
  /** @type {any[]} */
  const silences = []

  /** @type {RuleQuestions} */
  const questions = {
    async rules() {
      return [...rules.values()].map(ruleOfRow).filter(({ isDeleted }) => !isDeleted)
    },
    async rule(id) {
      return (await questions.rules()).find((rule) => rule.id === id)
    },
    async putRule(id, body, changedMs) {
      const changed = new Date(changedMs)
      const before = rules.get(id)
      rules.set(id, { ...before, rule_id: id, body: JSON.stringify(body), changed })
    },
    async deleteRule({ id }) {
      rules.get(id).deleted = true
    },
    async silenceRule(id, untilMs) {
      rules.get(id).silenced = untilMs === null ? null : new Date(untilMs)
    },
    async silenceSeries({ ruleId, sensorId, metric }, untilMs) {
      silences.push({ ruleId, sensorId, metric, untilMs })
    },
    async silencedMs({ ruleId, sensorId, metric }) {
      const of = silences.findLast(
        (one) => one.ruleId === ruleId && one.sensorId === sensorId && one.metric === metric,
      )
      return of?.untilMs ?? 0
    },
    async receivers() {
      return [...receivers.values()]
    },
    async receiver(id) {
      return receivers.get(id)
    },
    async putReceiver(id, body) {
      receivers.set(id, { id, body, toldMs: null, failedMs: null, error: null })
    },
    async dropReceiver(id) {
      receivers.delete(id)
    },
    async alerts(day, before, rowsMax) {
      alertDays.push(day)
      const ofDay = alertRows.filter(({ firedMs }) => alertDay(firedMs) === day)
      ofDay.sort((a, b) => b.firedMs - a.firedMs || (a.id < b.id ? 1 : -1))
      const rest = ofDay.filter(
        ({ firedMs, id }) =>
          !before || firedMs < before.firedMs || (firedMs === before.firedMs && id < before.id),
      )
      return {
        alerts: rest.slice(0, rowsMax),
        last: rest.length < rowsMax ? undefined : rest[rowsMax - 1],
      }
    },
    async alert(id) {
      return alertRows.find((one) => one.id === id)
    },
    async acknowledge(id, { atMs, by, note }) {
      const found = alertRows.find((one) => one.id === id)
      Object.assign(found ?? {}, { acknowledgedMs: atMs, acknowledgedBy: by, note })
    },
    async notifyTest(what) {
      tests.push(what)
    },
  }
  return { ...questions, alertRows, alertDays, tests, silences }
}
