import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from '@jest/globals'
import { parseTime } from '@sandglass/common/time'
import { checkTable } from '../src/precheck.js'
import { readTable, TableError } from '../src/table.js'

const directory = mkdtempSync(join(tmpdir(), 'sandglass-table-'))
afterAll(() => rmSync(directory, { recursive: true }))

/** @param {string} text  @param {Partial<import('../src/table.js').Layout>} [layout] */
async function read(text, layout) {
  const path = join(directory, 'table.csv')
  writeFileSync(path, text)
  const rows = []
  for await (const row of readTable(path, { sensor: 'it', ...layout })) rows.push(row)
  return rows
}

describe('a time', () => {
  const cases = /** @type {const} */ ([
    ['2010-01-01T01:00:00', Date.UTC(2010, 0, 1, 1)],
    ['2010-01-01 01:00', Date.UTC(2010, 0, 1, 1)],
    ['2010-01-01', Date.UTC(2010, 0, 1)],
    ['2010-01-01T01:00:00.25Z', Date.UTC(2010, 0, 1, 1, 0, 0, 250)],
    ['2010-01-01T01:00:00+02:00', Date.UTC(2009, 11, 31, 23)],
    ['2010-01-01T01:00:00-0530', Date.UTC(2010, 0, 1, 6, 30)],
    ['1767225600', 1_767_225_600_000],
    ['1767225600.5', 1_767_225_600_500],
    ['1767225600000', 1_767_225_600_000],
    ['1767225600000000', 1_767_225_600_000],
    ['1767225600000000000', 1_767_225_600_000],
  ])
  test.each(cases)('%s is understood', (text, timeMs) => {
    expect(parseTime(text)).toBe(timeMs)
  })

  test.each([
    '',
    'noon',
    '01/02/2010',
    '2010-02-30',
    '2010-13-01',
    '2010-01-01T25:00',
    '-5',
    '1e9',
  ])('"%s" is none', (text) => {
    expect(parseTime(text)).toBeUndefined()
  })
})

describe('a file', () => {
  test('gives a row a line, with the numbers as they stand', async () => {
    expect(await read('date,pressure,wind\n2010-01-01T01:00:00,1016.6,-3e-1\n')).toEqual([
      {
        line: 2,
        sensor: 'it',
        timeMs: Date.UTC(2010, 0, 1, 1),
        values: { pressure: 1016.6, wind: -0.3 },
      },
    ])
  })

  test('may use semicolons, decimal commas, quotes and a byte order mark', async () => {
    const rows = await read('\ufeffzeit;"a b";c\r\n2020-01-01;21,5;"x;y"\r\n\r\n')
    expect(rows).toMatchObject([{ values: { 'a b': 21.5, c: 'x;y' } }])
  })

  test('leaves out what has no value', async () => {
    const rows = await read('t,a,b\n2020-01-01,,1\n2020-01-02,NaN,N/A\n')
    expect(rows).toMatchObject([{ values: { b: 1 } }, { values: {} }])
    expect(Object.keys(/** @type {any} */ (rows[1]).values)).toEqual([])
  })

  test('holds booleans and text as such, a column of one kind', async () => {
    const rows = await read('t,on,word\n2020-01-01,true,x\n2020-01-02,FALSE,7\n')
    expect(rows).toMatchObject([
      { values: { on: true, word: 'x' } },
      { values: { on: false, word: '7' } },
    ])
  })

  test('can say in a column which sensor a row is of, and which column is the time', async () => {
    const rows = await read('who,a,when\nroom-1,5,2020-01-01\nroom-2,6,2020-01-01\n', {
      sensorColumn: 'who',
      timeColumn: 'when',
    })
    expect(rows).toMatchObject([
      { sensor: 'room-1', values: { a: 5 } },
      { sensor: 'room-2', values: { a: 6 } },
    ])
  })

  test.each([
    ['2020-01-01,oops', 'line 3: "oops" in column "a", which holds a number elsewhere'],
    ['yesterday,5', 'line 3: "yesterday" is no time that is understood'],
    ['2020-01-01,5,6', 'line 3: 3 cells, but 2 columns'],
    ['2020-01-01', 'line 3: 1 cells, but 2 columns'],
    [
      '1999-12-31,5',
      'line 3: "1999-12-31" is before the year 2000 or over a day ahead: never stored',
    ],
    [
      '2999-12-31,5',
      'line 3: "2999-12-31" is before the year 2000 or over a day ahead: never stored',
    ],
  ])('names the line of a bad row: %s', async (row, problem) => {
    const path = join(directory, 'bad.csv')
    writeFileSync(path, `t,a\n2020-01-01,1\n${row}\n`)
    const check = await checkTable(readTable(path, { sensor: 'it' }))
    expect(check).toMatchObject({ rows: 2, bad: 1, problems: [problem] })
  })

  test.each([
    ['', 'the file is empty'],
    ['t\n2020-01-01\n', 'no column besides the time'],
    ['t,a,a\n', '"a" cannot name a metric'],
    ['t,v\n', '"v" cannot name a metric'],
    ['t,a/b\n', '"a/b" cannot name a metric'],
    ['t,a\n2020-01-01,"5\n', 'line '],
  ])('that is no table is refused: %j', async (text, message) => {
    const reading = read(text)
    await expect(reading).rejects.toThrow(TableError)
    await expect(reading).rejects.toThrow(message)
  })

  test('that is not there is refused', async () => {
    const path = join(directory, 'none.csv')
    await expect(checkTable(readTable(path, { sensor: 'it' }))).rejects.toThrow('cannot be read')
  })

  test('without a good row is refused, with the first twenty reasons', async () => {
    const path = join(directory, 'all-bad.csv')
    writeFileSync(path, `t,a\n${'x,1\n'.repeat(30)}`)
    const error = await checkTable(readTable(path, { sensor: 'it' })).catch((reason) => reason)
    expect(error).toBeInstanceOf(TableError)
    expect(error.message.split('\n')).toHaveLength(22)
    expect(error.message).toContain('and 10 more')
  })
})
