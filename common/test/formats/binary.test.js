// CBOR and MessagePack say what JSON says. Bytes are those of RFC 8949, appendix A, and of the
// MessagePack specification, unless a test says otherwise.
import { describe, expect, test } from '@jest/globals'
import { encode as encodeMessagePack } from '@msgpack/msgpack'
import { encode as encodeCbor, Tagged } from 'cborg'
import { cbor, cborObject } from '../../src/formats/cbor.js'
import { readCbor } from '../../src/formats/encoding/cbor.js'
import { readMessagePack } from '../../src/formats/encoding/messagepack.js'
import { json } from '../../src/formats/json.js'
import { messagepack, messagepackObject } from '../../src/formats/messagepack.js'
import { KIND } from '../../src/measurement.js'
import { fuzz } from './fuzz.js'

const OBJECT = { topic: 'x', sensor: 's', metric: undefined }
const VALUE = { topic: 'x', sensor: 's', metric: 'm' }

/** @param {unknown} tree */
const toCbor = (tree) => Buffer.from(encodeCbor(tree, { mapSorter: () => 0 }))

/** @param {unknown} tree */
const toMessagePack = (tree) => Buffer.from(encodeMessagePack(tree, { useBigInt64: true }))

/** @param {string} hex */
const bytes = (hex) => Buffer.from(hex.replaceAll(' ', ''), 'hex')

const BODIES = [
  { temperature: 21.5, open: true, state: 'idle', t: 1_767_225_600_000, gone: null },
  { color: { x: 0.3, y: 0.4 }, position: { lat: 52.52, lon: 13.4 } },
  { ts: '2026-01-01T00:00:00Z', values: { a: 1, b: -2 } },
  [{ a: 1, t: 1_767_225_600 }, { b: 2.5 }],
  { a: 1, strange: [1, 2], 'x\u202e': 1 },
]
const READINGS = [
  21.5,
  -1,
  'idle',
  false,
  { t: 1_767_225_600_000, v: 3 },
  [1, { v: 2 }],
  { v: 7, kind: 'integer' },
]

describe.each([
  { format: cbor, write: toCbor },
  { format: messagepack, write: toMessagePack },
])('$format.name', ({ format, write }) => {
  test.each(BODIES.map((body) => [body]))('says what JSON says: %j', (body) => {
    const payload = Buffer.from(JSON.stringify(body))
    expect(format.decode(OBJECT, write(body))).toEqual(json.decode(OBJECT, payload))
  })

  test.each(READINGS.map((body) => [body]))('of a metric says what JSON says: %j', (body) => {
    const payload = Buffer.from(JSON.stringify(body))
    expect(format.decode(VALUE, write(body))).toEqual(json.decode(VALUE, payload))
  })

  test.each([
    [2n ** 53n + 1n, KIND.integer, 2n ** 53n + 1n],
    [-(2n ** 63n), KIND.integer, -(2n ** 63n)],
    [2n ** 63n - 1n, KIND.integer, 2n ** 63n - 1n],
    [2n ** 64n - 1n, KIND.number, 2 ** 64],
    [2 ** 53 - 1, KIND.number, 2 ** 53 - 1],
    [-(2 ** 31), KIND.number, -(2 ** 31)],
    [70_000, KIND.number, 70_000],
    [-129, KIND.number, -129],
    [-33, KIND.number, -33],
    [1e300, KIND.number, 1e300],
  ])('reads the number %s', (value, kind, stored) => {
    const [measurement] = format.decode(VALUE, write(value)).measurements
    expect(measurement).toEqual({ metric: 'm', timeMs: undefined, kind, value: stored })
  })

  test('refuses binary data and numbers that are none, field by field', () => {
    const body = { ok: 1, raw: new Uint8Array([1, 2, 3]), nan: Number.NaN, inf: -Infinity }
    const { measurements, refused } = format.decode(OBJECT, write(body))
    expect(measurements.map(({ metric }) => metric)).toEqual(['ok'])
    expect(refused.map(({ field }) => field).sort()).toEqual(['inf', 'nan', 'raw'])
    expect(() => format.decode(OBJECT, write({ t: new Uint8Array(1), a: 1 }))).toThrow(
      't is not a time',
    )
    expect(() => format.decode(VALUE, write(new Uint8Array(3)))).toThrow()
  })

  test('reads members whatever they are called', () => {
    const body = new Map([
      ['__proto__', 1],
      ['constructor', 2],
    ])
    const members = { constructor: 2, hasOwnProperty: 3 }
    const { measurements } = format.decode(OBJECT, write(members))
    expect(measurements.map(({ metric, value }) => [metric, value])).toEqual(
      Object.entries(members),
    )
    if (format === cbor) {
      const named = format.decode(OBJECT, write(body)).measurements
      expect(named.map(({ metric }) => metric)).toEqual(['__proto__', 'constructor'])
    }
  })

  test('does not take what ends too early, goes on, or is nested too deep', () => {
    const whole = write({ a: 1, b: 'text' })
    for (let length = 0; length < whole.length; length++) {
      expect(() => format.decode(OBJECT, whole.subarray(0, length))).toThrow()
    }
    expect(() => format.decode(OBJECT, Buffer.concat([whole, bytes('00')]))).toThrow('this is not')
    /** @type {unknown} */
    let deep = 1
    for (let level = 0; level < 33; level++) deep = { a: deep }
    expect(() => format.decode(OBJECT, write(deep))).toThrow('nested too deep')
    expect(() => format.decode(OBJECT, write({ a: [deep] }))).toThrow('nested too deep')
  })
})

