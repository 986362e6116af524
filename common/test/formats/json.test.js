import { DEPTH_MAX, REFUSED_FIELDS_MAX } from '@sandglass/common/formats/fields'
import { decodeValue, json, jsonObject } from '@sandglass/common/formats/json'
import { KIND } from '@sandglass/common/measurement'
import { TEXT_BYTES_MAX } from '@sandglass/common/payload'

const { number, integer, boolean, text, location } = KIND

const T = 1_767_225_600_123

/** @param {string | undefined} metric  @param {unknown} payload */
function decode(metric, payload) {
  const bytes = Buffer.isBuffer(payload)
    ? payload
    : Buffer.from(typeof payload === 'string' ? payload : JSON.stringify(payload))
  return json.decode({ topic: `sensors/s/${metric}`, sensor: 's', metric }, bytes)
}

/** What has no strange field. @param {string | undefined} metric  @param {unknown} payload */
function parse(metric, payload) {
  const { measurements, refused } = decode(metric, payload)
  expect(refused).toEqual([])
  return measurements
}

/** What is stored, and which fields are lost. */
/** @param {string | undefined} metric  @param {unknown} payload */
function outcome(metric, payload) {
  const { measurements, refused } = decode(metric, payload)
  return {
    stored: Object.fromEntries(measurements.map(({ metric: name, value }) => [name, value])),
    lost: refused.map(({ field }) => field),
  }
}

