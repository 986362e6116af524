import { Semaphore } from '@sandglass/common/semaphore'
import { Past } from '../src/write/past.js'

test('who waits no more when the database has answered is not told that it does', async () => {
  let isWanted = true
  const reader = {
    newest: async () => [],
    rowsAt: async () => {
      isWanted = false
      return []
    },
  }
  /** @type {unknown[]} */
  const learned = []
  const recent = {
    knows: () => false,
    learn: (/** @type {unknown[]} */ ...what) => learned.push(what),
  }
  const past = new Past(/** @type {any} */ ({ reader, recent, semaphore: new Semaphore(1) }))
  const series = { sensor: { lastTimes: new Map() }, metric: 'm', onTheWay: [] }
  const places = [{ series: /** @type {any} */ (series), timeMs: 5 }]
  expect(await past.learn(places, () => isWanted)).toBe(false)
  // The answer is kept all the same.
  expect(learned).toHaveLength(1)
  expect(await past.learn(places, () => true)).toBe(true)
})
