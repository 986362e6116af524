import { encode as encodeMessagePack } from '@msgpack/msgpack'
import { encode as encodeCbor } from 'cborg'
import { bodyFormat, itemsOf, parseItem } from '../src/bodies.js'
import { JSON_LEVELS_MAX } from '../src/json.js'
import { expectLinear } from './support/growth.js'

const T = Date.UTC(2026, 0, 1)

/** @param {Parameters<typeof itemsOf>} args */
const decoded = (...args) =>
  itemsOf(...args).map((item) => {
    try {
      const { sensor, measurements } = parseItem(item)
      return [sensor, ...measurements.map(({ metric, timeMs, value }) => [metric, timeMs, value])]
    } catch (error) {
      return /** @type {Error} */ (error).message
    }
  })

test('one reading is the same in every format', () => {
  const expected = [['kitchen', ['temperature', T, 21.5], ['open', T, true]]]
  const object = { sensor: 'kitchen', t: T, temperature: 21.5, open: true }
  expect(decoded('json', JSON.stringify(object))).toEqual(expected)
  expect(decoded('json', JSON.stringify([object]))).toEqual(expected)
  expect(decoded('ndjson', `${JSON.stringify(object)}\r\n\n`)).toEqual(expected)
  for (const time of [`${T}`, `${T / 1000}`, `${T}000000`, '2026-01-01T00:00:00Z']) {
    const csv = `sensor,time,temperature,open,note\nkitchen,${time},21.5,true,\n`
    expect(decoded('csv', csv)).toEqual(expected)
  }
})

test('a place may be a cell', () => {
  expect(decoded('csv', 'sensor,at,note\na,"{""lat"":1,""lon"":2}",{x\n')).toEqual([
    ['a', ['at', undefined, { lat: 1, lon: 2 }], ['note', undefined, '{x']],
  ])
})

test('a metric may be a column, or a field, of its own', () => {
  const expected = [
    ['a', ['m', T, 1]],
    ['b', ['n', undefined, 'on']],
  ]
  expect(decoded('csv', `sensor,metric,t,v\na,m,${T},1\nb,n,,on\n`)).toEqual(expected)
  expect(
    decoded(
      'ndjson',
      `{"sensor":"a","metric":"m","t":${T},"v":1}\n{"sensor":"b","metric":"n","v":"on"}`,
    ),
  ).toEqual(expected)
})

test('line protocol has its times in the unit that is said', () => {
  for (const [precision, time] of [
    ['s', T / 1000],
    ['ms', T],
    ['us', `${T}000`],
    ['ns', `${T}000000`],
  ]) {
    const line = `temperature,sensor=k value=1 ${time}`
    expect(decoded('line', line, `${precision}`)).toEqual([['k', ['temperature', T, 1]]])
  }
  expect(() => itemsOf('line', 'm v=1', 'h')).toThrow('precision is none of')
})

test('each item is refused by itself', () => {
  const body = '[{"sensor":"a","m":1},{"m":1},7,{"sensor":"a/b","m":1},{"sensor":"a","metric":"m"}]'
  expect(decoded('json', body)).toEqual([
    ['a', ['m', undefined, 1]],
    expect.stringContaining('sensor is missing'),
    expect.stringContaining('not an object'),
    expect.stringContaining('the sensor must have'),
    expect.stringContaining('v is missing'),
  ])
  expect(decoded('ndjson', '{"sensor":"a","m":1}\n{oops')).toEqual([
    ['a', ['m', undefined, 1]],
    expect.stringContaining('not JSON'),
  ])
  expect(decoded('csv', 'sensor,t,m\na,yesterday,1\na,,\nb,,2,3\nc,,5')).toEqual([
    expect.stringContaining('t is not a time but "yesterday"'),
    expect.stringContaining('no value'),
    expect.stringContaining('not an object'),
    ['c', ['m', undefined, 5]],
  ])
})

test('what cannot be taken apart is refused as a whole', () => {
  expect(() => itemsOf('json', '{')).toThrow('the body is not JSON')
  expect(() => itemsOf('line', 'm v=1\n'.repeat(50_001))).toThrow('more than 50000 items')
  expect(() => itemsOf('csv', `sensor,m\n${'a,1\n'.repeat(50_001)}`)).toThrow('more than 50000')
  expect(() => itemsOf('csv', 'a,b\n1,2')).toThrow('no column sensor')
  expect(() => itemsOf('csv', 'sensor,"m\n1,2')).toThrow('the body is not CSV')
})

