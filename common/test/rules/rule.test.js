// What is a rule and what is not, which sensors it watches, and what ids of alerts tell.
import { describe, expect, test } from '@jest/globals'
import { alertDay, alertId, firedMsOf, notificationId } from '../../src/rules/alert.js'
import { checkReceiver, newSecret, secretBytes, withoutSecret } from '../../src/rules/receiver.js'
import { checkRule, ruleOfRow, watchesSensor } from '../../src/rules/rule.js'
import { firedText, spanText } from '../../src/rules/text.js'

const HOT = /** @type {const} */ ({ name: 'hot', kind: 'threshold', metric: 'heat', above: 80 })

/** @param {() => unknown} call  @returns {string | undefined}  The field that is refused. */
function faultOf(call) {
  try {
    call()
    return undefined
  } catch (error) {
    return /** @type {any} */ (error).parameter
  }
}

test('a rule is taken with what it leaves out, or its fault is named', () => {
  expect(checkRule(HOT)).toMatchObject({
    for_s: 0,
    late_s: 600,
    severity: 'warning',
    enabled: true,
  })
  /** @type {[any, string | undefined][]} */
  const table = [
    [{}, undefined],
    [{ clear: 80 }, undefined],
    [{ clear: 81 }, 'clear'],
    [{ above: undefined }, 'above'],
    [{ below: 3 }, 'above'],
    [{ above: undefined, below: 3, clear: 2 }, 'clear'],
    [{ above: Infinity }, 'above'],
    [{ metric: undefined }, 'metric'],
    [{ metric: '\n' }, 'metric'],
    [{ name: '' }, 'name'],
    [{ kind: 'other' }, 'kind'],
    [{ sensors: [] }, 'sensors'],
    [{ sensors: ['a/b'] }, 'sensors'],
    [{ for_s: -1 }, 'for_s'],
    [{ for_s: 2_592_001 }, 'for_s'],
    [{ late_s: 86_401 }, 'late_s'],
    [{ per_s: 5 }, 'per_s'],
    [{ kind: 'rate', per_s: 5 }, undefined],
    [{ kind: 'rate', per_s: 0 }, 'per_s'],
    [{ kind: 'range' }, 'above'],
    [{ kind: 'range', above: undefined, metric: undefined }, undefined],
    [{ kind: 'silence', above: undefined }, 'for_s'],
    [{ kind: 'silence', above: undefined, for_s: 10 }, undefined],
    [{ kind: 'silence', above: undefined, for_s: 10, late_s: 1 }, 'late_s'],
    [{ receivers: Array.from({ length: 17 }, () => 'x') }, 'receivers'],
  ]
  for (const [change, field] of table) {
    expect([change, faultOf(() => checkRule({ ...HOT, ...change }))]).toEqual([change, field])
  }
})

test('a rule watches the sensors that it names and whose type and tags fit', () => {
  const row = (/** @type {object} */ more) =>
    ruleOfRow({ rule_id: 'r', body: JSON.stringify({ ...HOT, ...more }), changed: new Date(1) })
  const words = { type: 'pump', tags: { site: 'A', line: '1' } }
  const id = '00000000-0000-4000-8000-000000000001'
  expect(watchesSensor(row({}), id, words)).toBe(true)
  expect(watchesSensor(row({ type: 'pump', tags: { site: 'A' } }), id, words)).toBe(true)
  expect(watchesSensor(row({ type: 'fan' }), id, words)).toBe(false)
  expect(watchesSensor(row({ tags: { site: 'B' } }), id, words)).toBe(false)
  expect(watchesSensor(row({ sensors: [id.toUpperCase()] }), id, words)).toBe(true)
  expect(watchesSensor(row({ sensors: ['other'] }), id, words)).toBe(false)
})

