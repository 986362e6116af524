import { describe, expect, test } from '@jest/globals'
import { formatOf, printKeeping, printOutcome, printPreview } from '../../web/import-file.js'

const progress = { line: 4, rows: 3, stored: 2, refused_rows: 1, refused: [], done: true }

describe('a file that is imported', () => {
  test.each([
    ['a.csv', 'csv', false],
    ['A.CSV.GZ', 'csv', true],
    ['b.ndjson', 'ndjson', false],
    ['b.jsonl.gz', 'ndjson', true],
  ])('%s has the format %s', (name, format, isPacked) => {
    expect(formatOf(name)).toEqual({ format, isPacked })
  })

  test.each(['a.txt', 'csv', 'a.csv.zip', 'a.tsv', 'a.gz', ''])(
    'is not understood: "%s"',
    (name) => {
      expect(formatOf(name)).toBeUndefined()
    },
  )

  test('is told how many of its rows are stored, and what is refused', () => {
    expect(printOutcome(progress, true)).toBe('2 of 3 rows can be stored, 1 refused.')
    expect(printOutcome({ ...progress, refused_rows: 0 }, false)).toBe('2 of 3 rows stored.')
    const problem = { detail: 'ingest is away', from_line: 5 }
    expect(printOutcome({ ...progress, done: false, problem }, false)).toBe(
      '2 of 3 rows stored, 1 refused. It ended early: ingest is away',
    )
  })

  test('says how long it is kept, and which sensors keep their own retention', () => {
    const retention = [
      { retention: 'keep', sensors: 2, new_sensors: 1, measurements: 1_500, expires: null },
    ]
    expect(printKeeping({ ...progress, retention, kept: ['roof'] })).toEqual([
      '1,500 measurements of 2 sensors (1 new), kept for ever.',
      'Sensors that exist keep their own retention: roof. Edit changes it.',
    ])
    expect(printKeeping(progress)).toEqual([])
  })

  test('names a dozen series, and how many there are besides', () => {
    /** @type {Record<string, number>} */
    const kinds = { number: 1, text: 2 }
    const series = Array.from({ length: 14 }, (_, index) => ({
      sensor: 's',
      metric: `m${index}`,
      kinds,
    }))
    const preview = { measurements: 17, from: 0, last: 1, series, in_other_series: 3 }
    const lines = printPreview({ ...progress, preview })
    expect(lines[0]).toMatch(/^17 measurements, from /)
    expect(lines.slice(12)).toEqual([
      'm11 of s: 1 number, 2 texts',
      'and 2 series more',
      '3 measurements of yet other series',
    ])
    const nothing = { measurements: 0, from: null, last: null, series: [], in_other_series: 0 }
    expect(printPreview({ ...progress, preview: nothing })).toEqual([])
  })
})
