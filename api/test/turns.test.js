import { expect, test } from '@jest/globals'
import { listJson, TURN_MS, Turns } from '../src/turns.js'

const ITEMS = Array.from({ length: 2_000 }, (_, t) => ({ t }))

test.each([0, 1, 127, 128, 129, 2_000])('a list of %i items is the JSON that it was', async (n) => {
  const some = ITEMS.slice(0, n)
  expect(await listJson(some.values(), new Turns())).toBe(JSON.stringify(some))
})

/**
 * A list of which each item takes a tenth of a turn to make.
 *
 * @param {AbortSignal} [signal]
 */
function slow(signal) {
  let made = 0
  const turns = new Turns(signal, () => (made * TURN_MS) / 10)
  function* items() {
    for (const item of ITEMS) {
      made += 1
      yield item
    }
  }
  return { turns, items: items(), made: () => made }
}

test('a long list is written in several turns, and others have theirs in between', async () => {
  const { turns, items } = slow()
  let others = 0
  let isOver = false
  const other = () => {
    others += 1
    if (!isOver) setImmediate(other)
  }
  setImmediate(other)
  await listJson(items, turns)
  isOver = true
  expect(others).toBeGreaterThanOrEqual(10)
})

test('a list that nobody waits for any more is not written to its end', async () => {
  const controller = new AbortController()
  const { turns, items, made } = slow(controller.signal)
  setImmediate(() => controller.abort())
  await expect(listJson(items, turns)).rejects.toThrow('abort')
  expect(made()).toBeLessThan(ITEMS.length)
})
