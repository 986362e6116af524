import { isSensorName, sensorId } from '@sandglass/common/sensor'

test('the id of a name never changes: rows that are stored depend on it', () => {
  expect(sensorId('boiler-1')).toBe('9ac74407-32e0-50a3-a6f8-2d6813ab26a1')
})

test('a UUID is its own id, in lower case', () => {
  const id = '550E8400-E29B-41D4-A716-446655440000'
  expect(sensorId(id)).toBe(id.toLowerCase())
})

test.each(['', 'a/b', '+', '#', 'a\u0000', 'x'.repeat(129)])('%j is no name', (name) => {
  expect(isSensorName(name)).toBe(false)
})

test.each(['a', 'Ofen 3 (Küche)', 'x'.repeat(128), '温度'])('%j is a name', (name) => {
  expect(isSensorName(name)).toBe(true)
})
