import { describe, expect, test } from '@jest/globals'
import { compareTimeUuids, readDeadLetters } from '../src/dead-letters.js'
import { createFakeStore } from './support/fake-store.js'

const DAY_MS = 86_400_000

/** @param {number} index  One every six hours. */
function letter(index) {
  const hex = index.toString(16).padStart(8, '0')
  return {
    id: `${hex}-0000-1000-8000-000000000000`,
    receivedMs: (index * DAY_MS) / 4,
    topic: `t${index}`,
    client: 'c',
    payload: Buffer.from('?'),
    reason: 'no JSON',
    replayedMs: undefined,
    format: undefined,
  }
}

describe('dead letters', () => {
  const letters = Array.from({ length: 50 }, (_, index) => letter(index))
  const nowMs = 13 * DAY_MS

  test.each([1, 2, 3, 7, 49, 50, 51])('are listed newest first in pages of %i', async (limit) => {
    const store = createFakeStore({ letters })
    const topics = []
    /** @type {import('../src/dead-letters.js').Position | undefined} */
    let after
    do {
      const page = await readDeadLetters(store, { after, limit, nowMs })
      topics.push(...page.letters.map(({ topic }) => topic))
      after = page.next
    } while (after)
    expect(topics).toEqual(letters.map(({ topic }) => topic).reverse())
  })

  test('lie in the order of their time, then of their signed bytes', () => {
    const ordered = [
      'ffffffff-0000-1000-8000-000000000000',
      '00000000-0001-1000-8000-000000000000',
      '00000000-0000-1001-8000-000000000000',
      '00000000-0000-1001-8000-00000000007f',
      '00000000-0000-1001-b000-000000000000',
    ]
    expect([...ordered].reverse().sort(compareTimeUuids)).toEqual(ordered)
  })
})
