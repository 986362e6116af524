import { KIND } from '@sandglass/common/measurement'
import {
  isMeasurementTopic,
  parsePayload,
  parseTopic,
  TEXT_BYTES_MAX,
} from '@sandglass/common/payload'
import { NAME_LENGTH_MAX } from '@sandglass/common/sensor'

const { number, integer, boolean, text, location } = KIND

const T = 1_767_225_600_123

/** @param {string | undefined} metric  @param {unknown} payload */
const parse = (metric, payload) =>
  parsePayload(metric, Buffer.from(typeof payload === 'string' ? payload : JSON.stringify(payload)))

describe('topics', () => {
  test('only sensors and what is below it carries measurements', () => {
    const topics = ['sensors', 'sensors/a', 'sensors/a/b', 'sensors/a/b/c', 'sensors/']
    expect(topics.filter((topic) => !isMeasurementTopic(topic))).toEqual([])
    expect(['sensor/a', 'sensorsx/a', '/sensors/a', 'x'].filter(isMeasurementTopic)).toEqual([])
  })

  test('a topic names a sensor, and a metric unless the payload does', () => {
    expect(parseTopic('sensors/s-17/temperature')).toEqual({
      sensor: 's-17',
      metric: 'temperature',
    })
    expect(parseTopic('sensors/s-17')).toEqual({ sensor: 's-17', metric: undefined })
  })

  test.each([
    'sensors',
    'sensors/',
    'sensors//temperature',
    'sensors/a/',
    'sensors/a/b/c',
    `sensors/${'a'.repeat(129)}/b`,
    `sensors/a/${'b'.repeat(NAME_LENGTH_MAX + 1)}`,
  ])('%s is refused', (topic) => {
    expect(() => parseTopic(topic)).toThrow(expect.objectContaining({ fault: 'topic' }))
  })
})

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
    ['{}', 'value', 'm'],
    ['{"v":null}', 'value', 'm'],
    ['{"v":null,"kind":"text"}', 'value', 'm'],
    ['"\\ud800"', 'value', 'surrogate'],
    [`${'['.repeat(100_000)}1234567890123456`, 'json', 'not JSON'],
    [`${'['.repeat(50_000)}1234567890123456${']'.repeat(50_000)}`, 'json', 'too deep'],
    ['{"lat":1}', 'value', 'm'],
    ['{"lat":91,"lon":0}', 'value', 'place'],
    ['{"lat":1,"lon":2,"x":3}', 'value', 'm'],
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
    expect(() => parsePayload('m', Buffer.from([0x22, 0xff, 0x22]))).toThrow('UTF-8')
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
    ['{"a":1,"b":{"c":1}}', 'value'],
  ])('%s is refused', (payload, fault) => {
    expect(() => parse(undefined, payload)).toThrow(expect.objectContaining({ fault }))
  })
})