describe('CBOR', () => {
  test.each([
    ['c1 1a 514b67b0', '2013-03-21T20:04:00.000Z'],
    ['c1 fb 41d452d9ec200000', '2013-03-21T20:04:00.500Z'],
    ['c0 74 323031332d30332d32315432303a30343a30305a', '2013-03-21T20:04:00Z'],
    ['c2 49 010000000000000000', 18_446_744_073_709_551_616n],
    ['c3 49 010000000000000000', -18_446_744_073_709_551_617n],
    ['c2 41 ff', 255],
    ['c4 82 21 19 6ab3', 273.15],
    ['c5 82 20 03', 1.5],
    ['d9 d9f7 18 64', 100],
    ['f9 3e00', 1.5],
    ['3b ffffffffffffffff', -18_446_744_073_709_551_616n],
    ['9f 01 02 ff', [1, 2]],
    ['f7', null],
    ['43 010203', []],
    ['c4 82 19ffff 01', []],
    ['c1 61 61', []],
    ['c1 fb 7ff0000000000000', []],
    ['d8 20 61 61', []],
  ])('%s is %p', (hex, value) => {
    expect(readCbor(bytes(hex))).toEqual(value)
  })

  test('has keys that are numbers; of two of one name the last counts', () => {
    expect(readCbor(bytes('a3 01 02 20 03 01 04'))).toEqual({ 1: 4, '-1': 3 })
  })

  test.each([
    'ff',
    '1c',
    '61 ff',
    '82 01',
    'a1 01',
    'c1',
    '9f 01',
    '5f 41 01 ff',
    '9b ffffffffffffffff',
  ])('refuses %s', (hex) => {
    expect(() => readCbor(bytes(hex))).toThrow(expect.objectContaining({ name: 'PayloadError' }))
  })

  test('understands a time where a time belongs', () => {
    const body = {
      t: new Tagged(1, 1_767_225_600.25),
      a: 1,
      since: new Tagged(0, '2026-01-01T00:00:00Z'),
    }
    expect(cbor.decode(OBJECT, toCbor(body)).measurements).toEqual([
      { metric: 'a', timeMs: 1_767_225_600_250, kind: KIND.number, value: 1 },
      {
        metric: 'since',
        timeMs: 1_767_225_600_250,
        kind: KIND.text,
        value: '2026-01-01T00:00:00Z',
      },
    ])
  })

  test('counts levels that are open, not those that were', () => {
    const wide = Array.from({ length: 500 }, () => [[{ a: [] }], {}])
    expect(readCbor(toCbor(wide))).toHaveLength(500)
    expect(readCbor(bytes(`98 64 ${'9f 01 ff '.repeat(100)}`))).toHaveLength(100)
    expect(readCbor(bytes(`98 64 ${'81 9f 01 ff '.repeat(100)}`))).toHaveLength(100)
    expect(() => readCbor(bytes('81'.repeat(33)))).toThrow('nested too deep')
    expect(() => readCbor(bytes('9f'.repeat(33)))).toThrow('nested too deep')
    expect(() => readCbor(bytes('d8 20'.repeat(33)))).toThrow('nested too deep')
  })
})

