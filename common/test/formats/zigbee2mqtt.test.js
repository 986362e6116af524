// Payloads are those of www.zigbee2mqtt.io/guide/usage/mqtt_topics_and_messages.html and of the
// pages of devices there, unless a test says otherwise.
import { describe, expect, test } from '@jest/globals'
import { zigbee2mqtt } from '../../src/formats/zigbee2mqtt.js'
import { bytesOf, outcome } from './devices.js'
import { fuzz } from './fuzz.js'

const RECEIVED = [undefined]

describe('what Zigbee2MQTT publishes', () => {
  test.each([
    [
      { temperature: 27.34, humidity: 44.72 },
      { temperature: 27.34, humidity: 44.72 },
    ],
    [{ action: 'single' }, { action: 'single' }],
    [{ occupancy: true }, { occupancy: true }],
    [
      { state: 'ON', brightness: 215, color_temp: 325 },
      { state: 'ON', brightness: 215, color_temp: 325 },
    ],
    [
      { color: { x: 0.701, y: 0.299 }, linkquality: 102, color_mode: 'xy' },
      { 'color.x': 0.701, 'color.y': 0.299, linkquality: 102, color_mode: 'xy' },
    ],
    [{ battery: null, linkquality: 94 }, { linkquality: 94 }],
    [
      { update: { state: 'idle', installed_version: 23 }, contact: false },
      { 'update.state': 'idle', 'update.installed_version': 23, contact: false },
    ],
  ])('%j is %j', (payload, stored) => {
    expect(outcome(zigbee2mqtt, undefined, payload)).toMatchObject({
      stored,
      times: RECEIVED,
      lost: [],
    })
  })

  test.each([
    ['2019-12-14T15:38:56.796Z', 1_576_337_936_796],
    ['2019-03-01T15:32:45+01:00', 1_551_450_765_000],
    ['2019-03-01T15:32:45+0100', 1_551_450_765_000],
    [1_576_337_936_796, 1_576_337_936_796],
    ['2019-03-01T15:32:45', undefined],
    [null, undefined],
  ])('is of the time at which the device was last seen: %s', (seen, timeMs) => {
    const payload = { state: 'ON', linkquality: 102, last_seen: seen }
    expect(outcome(zigbee2mqtt, undefined, payload)).toMatchObject({
      times: [timeMs],
      stored: { state: 'ON', linkquality: 102 },
      lost: [],
    })
  })

  test('loses a last_seen that is no time, and nothing else', () => {
    for (const seen of ['yesterday', true, {}, 1e300]) {
      expect(outcome(zigbee2mqtt, undefined, { a: 1, last_seen: seen })).toMatchObject({
        times: RECEIVED,
        stored: { a: 1 },
        lost: ['last_seen'],
      })
    }
  })

  test('does not measure what include_device_information tells', () => {
    const device = { friendlyName: 'lamp', ieeeAddr: '0x00124b0006227235', type: 'Router' }
    expect(outcome(zigbee2mqtt, undefined, { state: 'OFF', device }).stored).toEqual({
      state: 'OFF',
    })
  })

  test('has the availability below the device, as an object or as text', () => {
    expect(outcome(zigbee2mqtt, 'availability', { state: 'online' }).stored).toEqual({
      'availability.state': 'online',
    })
    expect(outcome(zigbee2mqtt, 'availability', 'offline').stored).toEqual({
      availability: 'offline',
    })
  })

  test('keeps short arrays by index, and loses long ones', () => {
    const payload = { a: [1, null, { b: 2 }], long: new Array(17).fill(1), none: [] }
    expect(outcome(zigbee2mqtt, undefined, payload)).toMatchObject({
      stored: { 'a.0': 1, 'a.2.b': 2 },
      lost: ['long', 'none'],
    })
  })
})

test.each([
  ['set', '{"state":"ON"}', 'set is a command to the device'],
  ['set.state', 'ON', 'set.state is a command to the device'],
  ['get', '{"state":""}', 'get is a command to the device'],
  [undefined, 'online', 'this is not an object'],
  [undefined, '[]', 'this is not an object'],
  [undefined, '{}', 'the payload holds no value'],
  [undefined, '{"a":}', 'this is not JSON'],
  [undefined, '', 'the payload is empty'],
])('%s %s is refused: %s', (metric, payload, reason) => {
  expect(() => outcome(zigbee2mqtt, metric, payload)).toThrow(reason)
})

const TREES = [
  {
    state: 'ON',
    color: { x: 0.7, y: 0.3 },
    last_seen: '2019-12-14T15:38:56.796Z',
    linkquality: 102,
  },
  { device: { type: 'Router' }, a: [1, 2], battery: null },
]
const PLACES = [undefined, 'availability', 'set'].map((metric) => ({
  topic: 'x',
  sensor: 's',
  metric,
}))
fuzz(zigbee2mqtt, { places: PLACES, examples: TREES.map(bytesOf), trees: TREES })
