import { KIND } from '@sandglass/common/measurement'
import {
  isMeasurementTopic,
  METRIC_LENGTH_MAX,
  parsePayload,
  parseTopic,
  TEXT_BYTES_MAX,
} from '@sandglass/common/payload'

const { number, boolean, text, location } = KIND

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
    `sensors/a/${'b'.repeat(METRIC_LENGTH_MAX + 1)}`,
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
    ['{"t":5,"v":-1e3}', { timeMs: 5, kind: number, value: -1000 }],
    ['{"v":0}', { timeMs: undefined, kind: number, value: 0 }],
    ['{"t":5,"v":{"lat":1,"lon":2}}', { timeMs: 5, kind: location, value: { lat: 1, lon: 2 } }],
    ['{"lat":1,"lon":2}', { timeMs: undefined, kind: location, value: { lat: 1, lon: 2 } }],
  ])('%s is one measurement', (payload, expected) => {
    expect(parse('m', payload)).toEqual([{ metric: 'm', ...expected }])
  })

  test('an array holds several readings, each with a time of its own or without', () => {
    expect(parse('m', [1, { t: 7, v: 2 }])).toEqual([
      { metric: 'm', timeMs: undefined, kind: number, value: 1 },
      { metric: 'm', timeMs: 7, kind: number, value: 2 },
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
    ['{"lat":1}', 'value', 'm'],
    ['{"lat":91,"lon":0}', 'value', 'place'],
    ['{"lat":1,"lon":2,"x":3}', 'value', 'm'],
    ['{"t":"yesterday","v":1}', 'time', 't is not'],
    ['{"t":1.5,"v":1}', 'time', 't is not'],
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
    expect(parse(undefined, { t: 5, temperature: 21.5, door: 'open', humidity: null })).toEqual([
      { metric: 'temperature', timeMs: 5, kind: number, value: 21.5 },
      { metric: 'door', timeMs: 5, kind: text, value: 'open' },
    ])
  })

  test('an array of objects keeps their order and times', () => {
    const payload = [{ t: 1, a: 1 }, { t: 2, a: 2, b: true }, { a: 3 }]
    expect(parse(undefined, payload).map(({ metric, timeMs }) => [metric, timeMs])).toEqual([
      ['a', 1],
      ['a', 2],
      ['b', 2],
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
    ['{"a":[1]}', 'value'],
    ['{"a":1,"b":{"c":1}}', 'value'],
  ])('%s is refused', (payload, fault) => {
    expect(() => parse(undefined, payload)).toThrow(expect.objectContaining({ fault }))
  })
})
