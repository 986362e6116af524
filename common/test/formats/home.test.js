// ESPHome (esphome.io/components/mqtt) and Home Assistant's MQTT Statestream
// (www.home-assistant.io/integrations/mqtt_statestream): values by topic.
import { describe, expect, test } from '@jest/globals'
import { esphome } from '../../src/formats/esphome.js'
import { statestream } from '../../src/formats/statestream.js'
import { bytesOf, outcome } from './devices.js'
import { fuzz } from './fuzz.js'

describe('ESPHome', () => {
  test.each([
    ['21.5', 21.5],
    ['-0.0', -0],
    ['101325', 101_325],
    ['ON', 'ON'],
    ['OFF', 'OFF'],
    ['online', 'online'],
    ['some text', 'some text'],
    ['+5', '+5'],
    ['0x10', '0x10'],
    ['[1]', '[1]'],
  ])('publishes values as text: %s', (payload, value) => {
    expect(outcome(esphome, 'temperature', payload)).toMatchObject({
      stored: { temperature: value },
      times: [undefined],
    })
  })

  test('publishes lights as objects', () => {
    const payload = { state: 'ON', brightness: 255, color: { r: 255, g: 0, b: 7 }, effect: null }
    expect(outcome(esphome, 'lamp', payload).stored).toEqual({
      'lamp.state': 'ON',
      'lamp.brightness': 255,
      'lamp.color.r': 255,
      'lamp.color.g': 0,
      'lamp.color.b': 7,
    })
  })

  test.each(['nan', 'NaN', '-nan', 'inf', '-inf', 'null', ''])('has not measured %p', (payload) => {
    expect(() => outcome(esphome, 'temperature', payload)).toThrow(
      payload === '' ? 'the payload is empty' : `nothing was measured: the payload is "${payload}"`,
    )
  })

  test('needs a metric in the topic', () => {
    expect(() => outcome(esphome, undefined, '21.5')).toThrow('the topic names no metric')
  })
})

describe('Statestream', () => {
  test.each([
    ['state', '21.5', 21.5],
    ['state', 'on', 'on'],
    ['state', 'off', 'off'],
    ['state', 'heat_cool', 'heat_cool'],
    ['state', '2026-01-01T00:00:00+00:00', '2026-01-01T00:00:00+00:00'],
    ['friendly_name', '"Kitchen"', 'Kitchen'],
    ['brightness', '255', 255],
    ['is_on', 'true', true],
    ['last_updated', '2026-01-01T00:00:00+00:00', '2026-01-01T00:00:00+00:00'],
  ])('%s %s is %p', (metric, payload, value) => {
    expect(outcome(statestream, metric, payload).stored).toEqual({ [metric]: value })
  })

  test('has attributes that are arrays and objects', () => {
    expect(outcome(statestream, 'rgb_color', '[255, 0, 7]').stored).toEqual({
      'rgb_color.0': 255,
      'rgb_color.1': 0,
      'rgb_color.2': 7,
    })
    expect(outcome(statestream, 'extra', '{"a": {"b": 1}}').stored).toEqual({ 'extra.a.b': 1 })
  })

  test.each([
    ['°C', 'Cel'],
    ['kWh', 'kW.h'],
    ['W', 'W'],
    ['lx', 'lx'],
  ])('has the unit of the state in an attribute: %s is %s', (said, unit) => {
    expect(outcome(statestream, 'unit_of_measurement', JSON.stringify(said))).toMatchObject({
      stored: { unit_of_measurement: said },
      units: { state: unit },
    })
  })

  test.each([
    ['state', 'unavailable', 'nothing was measured: the state is unavailable'],
    ['state', 'unknown', 'nothing was measured: the state is unknown'],
    ['state', 'nan', 'nothing was measured'],
    ['brightness', 'null', 'the payload holds no value'],
    ['state', '', 'the payload is empty'],
    [undefined, 'on', 'the topic names no metric'],
  ])('%s %s is refused: %s', (metric, payload, reason) => {
    expect(() => outcome(statestream, metric, payload)).toThrow(reason)
  })

  test('stores a state that an attribute is called, where it is none', () => {
    expect(outcome(statestream, 'mode', '"unknown"').stored).toEqual({ mode: 'unknown' })
  })
})

const PLACES = [undefined, 'state', 'unit_of_measurement', 'lamp'].map((metric) => {
  return { topic: 'x', sensor: 's', metric }
})
const TREES = [{ state: 'ON', color: { r: 1 }, list: [1, 2] }]
const EXAMPLES = ['21.5', 'ON', 'nan', '"°C"', '{"a":1}'].map(bytesOf)
fuzz(esphome, { places: PLACES, examples: EXAMPLES, trees: TREES })
fuzz(statestream, { places: PLACES, examples: EXAMPLES, trees: TREES })
