import { sideBySide, table } from './table.js'

const plain = { unit: 'ms', bound: '', floor: '' }

test('a table says what was promised, and whether it was kept', () => {
  const lines = [
    { ...plain, name: 'median', value: '2' },
    { ...plain, name: 'p99', value: '5.1', bound: 'at most', floor: '5' },
    { name: 'rate', value: '100', unit: '', bound: 'at least', floor: '100' },
  ]
  expect(table(lines).split('\n').slice(2)).toEqual([
    '| median | 2 ms |  |  |',
    '| p99 | 5.1 ms | at most 5 | **fail** |',
    '| rate | 100  | at least 100 | pass |',
  ])
})

test('side by side each has a column, and what one has not is empty', () => {
  const lines = [
    { ...plain, name: 'ours: p99, at 10: all', value: '4', bound: 'at most', floor: '5' },
    { ...plain, name: 'theirs 2.0: p99, at 10: all', value: '6' },
    { ...plain, name: 'theirs 2.0: median', value: '1' },
  ]
  expect(sideBySide(lines)).toBe(
    [
      '| | ours | theirs 2.0 |',
      '|---|---:|---:|',
      '| p99, at 10: all | 4 ms (at most 5: pass) | 6 ms |',
      '| median |  | 1 ms |',
    ].join('\n'),
  )
})
