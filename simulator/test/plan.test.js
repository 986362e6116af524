// What a fleet publishes follows from its seed: the same again, whatever happens on the way.
import { describe, expect, test } from '@jest/globals'
import { FLEETS } from '../src/kinds.js'
import { SHAPES } from '../src/message.js'
import { hash } from '../src/signals.js'
import { planOf } from './plan.js'

const START_MS = Date.UTC(2026, 0, 5, 6)
const TROUBLE = {
  malformedPercent: 4,
  latePercent: 10,
  duplicatePercent: 10,
  clocklessPercent: 20,
  faultPercent: 5,
  outagePercent: 10,
}

/** All that goes out, by connection. @param {import('../src/plan.js').Plan} plan */
function sentBy(plan) {
  return plan.schedules.map((schedule) => {
    const messages = []
    for (let due = schedule.take(Infinity); due; due = schedule.take(Infinity)) {
      messages.push(...plan.messagesAt(schedule, due))
    }
    return messages
  })
}

/** An hour of a fleet. @param {Partial<import('../src/options.js').Options>} options */
function hourOf(options) {
  return planOf({ to: START_MS + 3_600_000, ...options }, { startMs: START_MS })
}

/** @param {{ topic: string, payload: string }} message */
const text = ({ topic, payload }) => `${topic} ${payload}`

/** One text, whatever their order: equal ones are compared fast. */
/** @param {{ topic: string, payload: string }[]} messages */
const sorted = (messages) => messages.map(text).sort().join('\n')

describe('a plan', () => {
  const drawn = Array.from({ length: 12 }, (_, number) => {
    const draw = (/** @type {number} */ salt, /** @type {number} */ most) =>
      Math.floor(hash(salt, number) * most)
    const fleets = Object.keys(FLEETS)
    return {
      seed: draw(1, 2 ** 31),
      fleet: fleets[number % fleets.length],
      shape: SHAPES[draw(2, SHAPES.length)],
      sensors: 3 + draw(3, 9),
      connections: 1 + draw(4, 3),
      rate: 1 + draw(5, 5),
      // Longer than any lag.
      to: START_MS + 900_000,
      ...TROUBLE,
    }
  })

  test.each(drawn)(
    'gives the same messages for the same seed, and others for another: $fleet $shape $seed',
    (options) => {
      const told = (/** @type {number} */ seed) =>
        sentBy(hourOf({ ...options, seed }))
          .map((messages) => messages.map(text).join('\n'))
          .join('\n\n')
      const first = told(options.seed)
      expect(told(options.seed) === first).toBe(true)
      expect(told(options.seed + 1) === first).toBe(false)
    },
  )

  test.each(drawn)(
    'says afterwards what was published, each message once: $fleet $shape $seed',
    (options) => {
      const plan = hourOf(options)
      const sent = sentBy(plan).flat()
      const planned = plan.fleet.flatMap((_, sensor) => [...plan.published(sensor)])
      const original = sent.filter(({ isCopy }) => !isCopy)
      expect(sorted(planned) === sorted(original)).toBe(true)
      const published = new Set(planned.map(text))
      const copies = sent.filter(({ isCopy }) => isCopy)
      expect(copies.filter((copy) => !published.has(text(copy)))).toEqual([])
    },
  )

  test('says no more than was published of one that is stopped on its way', () => {
    const plan = hourOf({ ...TROUBLE, rate: 20 })
    const sent = plan.schedules.flatMap((schedule, number) =>
      Array.from({ length: 5_000 + 777 * number }, () => schedule.take(Infinity)).flatMap((due) =>
        due ? plan.messagesAt(schedule, due) : [],
      ),
    )
    const planned = plan.fleet.flatMap((_, sensor) => [...plan.published(sensor)])
    expect(sorted(planned) === sorted(sent.filter(({ isCopy }) => !isCopy))).toBe(true)
  })

  test('tells what was published of a sensor in the order in which it was measured', () => {
    const plan = hourOf({ latePercent: 50, rate: 20 })
    sentBy(plan)
    const times = [...plan.published(2)].map(({ timeMs = 0 }) => timeMs)
    expect(times).toEqual(times.toSorted((a, b) => a - b))
    expect(new Set(times).size).toBe(times.length)
  })
})

describe('trouble', () => {
  const readings = 4 * 3600
  const share = (/** @type {number} */ count) => (100 * count) / readings

  test('comes as often as asked for', () => {
    const sent = sentBy(hourOf({ malformedPercent: 5, duplicatePercent: 10 })).flat()
    expect(share(sent.filter(({ values }) => !values).length)).toBeCloseTo(5, 0)
    expect(share(sent.filter(({ isCopy }) => isCopy).length)).toBeCloseTo(9.5, 0)
    expect(sent.filter(({ isCopy }) => !isCopy)).toHaveLength(readings)
  })

  test('that is lateness changes the order and nothing else', () => {
    const punctual = sentBy(hourOf({})).flat()
    const late = sentBy(hourOf({ latePercent: 10 })).flat()
    expect(late.map(text).join() === punctual.map(text).join()).toBe(false)
    expect(sorted(late) === sorted(punctual)).toBe(true)
    const [first] = sentBy(hourOf({ latePercent: 10 }))
    let newestMs = 0
    const overtaken = first.filter(({ timeMs = 0 }) => {
      newestMs = Math.max(newestMs, timeMs)
      return timeMs < newestMs - 2000
    })
    expect((100 * overtaken.length) / first.length).toBeCloseTo(8, 0)
  })

  test('never befalls what it would make something else: no copy and no delay without a time', () => {
    const options = { latePercent: 100, duplicatePercent: 100, clocklessPercent: 100 }
    const sent = sentBy(hourOf(options)).flat()
    expect(sent).toHaveLength(readings)
    expect(sent.every(({ timeMs, isCopy }) => timeMs === undefined && !isCopy)).toBe(true)
  })

  test('makes a sensor silent for minutes at a time', () => {
    const plan = planOf(
      { outagePercent: 10, rate: 1, to: START_MS + 10 * 3_600_000 },
      { startMs: START_MS },
    )
    const silent = 100 - sentBy(plan).flat().length / 360
    expect(silent).toBeGreaterThan(5)
    expect(silent).toBeLessThan(15)
    const times = [...plan.published(0)].map(({ timeMs = 0 }) => timeMs)
    const gaps = times.slice(1).map((timeMs, index) => timeMs - times[index])
    expect(gaps.filter((gapMs) => gapMs > 4000).every((gapMs) => gapMs > 295_000)).toBe(true)
  })
})
