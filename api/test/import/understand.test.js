import { expect, test } from '@jest/globals'
import { understand } from '../../src/import/understand.js'

const NOW = 1_767_225_600_000

test.each([
  [1_767_225_600],
  [1_767_225_600_000],
  [1_767_225_600_000_000],
  [1_767_225_600_000_000_000],
  ['1767225600.0'],
  ['2026-01-01'],
  ['2026-01-01T01:00:00+01:00'],
])('%j is the same time in any unit', (t) => {
  const { sensor, measurements, payload } = understand({ t, a: 1, b: null }, 's', NOW)
  expect([sensor, measurements]).toEqual(['s', [{ metric: 'a', timeMs: NOW, kind: 1, value: 1 }]])
  expect(JSON.parse(payload.toString())).toEqual({ sensor: 's', t: NOW, a: 1, b: null })
})

test('a record that names its sensor is of that sensor', () => {
  expect(understand({ sensor: 'own', t: NOW, a: 1 }, 's', NOW).sensor).toBe('own')
  expect(
    JSON.parse(understand({ sensor: 'own', t: NOW, a: 1 }, 's', NOW).payload.toString()),
  ).toEqual({ sensor: 'own', t: NOW, a: 1 })
})

test('what a record holds besides is left out, however deep it is', () => {
  const deep = JSON.parse(`${'['.repeat(50_000)}${']'.repeat(50_000)}`)
  const record = { metric: 'm', t: NOW, v: 1, kind: 'integer', deep }
  expect(JSON.parse(understand(record, 's', NOW).payload.toString())).toEqual({
    sensor: 's',
    metric: 'm',
    t: NOW,
    v: 1,
    kind: 'integer',
  })
})

test('objects within a record are dotted metrics', () => {
  const { measurements, payload } = understand({ t: NOW, a: { b: 1 } }, 's', NOW)
  expect(measurements).toMatchObject([{ metric: 'a.b', timeMs: NOW, value: 1 }])
  expect(JSON.parse(payload.toString())).toEqual({ sensor: 's', t: NOW, a: { b: 1 } })
})

test.each([
  [{ a: 1 }, 'no time'],
  [{ t: null, a: 1 }, 'no time'],
  [{ t: 'noon', a: 1 }, 't is not a time but "noon"'],
  [{ t: {}, a: 1 }, 't is not a time but an object'],
  [{ t: -1, a: 1 }, '1969-12-31T23:59:59.999Z, before the year 2000'],
  [{ t: 5, a: 1 }, 'before the year 2000'],
  [{ t: NOW + 86_400_001, a: 1 }, 'more than 24 hours ahead'],
  [{ t: NOW }, 'no value'],
  [{ t: NOW, a: 1, b: { c: [] } }, 'value of b.c is not'],
  [{ t: NOW, metric: 'm' }, 'v is missing'],
  [{ sensor: 'a/b', t: NOW, a: 1 }, 'the sensor must have'],
  [{ t: NOW, a: Infinity }, 'too large for a double'],
])('%j is refused: %s', (object, reason) => {
  expect(() => understand(object, 's', NOW)).toThrow(reason)
})
