/** What is measured of alert rules. */

/**
 * @typedef {object} MeasuredRules
 * @property {Pick<import('./watch.js').RuleWatch, 'counts' | 'watching' | 'ageS'>} rules
 * @property {Pick<import('./worker.js').RuleWorker, 'counts' | 'lagS' | 'waiting'>} ruleWorker
 * @property {Pick<import('../notify/sender.js').Sender, 'counts' | 'waiting' | 'oldestS'>} sender
 */

/** @typedef {(name: string, help: string, value: () => number) => unknown} Define */

/**
 * @param {MeasuredRules} measured
 * @param {Define} counter
 * @param {Define} gauge
 */
export function registerRules({ rules, ruleWorker, sender }, counter, gauge) {
  gauge('rules', 'alert rules that watch something', () => rules.watching)
  gauge('rules_known_age_seconds', 'since alert rules and states were read', () => rules.ageS)
  counter('rule_read_failures_total', 'times that alert rules could not be read', () => {
    return rules.counts.failures
  })
  counter('rule_marks_total', 'marks that a series must be evaluated', () => rules.counts.marks)
  const work = ruleWorker.counts
  counter('rule_evaluations_total', 'series that were evaluated', () => work.evaluations)
  counter('rule_failures_total', 'times that alert rules had to wait', () => work.failures)
  gauge('rule_lag_seconds', 'how far the evaluation of values is behind', () => ruleWorker.lagS)
  gauge('rule_waiting', 'series that are looked at again', () => ruleWorker.waiting)
  counter('alerts_fired_total', 'alerts that began', () => work.fired)
  counter('alerts_resolved_total', 'alerts that ended', () => work.resolved)
  const sent = sender.counts
  gauge('notifications_waiting', 'notifications that receivers have not taken', () => {
    return sender.waiting
  })
  gauge('notifications_oldest_seconds', 'how long the oldest of them has waited', () => {
    return sender.oldestS
  })
  counter('notifications_delivered_total', 'notifications that were taken', () => sent.delivered)
  counter('notification_failures_total', 'attempts that failed', () => sent.failures)
  counter('notifications_given_up_total', 'notifications that were tried for three days', () => {
    return sent.givenUp
  })
}