test('JSON that is nested very deep is refused with its reason, wherever it stands', () => {
  for (const leaf of ['1', '12345678901234567890']) {
    const list = `${'['.repeat(10_000)}${leaf}${']'.repeat(10_000)}`
    const object = `${'{"a":'.repeat(10_000)}${leaf}${'}'.repeat(10_000)}`
    for (const deep of [list, object]) {
      const bodies = [deep, `[${deep}]`, `{"sensor":"a","m":${deep}}`, `{"sensor":"a","t":${deep}}`]
      for (const body of bodies) {
        expect(() => itemsOf('json', body)).toThrow('nested deeper than 1000 levels')
        expect(decoded('ndjson', body)).toEqual([expect.stringContaining('nested too deep')])
      }
      const cell = `"${deep.replaceAll('"', '""')}"`
      expect(decoded('csv', `sensor,m\na,${cell}`)).toEqual([['a', ['m', undefined, deep]]])
    }
  }
})

test('JSON that is nested less deep costs the field that is, and no other', () => {
  for (const leaf of ['1', '12345678901234567890']) {
    const deep = `${'['.repeat(JSON_LEVELS_MAX - 1)}${leaf}${']'.repeat(JSON_LEVELS_MAX - 1)}`
    const item = `{"sensor":"a","m":${deep},"n":2,"text":"${'['.repeat(2 * JSON_LEVELS_MAX)}"}`
    for (const format of /** @type {const} */ (['json', 'ndjson'])) {
      const [[, n]] = decoded(format, item)
      expect(n).toEqual(['n', undefined, 2])
      expect(() => itemsOf('json', `[${item}]`)).toThrow('nested deeper than 1000 levels')
    }
  }
})

test('the format is told by the media type alone', () => {
  expect(bodyFormat('Application/JSON; charset=utf-8')).toBe('json')
  expect(bodyFormat('text/plain; charset=utf-8')).toBe('line')
  expect(bodyFormat('application/senml+json')).toBe('senml-json')
  expect(bodyFormat('application/cbor')).toBe('cbor')
  for (const type of ['msgpack', 'vnd.msgpack', 'x-msgpack']) {
    expect(bodyFormat(`application/${type}`)).toBe('messagepack')
  }
  expect([bodyFormat(undefined), bodyFormat('image/png')]).toEqual([undefined, undefined])
})

test('what an export tells of its sensors is passed over; a metric of that name is not', () => {
  const told = '{"sensor":"a \\"b","about":{"retention":"keep"}}'
  const value = '{"sensor":"a","about":5,"t":1767225600000}'
  expect(itemsOf('ndjson', `${told}\n${value}`)).toHaveLength(1)
  const csv =
    'sensor,metric,t,v,kind\na,,,"{""retention"":""keep""}",about\na,m,1767225600000,1,number\n'
  expect(itemsOf('csv', csv)).toHaveLength(1)
  expect(itemsOf('csv', 'sensor,t,kind\na,1767225600000,about\n')).toHaveLength(1)
  // However many there are, no row behind them is lost.
  const [head, about, row] = csv.split('\n')
  const many = itemsOf('csv', `${head}\n${`${about}\n`.repeat(50_010)}${row}\n`)
  expect(many).toHaveLength(1)
})

