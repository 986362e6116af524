/** What is measured of alert rules where none are. */

export function idleRules() {
  return {
    ruleWorker: {
      counts: { evaluations: 0, fired: 0, resolved: 0, failures: 0 },
      lagS: 0,
      waiting: 0,
    },
    sender: { counts: { delivered: 0, failures: 0, givenUp: 0 }, waiting: 0, oldestS: 0 },
  }
}
