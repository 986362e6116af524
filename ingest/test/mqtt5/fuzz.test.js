// Whatever a client of MQTT 5 sends is understood, or costs its connection, and nothing else.

import { generate } from 'mqtt-packet'
import { parseConnect } from '../../src/broker/entrance/connect-packet.js'
import { ProtocolError } from '../../src/broker/frame.js'
import {
  parseAcknowledgement5,
  parseDisconnect5,
  parsePublish5,
  parseSubscribe5,
  parseUnsubscribe5,
} from '../../src/broker/v5/packets.js'
import { seeded } from '../support/random.js'

const ROUNDS = 4_000

const userProperties = { a: ['1', '2'], b: '3' }
const messageProperties = {
  payloadFormatIndicator: true,
  messageExpiryInterval: 5,
  contentType: 'text/plain',
  responseTopic: 'r/t',
  correlationData: Buffer.from([1, 2]),
  userProperties,
}

/** @param {object} packet */
const bytesOf = (packet) => generate(/** @type {any} */ (packet), { protocolVersion: 5 })

const will = {
  topic: 'w',
  payload: Buffer.from('x'),
  qos: 1,
  retain: true,
  properties: { willDelayInterval: 3, ...messageProperties },
}
const connect = {
  cmd: 'connect',
  protocolId: 'MQTT',
  protocolVersion: 5,
  clientId: 'c',
  clean: true,
}
const connectProperties = { sessionExpiryInterval: 9, receiveMaximum: 3, userProperties }
const publish = { cmd: 'publish', topic: 'a/b', payload: 'p', qos: 1, messageId: 7 }

test.each(
  /** @type {[string, (bytes: Buffer, start: number, end: number) => unknown, object][]} */ ([
    [
      'CONNECT',
      parseConnect,
      { ...connect, will, username: 'u', password: 'p', properties: connectProperties },
    ],
    [
      'PUBLISH',
      (bytes, start, end) => parsePublish5(bytes, 1, start, end),
      { ...publish, properties: { topicAlias: 2, ...messageProperties } },
    ],
    [
      'SUBSCRIBE',
      parseSubscribe5,
      {
        cmd: 'subscribe',
        messageId: 7,
        subscriptions: [
          { topic: '$share/g/a/#', qos: 1 },
          { topic: '+/b', qos: 2, nl: true, rap: true, rh: 2 },
        ],
        properties: { subscriptionIdentifier: 300, userProperties },
      },
    ],
    [
      'UNSUBSCRIBE',
      parseUnsubscribe5,
      {
        cmd: 'unsubscribe',
        messageId: 7,
        unsubscriptions: ['a/#', '+'],
        properties: { userProperties },
      },
    ],
    [
      'PUBACK',
      parseAcknowledgement5,
      { cmd: 'puback', messageId: 7, reasonCode: 0x97, properties: { reasonString: 'no' } },
    ],
    [
      'DISCONNECT',
      parseDisconnect5,
      {
        cmd: 'disconnect',
        reasonCode: 4,
        properties: { sessionExpiryInterval: 7, userProperties },
      },
    ],
  ]),
)('%s: cut, longer, or with other bytes', (_name, parse, packet) => {
  const random = seeded(5)
  const whole = bytesOf(packet)
  expect(() => parse(whole, 2, whole.length)).not.toThrow()
  let refused = 0
  for (let round = 0; round < ROUNDS; round++) {
    const bytes = Buffer.concat([whole, Buffer.from([0xff, 0, 0x26])])
    for (let changes = Math.floor(random() * 4); changes > 0; changes--) {
      bytes[2 + Math.floor(random() * (whole.length - 2))] = Math.floor(random() * 256)
    }
    const end = 2 + Math.floor(random() * (bytes.length - 1))
    try {
      // Behind a packet is another one, or nothing.
      parse(round % 2 === 0 ? bytes : bytes.subarray(0, end), 2, end)
    } catch (error) {
      refused++
      expect(error).toBeInstanceOf(ProtocolError)
    }
  }
  expect(refused).toBeGreaterThan(ROUNDS / 20)
})