describe('a body that takes long to read', () => {
  const ones = (/** @type {number} */ count) => `[${'1,'.repeat(count - 1)}1]`

  test.each([
    ['many values', ones(600_000), 'more than 500000 values'],
    ['many values in one item', `[${ones(600_000)}]`, 'more than 500000 values'],
    ['many empty arrays', `[${'[[],[],[]],'.repeat(90_000)}[]]`, 'more than 500000 values'],
    ['many levels, without an end', '[{"":'.repeat(100_000), 'deeper than 1000 levels'],
    ['many items', ones(60_000), 'more than 50000 items'],
    ['a string without an end', `["${'a'.repeat(100)}`, 'not JSON'],
  ])('is refused as a whole: %s', (_, body, reason) => {
    expect(() => itemsOf('json', body)).toThrow(reason)
  })

  test('is taken with commas in texts, and as many rows of CSV as there may be', () => {
    expect(
      itemsOf('json', `[{"sensor":"s","m":"${',"'.replace('"', '\\"').repeat(600_000)}"}]`),
    ).toHaveLength(1)
    const rows = (/** @type {number} */ count) => `sensor,m\n${'s,1\n'.repeat(count)}`
    expect(itemsOf('csv', rows(50_000))).toHaveLength(50_000)
    expect(() => itemsOf('csv', rows(50_001))).toThrow('more than 50000 items')
  })

  test.each([
    ['a row more', `sensor,m\n${'s,1\n'.repeat(50_001)}`, 'more than 50000 items'],
    [
      'rows that become large objects',
      `sensor,${Array.from({ length: 1_000 }, (_, at) => `${at}`.padEnd(128, 'é'))}\n${`s${',1'.repeat(1_000)}\n`.repeat(200)}`,
      /have more than 33554432 bytes: send several bodies, or give/,
    ],
    [
      'rows that are too long',
      `sensor,m\n${`${',"'.padEnd(2 ** 20, 'x')}",\n`.repeat(33)}`,
      'have more than 33554432 bytes',
    ],
    [
      'very many columns',
      `sensor,t,${Array.from({ length: 1_001 }, (_, at) => at)}\n`,
      'the CSV has 1003 columns, but a sensor has at most 1000 metrics',
    ],
    ['a column of a long name', `sensor,${'m'.repeat(129)}\n`, 'has more than 128 characters'],
    ['no column for the sensor', 'a,b\n', 'names no column sensor'],
  ])('is refused by CSV before what is behind it is read: %s', (_, body, reason) => {
    const broken = `s,"1"2\n`
    expect(() => itemsOf('csv', `sensor,m\n${broken}`)).toThrow('the body is not CSV')
    expect(() => itemsOf('csv', body + broken)).toThrow(reason)
  })

  test('is taken by CSV with as many columns as a sensor has metrics, of names as long as can be', () => {
    const names = Array.from({ length: 1_000 }, (_, at) => `${at}`.padEnd(128, 'x'))
    const [item] = itemsOf('csv', `sensor,t,${names}\ns,${T}${',1'.repeat(1_000)}\n`)
    expect(parseItem(item).measurements).toHaveLength(1_000)
  })

  test('is refused with a cell of its CSV that is not quoted at its full length', () => {
    const body = `sensor,m\ns,${'x'.repeat(100_000)}"\n`
    const message = expect.stringMatching(/^the body is not CSV: .{1,300}$/)
    expect(() => itemsOf('csv', body)).toThrow(expect.objectContaining({ message }))
  })

  test('takes time in proportion to its columns and to the digits of a cell', () => {
    expectLinear(32_000, (size) => {
      const names = Array.from({ length: size }, (_, at) => `m${at}`)
      return () => expect(() => itemsOf('csv', `sensor,${names}\n`)).toThrow('columns, but')
    })
    expectLinear(32_000, (size) => {
      const body = `sensor,m\ns,${'1'.repeat(size)}x\n`
      return () => expect(itemsOf('csv', body)).toHaveLength(1)
    })
  })

  test('by one large item has that refused', () => {
    const payload = Buffer.from(JSON.stringify({ sensor: 's', m: ['x'.repeat(2 ** 20)] }))
    expect(() => parseItem({ format: 1, payload })).toThrow('more than 1048576 bytes')
  })
})

/** @param {unknown} tree */
const toCbor = (tree) => Buffer.from(encodeCbor(tree, { mapSorter: () => 0 }))

/** @param {unknown} tree */
const toMessagePack = (tree) => Buffer.from(encodeMessagePack(tree))

/** @param {string} hex */
const bytes = (hex) => Buffer.from(hex.replaceAll(' ', ''), 'hex')

