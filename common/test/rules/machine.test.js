// The states of a rule, compared with a model that looks at every second, over all short histories.
import { describe, expect, test } from '@jest/globals'
import { limitsOf } from '../../src/rules/check.js'
import {
  AT_FIRST,
  abandon,
  fold,
  listen,
  stateOfText,
  stateText,
  wait,
} from '../../src/rules/machine.js'
import { seeded } from '../formats/fuzz.js'

/** @typedef {import('../../src/rules/machine.js').Sample} Sample */
/** @typedef {import('../../src/rules/machine.js').Change} Change */

/** Above 80 is wrong, from 70 down it is right again. */
const LIMITS = {
  lower: Number.NEGATIVE_INFINITY,
  upper: 80,
  lowerClear: Number.NEGATIVE_INFINITY,
  upperClear: 70,
}
const [RIGHT, BETWEEN, WRONG] = [60, 75, 90]
const LATE_S = 4

/** @param {number} forS */
const termsOf = (forS) => ({ limits: LIMITS, forMs: forS * 1000, lateMs: LATE_S * 1000, fromMs: 0 })

/** @param {Change[]} changes */
const short = (changes) => changes.map(({ change, timeMs }) => `${change} ${timeMs / 1000}`)

/**
 * Second by second: the value that holds is looked at, and nothing else is known.
 *
 * @param {Sample[]} samples  In the order of their receipt.
 * @param {number} forS
 * @param {number} untilS
 */
function model(samples, forS, untilS) {
  const accepted = samples.filter((sample, at) => {
    if (sample.receivedMs - sample.timeMs > LATE_S * 1000) return false
    const others = samples
      .slice(0, at)
      .filter((one) => one.receivedMs - one.timeMs <= LATE_S * 1000)
    return others.every(
      (one) => Math.min(one.timeMs, one.receivedMs) < Math.min(sample.timeMs, sample.receivedMs),
    )
  })
  const said = []
  let isFiring = false
  let wrongS = -1
  for (let s = 0; s <= untilS; s++) {
    const holding = accepted.findLast((one) => Math.min(one.timeMs, one.receivedMs) <= s * 1000)
    if (!holding) continue
    // It was wrong up to this second, whatever comes in it.
    if (!isFiring && wrongS >= 0 && s >= wrongS + forS) {
      isFiring = true
      said.push(`fired ${wrongS + forS}`)
    }
    const isWrong = holding.value > 80
    if (isFiring) {
      if (holding.value <= 70) {
        isFiring = false
        wrongS = -1
        said.push(`resolved ${s}`)
      }
    } else {
      wrongS = isWrong ? (wrongS >= 0 ? wrongS : s) : -1
      if (wrongS >= 0 && s >= wrongS + forS) {
        isFiring = true
        said.push(`fired ${wrongS + forS}`)
      }
    }
  }
  return said
}

/** All sequences. @param {readonly number[][]} choices  @returns {Generator<number[]>} */
function* product(choices) {
  const [first, ...rest] = choices
  if (!first) {
    yield []
    return
  }
  for (const one of first) for (const more of product(rest)) yield [one, ...more]
}