describe('payload of sensors/<sensor>/<metric>', () => {
  test.each([
    ['21.5', { timeMs: undefined, kind: number, value: 21.5 }],
    ['21', { timeMs: undefined, kind: number, value: 21 }],
    [' true\n', { timeMs: undefined, kind: boolean, value: true }],
    ['"on"', { timeMs: undefined, kind: text, value: 'on' }],
    ['"é"', { timeMs: undefined, kind: text, value: 'é' }],
    ['{"t":1767225600123,"v":-1e3}', { timeMs: T, kind: number, value: -1000 }],
    ['{"v":0}', { timeMs: undefined, kind: number, value: 0 }],
    [
      '{"t":"2026-01-01T00:00:00.123Z","v":{"lat":1,"lon":2}}',
      { timeMs: T, kind: location, value: { lat: 1, lon: 2 } },
    ],
    ['{"lat":1,"lon":2}', { timeMs: undefined, kind: location, value: { lat: 1, lon: 2 } }],
  ])('%s is one measurement', (payload, expected) => {
    expect(parse('m', payload)).toEqual([{ metric: 'm', ...expected }])
  })

  test.each([
    ['{"v":5,"kind":"integer"}', { kind: integer, value: 5 }],
    ['{"v":5.0,"kind":"integer"}', { kind: integer, value: 5 }],
    ['{"v":-0,"kind":"integer"}', { kind: integer, value: 0 }],
    ['{"v":9223372036854775807}', { kind: integer, value: 2n ** 63n - 1n }],
    ['-9223372036854775808', { kind: integer, value: -(2n ** 63n) }],
    ['9007199254740992', { kind: integer, value: 2n ** 53n }],
    ['9007199254740991', { kind: number, value: 2 ** 53 - 1 }],
    ['{"v":9007199254740993,"kind":"number"}', { kind: number, value: 2 ** 53 }],
    ['9007199254740993.0', { kind: number, value: 2 ** 53 }],
    ['9223372036854775808', { kind: number, value: 2 ** 63 }],
    ['1e300', { kind: number, value: 1e300 }],
    ['-0', { kind: number, value: -0 }],
    ['{"v":"","kind":"text"}', { kind: text, value: '' }],
    ['{"v":false,"kind":"boolean"}', { kind: boolean, value: false }],
    ['{"v":{"lat":-0,"lon":2},"kind":"location"}', { kind: location, value: { lat: -0, lon: 2 } }],
  ])('%s is of the kind that it says, or that holds it', (payload, expected) => {
    expect(parse('m', payload)).toEqual([{ metric: 'm', timeMs: undefined, ...expected }])
  })

  test.each([
    ['{"v":5.5,"kind":"integer"}', 'is not a whole number of at most 64 bits'],
    ['{"v":9223372036854775808,"kind":"integer"}', 'is not a whole number of at most 64 bits'],
    ['{"v":"5","kind":"number"}', 'is not of kind number'],
    ['{"v":1,"kind":"boolean"}', 'is not of kind boolean'],
    ['{"v":1,"kind":"text"}', 'is not of kind text'],
    ['{"v":1,"kind":"location"}', 'is not of kind location'],
    ['{"v":1,"kind":"toString"}', 'none of number, integer, boolean, text, location'],
    ['{"v":1,"kind":4}', 'none of number'],
  ])('%s is not of the kind that it says', (payload, message) => {
    expect(() => parse('m', payload)).toThrow(
      expect.objectContaining({ fault: 'value', message: expect.stringContaining(message) }),
    )
  })

  test.each([
    ['1767225600', 1_767_225_600_000],
    ['1767225600.123', T],
    ['"1767225600.123999"', T],
    ['1767225600123999', T],
    ['1767225600123999999', T],
    ['"2026-01-01T01:00:00.123999+01:00"', T],
    ['-5', -5],
  ])('t may be %s', (t, timeMs) => {
    expect(parse('m', `{"t":${t},"v":1}`)).toMatchObject([{ timeMs }])
  })

  test('an array holds several readings, each with a time of its own or without', () => {
    expect(parse('m', [1, { t: T, v: 2 }])).toEqual([
      { metric: 'm', timeMs: undefined, kind: number, value: 1 },
      { metric: 'm', timeMs: T, kind: number, value: 2 },
    ])
  })

  test.each([
    ['', 'json', 'empty'],
    ['on', 'json', 'not JSON'],
    ['{"v":', 'json', 'not JSON'],
    ['NaN', 'json', 'not JSON'],
    ['null', 'value', 'm'],
    ['1e999', 'value', 'too large'],
    ['[]', 'value', 'no value'],
    ['[[1]]', 'value', 'm'],
    ['{}', 'value', 'no value'],
    ['{"a":{}}', 'value', 'no value'],
    ['{"t":1,"lat":null}', 'value', 'no value'],
    ['{"v":null}', 'value', 'm'],
    ['{"v":null,"kind":"text"}', 'value', 'm'],
    ['"\\ud800"', 'value', 'surrogate'],
    [`${'['.repeat(100_000)}1234567890123456`, 'json', 'not JSON'],
    [`${'['.repeat(50_000)}1234567890123456${']'.repeat(50_000)}`, 'json', 'too deep'],
    ['{"lat":91,"lon":0}', 'value', 'place'],
    ['{"t":"yesterday","v":1}', 'time', 't is not'],
    ['{"t":true,"v":1}', 'time', 't is not a time but true'],
    ['{"t":{},"v":1}', 'time', 't is not a time but an object'],
    ['{"t":1e21,"v":1}', 'time', 't is not'],
  ])('%j is refused as %s', (payload, fault, message) => {
    expect(() => parse('m', payload)).toThrow(
      expect.objectContaining({ fault, message: expect.stringContaining(message) }),
    )
  })

  test('a payload that is not UTF-8 is refused', () => {
    expect(() => decode('m', Buffer.from([0x22, 0xff, 0x22]))).toThrow('UTF-8')
  })

  test('a text is measured in bytes, to the limit and not beyond', () => {
    expect(parse('m', JSON.stringify('é'.repeat(TEXT_BYTES_MAX / 2)))).toHaveLength(1)
    expect(() => parse('m', JSON.stringify(`${'é'.repeat(TEXT_BYTES_MAX / 2)}x`))).toThrow('text')
  })
})

describe('payload of sensors/<sensor>', () => {
  test('an object is one measurement a metric; t is their time', () => {
    expect(parse(undefined, { t: T, temperature: 21.5, door: 'open', humidity: null })).toEqual([
      { metric: 'temperature', timeMs: T, kind: number, value: 21.5 },
      { metric: 'door', timeMs: T, kind: text, value: 'open' },
    ])
  })

  test('an array of objects keeps their order and times', () => {
    const payload = [{ t: T, a: 1 }, { t: T + 1, a: 2, b: true }, { a: 3 }]
    expect(parse(undefined, payload).map(({ metric, timeMs }) => [metric, timeMs])).toEqual([
      ['a', T],
      ['a', T + 1],
      ['b', T + 1],
      ['a', undefined],
    ])
  })

  test('a metric may have the name of a property that all objects have', () => {
    const [first] = parse(undefined, '{"__proto__":1}')
    expect(first).toEqual({ metric: '__proto__', timeMs: undefined, kind: number, value: 1 })
  })

  test.each([
    ['5', 'value'],
    ['[5]', 'value'],
    ['{"t":5}', 'value'],
    ['{"":5}', 'topic'],
    ['{"\\ud800":5}', 'topic'],
    ['{"a":[1]}', 'value'],
  ])('%s is refused', (payload, fault) => {
    expect(() => parse(undefined, payload)).toThrow(expect.objectContaining({ fault }))
  })
})

