import { describe, expect, test } from '@jest/globals'
import { adviceOf } from '../../src/advice/advice.js'
import { lineItems, parseItem } from '../../src/bodies.js'
import { decodeWhole, FORMATS, formatNamed } from '../../src/formats/registry.js'
import { ageFault } from '../../src/measurement.js'
import { PayloadError } from '../../src/payload.js'
import { parseTopics } from '../../src/topics.js'

const NOW_MS = Date.UTC(2026, 0)
const topics = parseTopics('plant/{sensor}/{metric} in cbor,up/{sensor} in the-things-stack')

/** What is said of a message, once it is refused as ingest does. */
function advised(
  /** @type {string} */ topic,
  /** @type {string | Buffer} */ content,
  /** @type {string | undefined} */ name = undefined,
) {
  const payload = Buffer.from(content)
  const format = name === undefined ? (topics.formatOf(topic) ?? 0) : formatNamed(name)?.number
  return adviceOf({ reason: reasonOf(topic, payload, format ?? 0), topic, format, payload })
}

/** @param {string} topic  @param {Buffer} payload  @param {number} format */
function reasonOf(topic, payload, format) {
  try {
    const place =
      topic === '' ? { topic, sensor: undefined, metric: undefined } : topics.place(topic, format)
    const { measurements } = decodeWhole(format, place, payload)
    const faults = measurements.map(({ timeMs }) => ageFault(timeMs, NOW_MS))
    const fault = faults.find((one) => one !== undefined)
    if (fault !== undefined) return fault
  } catch (error) {
    if (error instanceof PayloadError) return error.message
    throw error
  }
  throw new Error(`${payload} is not refused`)
}

describe('what is not JSON', () => {
  test.each([
    ['21,5', 'Write the decimal with a point: 21.5 instead of 21,5.'],
    ['-0,25 ', 'Write the decimal with a point: -0.25 instead of -0,25.'],
    ['{"t": 1767225600, "a": 21,5}', 'Write decimals with a point: 21.5 instead of 21,5.'],
    ['21.5 °C', 'Send the number alone, 21.5, and give °C as the unit of the metric.'],
    ['55%', 'Send the number alone, 55, and give % as the unit of the metric.'],
    ['007', expect.stringContaining('digits on both sides of the point: 7.')],
    ['.5', expect.stringContaining('digits on both sides of the point: 0.5.')],
    ['+3', expect.stringContaining('without a leading plus or zero')],
    ['nan', expect.stringContaining('JSON has no nan')],
    ['{"a": NaN}', expect.stringContaining('JSON has no NaN')],
    ["{'a': 1}", expect.stringContaining('double quotes')],
    ['{"a": True}', 'Write true instead of True: JSON has it in small letters.'],
    ['{"a": None}', 'Write null instead of None: JSON has it in small letters.'],
    ['{"a": 1,}', 'Take away the comma before the closing bracket.'],
    ['{a: 1}', expect.stringContaining('names of members in double quotes')],
    ['weather,site=a temp=1 17', expect.stringContaining('line protocol')],
    ['{broken', expect.stringContaining('without its closing one')],
    ['{"a": 1', expect.stringContaining('without its closing one')],
    ['ON', 'Put a text in double quotes: "ON".'],
    ['21.5\0', expect.stringContaining('zero byte at its end')],
    ['', 'Send a value, such as 21.5: an empty payload measures nothing.'],
    ['<xml/>', expect.stringContaining('write a decoder')],
  ])('%j', (payload, expected) => {
    expect(advised('sensors/a/b', payload)).toEqual(expected)
  })

  test('bytes that are no text ask for their format', () => {
    for (const bytes of [
      [0x01, 0x02, 0x41],
      [0xff, 0xfe, 0x80],
      [0x16, 0x00, 0x41],
    ]) {
      expect(advised('sensors/a/b', Buffer.from(bytes))).toContain('These bytes are no text')
    }
  })

  test('is looked at in a moment, whatever a device made of it', () => {
    const pieces = [
      ' ',
      '1',
      'a',
      'a ',
      ',',
      '{',
      '[',
      "'",
      ':',
      '1,',
      'a=',
      ', ',
      '-',
      '_ ',
      'NaN',
    ]
    const startedMs = performance.now()
    for (const piece of pieces) {
      for (const [begin, end] of [
        ['', '!'],
        ['a', '!'],
        ['{', '}!'],
        ['1', '\u0001'],
      ]) {
        const payload = Buffer.from(begin + piece.repeat(64 * 1024) + end)
        adviceOf({ reason: 'this is not JSON: x', topic: 'sensors/a', format: 0, payload })
      }
    }
    expect(performance.now() - startedMs).toBeLessThan(1_000)
  })
})

describe('topics', () => {
  test.each([
    ['sensors/kitchen//temperature', 'two in a row: sensors/kitchen/temperature.'],
    ['sensors/kitchen/', 'without a slash at its end'],
    ['sensors//temperature', 'A level of the topic is empty.'],
    ['sensors/a/b/c', 'say by a template'],
    ['sensors/a b\u0007/c', 'Give the sensor another name'],
    ['sensors/a/b\u0007', 'Give the metric another name'],
  ])('%j', (topic, expected) => {
    expect(advised(topic, '1')).toContain(expected)
  })

  test('a value without a metric gets a topic that has one', () => {
    expect(advised('sensors/kitchen', '21.5')).toContain('sensors/kitchen/METRIC')
  })

  test('an object that names no sensor is told how to', () => {
    expect(advised('', '{"temperature": 1}', 'json-object')).toContain('Name the sensor')
  })
})

