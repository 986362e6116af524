// A plan as the tests want it: small, without trouble unless they ask for it.
import { Plan } from '../src/plan.js'

/**
 * @param {Partial<import('../src/options.js').Options>} options
 * @param {{ startMs: number, backlogMs?: number }} range
 */
export function planOf(options, { startMs, backlogMs = Number.POSITIVE_INFINITY }) {
  const all = /** @type {import('../src/options.js').Options} */ ({
    sensors: 4,
    connections: 2,
    rate: 4,
    seed: 1,
    fleet: 'mixed',
    shape: 'object',
    malformedPercent: 0,
    latePercent: 0,
    duplicatePercent: 0,
    clocklessPercent: 0,
    faultPercent: 0,
    outagePercent: 0,
    to: Number.POSITIVE_INFINITY,
    ...options,
  })
  return new Plan(all, { startMs, endMs: all.to, backlogMs })
}