describe.each(
  /** @type {const} */ ([
    ['cbor', toCbor],
    ['messagepack', toMessagePack],
  ]),
)('a body of %s', (format, write) => {
  const RECORDS = [
    { sensor: 'kitchen', t: T, temperature: 21.5, open: true },
    { sensor: 'hall', ts: '2026-01-01T00:00:00Z', values: { a: { b: 1 } } },
    { sensor: 'hall', metric: 'm', v: 'on', kind: 'text' },
    { m: 1 },
    7,
    [],
    { sensor: 'a/b', m: 1 },
    { sensor: 'odd', m: 1, n: [1, [2, { x: [] }]] },
  ]

  test('says what the same in JSON says, item by item', () => {
    for (const record of RECORDS.filter((one) => !Array.isArray(one))) {
      expect(decoded(format, write(record))).toEqual(decoded('json', JSON.stringify(record)))
    }
    expect(decoded(format, write(RECORDS))).toEqual(decoded('json', JSON.stringify(RECORDS)))
    expect(decoded(format, write(RECORDS))).toHaveLength(RECORDS.length)
    expect(decoded(format, write([]))).toEqual([])
    const many = Array.from({ length: 300 }, (_, at) => ({ sensor: `s${at}`, v: 'x'.repeat(at) }))
    expect(decoded(format, write(many))).toEqual(decoded('json', JSON.stringify(many)))
  })

  test('keeps the bytes of each item, and nothing else of the body', () => {
    const records = [...RECORDS, { sensor: 'large', m: 'x'.repeat(10_000) }]
    // It has memory of its own, not of the pool of small buffers, which grows with Node's versions.
    const body = Buffer.from(Uint8Array.from(write(records)).buffer)
    const items = itemsOf(format, body)
    expect(items.map(({ payload }) => payload)).toEqual(records.map(write))
    for (const { payload } of items) expect(payload.buffer).not.toBe(body.buffer)
  })

  test('that ends too early or goes on is refused as a whole, or by its one item', () => {
    const whole = write(RECORDS)
    for (let length = 1; length < whole.length; length++) {
      expect(() => itemsOf(format, whole.subarray(0, length))).toThrow('this is not')
    }
    const more = Buffer.concat([whole, write(1)])
    expect(() => itemsOf(format, more)).toThrow('bytes follow its value')
    expect(decoded(format, '')).toEqual(['the payload is empty'])
    expect(decoded(format, write(RECORDS[0]).subarray(0, 9))).toEqual([
      expect.stringContaining('this is not'),
    ])
  })

  test('of too many items or values, or nested too deep, is refused as a whole', () => {
    expect(itemsOf(format, write(Array(50_000).fill(1)))).toHaveLength(50_000)
    expect(() => itemsOf(format, write(Array(50_001).fill(1)))).toThrow('more than 50000 items')
    const values = [Array(499_998).fill(1)]
    expect(itemsOf(format, write(values))).toHaveLength(1)
    expect(() => itemsOf(format, write([[...values[0], 1, 1]]))).toThrow('more than 500000 values')
    /** @type {unknown} */
    let deep = 1
    for (let level = 0; level < 32; level++) deep = [deep]
    expect(() => itemsOf(format, write([deep]))).toThrow('nested too deep')
  })
})

test.each([
  // [{"sensor": "a", "m": 1}] without lengths, tagged as CBOR, and with texts in pieces.
  ['9f bf 6673656e736f72 6161 616d 01 ff ff', [['a', ['m', undefined, 1]]]],
  ['d9d9f7 81 a2 6673656e736f72 6161 616d 01', [['a', ['m', undefined, 1]]]],
  ['81 d9d9f7 a2 6673656e736f72 6161 616d 01', [['a', ['m', undefined, 1]]]],
  ['9f ff', []],
  ['9f 9f ff 01 ff', [expect.stringContaining('object'), expect.stringContaining('object')]],
  // A map with a key and no value is an item that is refused.
  [
    '82 bf 6161 ff a2 6673656e736f72 6161 616d 01',
    [expect.any(String), ['a', ['m', undefined, 1]]],
  ],
])('CBOR of other spellings is taken apart: %s', (hex, said) => {
  expect(decoded('cbor', bytes(hex))).toEqual(said)
})

test.each(['82 01 ff', 'ff', '9f', '81', '9f 81 ff ff', '9b ffffffffffffffff', '9c', '81 61 ff'])(
  'what is no CBOR is refused, whole or as an item: %s',
  (hex) => {
    const said = () => {
      const [first] = decoded('cbor', bytes(hex))
      throw new Error(String(first))
    }
    expect(said).toThrow(/CBOR|UTF-8|break/)
  },
)

test('an array of MessagePack that promises more than there is costs nothing', () => {
  for (const head of ['dd ffffffff', 'dc ffff', '9f', 'dd ffffffff dd ffffffff']) {
    expect(() => itemsOf('messagepack', bytes(head))).toThrow('it ends too early')
  }
})
