import { shareOf } from './profile.js'

/**
 * @param {number} id
 * @param {string} functionName
 * @param {string} url
 * @param {number[]} [children]
 */
const node = (id, functionName, url, children) => ({
  id,
  callFrame: { functionName, url },
  children,
})

const PROFILE = {
  nodes: [
    node(1, '(root)', '', [2, 3, 4, 5]),
    node(2, '(idle)', ''),
    node(3, '(garbage collector)', ''),
    node(4, 'store', 'file:///ingest/src/write/batcher.js', [6]),
    node(5, 'encode', 'file:///node_modules/driver/encoder.js'),
    node(6, 'note', 'file:///ingest/src/rules/watch.js', [7]),
    node(7, 'isWrong', 'file:///common/src/rules/check.js'),
  ],
  startTime: 1000,
  samples: [4, 6, 7, 2, 3, 5, 6],
  timeDeltas: [10, 20, 20, 300, 40, 50, 100],
}
const ALL = { fromUs: 0, toUs: 10_000 }

describe('The share of a folder in a profile', () => {
  test('has what its code calls, and leaves out what is idle or no code', () => {
    expect(shareOf(PROFILE, '/ingest/src/rules/', ALL)).toBeCloseTo(140 / 200)
    expect(shareOf(PROFILE, '/ingest/', ALL)).toBeCloseTo(150 / 200)
    expect(shareOf(PROFILE, '/common/src/', ALL)).toBeCloseTo(20 / 200)
    expect(shareOf(PROFILE, '/api/', ALL)).toBe(0)
  })

  test('is that of a time', () => {
    const ofSome = (/** @type {number} */ fromUs, /** @type {number} */ toUs) =>
      shareOf(PROFILE, '/ingest/src/rules/', { fromUs, toUs })
    expect(ofSome(1000, 1050)).toBeCloseTo(40 / 50)
    expect(ofSome(1030, 1440)).toBeCloseTo(20 / 70)
    expect(() => ofSome(1050, 1390)).toThrow('no code in that time')
  })
})
