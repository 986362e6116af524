import { describe, expect, test } from '@jest/globals'
import { csvRecords, ndjsonRecords, RECORD_BYTES_MAX } from '../../src/import/records.js'

/** A text in pieces of some bytes. @param {string} text  @param {number} size */
async function* pieces(text, size) {
  const bytes = Buffer.from(text)
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

/** @param {AsyncIterable<import('../../src/import/records.js').FileRecord>} records */
async function all(records) {
  const found = []
  for await (const record of records) found.push(record)
  return found
}

/** @param {string} text  @param {string} [sensor]  @param {number} [size] */
const csv = async (text, sensor, size = 7) => all(await csvRecords(pieces(text, size), sensor))
/** @param {string} text  @param {number} [size] */
const ndjson = (text, size = 7) => all(ndjsonRecords(pieces(text, size)))

describe('NDJSON', () => {
  const text = '\ufeff{"a":1}\n\r\n{"b":"ü"}\r\n[1]\nnonsense\n{"last":true}'

  test.each([1, 2, 3, 1_000])('has a record a line, however it is cut: %d bytes', async (size) => {
    expect(await ndjson(text, size)).toEqual([
      { line: 1, object: { a: 1 } },
      { line: 3, object: { b: 'ü' } },
      { line: 4, fault: expect.stringContaining('not an object') },
      { line: 5, fault: expect.stringContaining('not JSON') },
      { line: 6, object: { last: true } },
    ])
  })

  test('leaves out a line that is too long, and goes on after it', async () => {
    const long = `{"a":"${'x'.repeat(RECORD_BYTES_MAX)}"}`
    expect(await ndjson(`{}\n${long}\n{"b":1}\n`, 65_536)).toEqual([
      { line: 1, object: {} },
      { line: 2, fault: `more than ${RECORD_BYTES_MAX} bytes` },
      { line: 3, object: { b: 1 } },
    ])
  })
})

describe('CSV', () => {
  test.each([1, 3, 1_000])('as it is exported, in pieces of %d bytes', async (size) => {
    const text = 'sensor,metric,t,v\ns,m,1767225600000,1.5\ns,n,1767225600000,"a ""b"",\nc"\n'
    expect(await csv(text, undefined, size)).toEqual([
      { line: 2, object: { sensor: 's', metric: 'm', t: 1_767_225_600_000, v: 1.5 } },
      { line: 4, object: { sensor: 's', metric: 'n', t: 1_767_225_600_000, v: 'a "b",\nc' } },
    ])
  })

  test.each([
    ['date,a,b\n2026-01-01,1,\n', { t: 1_767_225_600_000, a: 1 }],
    ['a,Time,time\n1,2,1767225600\n', { a: 1, Time: 2, t: 1_767_225_600_000 }],
    ['when;a\n2026-01-01 00:00:00;-21,5\n', { t: 1_767_225_600_000, a: -21.5 }],
    ['t\ta\n1767225600000000\ttrue\n', { t: 1_767_225_600_000, a: true }],
    ['\ufefft|a\r\n1767225600000000000|x y\r\n', { t: 1_767_225_600_000, a: 'x y' }],
    ['t,a\nnoon,1', { t: 'noon', a: 1 }],
  ])('with a time and one column a metric: %j', async (text, object) => {
    expect(await csv(text, 's')).toEqual([{ line: 2, object }])
  })

  test('a row of another length says nothing, and the next one does', async () => {
    expect(await csv('t,a,b\n1,2\n\n3,4,5\n', 's')).toMatchObject([
      { line: 2, fault: '2 cells, but 3 columns' },
      { line: 4, object: { a: 4, b: 5 } },
    ])
  })

  test.each([
    ['t,a\n1,2\n', undefined, 'names no column sensor'],
    ['', 's', 'no column of values'],
    ['t\n1\n', 's', 'no column of values'],
    ['sensor,metric,t\ns,m,1\n', undefined, 'no column of values'],
    ['t,a,a\n1,2,3\n', 's', 'two columns of the CSV are called "a"'],
    ['t,"a\n1,2\n', 's', 'not CSV'],
  ])('that begins with %j is refused as a whole', async (text, sensor, detail) => {
    await expect(csvRecords(pieces(text, 5), sensor)).rejects.toThrow(detail)
  })

  test('a quote that does not end is told, and not where the file begins', async () => {
    const rows = Array.from({ length: 5_000 }, (_, index) => `${index},2\n`).join('')
    const records = await csvRecords(pieces(`t,a\n${rows}3,"4\n5,6\n`, 1_000), 's')
    expect((await records.next()).value).toMatchObject({ line: 2 })
    await expect(all(records)).rejects.toThrow(/^line 500\d: Quote Not Closed/)
  })
})
