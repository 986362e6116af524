import { describe, expect, test } from '@jest/globals'
import { accountsOf } from '../../web/accounts.js'
import { EventParser, listen, Seen } from '../../web/events.js'
import {
  DIGITS_ALL,
  isUnexpected,
  printAge,
  printBytes,
  printDuration,
  printMetric,
  printValue,
} from '../../web/format.js'
import { Rate } from '../../web/rate.js'
import { parseJson, RestError } from '../../web/rest.js'
import { parseTags, printTags, TagError } from '../../web/tags.js'

describe('JSON', () => {
  test('keeps all digits of an integer of 64 bits, and leaves every other number a number', () => {
    const text = '{"items":[{"v":9223372036854775807,"t":1767225600000},{"v":0.12345678901234568}]}'
    const { items } = parseJson(text)
    expect(items[1].v).toBe(0.12345678901234568)
    expect(items[0].t).toBe(1767225600000)
    // Where a JSON parser does not show the source of a number yet, it is the nearest double.
    expect([9223372036854775807n, Number(9223372036854775807n)]).toContain(items[0].v)
  })
})

describe('server-sent events', () => {
  const TEXT =
    'retry: 1000\n\nevent: status\ndata: {"database":"up"}\n\n: alive\n\n' +
    'event: measurement\r\nid: 7\r\ndata: a\r\ndata: b:c\r\n\r\ndata: last\n\ndata: unfinished'
  const EVENTS = [
    { event: 'status', id: undefined, data: '{"database":"up"}' },
    { event: 'measurement', id: '7', data: 'a\nb:c' },
    { event: 'message', id: '7', data: 'last' },
  ]

  test('are the same wherever the text is cut', () => {
    for (let at = 0; at <= TEXT.length; at += 1) {
      const parser = new EventParser()
      const events = [...parser.feed(TEXT.slice(0, at)), ...parser.feed(TEXT.slice(at))]
      expect(events).toEqual(EVENTS)
    }
  })

  test('go on after a break where they ended, and end where there is nothing to listen to', async () => {
    /** @type {(string | undefined)[]} */
    const asked = []
    const answers = [new Response('id: 5\ndata: one\n\n'), new RestError(404, 'unknown-sensor', '')]
    const rest = /** @type {any} */ ({
      open: async (/** @type {string} */ _path, /** @type {RequestInit} */ { headers }) => {
        asked.push(new Headers(headers).get('last-event-id') ?? undefined)
        const answer = answers.shift()
        if (answer instanceof Response) return answer
        throw answer
      },
    })
    /** @type {string[]} */
    const told = []
    const listener = {
      onEvent: (/** @type {{ data: string }} */ { data }) => void told.push(data),
      onOpen: () => void told.push('open'),
      onError: (/** @type {RestError} */ { code }) => void told.push(code),
    }
    await listen(rest, 'v1/stream', listener, new AbortController().signal)
    expect(told).toEqual(['open', 'one', 'stream-ended', 'unknown-sensor'])
    expect(asked).toEqual([undefined, '5'])
  })
})

test('a value that a stream tells again is recognised, for a long time, but not for ever', () => {
  const seen = new Seen()
  const item = { sensor: 's', metric: 'm', t: 5, seq: 0 }
  const others = [
    { ...item, sensor: 't' },
    { ...item, metric: 'n' },
    { ...item, t: 6 },
    { ...item, seq: 1 },
  ]
  expect([item, ...others].map((one) => seen.add(one))).toEqual(Array(5).fill(true))
  for (let t = 100; t < 10_000; t += 1) seen.add({ ...item, t })
  expect([item, ...others].map((one) => seen.add(one))).toEqual(Array(5).fill(false))
  for (let t = 10_000; t < 30_000; t += 1) seen.add({ ...item, t })
  expect(seen.add(item)).toBe(true)
})

describe('tags', () => {
  test('are the same again after they were shown', () => {
    const tags = { site: 'port', url: 'http://x:1', empty: '' }
    expect(parseTags(`\n ${printTags(tags)} \n\n`)).toEqual(tags)
  })

  test.each(['floor', ':2'])('that have no key, such as "%s", are refused', (line) => {
    expect(() => parseTags(`a:b\n${line}`)).toThrow(TagError)
  })
})

test('a message that is not accounted for is seen', () => {
  const stats = { received: 7, recovered: 2, stored: 4, deadLettered: 1, spooled: 1, held: 1 }
  const all = { ...stats, droppedQos0: 1, lost: 1 }
  expect(accountsOf(all).difference).toBe(0)
  for (const name of Object.keys(all)) {
    const one = { ...all, [name]: all[/** @type {keyof typeof all} */ (name)] + 1 }
    expect(Math.abs(accountsOf(one).difference)).toBe(1)
  }
})

test('a rate is that of the last whole seconds', () => {
  const rate = new Rate(500)
  for (let ms = 1_000; ms < 3_000; ms += 100) rate.note(ms)
  expect(rate.perS(3_050)).toBeCloseTo(20 / 3)
  for (let ms = 3_000; ms < 8_000; ms += 100) rate.note(ms)
  expect(rate.perS(8_000)).toBe(10)
  expect(rate.perS(20_000)).toBe(0)
})

test('values, ages and sizes are short to read', () => {
  expect(printValue(21.123456789, { symbol: '°C' })).toBe('21.1235 °C')
  expect(printValue(21.123456789, { symbol: '°C', decimals: 1 })).toBe('21.1 °C')
  expect(printValue(21, { symbol: '', decimals: 2 })).toBe('21.00')
  expect(printValue(1_234_567)).toBe('1234567')
  expect(printValue(1_234_567.891)).toBe('1234567.891')
  expect(printValue(-0.000123456789)).toBe('-0.000123457')
  expect(printValue(1e300)).toBe('1e+300')
  expect(printValue(9_007_199_254_740_991)).toBe('9007199254740991')
  expect(printValue(0.1 + 0.2, {}, DIGITS_ALL)).toBe('0.3')
  expect(printValue(21.123456789, {}, DIGITS_ALL)).toBe('21.123456789')
  expect(printValue(9223372036854775807n)).toBe('9223372036854775807')
  expect(printValue({ lat: 52.5, lon: 13.4 }, { symbol: '°C', decimals: 0 })).toBe('52.5, 13.4')
  expect(printValue('x'.repeat(200))).toHaveLength(121)
  expect([-5_000, 0, 30_000, 600_000, 7_200_000, 259_200_000].map(printAge)).toEqual([
    ...['ahead of now', 'now', '30 s ago', '10 min ago', '2 h ago', '3 days ago'],
  ])
  expect(printDuration(12.345)).toBe('12.3 ms')
  expect([0, 1_023, 1_536, 2 ** 30].map(printBytes)).toEqual([
    ...['0 bytes', '1,023 bytes', '1.5 KiB', '1 GiB'],
  ])
})

test.each([
  [21, {}, false],
  [21, { expected_min: 21, expected_max: 21 }, false],
  [20.9, { expected_min: 21 }, true],
  [21.1, { expected_max: 21 }, true],
  [10n, { expected_max: 9 }, true],
  ['22', { expected_max: 21 }, false],
  [null, { expected_min: 1 }, false],
])('%p in %j is outside the expected range: %p', (v, known, isOutside) => {
  expect(isUnexpected(v, known)).toBe(isOutside)
})

test('a metric is called by its label, and by its name beside it', () => {
  expect(printMetric('t1', { label: 'Oven' })).toBe('Oven (t1)')
  expect([printMetric('t1', {}), printMetric('t1', { label: 't1' })]).toEqual(['t1', 't1'])
})
