// Ids of dead letters: random, from the time of the message.
import { deadLetterIdOf } from '../src/write/dead-letter-id.js'

const MANY = 5_000
const RECEIVED_MS = 1_767_225_600_123

test('each has the time of its message, and random bytes of its own', () => {
  const ids = Array.from({ length: MANY }, () => deadLetterIdOf(RECEIVED_MS))
  expect(new Set(ids.map((id) => id.getDate().getTime()))).toEqual(new Set([RECEIVED_MS]))
  const random = ids.map((id) => id.toString().split('-').at(-1))
  expect(new Set(random).size).toBe(MANY)
})

test('what is made later does not change an id', () => {
  const id = deadLetterIdOf(RECEIVED_MS)
  const text = id.toString()
  for (let n = 0; n < MANY; n++) deadLetterIdOf(RECEIVED_MS)
  expect(id.toString()).toBe(text)
})
