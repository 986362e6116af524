import { describe, expect, test } from '@jest/globals'
import { decodeWhole } from '@sandglass/common/formats/registry'
import { parseTopic } from '@sandglass/common/payload'
import { buildFleet } from '../src/fleet.js'
import { FLEETS, KINDS } from '../src/kinds.js'
import { buildMessage, buildRubbish } from '../src/message.js'
import { drift, hash } from '../src/signals.js'

const HOUR_MS = 3_600_000
const START_MS = Date.UTC(2026, 0, 5)
const PLAIN = { shape: /** @type {const} */ ('object'), faultPercent: 0 }
const FLEET = { seed: 1, fleet: 'mixed', clocklessPercent: 0 }

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
    const options = { ...FLEET, sensors: 40, clocklessPercent: 10 }
    const first = buildFleet({ ...options, seed: 9 })
    expect(buildFleet({ ...options, seed: 9 })).toEqual(first)
    expect(buildFleet({ ...options, seed: 10 })).not.toEqual(first)
  })

  test('of mixed sensors keeps the names that it always had', () => {
    expect(buildFleet({ ...FLEET, sensors: 25 })[0].name).toBe('climate-port-mina-1')
  })

  test.each(Object.entries(FLEETS))('of %s has its kinds in turn', (fleet, kinds) => {
    const built = buildFleet({ ...FLEET, fleet, sensors: 2 * kinds.length })
    expect(built.map(({ kind }) => kind)).toEqual([...kinds, ...kinds])
    for (const { kind, metrics } of built) expect(metrics).toEqual(Object.keys(KINDS[kind]))
  })

  test.each([
    [0, 0],
    [1, 1],
    [20, 8],
    [100, 40],
  ])('at %i percent without a clock has %i such sensors of 40', (clocklessPercent, expected) => {
    const fleet = buildFleet({ ...FLEET, sensors: 40, clocklessPercent })
    expect(fleet.filter(({ hasClock }) => !hasClock)).toHaveLength(expected)
  })

  test('has names that are unique and fit a topic level', () => {
    const names = buildFleet({ ...FLEET, sensors: 2000 }).map(({ name }) => name)
    expect(new Set(names).size).toBe(2000)
    for (const name of names) expect(name).toMatch(/^[a-z0-9-]{1,128}$/)
  })
})

describe('a message', () => {
  const [sensor] = buildFleet({ ...FLEET, sensors: 1 })

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

  test('of a sensor without a clock says no time', () => {
    const message = buildMessage({ ...sensor, hasClock: false }, 0, START_MS, PLAIN)
    expect(message.timeMs).toBeUndefined()
    expect(JSON.parse(message.payload)).toEqual(message.values)
  })

  test('that is rubbish holds no values, and is never a reading', () => {
    for (let round = 0; round < 100; round++) {
      const { topic, payload, values } = buildRubbish(sensor, round)
      expect(values).toBeUndefined()
      expect(() =>
        decodeWhole(0, { topic, ...parseTopic(topic) }, Buffer.from(payload)).measurements.map(
          inTime,
        ),
      ).toThrow()
    }
  })
})

/** What ingest refuses of a payload that can be read. */
/** @param {import('@sandglass/common/measurement').Measurement} measurement */
function inTime({ timeMs = 0 }) {
  if (timeMs > Date.now() + 24 * HOUR_MS) throw new Error('over a day ahead')
}
