// Payloads are those of tasmota.github.io/docs (AM2301, JSON-Status-Responses, SetOption52)
// or were captured from its devices, unless a test says otherwise.
import { describe, expect, test } from '@jest/globals'
import { tasmota } from '../../src/formats/tasmota.js'
import { bytesOf, outcome } from './devices.js'
import { fuzz } from './fuzz.js'

const AM2301 = {
  Time: '2019-01-01T00:00:00',
  AM2301: { Temperature: 24.6, Humidity: 58.2 },
  TempUnit: 'C',
}
const DUAL_METER = {
  Time: '2026-09-18T11:19:21',
  ENERGY: {
    TotalStartTime: '2026-09-16T00:00:00',
    Total: [2.813, 0.254],
    Power: [52, 5],
    Factor: [0.79, 0.5],
    Voltage: 235,
    Current: [0.278, 0.044],
    BL09XX: { Temperature: 46.5 },
  },
}
const STATE = {
  Time: '2024-02-24T22:20:38',
  Uptime: '0T00:10:11',
  UptimeSec: 611,
  Heap: 24,
  POWER: 'OFF',
  Wifi: { AP: 1, SSId: 'ESP-Network', RSSI: 44, Signal: -78 },
}

describe('SENSOR', () => {
  test('has metrics by the name of the chip, with their units; local time is not believed', () => {
    expect(outcome(tasmota, 'SENSOR', AM2301)).toEqual({
      sensor: undefined,
      times: [undefined],
      stored: { 'AM2301.Temperature': 24.6, 'AM2301.Humidity': 58.2 },
      lost: [],
      units: { 'AM2301.Temperature': 'Cel' },
    })
  })

  test.each([
    ['2019-01-01T00:00:00+01:00', Date.UTC(2018, 11, 31, 23)],
    ['2019-01-01T00:00:00Z', Date.UTC(2019, 0, 1)],
    ['2019-01-01T00:00:00', undefined],
    ['1970-01-01T00:33:28', undefined],
  ])('is of a time that has a zone: %s', (time, timeMs) => {
    const { times, lost } = outcome(tasmota, 'SENSOR', { Time: time, A: { Temperature: 1 } })
    expect([times, lost]).toEqual([[timeMs], []])
  })

  test.each(['soon', 7, [], '2019-13-01T00:00:00'])('loses the Time %p alone', (time) => {
    expect(outcome(tasmota, 'SENSOR', { Time: time, Switch1: 'ON' })).toMatchObject({
      stored: { Switch1: 'ON' },
      lost: ['Time'],
    })
  })

  test('of a meter with several phases has each by its number', () => {
    const { stored, units, lost } = outcome(tasmota, 'SENSOR', DUAL_METER)
    expect(stored).toEqual({
      'ENERGY.TotalStartTime': '2026-09-16T00:00:00',
      'ENERGY.Voltage': 235,
      'ENERGY.Total.0': 2.813,
      'ENERGY.Total.1': 0.254,
      'ENERGY.Power.0': 52,
      'ENERGY.Power.1': 5,
      'ENERGY.Factor.0': 0.79,
      'ENERGY.Factor.1': 0.5,
      'ENERGY.Current.0': 0.278,
      'ENERGY.Current.1': 0.044,
      'ENERGY.BL09XX.Temperature': 46.5,
    })
    expect(units).toEqual({
      'ENERGY.Total.0': 'kW.h',
      'ENERGY.Total.1': 'kW.h',
      'ENERGY.Voltage': 'V',
      'ENERGY.Power.0': 'W',
      'ENERGY.Power.1': 'W',
      'ENERGY.Current.0': 'A',
      'ENERGY.Current.1': 'A',
    })
    expect(lost).toEqual([])
  })

  test('has units of temperature and pressure; one that is not known is lost', () => {
    const BME280 = { Temperature: 68, Pressure: 29.9, SeaPressure: 30, Humidity: 1, DewPoint: 50 }
    expect(
      outcome(tasmota, 'SENSOR', { BME280, TempUnit: 'F', PressureUnit: 'inHg' }).units,
    ).toEqual({
      'BME280.Temperature': '[degF]',
      'BME280.DewPoint': '[degF]',
      'BME280.Pressure': "[in_i'Hg]",
      'BME280.SeaPressure': "[in_i'Hg]",
    })
    expect(outcome(tasmota, 'SENSOR', { BME280, TempUnit: 'R' })).toMatchObject({
      units: {},
      lost: ['TempUnit'],
    })
  })

  test('keeps the serial numbers of chips as text', () => {
    const payload = { 'DS18B20-1': { Id: '01131B123456', Temperature: 20.1 }, TempUnit: 'C' }
    expect(outcome(tasmota, 'SENSOR', payload).stored).toEqual({
      'DS18B20-1.Id': '01131B123456',
      'DS18B20-1.Temperature': 20.1,
    })
  })
})

test('STATE has metrics of its own', () => {
  expect(outcome(tasmota, 'STATE', STATE).stored).toEqual({
    Uptime: '0T00:10:11',
    UptimeSec: 611,
    Heap: 24,
    POWER: 'OFF',
    'Wifi.AP': 1,
    'Wifi.SSId': 'ESP-Network',
    'Wifi.RSSI': 44,
    'Wifi.Signal': -78,
  })
})

test('STATUS10 is SENSOR in a wrapper', () => {
  const plain = outcome(tasmota, 'SENSOR', AM2301)
  expect(outcome(tasmota, 'STATUS10', { StatusSNS: AM2301 })).toEqual(plain)
  expect(outcome(tasmota, 'STATUS11', { StatusSTS: STATE })).toEqual(
    outcome(tasmota, 'STATE', STATE),
  )
})

test('RESULT, POWER and LWT are metrics, as objects or as text', () => {
  expect(outcome(tasmota, 'RESULT', '{"POWER":"ON"}').stored).toEqual({ POWER: 'ON' })
  expect(outcome(tasmota, 'POWER', 'ON').stored).toEqual({ POWER: 'ON' })
  expect(outcome(tasmota, 'LWT', 'Online').stored).toEqual({ LWT: 'Online' })
})

test.each([
  [undefined, 'Online', 'the topic names no metric'],
  ['SENSOR', '{"Time":"2019-01-01T00:00:00"}', 'the payload holds no value'],
  ['SENSOR', '{"Time":', 'this is not JSON'],
  ['SENSOR', '', 'the payload is empty'],
])('%s %s is refused: %s', (metric, payload, reason) => {
  expect(() => outcome(tasmota, metric, payload)).toThrow(reason)
})

const TREES = [AM2301, DUAL_METER, STATE, { StatusSNS: AM2301 }]
const PLACES = [undefined, 'SENSOR', 'POWER'].map((metric) => ({ topic: 'x', sensor: 's', metric }))
fuzz(tasmota, { places: PLACES, examples: [...TREES.map(bytesOf), bytesOf('ON')], trees: TREES })
