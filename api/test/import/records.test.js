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

  test('keeps all digits, and refuses a line that is not UTF-8', async () => {
    async function* bytes() {
      yield Buffer.from('{"v":9223372036854775807,"t":1767225600123999999}\n{"a":"\xfc"}', 'latin1')
    }
    expect(await all(ndjsonRecords(bytes()))).toEqual([
      { line: 1, object: { v: 2n ** 63n - 1n, t: 1_767_225_600_123_999_999n } },
      { line: 2, fault: 'this is not UTF-8' },
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
      { line: 2, object: { sensor: 's', metric: 'm', t: '1767225600000', v: 1.5 } },
      { line: 4, object: { sensor: 's', metric: 'n', t: '1767225600000', v: 'a "b",\nc' } },
    ])
  })

  test.each([
    ['date,a,b\n2026-01-01,1,\n', { t: '2026-01-01', a: 1 }],
    ['a,Time,time\n1,2,1767225600\n', { a: 1, Time: 2, t: '1767225600' }],
    ['when;a\n2026-01-01 00:00:00;-21,5\n', { t: '2026-01-01 00:00:00', a: -21.5 }],
    ['t\ta\n1767225600000000\ttrue\n', { t: '1767225600000000', a: true }],
    ['\ufefft|a\r\n1767225600|x y\r\n', { t: '1767225600', a: 'x y' }],
    ['t,a\nnoon,1', { t: 'noon', a: 1 }],
    ['t,a,b\n5,"  x ", y \n', { t: '5', a: '  x ', b: 'y' }],
    [
      't,a,b,c\n5,0x1F,9007199254740993,1e999\n',
      { t: '5', a: '0x1F', b: 2n ** 53n + 1n, c: Infinity },
    ],
    ['t,a,b\n5,"{""a"":1}",é\n', { t: '5', a: '{"a":1}', b: 'é' }],
  ])('with a time and one column a metric: %j', async (text, object) => {
    expect(await csv(text, 's')).toEqual([{ line: 2, object }])
  })

  test('with a column kind, a text is any text, and a number what it is said to be', async () => {
    const rows = [
      'm,5,"",text',
      'm,5,"{""lat"":1,""lon"":2}",text',
      'm,5," 1 ",text',
      'm,5,7,integer',
    ]
    const text = `metric,t,v,kind\n${rows.join('\n')}\nm,5,,\n,5,1,\n`
    expect(await csv(text, 's')).toMatchObject([
      { object: { metric: 'm', v: '', kind: 'text' } },
      { object: { v: '{"lat":1,"lon":2}' } },
      { object: { v: ' 1 ' } },
      { object: { v: 7, kind: 'integer' } },
      { object: { metric: 'm', t: '5' } },
      { object: { metric: '', v: 1 } },
    ])
  })

  test('with a decimal comma has it in numbers alone', async () => {
    const text = 'sensor;metric;t;v;kind\n1,5;2,5;5;3,5;\n1,5;2,5;5;3,5;text\n'
    expect((await csv(text)).map(({ object }) => object)).toEqual([
      { sensor: '1,5', metric: '2,5', t: '5', v: 3.5 },
      { sensor: '1,5', metric: '2,5', t: '5', v: '3,5', kind: 'text' },
    ])
  })

  test('a row that is not UTF-8 is refused, and the next one is not', async () => {
    async function* bytes() {
      yield Buffer.from('t,a\n5,gr\xfcn\n6,gr\xc3\xbcn\n', 'latin1')
    }
    expect(await all(await csvRecords(bytes(), 's'))).toEqual([
      { line: 2, fault: 'this is not UTF-8' },
      { line: 3, object: { t: '6', a: 'grün' } },
    ])
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
