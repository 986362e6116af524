import { generate } from 'mqtt-packet'
import { parseConnect, refusalOf } from '../src/broker/entrance/connect-packet.js'
import { Framer, ProtocolError, parsePublish } from '../src/broker/frame.js'
import { parseSubscribe3, parseUnsubscribe3 } from '../src/broker/v3/packets.js'

/** @param {Framer} framer */
function* packets(framer) {
  while (framer.next()) {
    yield Buffer.from(framer.buffer.subarray(framer.packetStart, framer.packetEnd)).toString('hex')
  }
}

describe('framer', () => {
  const parts = [0, 1, 125, 126, 127, 128, 16_400].map((length) =>
    generate({
      cmd: 'publish',
      topic: 'a',
      payload: Buffer.alloc(length, 7),
      qos: 0,
      dup: false,
      retain: false,
    }),
  )
  const bytes = Buffer.concat(parts)
  const expected = parts.map((part) => part.toString('hex'))

  test('packets are the same wherever the bytes are cut in two', () => {
    for (let cut = 0; cut <= bytes.length; cut += cut < 600 ? 1 : 97) {
      const framer = new Framer(20_000)
      framer.push(Buffer.from(bytes.subarray(0, cut)))
      const found = [...packets(framer)]
      framer.push(Buffer.from(bytes.subarray(cut)))
      found.push(...packets(framer))
      if (cut === bytes.length) expect(framer.waitingBytes).toBe(0)
      expect({ cut, found }).toEqual({ cut, found: expected })
    }
  })

  test.each([1, 2, 3, 7, 100])('packets are the same in chunks of %i', (size) => {
    const framer = new Framer(20_000)
    const found = []
    for (let at = 0; at < bytes.length; at += size) {
      framer.push(Buffer.from(bytes.subarray(at, at + size)))
      found.push(...packets(framer))
    }
    expect(found).toEqual(expected)
  })

  test('what a message refers to stays what it was while more arrives', () => {
    const framer = new Framer(20_000)
    framer.push(Buffer.from(parts[2].subarray(0, 5)))
    framer.next()
    framer.push(Buffer.from(parts[2].subarray(5)))
    framer.next()
    const { payload } = parsePublish(framer.buffer, 0, framer.bodyStart, framer.packetEnd)
    for (let n = 0; n < 50; n++) {
      framer.push(Buffer.from(parts[5].subarray(0, 60)))
      framer.push(Buffer.from(parts[5].subarray(60)))
      framer.next()
    }
    expect(payload.equals(Buffer.alloc(125, 7))).toBe(true)
  })

  test('a packet over the limit is refused from its header alone', () => {
    const framer = new Framer(1_000)
    framer.push(Buffer.from([0x10, 0xe8, 0x07]))
    expect(() => framer.next()).toThrow(ProtocolError)
  })
})

describe('a chunk', () => {
  test('of which a few bytes wait is let go of, and what waits is the same', () => {
    const framer = new Framer(20_000)
    const pings = Buffer.alloc(32_000, Buffer.from([0xc0, 0]))
    framer.push(Buffer.concat([pings, parts130.subarray(0, 3)]))
    while (framer.next()) framer.peek()
    framer.compact()
    expect(framer.heldBytes).toBe(3)
    framer.push(parts130.subarray(3))
    expect([...packets(framer)]).toEqual([parts130.toString('hex')])
    framer.compact()
    expect(framer.heldBytes).toBe(0)
  })
})

const parts130 = generate({
  cmd: 'publish',
  topic: 'a',
  payload: Buffer.alloc(127, 7),
  qos: 0,
  dup: false,
  retain: false,
})

/** @param {object} fields */
const connectOf = (fields) =>
  generate(
    /** @type {any} */ ({
      cmd: 'connect',
      protocolId: 'MQTT',
      protocolVersion: 4,
      clean: true,
      clientId: 'abc',
      ...fields,
    }),
  )

const will = { topic: 'sensors/s/m', payload: Buffer.from('x'), qos: 1, retain: true }