describe('MessagePack', () => {
  test.each([
    ['d6 ff 514b67b0', '2013-03-21T20:04:00.000Z'],
    ['d7 ff 77359400 514b67b0', '2013-03-21T20:04:00.500Z'],
    ['d7 ff 00000001 00000000', '2106-02-07T06:28:16.000Z'],
    ['c7 0c ff 1dcd6500 ffffffffffffffff', '1969-12-31T23:59:59.500Z'],
    ['c7 0c ff 1dcd6500 7fffffffffffffff', []],
    ['d5 ff 0000', []],
    ['d4 01 00', []],
    ['c4 03 010203', []],
    ['ca 3fc00000', 1.5],
    ['d0 80', -128],
    ['d1 8000', -32_768],
    ['d2 80000000', -2_147_483_648],
    ['cf 0020000000000001', 9_007_199_254_740_993n],
    ['de 0001 a1 61 01', { a: 1 }],
    ['82 01 02 01 03', { 1: 3 }],
  ])('%s is %p', (hex, value) => {
    expect(readMessagePack(bytes(hex))).toEqual(value)
  })

  test.each(['c1', 'a1 ff', 'd9 02 c328', 'c4 04 01', 'd6 ff 00', 'df ffffffff', '92 01'])(
    'refuses %s',
    (hex) => {
      expect(() => readMessagePack(bytes(hex))).toThrow(
        expect.objectContaining({ name: 'PayloadError' }),
      )
    },
  )

  test('takes no memory for what heads of arrays promise', () => {
    const before = process.memoryUsage().heapUsed
    for (let round = 0; round < 20; round++) {
      expect(() => readMessagePack(Buffer.alloc(60_000, bytes('dd 7fffffff')))).toThrow(
        'nested too deep',
      )
      expect(() => readMessagePack(Buffer.alloc(93, bytes('dc ffff')))).toThrow('ends too early')
    }
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(50e6)
  })
})

/** What an encoder does not know is a text. @param {(tree: unknown) => Buffer} write */
const lenient = (write) => (/** @type {unknown} */ tree) => {
  try {
    return write(tree)
  } catch {
    return Buffer.from(String(tree))
  }
}
const PLACES = [OBJECT, VALUE]
const TREES = [...BODIES, ...READINGS]
for (const [format, write] of /** @type {const} */ ([
  [cbor, toCbor],
  [messagepack, toMessagePack],
])) {
  fuzz(format, { places: PLACES, examples: TREES.map(write), trees: TREES, encode: lenient(write) })
}

const NAMED = BODIES.filter((body) => !Array.isArray(body)).map((body) => ({
  sensor: 'a',
  ...body,
}))
for (const [format, write] of /** @type {const} */ ([
  [cborObject, toCbor],
  [messagepackObject, toMessagePack],
])) {
  fuzz(format, { places: PLACES, examples: NAMED.map(write), trees: NAMED, encode: lenient(write) })
}
