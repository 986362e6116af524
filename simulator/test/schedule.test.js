import { describe, expect, test } from '@jest/globals'
import { divide, Schedule } from '../src/schedule.js'

/** All that is due by a time. @param {Schedule} schedule  @param {number} nowMs */
function takeAll(schedule, nowMs) {
  const taken = []
  for (let due = schedule.take(nowMs); due; due = schedule.take(nowMs)) taken.push(due)
  return taken
}

describe('a schedule', () => {
  const options = { sensors: [4, 7], startMs: 1000, intervalMs: 100, backlogMs: 60_000 }

  test('gives nothing before it is due', () => {
    expect(new Schedule(options).take(999)).toBeUndefined()
  })

  test('lets sensors take turns, each reading with the time at which it fell due', () => {
    expect(takeAll(new Schedule(options), 1300)).toEqual([
      { turn: 0, sensor: 4, round: 0, timeMs: 1000 },
      { turn: 1, sensor: 7, round: 0, timeMs: 1100 },
      { turn: 2, sensor: 4, round: 1, timeMs: 1200 },
      { turn: 3, sensor: 7, round: 1, timeMs: 1300 },
    ])
  })

  test('gives the same readings however seldom it is asked', () => {
    const often = new Schedule(options)
    const seldom = new Schedule(options)
    const seen = []
    for (let nowMs = 1000; nowMs <= 9000; nowMs += 7) seen.push(...takeAll(often, nowMs))
    seen.push(...takeAll(often, 9000))
    expect(takeAll(seldom, 9000)).toEqual(seen)
  })

  test('skips and counts what is older than the backlog', () => {
    const schedule = new Schedule({ ...options, backlogMs: 1000 })
    const taken = takeAll(schedule, 11_000)
    expect(taken[0].timeMs).toBe(10_000)
    expect(taken).toHaveLength(11)
    expect(schedule.skipped).toBe(90)
    expect(taken[0].round).toBe(45)
  })

  test('without pacing is always due, at the present', () => {
    const schedule = new Schedule({ ...options, intervalMs: 0 })
    expect(schedule.take(5000)).toEqual({ turn: 0, sensor: 4, round: 0, timeMs: 5000 })
    expect(schedule.take(5000)).toEqual({ turn: 1, sensor: 7, round: 0, timeMs: 5000 })
  })

  test('ends before its end, and says which times it had', () => {
    const schedule = new Schedule({ ...options, endMs: 1300 })
    expect(takeAll(schedule, 60_000).map(({ timeMs }) => timeMs)).toEqual([1000, 1100, 1200])
    expect(schedule.isOver).toBe(true)
    expect(schedule.range).toEqual({ fromMs: 1000, toMs: 1301 })
  })

  test('has turns after its end, due at once, for what lags behind', () => {
    const schedule = new Schedule({ ...options, endMs: 1300, lagsMs: [100, 450] })
    expect(schedule.lags).toEqual([1, 5])
    expect(takeAll(schedule, 1299).map(({ turn }) => turn)).toEqual([0, 1, 2, 3, 4, 5, 6, 7])
    expect(schedule.isOver).toBe(true)
    expect([...schedule.turnsOf(7)]).toEqual([1])
  })

  test('skips nothing behind its end', () => {
    const schedule = new Schedule({ ...options, endMs: 1300, backlogMs: 0 })
    expect(takeAll(schedule, 99_000)).toHaveLength(1)
    expect(schedule.skipped).toBe(3)
  })
})

describe('a fleet divided over connections', () => {
  const schedules = divide({
    sensors: 10,
    connections: 3,
    ratePerS: 50,
    startMs: 0,
    backlogMs: 60_000,
  })

  test('has every sensor on one connection', () => {
    const owned = schedules.map((schedule) => [
      ...new Set(takeAll(schedule, 2000).map(({ sensor }) => sensor)),
    ])
    expect(owned.flat().sort((a, b) => a - b)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
  })

  test('keeps the rate of the whole, equal for each sensor', () => {
    const counts = new Map()
    const fresh = divide({
      sensors: 10,
      connections: 3,
      ratePerS: 50,
      startMs: 0,
      backlogMs: 60_000,
    })
    for (const { sensor } of fresh.flatMap((schedule) => takeAll(schedule, 9_999))) {
      counts.set(sensor, (counts.get(sensor) ?? 0) + 1)
    }
    for (const count of counts.values()) expect(Math.abs(count - 50)).toBeLessThanOrEqual(1)
  })
})