describe('CONNECT', () => {
  const bytes = connectOf({ username: 'u', password: Buffer.from('p'), will, keepalive: 300 })

  test('is taken apart, and goes on under another name, with its will alone', () => {
    const connect = parseConnect(bytes, 2, bytes.length)
    expect(connect).toEqual({
      level: 4,
      clean: true,
      keepAliveS: 300,
      clientId: 'abc',
      will,
      password: 'p',
      properties: { passOn: Buffer.alloc(0) },
    })
  })

  test('is refused at every length that is not its own', () => {
    for (let length = 2; length < bytes.length; length++) {
      expect(() => parseConnect(bytes, 2, length)).toThrow(ProtocolError)
    }
    const longer = Buffer.concat([bytes, Buffer.from([0])])
    expect(() => parseConnect(longer, 2, longer.length)).toThrow('more behind it')
  })

  /** @param {number} at  @param {number} value */
  const changed = (at, value) => {
    const copy = Buffer.from(bytes)
    copy[at] = value
    return copy
  }
  const FLAGS_AT = 9
  const ID_AT = 14

  test.each([
    ['a client id that is not UTF-8', changed(ID_AT, 0xff)],
    ['half of a surrogate pair in it', connectOf({ clientId: Buffer.from([0xed, 0xa0, 0x80]) })],
    ['a client id with U+0000', changed(ID_AT, 0)],
    ['the topic of a will that is not UTF-8', changed(ID_AT + 5, 0xff)],
    ['the topic of a will with U+0000', changed(ID_AT + 5, 0)],
    ['a user name with U+0000', changed(bytes.length - 4, 0)],
    ['a reserved flag', changed(FLAGS_AT, bytes[FLAGS_AT] | 1)],
    ['a will of QoS 3', changed(FLAGS_AT, bytes[FLAGS_AT] | 0x18)],
    ['flags of a will without one', changed(FLAGS_AT, 0x20)],
  ])('%s costs the connection', (_name, packet) => {
    expect(() => parseConnect(packet, 2, packet.length)).toThrow(ProtocolError)
  })

  test.each(
    /** @type {[string, number | undefined, object][]} */ ([
      ['as it should be', undefined, { will }],
      ['U+FFFD in the client id', undefined, { clientId: '\ufffd' }],
      ['no client id and nothing to keep', undefined, { clientId: '' }],
      ['no client id and a session to keep', 2, { clientId: '', keeps: true }],
      ['a long client id', undefined, { clientId: 'é'.repeat(512) }],
      ['a longer one', 2, { clientId: `${'é'.repeat(512)}x` }],
      ['MQTT 5', undefined, { protocolVersion: 5 }],
      ['MQTT 6', 1, { level: 6 }],
      ['the bridge of a broker, in MQTT 5', 1, { level: 0x85 }],
      ['MQTT 3.1', undefined, { protocolId: 'MQIsdp', protocolVersion: 3 }],
      ['MQTT 3.1 under the name of 3.1.1', 1, { level: 3 }],
      ['the bridge of a broker', undefined, { level: 0x84 }],
      [
        '24 characters in MQTT 3.1',
        2,
        { protocolId: 'MQIsdp', level: 3, clientId: 'x'.repeat(24) },
      ],
      ['a will on #', 5, { will: { ...will, topic: 'sensors/#' } }],
      ['a will on +', 5, { will: { ...will, topic: 'sensors/+/m' } }],
      ['a will on no topic', 5, { will: { ...will, topic: '' } }],
      ['a will on a topic of the broker', 5, { will: { ...will, topic: '$SYS/x' } }],
    ]),
  )('%s: %s', (_name, code, fields) => {
    const { level, keeps, ...rest } = /** @type {any} */ (fields)
    const isEmpty = rest.will?.topic === ''
    const packet = connectOf(isEmpty ? { ...rest, will: { ...will, topic: 'x' } } : rest)
    const bytes = isEmpty ? withoutTopic(packet) : packet
    const name = rest.protocolId ?? 'MQTT'
    const levelAt = bytes.indexOf(name) + name.length
    if (level !== undefined) bytes[levelAt] = level
    if (keeps) bytes[levelAt + 1] &= ~2
    const start = bytes.indexOf(name) - 2
    expect(refusalOf(parseConnect(bytes, start, bytes.length))).toBe(code)
  })
})

/** The same with an empty topic of its will. @param {Buffer} bytes */
function withoutTopic(bytes) {
  const at = bytes.indexOf(Buffer.from([0, 1, 0x78]))
  return Buffer.concat([bytes.subarray(0, at), Buffer.from([0, 0]), bytes.subarray(at + 3)])
}

describe('filters', () => {
  /** @param {Buffer | string} filter  @param {number} [qos] */
  const subscribeTo = (filter, qos = 0) => {
    const text = Buffer.from(filter)
    const body = Buffer.concat([Buffer.from([0, 1, text.length >> 8, text.length & 255]), text])
    return Buffer.concat([body, Buffer.from([qos])])
  }

  test.each(['#', '+', '/', '/+', 'a/#', '+/#', 'a/+/b', '$SYS/#', '\ufffd', 'a//b'])(
    '%s',
    (filter) => {
      const bytes = subscribeTo(filter)
      expect(parseSubscribe3(bytes, 0, bytes.length).filters).toMatchObject([{ filter }])
      expect(parseUnsubscribe3(bytes, 0, bytes.length - 1).filters).toEqual([filter])
    },
  )

  test.each(['', 'a#', 'a/#/b', '#/a', 'a+', 'a/+b', '++', 'a\0'])('not %j', (filter) => {
    const bytes = subscribeTo(filter)
    expect(() => parseSubscribe3(bytes, 0, bytes.length)).toThrow(ProtocolError)
  })

  test.each([
    ['that are not UTF-8', subscribeTo(Buffer.from([0x61, 0xc0]))],
    ['of QoS 3', subscribeTo('a', 3)],
    ['without a QoS', subscribeTo('a').subarray(0, -1)],
    ['longer than their packet', Buffer.from([0, 1, 0, 9, 0x61])],
    ['that are none at all', Buffer.from([0, 1])],
  ])('%s are refused', (_name, bytes) => {
    expect(() => parseSubscribe3(bytes, 0, bytes.length)).toThrow(ProtocolError)
  })
})