describe('times', () => {
  test.each([
    ['{"t": 123456, "v": 1}', 'clock of the device was not set'],
    ['{"t": "1970-01-21T10:53:45Z", "v": 1}', 'a thousand times too small'],
    ['{"t": "2031-01-01T00:00:00Z", "v": 1}', 'Set the clock of the device'],
    ['{"t": "31.01.2026", "v": 1}', 'Write the time as 2026-01-31T12:00:00Z'],
    ['{"ts": "soon", "values": {"a": 1}}', 'Write the time as'],
  ])('%s', (payload, expected) => {
    expect(advised('sensors/a/b', payload)).toContain(expected)
  })

  test.each([
    ['1767225600', 'precision=s'],
    ['1767225600000', 'precision=ms'],
    ['1767225600000000', 'precision=us'],
    ['99', 'clock of the device was not set'],
    ['soon', 'whole number'],
  ])('a line that ends with %s', (time, expected) => {
    expect(advised('', `kitchen temperature=1 ${time}`, 'line-protocol')).toContain(expected)
  })
})

describe('values', () => {
  test.each([
    ['sensors/a/b', '{"v": [1]}', 'the elements of an array one by one'],
    ['sensors/a/b', '{"v": {"lat": 120, "lon": 9}}', 'swapped'],
    ['sensors/a/b', '{"v": 1.5, "kind": "integer"}', 'leave kind out'],
    ['sensors/a/b', '{"v": 1e999}', 'below 1.8e308'],
    ['sensors/a', '{}', 'Nothing has to be done'],
    ['sensors/a/b', `"${'x'.repeat(70_000)}"`, 'shorter text'],
    ['sensors/a', `${'{"a":'.repeat(20)}1${'}'.repeat(20)}`, 'fewer levels'],
    ['plant/a/b', '21.5', 'is read as cbor'],
    ['up/a', '{"a": 1}', 'is read as the-things-stack'],
  ])('%s %.40s', (topic, payload, expected) => {
    expect(advised(topic, payload)).toContain(expected)
  })

  test.each([
    ['kitchen temperature=21,5', '21.5 instead of 21,5'],
    ['kitchen', 'Write a line as'],
    ['kitchen temperature', 'Write a line as'],
    ['kitchen temperature=warm', 'Texts are in double quotes'],
  ])('the line %s', (line, expected) => {
    expect(advised('', line, 'line-protocol')).toContain(expected)
  })

  test('a part that is lost is advised as the whole would be', () => {
    const [item] = lineItems(Buffer.from('kitchen a=1,b=warm'))
    const [{ field, reason: own }] = parseItem(item).refused
    const reason = `the other fields are stored, not these: ${field}: ${own}`
    expect(adviceOf({ reason, topic: '', format: 2, payload: item.payload })).toContain(
      'Texts are in double quotes',
    )
  })
})

describe('what is not in the payload', () => {
  const message = { topic: 'sensors/b/t', format: 0, payload: Buffer.from('1') }
  test.each([
    ['device-a may not publish here', 'send measurements to sensors/b/t: '],
    ['the sensor was deleted', 'Register the sensor again'],
    ['there are 100000 sensors already, which is the limit', '--sensors-max'],
    ['a sensor has at most 1000 metrics', 'names of metrics'],
    ['the database refuses it: x', 'log of the database'],
    ['its format has the number 99, which this version does not know', 'update this one'],
    ['too many values of one millisecond', 'a time of its own'],
    ['it is of 1, far ahead of our clock, which was wrong when it came', 'Replay the message now'],
  ])('%s', (reason, expected) => {
    expect(adviceOf({ ...message, reason })).toContain(expected)
  })

  test('a decoder is named where its expression was asked, but not where it is not at fault', () => {
    const own = { ...message, format: 40, decoder: 'pump' }
    for (const reason of ['division by zero', 'this is not JSON: x', 'the sensor is missing']) {
      expect(adviceOf({ ...own, reason })).toContain('Open the decoder pump')
    }
    const gone = 'there is no decoder pump: make one of this name, and replay it'
    expect(adviceOf({ ...own, reason: gone })).toBe(
      'Make a decoder named pump, then replay the message.',
    )
    expect(adviceOf({ ...own, reason: 'a may not publish here' })).toContain(
      'Give the client a key',
    )
    expect(adviceOf({ ...own, decoder: null, reason: 'this is not JSON: x' })).toBeNull()
  })

  test('nothing is made up where nobody can say', () => {
    expect(adviceOf({ ...message, reason: 'the moon is full' })).toBeNull()
  })
})

test('each format says what to do with bytes that are not of it', () => {
  const silent = FORMATS.filter(({ isEvaluated }) => !isEvaluated).filter(({ number }) => {
    const payload = Buffer.from('<?xml version="1.0"?>')
    const place = { topic: 'a/b', sensor: 'a', metric: 'b', words: new Map() }
    try {
      decodeWhole(number, place, payload)
    } catch (error) {
      const reason = /** @type {Error} */ (error).message
      return adviceOf({ reason, topic: 'a/b', format: number, payload }) === null
    }
    return false
  })
  expect(silent.map(({ name }) => name)).toEqual([])
})
