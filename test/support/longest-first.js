/**
 * Puts the test that takes longest first: a worker would be alone with it in the end. Jest knows
 * how long tests take only where they have run before.
 */
import sequencer from '@jest/test-sequencer'

// Its types are those of its other build, which has the class one level deeper.
const Sequencer = /** @type {typeof sequencer.default} */ (/** @type {unknown} */ (sequencer))

/** @typedef {Parameters<InstanceType<typeof Sequencer>['sort']>[0]} Tests */

/** Eight minutes; no other takes three. */
const LONGEST = '/cassandra/cassandra.test.js'

export default class LongestFirst extends Sequencer {
  /** @param {Tests} tests */
  async sort(tests) {
    const sorted = await super.sort(tests)
    const isLongest = (/** @type {{ path: string }} */ { path }) => path.endsWith(LONGEST)
    return [...sorted.filter(isLongest), ...sorted.filter((test) => !isLongest(test))]
  }
}