describe('a receiver', () => {
  test('of a webhook has a secret, which is not shown', () => {
    const made = checkReceiver({ name: 'duty', kind: 'webhook', url: 'http://127.0.0.1/x' })
    expect(secretBytes(String(made.secret))).toHaveLength(24)
    expect(JSON.stringify(withoutSecret({ ...made, id: 'x' }))).not.toContain('whsec')
  })

  test('names what is wrong with it', () => {
    /** @type {[any, string | undefined][]} */
    const table = [
      [{ url: 'ftp://x' }, 'url'],
      [{ url: 'nothing' }, 'url'],
      [{ url: 'http://u:p@x/' }, 'url'],
      [{ secret: 'whsec_short' }, 'secret'],
      [{ secret: newSecret() }, undefined],
      [{ topic: 'a' }, 'topic'],
      [{ kind: 'mqtt', url: undefined, topic: 'alerts/a' }, undefined],
      [{ kind: 'mqtt', url: undefined, topic: 'alerts/#' }, 'topic'],
      [{ kind: 'mail', url: undefined, to: ['ops@example.com'] }, undefined],
      [{ kind: 'mail', url: undefined, to: ['a@b\r\nBcc: c@d'] }, 'to'],
      [{ kind: 'mail', url: undefined }, 'to'],
    ]
    for (const [change, field] of table) {
      const body = { name: 'duty', kind: 'webhook', url: 'https://example.com/', ...change }
      expect([change, faultOf(() => checkReceiver(body))]).toEqual([change, field])
    }
  })
})

test('the id of an alert follows from what it is about, and tells its time', () => {
  const subject = { ruleId: 'r', sensorId: 's', metric: 'm' }
  const firedMs = Date.UTC(2026, 4, 5, 23, 59, 59, 999)
  const id = alertId(subject, firedMs)
  expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  expect([firedMsOf(id), alertDay(firedMs)]).toEqual([firedMs, 20_578])
  expect(alertId(subject, firedMs)).toBe(id)
  const others = [{ ruleId: 'q' }, { sensorId: 't' }, { metric: 'n' }]
  for (const other of others) expect(alertId({ ...subject, ...other }, firedMs)).not.toBe(id)
  expect(notificationId(id, 'fired', 'a')).not.toBe(notificationId(id, 'resolved', 'a'))
})

test('an alert is told in a sentence', () => {
  const rule = /** @type {any} */ ({ ...HOT, for_s: 600 })
  const limits = { lower: 1, upper: 80, lowerClear: 1, upperClear: 80 }
  expect(firedText(rule, { sensor: 'boiler', metric: 'heat' }, 81.23456789, limits)).toBe(
    'heat of boiler is 81.2346, above 80, for 10 minutes',
  )
  const high = { ...limits, upper: 1_234_560 }
  expect(
    firedText({ ...rule, for_s: 0 }, { sensor: 'meter', metric: 'energy' }, 1_234_567.891, high),
  ).toBe('energy of meter is 1234567.891, above 1234560')
  expect(
    firedText({ ...rule, for_s: 0 }, { sensor: 'b', metric: 'heat', symbol: '°C' }, 81.5, limits),
  ).toBe('heat of b is 81.5 °C, above 80 °C')
  const rate = { ...rule, kind: 'rate', per_s: 60, for_s: 0 }
  expect(firedText(rate, { sensor: 'boiler', metric: 'heat' }, 95.5, limits)).toBe(
    'heat of boiler changes by 95.5 per minute, above 80',
  )
  expect(firedText(rate, { sensor: 'b', metric: 'heat', symbol: '°C' }, 95.5, limits)).toBe(
    'heat of b changes by 95.5 °C per minute, above 80 °C',
  )
  expect(
    firedText({ ...rule, kind: 'range', for_s: 0 }, { sensor: 'b', metric: 'heat' }, 0, limits),
  ).toBe('heat of b is 0, outside the expected range: below 1')
  expect(
    firedText(
      { ...rule, kind: 'silence', for_s: 3_600 },
      { sensor: 'b', metric: '' },
      Number.NaN,
      undefined,
    ),
  ).toBe('b has been silent for 1 hour')
  expect([spanText(1), spanText(90), spanText(172_800)]).toEqual([
    '1 second',
    '90 seconds',
    '2 days',
  ])
})
