// What was read a moment ago is not read again, and what has changed is.
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals'
import { Recent } from '../src/recent.js'

beforeEach(() => void jest.useFakeTimers())
afterEach(() => void jest.useRealTimers())

/** Each reading takes so long, in milliseconds. @param {number} readMs */
function build(readMs) {
  const life = { readings: 0, isAway: false }
  const recent = new Recent(async () => {
    const reading = ++life.readings
    await new Promise((resolve) => setTimeout(resolve, readMs))
    if (life.isAway) throw new Error('away')
    return reading
  })
  return { life, recent }
}

/** @param {Promise<number>[]} asked  @param {number} ms */
async function after(asked, ms) {
  const answers = Promise.allSettled(asked)
  await jest.advanceTimersByTimeAsync(ms)
  return (await answers).map((one) => (one.status === 'fulfilled' ? one.value : 'away'))
}

test.each([
  [200, 2_000],
  [5_000, 10_000],
])('what takes %d ms to read is good for %d', async (readMs, ageMs) => {
  const { recent } = build(readMs)
  expect(await after([recent.get(), recent.get()], readMs)).toEqual([1, 1])
  await jest.advanceTimersByTimeAsync(ageMs - 1)
  expect(await after([recent.get()], 0)).toEqual([1])
  await jest.advanceTimersByTimeAsync(1)
  expect(await after([recent.get()], readMs)).toEqual([2])
})

test('who asks after it has changed gets what is read after that, and it is kept', async () => {
  const { life, recent } = build(200)
  const before = recent.get()
  recent.forget()
  expect(await after([before, recent.get(), recent.get()], 200)).toEqual([1, 2, 2])
  await jest.advanceTimersByTimeAsync(800)
  recent.forget()
  expect(await after([recent.get()], 200)).toEqual([3])
  // The time of those before is over, and of this one it is not.
  await jest.advanceTimersByTimeAsync(1_500)
  expect(await after([recent.get()], 0)).toEqual([3])
  expect(life.readings).toBe(3)
})

test('what could not be read is read again by whoever asks next', async () => {
  const { life, recent } = build(10)
  life.isAway = true
  expect(await after([recent.get(), recent.get()], 10)).toEqual(['away', 'away'])
  life.isAway = false
  expect(await after([recent.get()], 10)).toEqual([2])
})
