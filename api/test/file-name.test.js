// What exports are called.
import { expect, test } from '@jest/globals'
import { attachment } from '../src/file-name.js'

const DAY = Date.UTC(2026, 10, 1)

test.each([
  [{ sensors: [] }, 'sandglass.csv'],
  [{ sensors: ['a', 'b'], metrics: ['x', 'y'] }, 'sandglass.csv'],
  [{ sensors: ['boiler-1'] }, 'boiler-1.csv'],
  [{ sensors: ['boiler-1'], metrics: ['heat'] }, 'boiler-1_heat.csv'],
  [
    { sensors: [], fromMs: DAY, toMs: DAY + 86_400_000 },
    'sandglass_from-2026-11-01_to-2026-11-02.csv',
  ],
  [{ sensors: ['b'], fromMs: DAY + 30_659_007 }, 'b_from-2026-11-01T083059Z.csv'],
  [{ sensors: ['hall/2 : "left"\\\r\n'] }, 'hall-2-left.csv'],
  [{ sensors: ['..'] }, 'sandglass.csv'],
  [{ sensors: ['.bashrc'] }, 'bashrc.csv'],
  [{ sensors: ['x'.repeat(300)] }, `${'x'.repeat(60)}.csv`],
])('%j is %s', (about, name) => {
  expect(attachment(about, 'csv')).toBe(`attachment; filename="${name}"`)
})

test('a name that is not ASCII is told as it is, and without it to those who do not know the way', () => {
  expect(attachment({ sensors: ['Kühler ☃ 1'] }, 'csv')).toBe(
    `attachment; filename="K-hler-1.csv"; filename*=UTF-8''K%C3%BChler-1.csv`,
  )
})
