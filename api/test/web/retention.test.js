import { expect, test } from '@jest/globals'
import { isUnderWay, printKept } from '../../web/retention.js'

const NOW = Date.UTC(2026, 0, 10)
const layouts = [{ from: 0, retention: '30d' }]

test('how long measurements are kept is said in words, and from when on that changes', () => {
  const sensor = { retention: '30d', layouts, rewrite: null }
  expect(printKept(sensor, NOW)).toBe('Measurements are kept for 30 days after they are stored.')
  const forEver = { ...sensor, retention: 'keep' }
  expect(printKept(forEver, NOW)).toBe('Measurements are kept for ever.')
  const later = [...layouts, { from: NOW + 90_000_000, retention: 'keep' }]
  expect(printKept({ ...sensor, layouts: later }, NOW)).toMatch(/From .* on: for ever\.$/)
})

test('a rewrite is shown until it is over', () => {
  const rewrite = { state: 'copying', retention: 'keep', until: NOW - 1, rows: 12 }
  const said = printKept({ retention: '30d', layouts, rewrite }, NOW)
  expect(said).toMatch(/being rewritten, to be kept for ever: 12 rows, up to .* \(copying\)\.$/)
  for (const state of ['done', 'cancelled']) expect(isUnderWay({ ...rewrite, state })).toBe(false)
  const off = printKept(
    { retention: '30d', layouts, rewrite: { ...rewrite, retention: null } },
    NOW,
  )
  expect(off).toContain('being called off')
})
