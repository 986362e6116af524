import { deadLetterDay, KIND, rowValue } from '@sandglass/common/measurement'

test('a row of latest holds the value that its kind names, whatever older columns hold', () => {
  const row = { v: 1, i: { toString: () => '2' }, b: false, s: 'on', lat: 3, lon: 4 }
  const values = Object.values(KIND).map((kind) => rowValue({ ...row, kind }))
  expect(values).toEqual([1, 2, false, 'on', { lat: 3, lon: 4 }])
})

test('a row of a measurement table holds the value of the columns that are set', () => {
  const none = { v: null, i: null, b: null, s: null, lat: null, lon: null }
  expect(rowValue({ ...none, v: 0 })).toBe(0)
  expect(rowValue({ ...none, b: false })).toBe(false)
  expect(rowValue({ ...none, s: '' })).toBe('')
  expect(rowValue({ ...none, lat: 0, lon: 1 })).toEqual({ lat: 0, lon: 1 })
  expect(rowValue(none)).toBeNull()
})

test('the day of a dead letter is counted from the Unix epoch', () => {
  expect(deadLetterDay(Date.UTC(1970, 0, 2) - 1)).toBe(0)
  expect(deadLetterDay(Date.UTC(1970, 0, 2))).toBe(1)
})
