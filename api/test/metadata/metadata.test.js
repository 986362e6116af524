// Which saying about a metric holds, how units are shown, and what is kept of the answers.
import { describe, expect, test } from '@jest/globals'
import { agreed, effective } from '@sandglass/common/precedence'
import { sensorId } from '@sandglass/common/sensor'
import { symbolOf } from '@sandglass/common/symbols'
import { Cache } from '../../src/metadata/cache.js'
import { AGE_MS_MAX, MetadataReader } from '../../src/metadata/metadata.js'
import { createFakeStore } from '../support/fake-store.js'

describe('what holds', () => {
  test('of decimals and range is in the unit in which it was said', () => {
    const type = { unit: 'Cel', decimals: 1, expected_min: -20, expected_max: 50 }
    expect(effective({ type, sensor: { label: 'x' } }, undefined)).toMatchObject(type)
    const other = effective({ type, sensor: { unit: 'K' } }, undefined)
    expect(other).toEqual({ unit: 'K' })
    expect(effective({ type: { ...type, unit: undefined }, device: 'K' }, undefined)).toMatchObject(
      {
        unit: 'K',
        expected_max: 50,
      },
    )
  })

  test('of a range has both ends from one who says it', () => {
    const type = { expected_min: 0, expected_max: 10 }
    const { expected_min: min, expected_max: max } = effective(
      { type, sensor: { expected_min: 20 } },
      undefined,
    )
    expect([min, max]).toEqual([20, undefined])
  })

  test('of several metrics is what all have in common', () => {
    expect(
      agreed([
        { unit: 'V', decimals: 1 },
        { unit: 'V', decimals: 2 },
      ]),
    ).toEqual({ unit: 'V' })
    expect(agreed([{ unit: 'V' }, {}])).toEqual({})
    expect(agreed([])).toEqual({})
  })
})

test.each([
  ['Cel', '°C'],
  ['%RH', '% RH'],
  ['m/s2', 'm/s²'],
  ['m3/h', 'm³/h'],
  ['kW.h', 'kW·h'],
  ['ug/m3', 'µg/m³'],
  ['uS/cm', 'µS/cm'],
  ['{beats}/min', 'beats/min'],
  ['1', ''],
  ['°C', '°C'],
  ['my unit 2', 'my unit 2'],
  ['ppm2', 'ppm2'],
  ['gum', 'gum'],
])('the unit %s is shown as %s', (unit, symbol) => {
  expect(symbolOf(unit)).toBe(symbol)
})

describe('what is kept', () => {
  let nowMs = 0
  const reader = (/** @type {ReturnType<typeof createFakeStore>} */ store) =>
    new MetadataReader({ store, now: () => nowMs })
  const sensor = { id: sensorId('s'), type: 'room', unit: undefined }

  test('is asked once for all who ask at once, and again when it is old', async () => {
    const store = createFakeStore()
    const metadata = reader(store)
    await Promise.all([metadata.ofSensor(sensor), metadata.ofSensor(sensor)])
    await metadata.ofSensor({ ...sensor, id: sensorId('other') })
    expect(store.asked).toEqual({ sensor: 2, type: 1 })
    await store.putMetricOfType('room', 'a', { unit: 'V' })
    nowMs += AGE_MS_MAX - 1
    expect((await metadata.ofSensor(sensor)).of('a').unit).toBeUndefined()
    nowMs += 1
    expect((await metadata.ofSensor(sensor)).of('a').unit).toBe('V')
  })

  test('is not what was read before a change, if that was answered after it', async () => {
    const store = createFakeStore()
    const metadata = reader(store)
    const before = metadata.ofSensor(sensor)
    await store.putMetricOfSensor(sensor.id, 'a', { unit: 'V' })
    metadata.expire()
    await before
    expect((await metadata.ofSensor(sensor)).of('a').unit).toBe('V')
  })

  test('is no failure: the next one asks again', async () => {
    const cache = new Cache({ bytesMax: 1e6, ageMsMax: 1e6, sizeOf: () => 1 })
    await expect(cache.get('a', () => Promise.reject(new Error('away')))).rejects.toThrow('away')
    expect(await cache.get('a', async () => 5)).toBe(5)
  })

  test('stays within its bytes, and what was used last stays', async () => {
    const cache = new Cache({ bytesMax: 10_000, ageMsMax: 1e6, sizeOf: () => 2_700 })
    const loads = /** @type {string[]} */ ([])
    const get = (/** @type {string} */ key) =>
      cache.get(key, async () => {
        loads.push(key)
        return key
      })
    for (const key of ['a', 'b', 'c', 'a', 'd', 'a', 'b']) await get(key)
    expect(loads).toEqual(['a', 'b', 'c', 'd', 'b'])
    expect(cache.bytes).toBeLessThanOrEqual(10_000)
    expect(await cache.get('large', async () => 'x')).toBe('x')
  })
})
