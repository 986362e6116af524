import { generate } from 'mqtt-packet'
import * as wire from './wire.js'

describe('a packet made by hand is the one that a library makes', () => {
  test.each([true, false])('CONNECT, clean session %s', (clean) => {
    const packet = generate({
      cmd: 'connect',
      protocolId: 'MQTT',
      protocolVersion: 4,
      clean,
      clientId: 'sensor-ä',
      keepalive: 300,
    })
    expect(wire.connect({ clientId: 'sensor-ä', keepAliveS: 300, clean })).toEqual(packet)
  })

  // 127, 128, 16,383 and 16,384 bytes of body are where the length grows by a byte.
  test.each([1, 119, 120, 121, 16_375, 16_376, 16_377, 100_000])('PUBLISH of %i bytes', (size) => {
    const payload = 'ü'.padEnd(size - 1, 'x')
    for (const duplicate of [true, false]) {
      const packet = generate({
        cmd: 'publish',
        topic: 'a/b',
        payload,
        qos: 1,
        messageId: 4711,
        dup: duplicate,
        retain: false,
      })
      expect(wire.publish('a/b', payload, 4711, duplicate)).toEqual(packet)
    }
  })

  test('PINGREQ and DISCONNECT', () => {
    expect(wire.ping()).toEqual(generate({ cmd: 'pingreq' }))
    expect(wire.disconnect()).toEqual(generate({ cmd: 'disconnect' }))
  })
})

describe('PacketReader', () => {
  const answers = Buffer.concat([
    generate({ cmd: 'connack', returnCode: 0, sessionPresent: true }),
    generate({ cmd: 'puback', messageId: 258 }),
    generate({ cmd: 'pingresp' }),
    generate({ cmd: 'puback', messageId: 65_535 }),
  ])
  const read = [
    [wire.TYPE.connack, 256],
    [wire.TYPE.puback, 258],
    [wire.TYPE.pingresp, 0],
    [wire.TYPE.puback, 65_535],
  ]

  test('finds the same packets wherever the bytes are split', () => {
    for (let first = 0; first <= answers.length; first++) {
      for (let second = first; second <= answers.length; second++) {
        const reader = new wire.PacketReader()
        /** @type {number[][]} */
        const found = []
        for (const chunk of [
          answers.subarray(0, first),
          answers.subarray(first, second),
          answers.subarray(second),
        ]) {
          reader.push(chunk, (type, body) => found.push([type, body]))
        }
        expect(found).toEqual(read)
      }
    }
  })

  test('refuses what a publisher is never sent', () => {
    const packet = generate({
      cmd: 'publish',
      topic: 'a',
      payload: 'b',
      qos: 0,
      dup: false,
      retain: false,
    })
    expect(() => new wire.PacketReader().push(packet, () => {})).toThrow('type 3')
  })
})
