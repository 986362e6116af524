// Payloads are those of shelly-api-docs.shelly.cloud (gen1, MQTT; gen2, General/Notifications and
// ComponentsAndServices/Switch) or were captured from its devices, unless a test says otherwise.
import { describe, expect, test } from '@jest/globals'
import { shelly } from '../../src/formats/shelly.js'
import { bytesOf, outcome } from './devices.js'
import { fuzz } from './fuzz.js'

const SWITCH = {
  id: 0,
  source: 'WS_in',
  output: true,
  apower: 8.9,
  voltage: 237.5,
  current: 0.054,
  aenergy: { total: 6.532, by_minute: [45.199, 47.141, 88.397], minute_ts: 1_631_266_595 },
  temperature: { tC: 23.5, tF: 74.4 },
}
const NOTIFY_STATUS = {
  src: 'shellypro4pm-f008d1d8b8b8',
  dst: 'user_1',
  method: 'NotifyStatus',
  params: { ts: 1_631_186_545.04, 'switch:0': { id: 0, output: true, source: 'button' } },
}
const NOTIFY_EVENT = {
  src: 'shellypro4pm-f008d1d8b8b8',
  dst: 'user_1',
  method: 'NotifyEvent',
  params: {
    ts: 1_631_266_595.44,
    events: [{ component: 'input:0', id: 0, event: 'single_push', ts: 1_631_266_595.44 }],
  },
}

describe('the first generation', () => {
  test.each([
    ['relay.0', 'on', 'on'],
    ['relay.0.power', '21.5', 21.5],
    ['relay.0.energy', '1203', 1203],
    ['input.0', '0', 0],
    ['ext_temperature.0', '47.69', 47.69],
    ['online', 'true', true],
    ['longpush.0', '-1', -1],
    ['fw_ver', '20230913-112003/v1.14.0-gcb84623', '20230913-112003/v1.14.0-gcb84623'],
    ['emeter.0.total', ' 1e3 ', 1000],
    ['code', '007', '007'],
    ['count', '9007199254740993', 9_007_199_254_740_993n],
  ])('publishes values: %s is %s', (metric, payload, value) => {
    expect(outcome(shelly, metric, payload)).toMatchObject({
      stored: { [metric]: value },
      times: [undefined],
    })
  })

  test('publishes some objects, which are below the metric', () => {
    const payload = { ison: true, mode: 'white', power: 2.5, has_timer: false }
    expect(outcome(shelly, 'light.0.status', payload).stored).toEqual({
      'light.0.status.ison': true,
      'light.0.status.mode': 'white',
      'light.0.status.power': 2.5,
      'light.0.status.has_timer': false,
    })
  })
})

describe('later generations', () => {
  test('publish the status of components', () => {
    expect(outcome(shelly, 'status.switch:0', SWITCH)).toMatchObject({
      times: [undefined],
      stored: {
        'switch:0.source': 'WS_in',
        'switch:0.output': true,
        'switch:0.apower': 8.9,
        'switch:0.voltage': 237.5,
        'switch:0.current': 0.054,
        'switch:0.aenergy.total': 6.532,
        'switch:0.aenergy.by_minute.0': 45.199,
        'switch:0.aenergy.by_minute.2': 88.397,
        'switch:0.temperature.tC': 23.5,
        'switch:0.temperature.tF': 74.4,
      },
      lost: [],
    })
    expect(outcome(shelly, 'status.switch:0', SWITCH).stored).not.toHaveProperty('switch:0.id')
  })

  test('notify of a change, at its time, under the same names', () => {
    expect(outcome(shelly, 'events.rpc', NOTIFY_STATUS)).toEqual({
      sensor: undefined,
      times: [1_631_186_545_040],
      stored: { 'switch:0.output': true, 'switch:0.source': 'button' },
      lost: [],
      units: {},
    })
  })

  test('notify of all of a status, where what is not known is null', () => {
    const params = {
      ts: 1_680_962_879.62,
      ble: {},
      cloud: { connected: false },
      'devicepower:0': { id: 0, battery: { V: 0.43, percent: 0 }, external: { present: true } },
      'humidity:0': { id: 0, rh: 42.2 },
      sys: { mac: 'B8D61A8B17CC', time: null, unixtime: null, uptime: 3 },
      'temperature:0': { id: 0, tC: 19.8, tF: 67.6 },
    }
    const { stored, times } = outcome(shelly, 'events.rpc', { method: 'NotifyFullStatus', params })
    expect(times).toEqual([1_680_962_879_620])
    expect(stored).toEqual({
      'cloud.connected': false,
      'devicepower:0.battery.V': 0.43,
      'devicepower:0.battery.percent': 0,
      'devicepower:0.external.present': true,
      'humidity:0.rh': 42.2,
      'sys.mac': 'B8D61A8B17CC',
      'sys.uptime': 3,
      'temperature:0.tC': 19.8,
      'temperature:0.tF': 67.6,
    })
  })

  test('notify of events, whose names are texts', () => {
    expect(outcome(shelly, 'events.rpc', NOTIFY_EVENT)).toMatchObject({
      times: [1_631_266_595_440],
      stored: { 'input:0.event': 'single_push' },
    })
    const events = [{ component: 'input:0', event: 'btn_down' }, { component: 7 }, 7]
    const mixed = { method: 'NotifyEvent', params: { ts: 1_631_266_595, events } }
    expect(outcome(shelly, 'events.rpc', mixed)).toMatchObject({
      times: [1_631_266_595_000],
      stored: { 'input:0.event': 'btn_down' },
      lost: ['events[1]', 'events[2]'],
    })
  })

  test.each([0, 3.5, null, 'x', 1e300])(
    'without a clock are of when it was received: ts %p',
    (ts) => {
      const payload = {
        method: 'NotifyStatus',
        params: { ts, 'switch:0': { id: 0, output: true } },
      }
      expect(outcome(shelly, 'events.rpc', payload).times).toEqual([undefined])
    },
  )

  test('keep an id that is not that of the component', () => {
    expect(outcome(shelly, 'status.bthome', { id: 7, a: 1 }).stored).toEqual({
      'bthome.id': 7,
      'bthome.a': 1,
    })
  })
})

test.each([
  ['relay.0', 'nan', 'nothing was measured: the payload is "nan"'],
  ['relay.0', '', 'the payload is empty'],
  ['relay.0', ' ', 'nothing was measured'],
  ['relay.0', '\u{fffd}'.repeat(30_000), 'more than 65536 bytes'],
  [undefined, 'on', 'the topic names no metric'],
  ['events.rpc', '{"method":"Shelly.GetStatus","params":{}}', 'method is not NotifyStatus'],
  ['events.rpc', '{"method":"NotifyStatus"}', 'params is not an object'],
  ['events.rpc', '{"method":"NotifyEvent","params":{}}', 'events is not an array'],
])('%s %s is refused: %s', (metric, payload, reason) => {
  expect(() => outcome(shelly, metric, payload)).toThrow(reason)
})

test('what is not UTF-8 is refused', () => {
  expect(() => outcome(shelly, 'relay.0', Buffer.from([0x6f, 0xff]))).toThrow('not UTF-8')
})

const TREES = [SWITCH, NOTIFY_STATUS, NOTIFY_EVENT]
const METRICS = [undefined, 'relay.0', 'status.switch:0', 'events.rpc']
const PLACES = METRICS.map((metric) => ({ topic: 'x', sensor: 's', metric }))
fuzz(shelly, { places: PLACES, examples: [...TREES.map(bytesOf), bytesOf('21.5')], trees: TREES })
