/** The line that must add up: what became of each message since ingest started. */

/**
 * @typedef {object} Accounts
 * @property {{ name: string, count: number }[]} given  Where messages came from.
 * @property {{ name: string, count: number }[]} become  What became of them.
 * @property {number} difference  0, or some message is not accounted for.
 */

/**
 * @param {Record<string, number>} stats  As `/v1/ingest` answers.
 * @returns {Accounts}
 */
export function accountsOf(stats) {
  const given = [
    { name: 'received', count: stats.received },
    { name: 'recovered from the spool', count: stats.recovered },
  ]
  const become = [
    { name: 'stored', count: stats.stored },
    { name: 'dead-lettered', count: stats.deadLettered },
    { name: 'in the spool', count: stats.spooled },
    { name: 'held', count: stats.held },
    { name: 'dropped (QoS 0)', count: stats.droppedQos0 },
    { name: 'lost to a broken disk', count: stats.lost },
  ]
  const sum = (/** @type {{ count: number }[]} */ terms) =>
    terms.reduce((total, { count }) => total + count, 0)
  return { given, become, difference: sum(given) - sum(become) }
}