describe('states of a rule', () => {
  test('are those of the model, for all values in order and any duration', () => {
    for (const forS of [0, 1, 2, 3]) {
      for (const values of product(Array.from({ length: 6 }, () => [RIGHT, BETWEEN, WRONG]))) {
        const samples = values.map((value, s) => ({
          timeMs: s * 1000,
          seq: 0,
          receivedMs: s * 1000,
          value,
        }))
        const { state, changes } = fold(AT_FIRST, termsOf(forS), samples)
        const after = wait(state, forS * 1000, 20_000)
        expect([forS, values, short([...changes, ...after.changes])]).toEqual([
          forS,
          values,
          model(samples, forS, 20),
        ])
      }
    }
  })

  test('are those of the model when values come late, ahead, or at the time of another', () => {
    for (const forS of [0, 2]) {
      for (const times of product([
        [0, 3],
        [0, 1, 4],
        [0, 2, 3],
        [1, 9, -3],
      ])) {
        for (const values of product(Array.from({ length: 4 }, () => [RIGHT, WRONG]))) {
          const samples = values.map((value, at) => ({
            timeMs: times[at] * 1000,
            seq: 0,
            receivedMs: (at + 1) * 1000,
            value,
          }))
          const { state, changes } = fold(AT_FIRST, termsOf(forS), samples)
          const after = wait(state, forS * 1000, 30_000)
          expect([forS, times, values, short([...changes, ...after.changes])]).toEqual([
            forS,
            times,
            values,
            model(samples, forS, 30),
          ])
        }
      }
    }
  })

  test('are the same in however many steps they are found, and when steps are repeated', () => {
    for (const forS of [0, 2]) {
      for (const values of product(Array.from({ length: 5 }, () => [RIGHT, BETWEEN, WRONG]))) {
        const samples = values.map((value, s) => ({
          timeMs: s * 1000,
          seq: 0,
          receivedMs: s * 1000,
          value,
        }))
        const whole = fold(AT_FIRST, termsOf(forS), samples)
        let state = { ...AT_FIRST }
        const changes = []
        for (let end = 1; end <= samples.length; end++) {
          // What was read before is read again, in another order.
          const step = fold(state, termsOf(forS), samples.slice(0, end).reverse())
          state = stateOfText(stateText(step.state))
          changes.push(...step.changes)
        }
        expect(short(changes)).toEqual(short(whole.changes))
        expect(state).toEqual(whole.state)
      }
    }
  })

  test('a value that comes long after its time wakes nobody, and is not the newest', () => {
    const old = { timeMs: 1_000, seq: 0, receivedMs: 6_000, value: WRONG }
    expect(fold(AT_FIRST, termsOf(0), [old]).state).toEqual(AT_FIRST)
    const kept = { ...old, receivedMs: 5_000 }
    expect(short(fold(AT_FIRST, termsOf(0), [kept]).changes)).toEqual(['fired 1'])
  })

  test('two values of one millisecond count in their order', () => {
    const samples = [1, 0].map((seq) => ({
      timeMs: 5,
      seq,
      receivedMs: 5,
      value: seq ? WRONG : RIGHT,
    }))
    expect(fold(AT_FIRST, termsOf(0), samples).state.phase).toBe('firing')
  })

  test('values that are all ahead of their receipt count in the order of their own times', () => {
    const samples = [20, 95, 20, 95].map((value, at) => {
      return { timeMs: 20_000 + at, seq: 0, receivedMs: 5_000, value }
    })
    const { state, changes } = fold(AT_FIRST, termsOf(0), samples)
    expect(state).toMatchObject({ phase: 'firing', atMs: 5_000, eventMs: 20_003, value: 95 })
    expect(changes.map(({ change }) => change)).toEqual(['fired', 'resolved', 'fired'])
    // None of them counts twice, also where they are looked at one by one.
    let stepwise = { ...AT_FIRST }
    for (const sample of [...samples, ...samples]) {
      stepwise = stateOfText(stateText(fold(stepwise, termsOf(0), [sample]).state))
    }
    expect(stepwise).toEqual(state)
  })

  test('each alert has a beginning of its own, and ends no earlier, whatever the times are', () => {
    const random = seeded(11)
    const int = (/** @type {number} */ below) => Math.floor(random() * below)
    let fired = 0
    for (let round = 0; round < 2_000; round++) {
      const terms = { ...termsOf(int(2)), fromMs: int(3) * 20_000 }
      const samples = Array.from({ length: 12 }, (_, at) => {
        const receivedMs = 20_000 + int(2) * at
        const timeMs = receivedMs - 3_000 + int(4) * 2_000
        return { timeMs, seq: int(2), receivedMs, value: [RIGHT, WRONG][int(2)] }
      })
      let state = { ...AT_FIRST }
      /** @type {Change[]} */
      const changes = []
      for (const part of [samples.slice(0, 6), samples.slice(6)]) {
        const folded = fold(state, terms, part)
        const waited = wait(folded.state, terms.forMs, 25_000 + int(40_000))
        changes.push(...folded.changes, ...waited.changes)
        state = stateOfText(stateText(waited.state))
      }
      const ended = abandon(state, int(2) * 20_000)
      const heard = listen(ended.state, { lastMs: int(60_000), forMs: 1_000, nowMs: 70_000 })
      changes.push(...ended.changes, ...heard.changes)
      let endedMs = Number.NEGATIVE_INFINITY
      for (const { change, timeMs, firedMs } of changes) {
        if (change === 'fired') {
          expect(firedMs).toBeGreaterThan(endedMs)
          fired++
        } else {
          expect(timeMs).toBeGreaterThanOrEqual(firedMs)
          endedMs = timeMs
        }
      }
    }
    expect(fired).toBeGreaterThan(2_000)
  })

  test('a state that was stored without these times goes on', () => {
    const { eventMs, endedMs, ...before } = { ...AT_FIRST, atMs: 7_000, seq: 3, value: 5 }
    const state = stateOfText(JSON.stringify(before))
    expect([state.eventMs, state.endedMs, eventMs, endedMs]).toEqual([
      7_000,
      -Infinity,
      -Infinity,
      -Infinity,
    ])
    const sample = { timeMs: 7_000, seq: 3, receivedMs: 7_000, value: WRONG }
    expect(fold(state, termsOf(0), [sample]).changes).toEqual([])
    expect(fold(state, termsOf(0), [{ ...sample, seq: 4 }]).changes.length).toBe(1)
  })

  test('a rate is the change since the value before, in its time', () => {
    const terms = { ...termsOf(0), perMs: 60_000 }
    /** @param {number[]} values */
    const every10s = (values) =>
      values.map((value, at) => ({ timeMs: at * 10_000, seq: 0, receivedMs: at * 10_000, value }))
    expect(fold(AT_FIRST, terms, every10s([0, 13, 26])).changes).toEqual([])
    const { changes, state } = fold(AT_FIRST, terms, every10s([0, 14, 28, 29]))
    expect(short(changes)).toEqual(['fired 10', 'resolved 30'])
    expect(changes[0].value).toBe(84)
    expect(state.value).toBe(29)
  })

  test('an alert begins when its rule does, not before', () => {
    const sample = { timeMs: 1_000, seq: 0, receivedMs: 1_000, value: WRONG }
    const { changes } = fold(AT_FIRST, { ...termsOf(0), fromMs: 50_000 }, [sample])
    expect(short(changes)).toEqual(['fired 50'])
  })

  test('silence begins a while after the last value, and ends with the next', () => {
    const forMs = 30_000
    for (let nowMs = 0; nowMs < 40_000; nowMs += 1_000) {
      const { changes } = listen(AT_FIRST, { lastMs: 5_000, forMs, nowMs })
      expect([nowMs, short(changes)]).toEqual([nowMs, nowMs < 35_000 ? [] : ['fired 35']])
    }
    const { state } = listen(AT_FIRST, { lastMs: 5_000, forMs, nowMs: 99_000 })
    expect(listen(state, { lastMs: 5_000, forMs, nowMs: 199_000 }).changes).toEqual([])
    const next = listen(state, { lastMs: 200_000, forMs, nowMs: 200_001 })
    expect(short(next.changes)).toEqual(['resolved 200'])
    expect(next.state.phase).toBe('ok')
  })

  test('the time in which nothing could be received is no silence', () => {
    const times = { lastMs: 0, forMs: 30_000, awayMs: 60_000 }
    expect(listen(AT_FIRST, { ...times, nowMs: 89_000 }).changes).toEqual([])
    expect(short(listen(AT_FIRST, { ...times, nowMs: 90_000 }).changes)).toEqual(['fired 30'])
  })

  test('an alert that nobody watches any more ends; what only waited is forgotten', () => {
    const sample = { timeMs: 1_000, seq: 0, receivedMs: 1_000, value: WRONG }
    const firing = fold(AT_FIRST, termsOf(0), [sample]).state
    expect(short(abandon(firing, 7_000).changes)).toEqual(['resolved 7'])
    const pending = fold(AT_FIRST, termsOf(9), [sample]).state
    expect(abandon(pending, 7_000)).toMatchObject({ changes: [], state: { phase: 'ok' } })
  })
})

describe('limits', () => {
  const rule = /** @type {any} */ ({ kind: 'threshold' })
  const none = { min: undefined, max: undefined }

  test('are those of the rule, or of what is expected of the metric', () => {
    expect(limitsOf({ ...rule, above: 5, clear: 3 }, none)).toMatchObject({
      upper: 5,
      upperClear: 3,
    })
    expect(limitsOf({ ...rule, below: 5 }, none)).toMatchObject({
      lower: 5,
      lowerClear: 5,
      upper: Infinity,
    })
    expect(limitsOf({ ...rule, kind: 'range' }, none)).toBeUndefined()
    expect(limitsOf({ ...rule, kind: 'range' }, { min: 1, max: undefined })).toMatchObject({
      lower: 1,
      upper: Infinity,
    })
  })
})