describe('a strange field', () => {
  test.each([
    ['{"a":1,"b":[2],"c":3}', { a: 1, c: 3 }, ['b']],
    ['{"a":1,"b":1e999}', { a: 1 }, ['b']],
    ['{"a":1,"b":{"lat":91,"lon":0}}', { a: 1 }, ['b']],
    ['{"a":1,"b":{"c":[],"d":2}}', { a: 1, 'b.d': 2 }, ['b.c']],
    ['{"a":1,"":2}', { a: 1 }, ['""']],
    ['{"a":1,"b\\u202ec":2}', { a: 1 }, ['"b\\u202ec"']],
    ['[{"a":1},{"b":[]},7,{"t":"noon","c":1}]', { a: 1 }, ['[1].b', '[2]', '[3]']],
    ['{"ts":1767225600123,"values":{"a":1,"b":[]}}', { a: 1 }, ['b']],
  ])('of %s is lost, and the others are not', (payload, stored, lost) => {
    expect(outcome(undefined, payload)).toEqual({ stored, lost })
  })

  test('of an array of readings is lost, too', () => {
    expect(outcome('m', '[1,null,{"t":"noon","v":1},{"v":2,"kind":"text"}]')).toEqual({
      stored: { m: 1 },
      lost: ['[1]', '[2]', '[3]'],
    })
  })

  test('says why', () => {
    expect(decode(undefined, '[{"a":1,"b":1e999}]').refused).toEqual([
      { field: '[0].b', reason: 'the value of b is too large for a double', fault: 'value' },
    ])
  })

  test('is the whole payload where nothing else is in it, which names all of them', () => {
    const reason =
      'the value of a is not a number, a boolean, a text or {"lat": number, "lon": number}'
    expect(() => decode(undefined, '{"a":[],"b":1e999}')).toThrow(
      `${reason}; the value of b is too large for a double`,
    )
    const many = Object.fromEntries(Array.from({ length: 13 }, (_, at) => [`m${at}`, []]))
    expect(() => decode(undefined, many)).toThrow(/value of m9 .*; and 3 fields more$/)
  })

  test(`may be there ${REFUSED_FIELDS_MAX} times, and not once more`, () => {
    const strange = (/** @type {number} */ count) => [
      { a: 1 },
      ...Array.from({ length: count }, () => ({ b: [] })),
    ]
    expect(decode(undefined, strange(REFUSED_FIELDS_MAX)).refused).toHaveLength(REFUSED_FIELDS_MAX)
    expect(() => decode(undefined, strange(REFUSED_FIELDS_MAX + 1))).toThrow('more than 1000')
  })
})

describe('objects within objects', () => {
  test.each([
    [
      undefined,
      '{"color":{"x":0.3,"y":0.4},"on":true}',
      { 'color.x': 0.3, 'color.y': 0.4, on: true },
    ],
    [undefined, '{"env":{"t":21,"in":{"h":40}}}', { 'env.t': 21, 'env.in.h': 40 }],
    [undefined, '{"a":{"lat":1,"lon":2}}', { a: { lat: 1, lon: 2 } }],
    [undefined, '{"a":{"lat":1,"lon":2,"alt":3}}', { 'a.lat': 1, 'a.lon': 2, 'a.alt': 3 }],
    [undefined, '{"lat":1,"lon":2}', { lat: 1, lon: 2 }],
    [undefined, '{"a":{"b":null,"c":1}}', { 'a.c': 1 }],
    ['m', '{"a":1,"b":{"c":2}}', { 'm.a': 1, 'm.b.c': 2 }],
    ['m', '[{"a":1},2]', { 'm.a': 1, m: 2 }],
  ])('on %s, %s are dotted metrics', (metric, payload, stored) => {
    expect(outcome(metric, payload)).toEqual({ stored, lost: [] })
  })

  test('have the time of the outermost', () => {
    expect(parse(undefined, { t: T, a: { b: 1 } })).toMatchObject([{ metric: 'a.b', timeMs: T }])
    expect(parse('m', { t: T, a: 1 })).toMatchObject([{ metric: 'm.a', timeMs: T }])
  })

  test(`are ${DEPTH_MAX} levels deep, and not one more`, () => {
    const nested = (/** @type {number} */ levels) =>
      Array.from({ length: levels }).reduce((/** @type {any} */ inner) => ({ d: inner }), 1)
    const metric = Array.from({ length: DEPTH_MAX }, () => 'd').join('.')
    expect(outcome(undefined, { ...nested(DEPTH_MAX), a: 1 })).toEqual({
      stored: { [metric]: 1, a: 1 },
      lost: [],
    })
    const { d } = nested(DEPTH_MAX + 1)
    expect(decode(undefined, { d, a: 1 })).toMatchObject({
      measurements: [{ metric: 'a' }],
      refused: [{ field: metric, reason: expect.stringContaining('deeper than 8 levels') }],
    })
  })

  test('are no metrics where the dotted name is too long', () => {
    const name = 'x'.repeat(64)
    expect(outcome(undefined, { [name]: { [name]: 1 }, a: 1 })).toMatchObject({ stored: { a: 1 } })
  })
})

