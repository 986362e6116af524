// The first page of a list is of what is there now, and the others of what was read a moment ago.
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals'
import { PagedList } from '../src/paged-list.js'

beforeEach(() => void jest.useFakeTimers())
afterEach(() => void jest.useRealTimers())

const FIRST = {}
const FURTHER = { cursor: 'a place' }

/** Each reading takes so long, in milliseconds. @param {number} readMs */
function build(readMs) {
  const life = { readings: 0, isAway: false }
  const list = new PagedList(
    async () => {
      const reading = ++life.readings
      await new Promise((resolve) => setTimeout(resolve, readMs))
      if (life.isAway) throw new Error('away')
      return [reading]
    },
    (reading) => ['', String(reading)],
  )
  return { life, list }
}

/** Of which readings the lists are. @param {Promise<number[]>[]} asked  @param {number} ms */
async function after(asked, ms) {
  const answers = Promise.allSettled(asked)
  await jest.advanceTimersByTimeAsync(ms)
  return (await answers).map((one) => (one.status === 'fulfilled' ? one.value[0] : 'away'))
}

test.each([
  [200, 2_000],
  [5_000, 10_000],
])('what takes %d ms to read is good for further pages for %d', async (readMs, ageMs) => {
  const { list } = build(readMs)
  expect(await after([list.for(FURTHER), list.for(FURTHER)], readMs)).toEqual([1, 1])
  await jest.advanceTimersByTimeAsync(ageMs - 1)
  expect(await after([list.for(FURTHER)], 0)).toEqual([1])
  await jest.advanceTimersByTimeAsync(1)
  expect(await after([list.for(FURTHER)], readMs)).toEqual([2])
})

test('a first page is of what is read after it was asked for, and is kept for the others', async () => {
  const { life, list } = build(200)
  const before = list.for(FURTHER)
  expect(await after([before, list.for(FIRST), list.for(FURTHER)], 200)).toEqual([1, 2, 2])
  await jest.advanceTimersByTimeAsync(800)
  expect(await after([list.for(FIRST)], 200)).toEqual([3])
  // The time of those before is over, and of this one it is not.
  await jest.advanceTimersByTimeAsync(1_500)
  expect(await after([list.for(FURTHER)], 0)).toEqual([3])
  expect(life.readings).toBe(3)
})

test('what could not be read is read again by whoever asks next', async () => {
  const { life, list } = build(10)
  life.isAway = true
  expect(await after([list.for(FURTHER), list.for(FURTHER)], 10)).toEqual(['away', 'away'])
  life.isAway = false
  expect(await after([list.for(FURTHER)], 10)).toEqual([2])
})

test('it is in order by text, and by id where texts are the same', async () => {
  jest.useRealTimers()
  const items = ['b2', 'a9', 'b10', 'a1']
  const list = new PagedList(
    async () => [...items],
    ([text, ...id]) => [text, id.join('')],
  )
  expect(await list.for(FIRST)).toEqual(['a1', 'a9', 'b10', 'b2'])
})
