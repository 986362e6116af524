// The uplink is that of www.thethingsindustries.com/docs/integrations/data-formats, shortened,
// unless a test says otherwise.
import { describe, expect, test } from '@jest/globals'
import { theThingsStack } from '../../src/formats/the-things-stack.js'
import { bytesOf, outcome } from './devices.js'
import { fuzz } from './fuzz.js'

const UPLINK = {
  end_device_ids: {
    device_id: 'dev1',
    application_ids: { application_id: 'app1' },
    dev_eui: '0004A30B001C0530',
    dev_addr: '00BCB929',
  },
  correlation_ids: ['as:up:01E0WZGT6Y7657CPFPE5WEYDSQ'],
  received_at: '2020-02-12T15:15:46.010Z',
  uplink_message: {
    session_key_id: 'AXA50tHUnWgR6jzYZrNzkg==',
    f_cnt: 1,
    f_port: 1,
    frm_payload: 'gkHe',
    decoded_payload: { temperature: 1, luminosity: 0.64, nested: { open: true } },
    rx_metadata: [
      { gateway_ids: { gateway_id: 'gtw2' }, rssi: -105, snr: -7.2, channel_index: 2 },
      { gateway_ids: { gateway_id: 'gtw1' }, rssi: -35, channel_rssi: -35, snr: 5.2 },
    ],
    settings: {
      data_rate: { lora: { bandwidth: 125_000, spreading_factor: 7 } },
      coding_rate: '4/6',
      frequency: '868300000',
    },
    received_at: '2020-02-12T15:15:45.787459231Z',
  },
}
const RADIO = {
  'lorawan.f_cnt': 1,
  'lorawan.f_port': 1,
  'lorawan.spreading_factor': 7,
  'lorawan.rssi': -35,
  'lorawan.snr': 5.2,
  'lorawan.frequency': 868_300_000,
  'lorawan.gateways': 2,
}

/** @param {object} [changes]  Of the uplink. */
const uplink = (changes = {}) => ({
  ...UPLINK,
  uplink_message: { ...UPLINK.uplink_message, ...changes },
})

describe('an uplink', () => {
  test('is of its device, with the decoded payload and what the radio tells', () => {
    expect(outcome(theThingsStack, undefined, UPLINK)).toEqual({
      sensor: 'dev1',
      times: [Date.UTC(2020, 1, 12, 15, 15, 45, 787)],
      stored: { temperature: 1, luminosity: 0.64, 'nested.open': true, ...RADIO },
      lost: [],
      units: {},
    })
  })

  test('is of the sensor of the topic, where that names one', () => {
    expect(outcome(theThingsStack, undefined, UPLINK, 'dev1').sensor).toBeUndefined()
  })

  test('without a decoded payload says so, and keeps what the radio tells', () => {
    const result = theThingsStack.decode(
      { topic: 'x', sensor: 'dev1', metric: undefined },
      bytesOf(uplink({ decoded_payload: undefined })),
    )
    expect(result.refused).toEqual([
      {
        field: 'uplink_message.decoded_payload',
        reason: 'decoded_payload is missing: give the application a payload formatter',
        fault: 'value',
      },
    ])
    expect(result.measurements.map(({ metric }) => metric).sort()).toEqual(
      Object.keys(RADIO).sort(),
    )
  })

  test('without a payload at all lacks nothing', () => {
    const { lost, stored } = outcome(
      theThingsStack,
      undefined,
      uplink({ decoded_payload: undefined, frm_payload: undefined }),
    )
    expect([lost, stored]).toEqual([[], RADIO])
  })

  test('is of when the Application Server received it, where nothing else is told', () => {
    expect(outcome(theThingsStack, undefined, uplink({ received_at: undefined })).times).toEqual([
      Date.UTC(2020, 1, 12, 15, 15, 46, 10),
    ])
    expect(outcome(theThingsStack, undefined, uplink({ received_at: 'x' }))).toMatchObject({
      times: [undefined],
      lost: ['received_at'],
    })
    expect(
      outcome(theThingsStack, undefined, uplink({ received_at: '2020-02-12T15:15:45' })).times,
    ).toEqual([undefined])
  })

  test('has radio metrics as far as it tells them', () => {
    const silent = {
      rx_metadata: [{ snr: 1 }, 7],
      settings: null,
      f_cnt: undefined,
      f_port: undefined,
    }
    expect(outcome(theThingsStack, undefined, uplink(silent)).stored).toEqual({
      temperature: 1,
      luminosity: 0.64,
      'nested.open': true,
      'lorawan.gateways': 2,
    })
  })
})

test.each([
  [
    { ...UPLINK, uplink_message: undefined, join_accept: {} },
    'uplink_message is missing: no uplink',
  ],
  [{ ...UPLINK, end_device_ids: {} }, 'the sensor is missing'],
  [{ ...UPLINK, uplink_message: { frm_payload: 'gkHe' } }, 'decoded_payload is missing'],
  [{ ...UPLINK, uplink_message: {} }, 'the payload holds no value'],
  [[], 'this is not an object such as'],
])('%j is refused: %s', (payload, reason) => {
  expect(() => outcome(theThingsStack, undefined, payload)).toThrow(reason)
})

const PLACES = [undefined, 'dev1'].map((sensor) => ({ topic: 'x', sensor, metric: undefined }))
fuzz(theThingsStack, { places: PLACES, examples: [bytesOf(UPLINK)], trees: [UPLINK] })
