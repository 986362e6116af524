// The templates that docs/formats.md gives lead each device's topics to its decoder.
import { readFileSync } from 'node:fs'
import { describe, expect, test } from '@jest/globals'
import { decode, formatName } from '../../src/formats/registry.js'
import { parseTopics } from '../../src/topics.js'

const PAGE = readFileSync(new URL('../../../docs/formats.md', import.meta.url), 'utf8')
const TEMPLATES = [...PAGE.matchAll(/`([a-z0-9]+\/[^`]*\{sensor\}[^`]* in [a-z0-9-]+)`/g)]
  .map(([, template]) => template)
  .filter((template) => template !== 'zigbee2mqtt/{sensor}/{metric...} in zigbee2mqtt')
const TOPICS = parseTopics(TEMPLATES.join(','))

const REPORT = '{"AM2301":{"Temperature":24.6},"TempUnit":"C"}'
const NOTIFICATION =
  '{"method":"NotifyStatus","params":{"ts":1631186545,"switch:0":{"id":0,"apower":8.9}}}'
const UPLINK =
  '{"end_device_ids":{"device_id":"dev1"},"uplink_message":{"decoded_payload":{"t":1}}}'

describe('a template of the page of formats', () => {
  test.each([
    ['zigbee2mqtt/lamp', '{"state":"ON"}', 'zigbee2mqtt', 'lamp', 'state'],
    ['tele/plug/SENSOR', REPORT, 'tasmota', 'plug', 'AM2301.Temperature'],
    ['stat/plug/POWER', 'ON', 'tasmota', 'plug', 'POWER'],
    ['shellies/oven/relay/0/power', '21.5', 'shelly', 'oven', 'relay.0.power'],
    ['shellies/oven/status/switch:0', '{"id":0,"apower":8.9}', 'shelly', 'oven', 'switch:0.apower'],
    ['shellies/oven/events/rpc', NOTIFICATION, 'shelly', 'oven', 'switch:0.apower'],
    ['v3/app1@ttn/devices/dev1/up', UPLINK, 'the-things-stack', 'dev1', 't'],
    ['esphome/hall/sensor/humidity/state', '40', 'esphome', 'hall', 'humidity'],
    ['homeassistant/sensor/kitchen/state', '21.5', 'statestream', 'kitchen', 'state'],
  ])('leads %s with %s to %s', (topic, payload, name, sensor, metric) => {
    const format = TOPICS.formatOf(topic)
    if (format === undefined) throw new Error(`no template fits ${topic}`)
    expect(formatName(format)).toBe(name)
    const decoded = decode(format, TOPICS.place(topic, format), Buffer.from(payload))
    expect([decoded.sensor, decoded.refused]).toEqual([sensor, []])
    expect(decoded.measurements.map((one) => one.metric)).toEqual([metric])
  })
})
