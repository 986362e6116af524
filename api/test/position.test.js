import { expect, test } from '@jest/globals'
import { decodePosition, encodePosition, POSITION_LENGTH_MAX } from '../src/position.js'
import { compareKeys, TOLD_KEYS_MAX, Told } from '../src/told.js'

const T = 1_767_225_600_000

/** Numbers that look random, the same for a seed. @param {number} seed */
function random(seed) {
  let state = seed
  return (/** @type {number} */ below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

/** @param {number} t  @param {number} [seq] */
const key = (t, seq = 0) => ({ t, seq })

/** @param {Told} told */
const parts = (told) => ({ floor: told.floor, keys: told.keys() })

test('a row is told once, whatever came before it', () => {
  const told = new Told()
  expect([key(T), key(T, 1), key(T - 5), key(T)].map((one) => told.add(one))).toEqual([
    true,
    true,
    true,
    false,
  ])
})

test('what is older than is looked at counts as told, and newer rows do not', () => {
  const told = new Told({ keys: [key(T), key(T + 10), key(T + 20)] })
  told.advance(T + 15)
  expect(parts(told)).toEqual({ floor: key(T + 10), keys: [key(T + 20)] })
  expect([key(T + 5), key(T + 10), key(T + 11), key(T + 20)].map((one) => told.add(one))).toEqual([
    false,
    false,
    true,
    false,
  ])
})

test('no more keys are kept than there may be, the newest', () => {
  const told = new Told()
  for (let index = 0; index < 10 * TOLD_KEYS_MAX; index++) {
    expect(told.add(key(T + index))).toBe(true)
    expect(told.keys().length).toBeLessThanOrEqual(2 * TOLD_KEYS_MAX)
  }
  expect(told.keys().length).toBeGreaterThanOrEqual(TOLD_KEYS_MAX)
  expect(told.keys().at(-1)).toEqual(key(T + 10 * TOLD_KEYS_MAX - 1))
})

test('a position says the same after it was text, for any names, keys and times', () => {
  for (let seed = 1; seed <= 200; seed++) {
    const below = random(seed)
    /** @type {import('../src/position.js').ToldBySensor} */
    const sensors = new Map()
    const words = ['a', 'ü b', '~!', 'p.-', 'ünï ~', '%21', 'x'.repeat(40)]
    for (const name of words.slice(0, below(4))) {
      const metrics = new Map()
      for (const metric of words.slice(0, below(words.length))) {
        const told = new Told()
        for (let count = below(8); count > 0; count--) told.add(key(T + below(20_000), below(3)))
        if (below(2) === 0) told.advance(T + below(20_000))
        metrics.set(metric, told)
      }
      sensors.set(name, metrics)
    }
    const sinceMs = below(2) === 0 ? T - below(1e9) : -below(1e9)
    const text = encodePosition({ sinceMs, sensors })
    expect(text).toMatch(/^p[\w.~!%*'()-]*$/)
    const decoded = decodePosition('after', text)
    const plain = (/** @type {typeof sensors} */ all) =>
      [...all].map(([name, metrics]) => [name, [...metrics].map(([m, told]) => [m, parts(told)])])
    expect({ seed, sinceMs: decoded.sinceMs, all: plain(decoded.sensors) }).toEqual({
      ...{ seed, sinceMs, all: plain(sensors) },
    })
  }
})

test('a position of many series stays short, and never says that less was told', () => {
  for (const [sensorCount, metricCount, keyCount] of [
    [1, 1, 900],
    [32, 4, 100],
    [32, 30, 10],
    [32, 60, 1],
    [3, 2, 0],
  ]) {
    const sensors = new Map(
      Array.from({ length: sensorCount }, (_, sensor) => [
        `sensor-${sensor}`,
        new Map(
          Array.from({ length: metricCount }, (_, metric) => [
            `metric-${metric}`,
            new Told({ keys: Array.from({ length: keyCount }, (_, at) => key(T + at * 1_000)) }),
          ]),
        ),
      ]),
    )
    const text = encodePosition({ sinceMs: T, sensors })
    expect(text.length).toBeLessThanOrEqual(POSITION_LENGTH_MAX)
    for (const [name, metrics] of decodePosition('after', text).sensors) {
      for (const [metric, { floor }] of metrics) {
        const last = sensors.get(name)?.get(metric)?.keys().at(-1)
        if (floor && last) expect(compareKeys(floor, last)).toBeLessThanOrEqual(0)
        if (last) expect(metrics.get(metric)?.add(last)).toBe(false)
      }
    }
  }
})

test.each(['p', 'p!', 'pabc!a~b', 'pabc!a~b~~x y', 'pabc!%E0%A4~b~~', 'pABC', 'pabc!a~b~-~'])(
  '%j is no position',
  (text) => {
    expect(() => decodePosition('after', text)).toThrow('after must be the id of an event')
  },
)
