import { isMetricName, isSensorName, sensorId } from '@sandglass/common/sensor'

test('the id of a name never changes: rows that are stored depend on it', () => {
  expect(sensorId('boiler-1')).toBe('9ac74407-32e0-50a3-a6f8-2d6813ab26a1')
})

test('a UUID is its own id, in lower case', () => {
  const id = '550E8400-E29B-41D4-A716-446655440000'
  expect(sensorId(id)).toBe(id.toLowerCase())
})

test.each(['', 'a/b', '+', '#', '.', '..', 'x'.repeat(129)])('%j is no name', (name) => {
  expect(isSensorName(name)).toBe(false)
})

test.each([
  ...['a', 'Ofen 3 (Küche)', 'x'.repeat(128), '温度', '...', '.a', 'a..', '%2e%2e'],
  // Joiners are part of how Persian and emoji are written.
  ...['می\u200cخواهم', '👩\u200d🔬'],
])('%j is a name', (name) => expect(isSensorName(name)).toBe(true))

test.each(['a/b', '+', '#', '.', '..'])('a metric may be called %j', (name) => {
  expect([isMetricName(name), isMetricName(''), isMetricName('x'.repeat(129))]).toEqual([
    ...[true, false, false],
  ])
})

test('of all characters those that mislead are refused, in sensors and in metrics', () => {
  const ranges = [
    ['controls', 0x00, 0x1f],
    ['controls', 0x7f, 0x9f],
    ['the Arabic letter mark', 0x61c, 0x61c],
    ['a space without width', 0x200b, 0x200b],
    ['marks of direction', 0x200e, 0x200f],
    ['separators, and controls of direction', 0x2028, 0x202e],
    ['a joiner of words', 0x2060, 0x2060],
    ['isolates', 0x2066, 0x2069],
    ['surrogates that are not paired', 0xd800, 0xdfff],
    ['the byte order mark', 0xfeff, 0xfeff],
  ].map(([, first, last]) => [Number(first), Number(last)])
  const isRefused = (/** @type {number} */ point) =>
    ranges.some(([first, last]) => point >= first && point <= last)
  const wrong = []
  for (let point = 0; point <= 0x10ffff; point++) {
    const name = `a${String.fromCodePoint(point)}b`
    if (isMetricName(name) === isRefused(point)) wrong.push(point.toString(16))
    if (isSensorName(name) !== (isMetricName(name) && !/[/+#]/.test(name))) wrong.push(name)
  }
  expect(wrong).toEqual([])
})

test('a name that is refused still has the id under which it was stored', () => {
  expect(sensorId('..')).toBe('37e1cadd-f86b-5afc-b0f2-6f3a355e7118')
})
