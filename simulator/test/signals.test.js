import { describe, expect, test } from '@jest/globals'
import { buildFleet } from '../src/fleet.js'
import { buildMessage } from '../src/message.js'
import { drift, hash, KINDS } from '../src/signals.js'

const HOUR_MS = 3_600_000
const START_MS = Date.UTC(2026, 0, 5)
const PLAIN = { shape: /** @type {const} */ ('object'), malformedPercent: 0 }

describe('a signal', () => {
  test('is the same for the same seed and time, whatever was asked before', () => {
    const { temperature } = KINDS.climate
    const forwards = Array.from({ length: 48 }, (_, hour) =>
      temperature(7, START_MS + hour * HOUR_MS),
    )
    const backwards = Array.from({ length: 48 }, (_, hour) =>
      temperature(7, START_MS + (47 - hour) * HOUR_MS),
    )
    expect(backwards.reverse()).toEqual(forwards)
  })

  test('differs between two seeds', () => {
    expect(KINDS.climate.pressure(1, START_MS)).not.toBe(KINDS.climate.pressure(2, START_MS))
  })

  test('is warmer in the afternoon than at night', () => {
    const mean = (/** @type {number} */ hour) => {
      let sum = 0
      for (let day = 0; day < 200; day++) {
        sum += Number(KINDS.climate.temperature(3, START_MS + (day * 24 + hour) * HOUR_MS))
      }
      return sum / 200
    }
    expect(mean(15) - mean(3)).toBeGreaterThan(5)
  })

  test('stays within its bounds', () => {
    for (let seed = 0; seed < 50; seed++) {
      for (let hour = 0; hour < 200; hour++) {
        const timeMs = START_MS + hour * HOUR_MS + seed
        const humidity = Number(KINDS.climate.humidity(seed, timeMs))
        expect(humidity).toBeGreaterThanOrEqual(5)
        expect(humidity).toBeLessThanOrEqual(100)
        expect(Number(KINDS.machine.vibration(seed, timeMs))).toBeGreaterThanOrEqual(0)
      }
    }
  })

  test('of a meter never falls', () => {
    let before = 0
    for (let minute = 0; minute < 3 * 24 * 60; minute++) {
      const energy = Number(KINDS.meter.energy(5, START_MS + minute * 60_000))
      expect(energy).toBeGreaterThanOrEqual(before)
      before = energy
    }
  })

  test('of a machine shows all its states', () => {
    const states = new Set()
    for (let minute = 0; minute < 7 * 24 * 60; minute++) {
      states.add(KINDS.machine.state(11, START_MS + minute * 60_000))
    }
    expect([...states].sort()).toEqual(['fault', 'idle', 'running'])
  })
})

test('noise is smooth: neighbours are close, strangers are not', () => {
  for (let i = 0; i < 1000; i++) {
    const step = Math.abs(drift(1, i * 1000, 3_600_000) - drift(1, (i + 1) * 1000, 3_600_000))
    expect(step).toBeLessThan(0.002)
  }
})

test('the hash spreads evenly', () => {
  const bins = new Array(10).fill(0)
  for (let i = 0; i < 100_000; i++) bins[Math.floor(hash(42, START_MS + i) * 10)]++
  for (const bin of bins) expect(Math.abs(bin - 10_000)).toBeLessThan(500)
})

describe('a fleet', () => {
  test('is the same for the same seed and another for another', () => {
    const first = buildFleet({ sensors: 40, seed: 9 })
    expect(buildFleet({ sensors: 40, seed: 9 })).toEqual(first)
    expect(buildFleet({ sensors: 40, seed: 10 })).not.toEqual(first)
  })

  test('has names that are unique and fit a topic level', () => {
    const names = buildFleet({ sensors: 2000, seed: 1 }).map(({ name }) => name)
    expect(new Set(names).size).toBe(2000)
    for (const name of names) expect(name).toMatch(/^[a-z0-9-]{1,128}$/)
  })
})

describe('a message', () => {
  const [sensor] = buildFleet({ sensors: 1, seed: 1 })

  test('holds all metrics of a moment in one object', () => {
    const { topic, payload } = buildMessage(sensor, 0, START_MS, PLAIN)
    expect(topic).toBe(`sensors/${sensor.name}`)
    expect(Object.keys(JSON.parse(payload))).toEqual(['t', ...sensor.metrics])
    expect(JSON.parse(payload).t).toBe(START_MS)
  })

  test('of one metric takes the metrics in turn', () => {
    const topics = [0, 1, 2, 3].map(
      (round) => buildMessage(sensor, round, START_MS, { ...PLAIN, shape: 'single' }).topic,
    )
    expect(topics[3]).toBe(topics[0])
    expect(new Set(topics).size).toBe(3)
  })

  test('without a time is the bare value', () => {
    const { payload } = buildMessage(sensor, 0, START_MS, { ...PLAIN, shape: 'plain' })
    expect(typeof JSON.parse(payload)).toBe('number')
  })

  test('is rubbish as often as asked for', () => {
    const options = { ...PLAIN, malformedPercent: 10 }
    let rubbish = 0
    for (let round = 0; round < 10_000; round++) {
      const { topic } = buildMessage(sensor, round, START_MS, options)
      if (topic !== `sensors/${sensor.name}`) rubbish++
    }
    expect(Math.abs(rubbish - 1000)).toBeLessThan(120)
  })
})