// https://thingsboard.io/docs/reference/mqtt-api/#telemetry-upload-api
describe('telemetry as ThingsBoard takes it', () => {
  test.each([
    ['{"key1":"value1", "key2":true, "key3": 3.0, "key4": 4}', undefined],
    ['{"ts":1451649600512, "values":{"key1":"value1", "key2":true, "key3": 3.0, "key4": 4}}', 1],
  ])('%s', (payload, has) => {
    const timeMs = has && 1_451_649_600_512
    expect(parse(undefined, payload)).toEqual([
      { metric: 'key1', timeMs, kind: text, value: 'value1' },
      { metric: 'key2', timeMs, kind: boolean, value: true },
      { metric: 'key3', timeMs, kind: number, value: 3 },
      { metric: 'key4', timeMs, kind: number, value: 4 },
    ])
  })

  test('may hold objects, and come in arrays', () => {
    const values = { booleanKey: true, jsonKey: { someNumber: 42, someArray: [1, 2, 3] } }
    const { measurements, refused } = decode(undefined, [
      { ts: T, values },
      { ts: T + 1, values: { a: 1 } },
    ])
    expect(measurements.map(({ metric, timeMs }) => [metric, timeMs])).toEqual([
      ['booleanKey', T],
      ['jsonKey.someNumber', T],
      ['a', T + 1],
    ])
    expect(refused.map(({ field }) => field)).toEqual(['[0].jsonKey.someArray'])
  })

  test('is refused where ts is no time, and is not guessed where it has more members', () => {
    expect(() => decode(undefined, '{"ts":"noon","values":{"a":1}}')).toThrow('ts is not a time')
    expect(outcome(undefined, { ts: T, values: { a: 1 }, b: 2 })).toEqual({
      stored: { ts: T, 'values.a': 1, b: 2 },
      lost: [],
    })
  })
})

test('values that were read from another format mean what JSON means', () => {
  const body = { t: BigInt(T), a: 2n ** 60n, b: { c: NaN, d: true } }
  expect(decodeValue(undefined, body)).toMatchObject({
    measurements: [
      { metric: 'a', timeMs: T, kind: integer, value: 2n ** 60n },
      { metric: 'b.d', timeMs: T, kind: boolean, value: true },
    ],
    refused: [{ field: 'b.c' }],
  })
})

describe('an object that names its sensor', () => {
  const decodeObject = (/** @type {unknown} */ object, /** @type {string} */ sensor = '') =>
    jsonObject.decode(
      { topic: 'x', sensor: sensor || undefined, metric: undefined },
      Buffer.from(JSON.stringify(object)),
    )

  test('loses a strange field alone', () => {
    expect(decodeObject({ sensor: 's', t: T, a: 1, b: [], c: { d: 2 } })).toEqual({
      sensor: 's',
      measurements: [
        { metric: 'a', timeMs: T, kind: number, value: 1 },
        { metric: 'c.d', timeMs: T, kind: number, value: 2 },
      ],
      refused: [expect.objectContaining({ field: 'b' })],
    })
  })

  test('is telemetry, or one metric', () => {
    const one = { metric: 'a', timeMs: T, kind: number, value: 1 }
    const measurements = [one]
    expect(decodeObject({ sensor: 's', ts: T, values: { a: 1 } })).toMatchObject({ measurements })
    expect(decodeObject({ sensor: 's', metric: 'a', t: T, v: 1 })).toMatchObject({ measurements })
  })

  test('may leave it to the topic, and says otherwise that it is missing', () => {
    expect(decodeObject({ a: 1 }, 'of-topic').sensor).toBe('of-topic')
    expect(decodeObject({ sensor: 's', a: 1 }, 'of-topic').sensor).toBe('s')
    expect(() => decodeObject({ a: 1 })).toThrow('the sensor is missing')
    expect(() => decodeObject({ sensor: null, a: 1 }, 'of-topic')).toThrow('not a text')
  })
})
