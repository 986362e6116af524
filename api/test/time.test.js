import { describe, expect, test } from '@jest/globals'
import { parseTime } from '../src/time.js'

describe('a time', () => {
  test.each([
    ['0', 0],
    ['1767225600000', 1767225600000],
    ['-5', -5],
    ['2026-01-01', 1767225600000],
    ['2026-01-01T00:00Z', 1767225600000],
    ['2026-01-01T00:00:00', 1767225600000],
    ['2026-01-01T00:00:00.123456Z', 1767225600123],
    ['2026-01-01T02:00:00+02:00', 1767225600000],
    ['2026-01-01T02:00:00 02:00', 1767225600000],
    ['2025-12-31T19:00:00-0500', 1767225600000],
    ['2024-02-29', 1709164800000],
  ])('%s is understood', (text, timeMs) => {
    expect(parseTime('from', text)).toBe(timeMs)
  })

  test.each([
    '',
    'yesterday',
    '1.5',
    '2026-02-30',
    '2026-13-01',
    '2026-01-01T25:00Z',
    '1e12',
    '9999999999999999',
    '2026-01-01T00:00:00Zjunk',
  ])('%p is refused by name', (text) => {
    expect(() => parseTime('from', text)).toThrow('from must be')
  })
})
