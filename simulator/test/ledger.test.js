// The record of what was acknowledged is small, and still tells any two sets of messages apart.
import { describe, expect, test } from '@jest/globals'
import { Digest } from '../src/digest.js'
import { entryOf, Ledger } from '../src/ledger.js'

/** @param {Partial<import('../src/plan.js').Planned>} message */
const message = (message) => ({
  sensor: 0,
  turn: 0,
  topic: 'sensors/s',
  payload: '',
  isCopy: false,
  values: { a: 1 },
  ...message,
})

describe('a digest', () => {
  /** @param {string[]} things */
  function digestOf(things) {
    const digest = new Digest()
    for (const thing of things) digest.add(thing)
    return digest
  }

  test('does not depend on the order', () => {
    expect(digestOf(['a', 'b', 'c']).equals(digestOf(['c', 'a', 'b']))).toBe(true)
  })

  test.each([
    [['a', 'b'], ['a']],
    [
      ['a', 'b'],
      ['a', 'c'],
    ],
    [
      ['a', 'a', 'b'],
      ['a', 'b', 'b'],
    ],
    [[], ['a']],
  ])('of %j is not that of %j', (one, other) => {
    expect(digestOf(one).equals(digestOf(other))).toBe(false)
  })

  test('stays exact however much is added', () => {
    const things = Array.from({ length: 100_000 }, (_, i) => `${i}`)
    expect(digestOf(things).equals(digestOf(things.toReversed()))).toBe(true)
    expect(digestOf(things).equals(digestOf(things.with(77, 'x')))).toBe(false)
  })
})

describe('a ledger', () => {
  test('counts a value when it is acknowledged, and not before', () => {
    const ledger = new Ledger(1)
    const acknowledged = ledger.note(message({ turn: 5, timeMs: 7 }))
    expect(ledger.seriesOf(0).get('a')).toBeUndefined()
    expect([ledger.isPending(0, 5), ledger.pendingOf(0)]).toEqual([true, 1])
    acknowledged()
    const expected = new Digest()
    expected.add(entryOf(7, 1))
    expect(ledger.seriesOf(0).get('a')?.equals(expected)).toBe(true)
    expect([ledger.isPending(0, 5), ledger.pendingOf(0)]).toEqual([false, 0])
  })

  test('keeps malformed messages apart', () => {
    const ledger = new Ledger(1)
    ledger.note(message({ values: undefined, payload: 'x' }))()
    expect(ledger.lettersOf(0).count).toBe(1)
    expect(ledger.seriesOf(0).size).toBe(0)
  })

  test('knows which values without a time may be one row', () => {
    let nowMs = 0
    const ledger = new Ledger(1, () => nowMs)
    const send = (/** @type {number} */ value) => ledger.note(message({ values: { a: value } }))
    const first = send(1)
    const closeOf = (/** @type {string} */ key) => ledger.closeOf(0, 'a', key)
    send(2)()
    expect(closeOf('1')).toBe(0)
    const second = send(1)
    expect(closeOf('1')).toBe(1)
    first()
    second()
    nowMs = 0.5
    send(1)()
    expect(closeOf('1')).toBe(2)
    nowMs = 2
    send(1)()
    expect(closeOf('1')).toBe(2)
    expect(closeOf('2')).toBe(0)
  })

  test('knows what was sent again without a time', () => {
    const ledger = new Ledger(2)
    ledger.note(message({ turn: 1 }))
    ledger.note(message({ turn: 2, timeMs: 5 }))
    ledger.note(message({ turn: 3 }))()
    ledger.note(message({ turn: 4, sensor: 1 }))
    ledger.note(message({ turn: 5, values: undefined }))
    ledger.resend([0])
    ledger.resend([0])
    expect([1, 2, 3, 5].map((turn) => ledger.resentOf(0, turn))).toEqual([2, 0, 0, 2])
    expect(ledger.resentOf(1, 4)).toBe(0)
  })

  test('does not mind equal values that have times', () => {
    const ledger = new Ledger(1)
    ledger.note(message({ timeMs: 1 }))
    ledger.note(message({ timeMs: 2 }))
    expect(ledger.closeOf(0, 'a', '1')).toBe(0)
  })
})

test.each([
  [1, 1, true],
  [-0, 0, true],
  [1, '1', false],
  [true, 'true', false],
  [{ lat: 1, lon: 2 }, { lon: 2, lat: 1 }, true],
  [{ lat: 1, lon: 2 }, { lat: 2, lon: 1 }, false],
])('%j and %j are the same value: %j', (one, other, expected) => {
  expect(entryOf(1, one) === entryOf(1, other)).toBe(expected)
})
